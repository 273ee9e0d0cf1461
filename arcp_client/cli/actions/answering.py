"""Asks the questions of agents on the terminal, one at a time, and sends what is typed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from rich.console import Console

from arcp_client import Client, OpenQuestion, events
from arcp_client._tasks import start
from arcp_client.cli.prompt import ask_line
from arcp_client.cli.typed_answers import answer_of, expected
from arcp_client.cli.view import terminal
from arcp_client.errors import ArcpError, InvalidAnswer, QuestionAnswered

__all__ = ["Asker", "EventAsker"]

_WAITING = 256


@contextlib.contextmanager
def _nothing() -> Iterator[None]:
    yield


class Asker:
    """Asks on the terminal.

    Args:
        client: sends the answers.
        console: shows what became of them.
        quiet: returns a block in which nothing else is drawn on the terminal.
    """

    def __init__(
        self,
        client: Client,
        console: Console,
        quiet: Callable[[], AbstractContextManager[None]] = _nothing,
    ) -> None:
        self._client = client
        self._console = console
        self._quiet = quiet

    async def ask(self, question: OpenQuestion | events.Question) -> None:
        """Ask until the question is answered, here or elsewhere, or an empty line skips it."""
        job_id = question.job_id or ""
        wanted = expected(question.schema, question.options)
        with self._quiet():
            while True:
                text = f"? {question.text} [{wanted}] (Enter to skip): "
                typed = await ask_line(terminal.harmless(text))
                if not typed:
                    self._tell(f"skipped; answer later:  {command_for(job_id, question)}")
                    return
                try:
                    value = answer_of(typed, question.schema, question.options)
                    await self._client.answer(job_id, question.question_id, value)
                except (ValueError, InvalidAnswer) as error:
                    self._tell(str(error))
                    continue
                except QuestionAnswered as first:
                    self._tell(
                        f"{first.by} has answered, with {first.client}: {first.value!r:.200}"
                    )
                except ArcpError as error:
                    self._tell(str(error))
                return

    def _tell(self, text: str) -> None:
        terminal.tell(self._console, text, "dim")


class EventAsker:
    """Asks the questions that arrive as events; stops asking one that is closed elsewhere.

    Args:
        asker: asks one question.
    """

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._waiting: asyncio.Queue[events.Question] = asyncio.Queue(_WAITING)
        self._closed: set[str] = set()
        self._asking: tuple[str, asyncio.Task[None]] | None = None

    def seen(self, event: events.Event) -> None:
        """Take in an event of a followed job."""
        if isinstance(event, events.Question):
            with contextlib.suppress(asyncio.QueueFull):  # `arcp-client inbox` has them all
                self._waiting.put_nowait(event)
        elif isinstance(event, events.Answered | events.Expired | events.Withdrawn):
            self._closed.add(event.question_id)
            if self._asking is not None and self._asking[0] == event.question_id:
                self._asking[1].cancel()

    async def run(self) -> None:
        """Ask one question after another, until cancelled."""
        while True:
            question = await self._waiting.get()
            if question.question_id in self._closed:
                self._closed.discard(question.question_id)
                continue
            task = start(self._asker.ask(question))
            self._asking = question.question_id, task
            try:
                await asyncio.wait({task})
            finally:
                self._asking = None
                task.cancel()
                await asyncio.wait({task})
            if not task.cancelled():
                task.result()


def command_for(job_id: str, question: OpenQuestion | events.Question) -> str:
    """The command that answers a question."""
    return f"arcp-client answer {job_id} {question.question_id} VALUE"
