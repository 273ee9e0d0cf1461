"""The dialog of ``arcp-client top`` that shows the question of a job and takes the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from arcp_client import OpenQuestion
from arcp_client.cli.typed_answers import answer_of, choices_of, expected
from arcp_client.cli.view.terminal import harmless

__all__ = ["Answering", "QuestionDialog"]

_REFRESH = 0.5
_LINES = 10
_TEXT = 600


class Answering:
    """What the dialog needs of the client.

    Args:
        question: the oldest open question of a job; ``None`` if there is none.
        closed: how a question was closed, in words; ``None`` while it is open.
        answer: sends an answer; returns what became of it. It raises ValueError if the answer does
            not fit, and the question is still open.
    """

    def __init__(
        self,
        question: Callable[[str], OpenQuestion | None],
        closed: Callable[[str], str | None],
        answer: Callable[[OpenQuestion, Any], Awaitable[str]],
    ) -> None:
        self.question = question
        self.closed = closed
        self.answer = answer


class QuestionDialog(ModalScreen[str]):
    """Asks one question; closes with what became of it, empty if it was left open.

    Args:
        question: the question.
        answering: sends the answer, and tells how the question was closed elsewhere.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave")]
    CSS = """
    QuestionDialog { align: center middle; }
    QuestionDialog Vertical { border: round; padding: 0 1; width: 90%; height: auto; }
    QuestionDialog Label { width: 100%; }
    QuestionDialog Input { border: none; height: 1; margin: 1 0; }
    """

    def __init__(self, question: OpenQuestion, answering: Answering) -> None:
        super().__init__()
        self._question = question
        self._answering = answering
        self._sending = False

    def compose(self) -> ComposeResult:
        """Lay the dialog out. Textual calls this."""
        question = self._question
        choices = choices_of(question.schema, question.options)
        rows = [f"{n}  {choice.label}" for n, choice in enumerate(choices, 1)][:_LINES]
        if len(choices) > _LINES:
            rows.append(f"and {len(choices) - _LINES} more")
        wanted = "number or word" if choices else expected(question.schema, question.options)
        with Vertical():
            yield Label(Text(harmless(question.text[:_TEXT]), "bold"))
            if rows:
                yield Label(Text(harmless("\n".join(rows), lines=True)))
            yield Input(placeholder=harmless(wanted))
            yield Label(Text("enter answers · escape leaves it open", "dim"), id="note")

    def on_mount(self) -> None:
        """Begin to look whether the question is still open. Textual calls this."""
        self.query_one(Input).focus()
        self.set_interval(_REFRESH, self._look)

    def _look(self) -> None:
        how = None if self._sending else self._answering.closed(self._question.question_id)
        if how is not None:
            self.dismiss(how)

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Send the answer. Textual calls this."""
        event.stop()
        if self._sending:
            return
        self._sending = True
        try:
            value = answer_of(event.value, self._question.schema, self._question.options)
            self.dismiss(await self._answering.answer(self._question, value))
        except ValueError as error:
            self.query_one("#note", Label).update(Text(harmless(str(error)), "yellow"))
        finally:
            self._sending = False

    def action_leave(self) -> None:
        """Leave the question open."""
        self.dismiss("")
