"""Keeps the runs of one job for the front ends that follow them.

A job is a sequence of runs: a question ends a run, and the next one begins after it. `RunLog` reads
the job once, and keeps the newest events of its runs, and the messages and the state that result
from all of them. A front end that attaches again continues after its last event, or gets a
snapshot.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Sequence
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
from arcp_client._feeds.signals import Signal
from arcp_client._feeds.stream import FrameStream
from arcp_client.web.exports.agui import Run
from arcp_client.web.exports.agui_messages import Messages, joined
from arcp_client.web.exports.masking import Masking

__all__ = ["CursorExpired", "RunLog", "RunView"]

MEMORY = 1 << 20
"""Bytes of events that a log keeps."""
TEXT = 8 << 20
"""Characters of messages that a log keeps for snapshots."""
_BATCH = 64 * 1024
_INTERVAL = 0.02
_YIELD_EVERY = 64
_QUIET = 1.0
"""Seconds without an event after which a history counts as complete."""
_HISTORY = 10.0
_ID = re.compile(r"[0-9A-Za-z_.:-]{1,80}", re.ASCII)
_CLOSING = events.Answered, events.Expired, events.Withdrawn


class CursorExpired(Exception):
    """The log does not have the event after which a front end wants to continue."""


class _Entry(NamedTuple):
    """One event of the runs.

    Attributes:
        cursor: its id in the stream.
        data: its JSON; empty for the first and the last event of a run, which have the run's id.
        event: the first or the last event of a run.
    """

    cursor: str
    data: bytes
    event: RunStartedEvent | RunFinishedEvent | RunErrorEvent | None

    @property
    def last(self) -> bool:
        return self.event is not None and not isinstance(self.event, RunStartedEvent)


class _Start(NamedTuple):
    """Where a run may begin: the position of RUN_STARTED, and the events of the job before it."""

    at: int
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
        self._messages = Messages(TEXT)
        self._changed = Signal(_INTERVAL)
        self._entries: list[_Entry] = []
        self._first = 0
        self._size = 0
        self._positions: dict[str, int] = {}
        self._starts: dict[str, _Start] = {}
        self._asked: dict[str, RunFinishedEvent] = {}
        self._open: dict[str, None] = {}
        self._n = 0
        self._masking = Masking(job)
        self._began = self._grew = asyncio.get_running_loop().time()
        self._begin("", "~")

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        return self._size + self._messages.size

    async def read(self) -> None:
        """Read the job until it ends."""
        try:
            async for event in self.job:
                self._add(event)
                if self._n % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)  # let other tasks run during a long history
        except ArcpError as error:
            self._fail(error)

    def close(self) -> None:
        """End: connections that follow the log end, and can be made again."""
        if not self.over:
            self._fail(errors.JobLost("the server stopped following it", job_id=self.job.id))
        self._changed.close()

    # ------------------------------------------------------------------ adding events

    def _add(self, event: Event) -> None:
        self._n += 1
        self._grew = asyncio.get_running_loop().time()
        mark = event.id if _ID.fullmatch(event.id) else "~"
        if isinstance(event, _CLOSING):
            self._open.pop(event.question_id, None)
        made = list(self._run.apply(*self._masking(event)))
        self._append(made, mark)
        if isinstance(event, events.Question) and isinstance(made[-1], RunFinishedEvent):
            self._open[event.question_id] = None
            self._asked[event.question_id] = made[-1]
            self._begin(event.question_id, mark, len(made))
        self.over = self._run.over
        if self.over:
            self._changed.notify_now()
        else:
            self._changed.notify()

    def _begin(self, question_id: str, mark: str, offset: int = 0) -> None:
        self._starts[question_id] = _Start(self._first + len(self._entries), self._n)
        self._append(list(self._run.begin(self.job)), mark, offset)

    def _append(self, made: Sequence[BaseEvent], mark: str, offset: int = 0) -> None:
        for k, event in enumerate(made, offset):
            self._messages.apply(self._n, event)
            cursor = f"{mark}-{self._n}.{k}"
            if isinstance(event, RunStartedEvent | RunFinishedEvent | RunErrorEvent):
                entry = _Entry(cursor, b"", event)
            else:
                entry = _Entry(cursor, event.model_dump_json(by_alias=True).encode(), None)
            self._positions[cursor] = self._first + len(self._entries)
            self._entries.append(entry)
            self._size += len(entry.data)
        if self._size > MEMORY:
            self._forget()

    def _forget(self) -> None:
        """Drop an eighth of the memory at once, as removing from the head of a list is slow."""
        dropped = 0
        while self._size > MEMORY * 7 // 8 and dropped < len(self._entries) - 1:
            self._size -= len(self._entries[dropped].data)
            del self._positions[self._entries[dropped].cursor]
            dropped += 1
        del self._entries[:dropped]
        self._first += dropped

    def _fail(self, error: ArcpError) -> None:
        text = self._masking.scrubber.text(str(error))
        self._n += 1
        self._append(list(self._run.fail(text, type(error).__name__)), "~")
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
                    at = self._positions.get(cursor, -2) + 1
                    view.done = at > 0 and self._entries[at - 1 - self._first].last
                while not view.done and not stream.stopped and at >= self._first:
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
            if not await self._until(lambda: cursor in self._positions):
                raise CursorExpired
            return
        newest = max(map(self._number, view.conversation), default=0)
        await self._until(lambda: self._n >= newest)

    def _batch(self, view: RunView, at: int) -> tuple[bytes, int]:
        parts: list[bytes] = []
        size = 0
        for entry in self._entries[at - self._first :]:
            data = entry.data if entry.event is None else view.encoded(entry.event)
            parts.append(_frame(data, entry.cursor))
            size += len(parts[-1])
            at += 1
            if entry.last:
                view.done = True
                break
            if size > _BATCH:
                break
        return b"".join(parts), at

    def _head(self, view: RunView) -> tuple[bytes, int]:
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
        kept = start is not None and start.at >= self._first
        if kept and start is not None and not any(self._number(m) > n for m in view.conversation):
            first = self._entries[start.at - self._first]
            return _frames([begun, *refused], first.cursor), start.at + 1
        return self._snapshot(view, n, [begun, *refused])

    def _snapshot(self, view: RunView, n: int, head: list[bytes]) -> tuple[bytes, int]:
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
        asking = [question for question in self._open if question not in view.handled]
        if self.over:
            view.done = True
            last = self._entries[-1].event
            head += [] if last is None else [view.encoded(last)]
        elif asking:
            view.done = True
            head.append(view.encoded(self._interrupt(asking)))
        else:
            head += [view.encoded(event) for event in self._run.reopened()]
        return _frames(head, self._entries[-1].cursor), self._end

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
    def _end(self) -> int:
        return self._first + len(self._entries)

    def _number(self, message: dict[str, Any]) -> int:
        """The number of the job's event that made a message; 0 for a message of others."""
        found = self._own.fullmatch(str(message.get("id")))
        return int(found[1]) if found is not None else 0

    async def _until(self, found: Callable[[], bool]) -> bool:
        loop = asyncio.get_running_loop()
        wake = asyncio.Event()
        with self._changed.waking(wake):
            while not found() and not self.over:
                left = min(self._grew + _QUIET, self._began + _HISTORY) - loop.time()
                if left <= 0:
                    break
                wake.clear()
                try:
                    async with asyncio.timeout(left):
                        await wake.wait()
                except TimeoutError:
                    pass  # a longer silence may be allowed by now
        return found()


def _frame(data: bytes, cursor: str = "") -> bytes:
    """A server-sent event; without a cursor, the id of the last one that has one stays."""
    head = f"id: {cursor}\n".encode() if cursor else b""
    return b"%bdata: %b\n\n" % (head, data)


def _frames(parts: Sequence[bytes], cursor: str = "") -> bytes:
    """Frames of which only the last has an id: the front end has all of them, or none."""
    return b"".join([*map(_frame, parts[:-1]), _frame(parts[-1], cursor)])


def _messages(messages: Sequence[dict[str, Any]]) -> bytes:
    return frames.encoded({"type": "MESSAGES_SNAPSHOT", "messages": messages})
