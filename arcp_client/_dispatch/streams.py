"""Events in, async iterators out: for one job with its recent past, or for the whole session (D8).

An iterator asks for its next item and thereby says that it is done with the last one. Iterators
are held weakly: leaving a loop with ``break`` unregisters them.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Generic, Protocol, TypeVar

from ..events import Event, Gap
from .selection import Selection

__all__ = ["EventIterator", "Relief", "Retention", "Tap"]

E = TypeVar("E", bound=Event)


class Relief(Protocol):
    """The reader's side: who must read on when something is awaited, and may when it was read."""

    paused: asyncio.Future[None] | None
    follower: Callable[[Event | None], None] | None

    def eased(self) -> None:
        """An event is done."""

    async def wanted(self, future: asyncio.Future[None]) -> None:
        """Wait for a future that only the link can resolve."""


_RETAINED_EVENTS = 1024
_RETAINED_BYTES = 1024 * 1024


class EventIterator(AsyncIterator[E], Generic[E]):
    """Independent iterator over events; each one gets every event that it wants.

    Use it from one task at a time. It ends after the terminal event of its job, with the client's
    error if the client is closed, and is unregistered when it is no longer referenced.
    """

    def __init__(
        self, selection: Selection, *, until_terminal: bool = False, relief: Relief | None = None
    ) -> None:
        self._selection = selection
        self._relief = relief
        self._until_terminal = until_terminal
        self._queue: deque[Event] = deque()
        self._current: Event | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._error: Callable[[], BaseException] | None = None

    def __aiter__(self) -> EventIterator[E]:
        return self

    async def __anext__(self) -> E:
        event, self._current = self._current, None
        relief = self._relief
        if relief is not None:
            if relief.follower is not None and event is not None:
                relief.follower(event)
            if relief.paused is not None:
                relief.eased()
        while not self._queue:
            if self._ended:
                if self._error is not None:
                    raise self._error()
                raise StopAsyncIteration
            if self._waiter is not None:
                raise RuntimeError("this iterator is already being awaited in another task")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await (self._waiter if relief is None else relief.wanted(self._waiter))
            finally:
                self._waiter = None
        event = self._queue.popleft()
        self._current = event
        if self._until_terminal and event.terminal:
            self._ended = True
            self._error = None
            self._queue.clear()
        return event  # type: ignore[return-value]  # the selection saw to its class

    async def aclose(self) -> None:
        """Take no more events. Idempotent; a waiting ``anext`` ends, from any task."""
        self.end(None)
        self._queue.clear()
        self._current = None

    # -- for the tap

    def push(self, event: Event) -> None:
        """Take an event if it is wanted."""
        if self._ended or not (self._selection.matches(event) or isinstance(event, Gap)):
            return
        self._queue.append(event)
        self._wake()

    def end(self, error: Callable[[], BaseException] | None) -> None:
        """No more events follow those that are queued."""
        if not self._ended:
            self._ended = True
            self._error = error
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def waiting(self) -> Iterator[Event]:
        """What it took and is not done with."""
        if self._current is not None:
            yield self._current
        yield from self._queue

    @property
    def outstanding(self) -> int:
        """How many events it took and is not done with."""
        return len(self._queue) + (self._current is not None)


class Tap:
    """A set of iterators that get the same events; a consumer of the subject.

    It holds its iterators weakly.

    Args:
        relief: told when an iterator went away and what it held is done.
    """

    def __init__(self, relief: Relief | None = None) -> None:
        self._relief = relief
        self._iterators: list[weakref.ref[EventIterator[Event]]] = []
        self._ended = False
        self._error: Callable[[], BaseException] | None = None

    def add(self, iterator: EventIterator[Event]) -> None:
        """Every later event goes to it as well."""
        if self._ended:
            iterator.end(self._error)
            return
        self._iterators.append(weakref.ref(iterator, self._gone))

    def _gone(self, ref: weakref.ref[EventIterator[Event]]) -> None:
        if ref in self._iterators:
            self._iterators.remove(ref)
        if self._relief is not None:
            self._relief.eased()

    @property
    def listening(self) -> bool:
        """Whether there is anybody to push to."""
        return bool(self._iterators)

    def push(self, event: Event) -> None:
        """Give one event to every iterator."""
        for iterator in self.iterators():
            iterator.push(event)

    def accept(self, events: list[Event]) -> None:
        for iterator in self.iterators():
            for event in events:
                iterator.push(event)

    def end(self, error: Callable[[], BaseException] | None = None) -> None:
        """End every iterator, now and later."""
        if self._ended:
            return
        self._ended = True
        self._error = error
        for iterator in self.iterators():
            iterator.end(error)

    def iterators(self) -> list[EventIterator[Event]]:
        """Those that are still referenced."""
        return [it for ref in self._iterators if (it := ref()) is not None]

    @property
    def outstanding(self) -> int:
        if not self._iterators:
            return 0
        return max((it.outstanding for it in self.iterators()), default=0)

    def oldest(self, session_id: str) -> int | None:
        return min(self.numbers(session_id), default=None)

    def numbers(self, session_id: str) -> Iterator[int]:
        for iterator in self.iterators():
            for event in iterator.waiting():
                if event.session_id == session_id and event.seq is not None:
                    yield event.seq


class Retention:
    """The last events of one job, for iterators that come late.

    Keeps 1,024 events or 1 MiB; what is no longer kept becomes one `Gap` in front.
    """

    __slots__ = ("_bytes", "_bytes_limit", "_first", "_kept", "_lean", "_total")

    def __init__(self, *, events: int = _RETAINED_EVENTS, bytes_: int = _RETAINED_BYTES) -> None:
        self._kept: deque[Event] = deque(maxlen=events)
        self._bytes_limit = bytes_
        # Frames up to this size fit the bound by their number alone: they are not weighed.
        self._lean = bytes_ // events
        self._bytes: int | None = None
        self._first: int | None = None
        self._total = 0

    def add(self, event: Event) -> None:
        """Keep an event, and forget the oldest beyond the bounds."""
        if event.size > self._lean or self._bytes is not None:
            self._weigh(event)
        if not self._total:
            self._first = event.seq
        self._total += 1
        self._kept.append(event)

    def _weigh(self, event: Event) -> None:
        """Make room for a heavy event."""
        kept = self._kept
        if self._bytes is None:
            self._bytes = sum(one.size for one in kept)
        if len(kept) == kept.maxlen:
            self._bytes -= kept.popleft().size
        self._bytes += event.size
        while self._bytes > self._bytes_limit and kept:
            self._bytes -= kept.popleft().size

    def replay(self, iterator: EventIterator[Event], *, job_id: str) -> None:
        """Give a new iterator what is kept, behind a `Gap` for what is not."""
        kept = self._kept
        if self._total > len(kept):
            oldest = kept[0].seq if kept else None
            iterator.push(
                Gap(
                    seq=self._first,
                    first=self._first or 0,
                    last=oldest - 1 if oldest is not None else None,
                    reason="not_retained",
                    session_id=kept[0].session_id if kept else "",
                    job_id=job_id,
                )
            )
        for event in kept:
            iterator.push(event)
