"""Keeps the runs of one job for the front ends that follow them.

A job is a sequence of runs: a question ends a run, and the next one begins after it. `RunLog` reads
the job once, and keeps the newest events of its runs, and the messages and the state that result
from all of them. A front end that attaches again continues after its last event, or gets a
snapshot. Past events of a job are read before a front end gets the first frame.

Most events of a long history are messages, of which only the newest are shown. They are kept as
they were received, and masked and encoded when a front end needs them.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ag_ui.core import (
    PROTOCOL_VERSION,
    BaseEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
)
from ag_ui.core.events import RunFinishedInterruptOutcome

from arcp_client import ArcpError, Event, JobHandle, errors, events
from arcp_client._feeds import frames
from arcp_client._feeds.batches import batches
from arcp_client._feeds.history import History
from arcp_client._feeds.kept_events import Unencoded
from arcp_client._feeds.signals import Signal
from arcp_client._feeds.stream import FrameStream
from arcp_client.events import envelope
from arcp_client.web.exports.agui import INDEPENDENT, Run
from arcp_client.web.exports.agui_kept import KeptRuns, Made, RunPlace
from arcp_client.web.exports.agui_messages import Messages, joined
from arcp_client.web.exports.masking import Masking

__all__ = ["CursorExpired", "RunLog", "RunView"]

MESSAGES = 4 << 20
"""Bytes of messages that a log keeps for snapshots."""
_BATCH = 64 * 1024
_INTERVAL = 0.02
_HISTORY_POLL = 0.1
_ID = re.compile(r"[0-9A-Za-z_.:-]{1,80}", re.ASCII)
_CLOSING = events.Answered, events.Expired, events.Withdrawn


class CursorExpired(Exception):
    """The log does not have the event after which a front end wants to continue."""


class _Start(NamedTuple):
    """Where a run may begin: the place of RUN_STARTED, and the events of the job before it."""

    at: RunPlace
    n: int


@dataclass(kw_only=True)
class RunView:
    """What one connection shows.

    Attributes:
        thread_id: the id of the conversation.
        run_id: the id of the run.
        after: the question that the run continues from; empty for the first run.
        handled: the questions that the front end has answered or abandoned.
        refusals: CUSTOM events that the run begins with: answers that were not taken.
        conversation: the messages that the front end has.
        done: whether the last event of the run was sent.
    """

    thread_id: str
    run_id: str
    after: str = ""
    handled: frozenset[str] = frozenset()
    refusals: Sequence[BaseEvent] = ()
    conversation: Sequence[dict[str, Any]] = ()
    ask_again: Sequence[str] = ()
    done: bool = field(default=False, init=False)

    def encoded(self, event: BaseEvent) -> bytes:
        """An event as JSON, with the ids of this run."""
        if isinstance(event, RunStartedEvent | RunFinishedEvent):
            ids = {"thread_id": self.thread_id, "run_id": self.run_id}
            event = event.model_copy(update=ids)
        return event.model_dump_json(by_alias=True).encode()


class RunLog:
    """The runs of one job.

    Args:
        job: the job.
        prefix: the beginning of the ids of the runs' messages.

    Attributes:
        job: the job.
        viewers: the number of connections that follow it.
        over: whether no more events arrive.
    """

    def __init__(self, job: JobHandle, prefix: str) -> None:
        self.job = job
        self.viewers = 0
        self.over = False
        self._run = Run("", "", prefix=prefix)
        self._own = re.compile(rf"{re.escape(prefix)}:([0-9]{{1,15}})(?::.*)?", re.DOTALL)
        self._messages = Messages(MESSAGES, self._message)
        self._changed = Signal(_INTERVAL)
        self._kept = KeptRuns(self._independent)
        self._n = 0
        self._starts: dict[str, _Start] = {}
        self._asked: dict[str, RunFinishedEvent] = {}
        self._open: dict[str, None] = {}
        self._masking = Masking(job)
        self._history = History(job)
        self._starts[""] = _Start(RunPlace(0, 0), 0)
        self._kept.append(Made("~", self._applied(self._run.begin(job)), 0))

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        return self._kept.size + self._messages.size

    async def read(self) -> None:
        """Read the job until it ends."""
        try:
            async with aclosing(batches(self.job.events())) as read:
                async for batch in read:
                    self._extend(batch)
                    if self.over:
                        return
        except ArcpError as error:
            self._fail(error)

    def close(self) -> None:
        """End: connections that follow the log end, and can be made again."""
        if not self.over:
            self._fail(errors.JobLost("the server stopped following it", job_id=self.job.id))
        self._changed.close()

    # ------------------------------------------------------------------ adding events

    def _extend(self, batch: Sequence[Event]) -> None:
        """Add the next events of the job."""
        complete = self._history.extend(batch)
        for event in batch:
            self._n += 1
            if type(event) in INDEPENDENT and event.size:
                item = Unencoded(0, event.seq, envelope(event))
                self._run.skip(event)
                self._messages.later(self._n, item)
                self._kept.append(item)
            else:
                self._add(event)
        self.over = self._run.over
        if self.over or complete:
            self._changed.notify_now()
        else:
            self._changed.notify()

    def _add(self, event: Event) -> None:
        if isinstance(event, _CLOSING):
            self._open.pop(event.question_id, None)
        made = self._applied(self._run.apply(*self._masking(event)))
        if isinstance(event, events.Question) and isinstance(made[-1], RunFinishedEvent):
            self._open[event.question_id] = None
            self._asked[event.question_id] = made[-1]
            self._starts[event.question_id] = _Start(RunPlace(self._n, len(made)), self._n)
            made += self._applied(self._run.begin(self.job))
        self._kept.append(Made(_mark(event), made, event.size))

    def _applied(self, made: Iterable[BaseEvent]) -> list[BaseEvent]:
        """These events of a run, which are added to the messages."""
        found = list(made)
        for event in found:
            self._messages.apply(self._n, event)
        return found

    def _independent(self, n: int, item: Unencoded) -> Made:
        """What an event of the job became that was kept as it was received."""
        event = item.event()
        made = list(self._run.independent(n, *self._masking(event)))
        return Made(_mark(event), made, len(item.envelope))

    def _message(self, n: int, item: Unencoded) -> dict[str, Any]:
        """The message of an event of the job."""
        masked, _ = self._masking(item.event())
        return self._run.message(n, masked)

    def _fail(self, error: ArcpError) -> None:
        text = self._masking.scrubber.text(str(error))
        self._n += 1
        self._kept.append(Made("~", self._applied(self._run.fail(text, type(error).__name__)), 0))
        self.over = True
        self._changed.notify_now()

    # ------------------------------------------------------------------ reading

    async def has_question(self, question_id: str) -> bool:
        """Whether the job has asked this question; waits while its history may still arrive."""
        return await self._until(lambda: question_id in self._starts)

    def latest(self, question_ids: Sequence[str]) -> str:
        """The question that was asked last among these."""
        return max(question_ids, key=lambda each: self._starts[each].n)

    async def play(
        self, stream: FrameStream, view: RunView, cursor: str | None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events of a run as server-sent events.

        Args:
            stream: the state of the stream.
            view: the run.
            cursor: the id of the last event that the front end has of it, if it has one.
        """
        self.viewers += 1
        try:
            with self._changed.waking(stream.wake):
                if cursor is None:
                    head, at = self._head(view)
                    yield stream.sending(frames.RETRY + head)
                else:
                    known = self._kept.find(cursor)
                    at = RunPlace(-1, 0) if known is None else RunPlace(known.n, known.k + 1)
                    view.done = known is not None and _ends(
                        self._kept.made(known.n).events[known.k]
                    )
                while not view.done and not stream.stopped and at.n >= self._kept.first:
                    batch, at = self._batch(view, at)
                    if batch:
                        yield stream.sending(batch)
                    elif self.over:
                        return
                    elif await stream.wait():
                        yield stream.sending(frames.KEEPALIVE)
        finally:
            self.viewers -= 1

    async def prepare(self, view: RunView, cursor: str | None) -> None:
        """Wait until the log has what a front end has: the history of the job may still arrive.

        Raises:
            CursorExpired: the log does not have the event of this cursor.
        """
        if cursor is not None:
            if not await self._until(lambda: self._kept.find(cursor) is not None):
                raise CursorExpired
            return
        newest = max(map(self._number, view.conversation), default=0)
        await self._until(lambda: self._n >= newest)
        while not self.over and self._history.arrives_quickly:
            await self._wait(_HISTORY_POLL)

    def _batch(self, view: RunView, at: RunPlace) -> tuple[bytes, RunPlace]:
        parts: list[bytes] = []
        size = 0
        n, begin = at
        while n < self._end.n and size <= _BATCH:
            made = self._kept.made(n)
            for k in range(begin, len(made.events)):
                parts.append(_frame(made.data(k, view.encoded), made.cursor(n, k)))
                size += len(parts[-1])
                if _ends(made.events[k]):
                    view.done = True
                    return b"".join(parts), RunPlace(n, k + 1)
            n, begin = n + 1, 0
        return b"".join(parts), RunPlace(n, begin)

    def _head(self, view: RunView) -> tuple[bytes, RunPlace]:
        """The frames that begin a run, and the position from which it continues."""
        start = self._starts.get(view.after)
        n = start.n if start is not None else 0
        begun = view.encoded(
            RunStartedEvent(thread_id="", run_id="", protocol_version=PROTOCOL_VERSION)
        )
        refused = [view.encoded(refusal) for refusal in view.refusals]
        if view.ask_again:
            view.done = True
            again = view.encoded(self._interrupt(view.ask_again))
            return _frames([begun, *refused, again]), self._end
        kept = start is not None and start.at.n >= self._kept.first
        if kept and start is not None and not any(self._number(m) > n for m in view.conversation):
            n, k = start.at
            return _frames([begun, *refused], self._kept.made(n).cursor(n, k)), RunPlace(n, k + 1)
        return self._snapshot(view, n, [begun, *refused])

    def _snapshot(self, view: RunView, n: int, head: list[bytes]) -> tuple[bytes, RunPlace]:
        """The frames that give a front end all that the run has made up to now."""
        before = [each for each in view.conversation if self._number(each) <= n]
        made = self._messages.after(n)
        # The client keeps its reasoning messages if a snapshot has none, and appends what is new
        # at the end: only a snapshot without the messages of the run lets the next one order them.
        reasoning = any(each["role"] == "reasoning" for each in made)
        placeholder = {"id": f"{view.run_id}:", "role": "reasoning", "content": ""}
        head += [
            _messages([*before, *([placeholder] if reasoning else [])]),
            _messages(joined(before, made)),
            view.encoded(self._run.snapshot()),
        ]
        last = self._kept.made(self._n)
        asking = [question for question in self._open if question not in view.handled]
        if self.over:
            view.done = True
            head.append(view.encoded(last.events[-1]))
        elif asking:
            view.done = True
            head.append(view.encoded(self._interrupt(asking)))
        else:
            head += [view.encoded(event) for event in self._run.reopened()]
        return _frames(head, last.cursor(self._n, len(last.events) - 1)), self._end

    def _interrupt(self, question_ids: Sequence[str]) -> RunFinishedEvent:
        """The event that asks these questions."""
        asked = [self._asked[each] for each in question_ids]
        interrupts = [
            interrupt
            for event in asked
            if isinstance(event.outcome, RunFinishedInterruptOutcome)
            for interrupt in event.outcome.interrupts
        ]
        outcome = RunFinishedInterruptOutcome(interrupts=interrupts)
        return asked[0].model_copy(update={"outcome": outcome})

    @property
    def _end(self) -> RunPlace:
        return RunPlace(self._n + 1, 0)

    def _number(self, message: dict[str, Any]) -> int:
        """The number of the job's event that made a message; 0 for a message of others."""
        found = self._own.fullmatch(str(message.get("id")))
        return int(found[1]) if found is not None else 0

    async def _until(self, found: Callable[[], bool]) -> bool:
        """Wait until a condition holds, while past events may arrive; returns whether it holds."""
        while not found() and not self.over and (left := self._history.left):
            await self._wait(left)
        return found()

    async def _wait(self, most: float) -> None:
        """Wait for a change, for so many seconds at most."""
        wake = asyncio.Event()
        with self._changed.waking(wake), contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most):
                await wake.wait()


def _mark(event: Event) -> str:
    return event.id if _ID.fullmatch(event.id) else "~"


def _ends(event: BaseEvent) -> bool:
    return isinstance(event, RunFinishedEvent | RunErrorEvent)


def _frame(data: bytes, cursor: str = "") -> bytes:
    """A server-sent event; without a cursor, the id of the last one that has one stays."""
    head = f"id: {cursor}\n".encode() if cursor else b""
    return b"%bdata: %b\n\n" % (head, data)


def _frames(parts: Sequence[bytes], cursor: str = "") -> bytes:
    """Frames of which only the last has an id: the front end has all of them, or none."""
    return b"".join([*map(_frame, parts[:-1]), _frame(parts[-1], cursor)])


def _messages(messages: Sequence[dict[str, Any]]) -> bytes:
    return frames.encoded({"type": "MESSAGES_SNAPSHOT", "messages": messages})
