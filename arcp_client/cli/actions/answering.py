"""Asks the questions of agents on the terminal, one at a time, and sends what is typed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, aclosing

from rich.console import Console

from arcp_client import Client, OpenQuestion, events
from arcp_client._tasks import start
from arcp_client.cli.errors import taken_text
from arcp_client.cli.prompt import ask_line
from arcp_client.cli.typed_answers import answer_of, expected
from arcp_client.cli.view import terminal
from arcp_client.errors import ArcpError, InvalidAnswer, QuestionAnswered

__all__ = ["Asker", "EventAsker"]

_WAITING = 256
_LISTED = 10_000
"""Questions of a runtime's list that are read."""


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
                    self._tell(taken_text(first))
                except ArcpError as error:
                    self._tell(str(error))
                return

    def _tell(self, text: str) -> None:
        terminal.tell(self._console, text, "dim")


class EventAsker:
    """Knows the open questions of the followed jobs, and asks one after another.

    A question that is closed elsewhere is no longer asked.

    Args:
        asker: asks one question; ``None`` if there is no terminal to ask on.
    """

    def __init__(self, asker: Asker | None) -> None:
        self._asker = asker
        self._open: dict[str, events.Question] = {}
        self._closed: set[str] | None = None
        self._waiting: asyncio.Queue[events.Question] = asyncio.Queue(_WAITING)
        self._asking: tuple[str, asyncio.Task[None]] | None = None

    def seen(self, event: events.Event, *, ask: bool = True) -> None:
        """Take in an event of a followed job.

        Args:
            event: the event.
            ask: whether the user may answer its question.
        """
        if isinstance(event, events.Question):
            known = self._open.get(event.question_id)
            if known is not None and known.job_id == event.job_id:
                return
            if known is None and len(self._open) >= _WAITING:
                return  # `arcp-client inbox` has them all
            self._open[event.question_id] = event
            if ask and self._asker is not None:
                with contextlib.suppress(asyncio.QueueFull):
                    self._waiting.put_nowait(event)
        elif isinstance(event, events.Answered | events.Expired | events.Withdrawn):
            self._open.pop(event.question_id, None)
            if self._closed is not None:
                self._closed.add(event.question_id)
            if self._asking is not None and self._asking[0] == event.question_id:
                self._asking[1].cancel()

    async def unseen(
        self, client: Client, follows: Callable[[str], bool]
    ) -> list[tuple[events.Event, bool]]:
        """Ask the runtime for the open questions; return what no event has told of them.

        Args:
            client: the client of the jobs.
            follows: whether a job, given by its id, is followed.

        Returns:
            A `Question` for each open question that was not seen, and a `Withdrawn` for each
            question that is open no more; each with whether the user may answer it.

        Raises:
            ArcpError: the runtime did not answer, or has no questions.
        """
        before = list(self._open.values())
        closed: set[str] = set()
        self._closed = closed
        listed: set[str] = set()
        found: list[tuple[events.Question, bool]] = []
        try:
            async with aclosing(client.questions()) as questions:  # type: ignore[type-var]
                async for question in questions:
                    if len(listed) >= _LISTED:
                        break
                    listed.add(question.question_id)
                    if follows(question.job_id) and len(found) < _WAITING:
                        found.append((_event(question), question.may_answer))
        finally:
            self._closed = None
        missed: list[tuple[events.Event, bool]] = [
            (question, may_answer)
            for question, may_answer in found
            if question.question_id not in closed and question.question_id not in self._open
        ]
        if len(listed) < _LISTED:
            missed += [
                (_settled(known), False)
                for known in before
                if known.question_id not in listed and known.question_id in self._open
            ]
        return missed

    async def run(self) -> None:
        """Ask one question after another, until cancelled."""
        if self._asker is None:
            return
        while True:
            question = await self._waiting.get()
            if self._open.get(question.question_id) is not question:
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


def _event(question: OpenQuestion) -> events.Question:
    """The event of a listed question. It has no number, and may have been shown before."""
    return events.Question(
        job_id=question.job_id,
        ts=question.asked_at,
        redelivered=True,
        question_id=question.question_id,
        text=question.text,
        schema=question.schema,
        options=list(question.options),
        to=list(question.to),
        expires_at=question.expires_at,
        has_default=question.has_default,
        default=question.default,
        lease_paused=question.lease_paused,
    )


def _settled(question: events.Question) -> events.Withdrawn:
    """The event of a question whose own end was in a gap."""
    return events.Withdrawn(
        job_id=question.job_id, question_id=question.question_id, reason="it is closed"
    )


def command_for(job_id: str, question: OpenQuestion | events.Question) -> str:
    """The command that answers a question."""
    return f"arcp-client answer {job_id} {question.question_id} VALUE"
