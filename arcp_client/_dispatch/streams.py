"""Async iterators over the events of one job, with its recent past, or of the whole session (D8).

An item counts as processed when the iterator is asked for the next one. Iterators are held weakly:
a loop that is left with ``break`` unregisters them.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Generic, TypeVar

from arcp_client._dispatch.event_filter import EventFilter
from arcp_client._dispatch.reader_gate import ReaderGate
from arcp_client.events import Event, Gap

__all__ = ["EventIterator", "Iteration", "Tap"]

E = TypeVar("E", bound=Event)


class EventIterator(AsyncIterator[E], Generic[E]):
    """Independent iterator over events; each one gets every event that it wants.

    Made by ``events()`` of a client or a job, and by ``async for event in job``. Use it from one
    task at a time. Asking for the next item says that the last one is done with. One over a job
    begins with what is kept of the job's past and ends after its terminal event; one over the
    session begins now. Leaving the loop ends it: nothing is kept for one that nobody refers to.

    Raises:
        ArcpError: from the iteration, when the client is closed: ClientClosed, or why it ended.
        LocalProtocolError: from the iteration, in another event loop than the client's.
    """

    def __aiter__(self) -> EventIterator[E]:
        return self

    async def __anext__(self) -> E:
        raise NotImplementedError

    async def aclose(self) -> None:
        """Take no more events. Idempotent; a waiting ``anext`` ends, from any task."""
        raise NotImplementedError


class Iteration(EventIterator[E], Generic[E]):
    """An iterator as those see it that feed it.

    Args:
        event_filter: which events it wants.
        until_terminal: it ends after a terminal event.
        gate: told when it is read.

    Attributes:
        pulls: how often it was asked for an item.
    """

    def __init__(
        self,
        event_filter: EventFilter,
        *,
        until_terminal: bool = False,
        gate: ReaderGate | None = None,
    ) -> None:
        self._event_filter = event_filter
        self._admits = event_filter.by_class
        self._gate = gate
        self._until_terminal = until_terminal
        self._past: deque[Event] = deque()
        self._queue: deque[Event] = deque()
        self._moments: deque[tuple[int, float]] = deque()
        self._came = 0
        self._current: Event | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._overflow: Gap | None = None
        self._ended = False
        self._error: Callable[[], BaseException] | None = None
        self.pulls = 0

    async def __anext__(self) -> E:
        gate = self._gate
        if not self.pulls and gate is not None:
            gate.check_loop()
        event, self._current = self._current, None
        self.pulls += 1
        if gate is not None and gate.watching:
            if gate.follower is not None and event is not None:
                gate.follower(event)
            if gate.progress_wanted:
                gate.progress()
        if self._past:
            return self._given(self._past.popleft())
        while not self._queue:
            if self._overflow is not None:
                break
            if self._ended:
                if self._error is not None:
                    raise self._error()
                raise StopAsyncIteration
            await self._arrival()
        if self._overflow is not None:
            gap, self._overflow = self._overflow, None
            return self._given(gap)
        event = self._queue.popleft()
        self._current = event
        return self._given(event)

    def _given(self, event: Event) -> E:
        if self._until_terminal and event.terminal:
            self._ended = True
            self._error = None
            self._queue.clear()
        return event  # type: ignore[return-value]  # the filter saw to its class

    async def _arrival(self) -> None:
        if self._waiter is not None:
            raise RuntimeError("this iterator is already being awaited in another task")
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await (self._waiter if self._gate is None else self._gate.wait_for(self._waiter))
        finally:
            self._waiter = None

    async def aclose(self) -> None:
        self.end(None)
        self._past.clear()
        self._queue.clear()
        self._current = self._overflow = None
        if self._gate is not None:
            self._gate.progress()

    # -- for the tap

    @property
    def open(self) -> bool:
        """Whether it still takes events."""
        return not self._ended

    def remember(self, events: Iterable[Event]) -> None:
        """Begin with what came before it was made; that does not count as waiting for it."""
        self._past.extend(event for event in events if self._wants(event))

    def extend(self, events: list[Event], now: float) -> None:
        """Take those events that are wanted."""
        if self._ended:
            return
        admits = self._admits
        if self._event_filter.exact:
            wanted = [event for event in events if admits[type(event)] or type(event) is Gap]
        else:
            wanted = [event for event in events if self._wants(event)]
        if not wanted:
            return
        if self._overflow is not None:
            wanted = self._beyond(wanted)
        self.since()  # forgets what is of no more interest
        self._moments.append((self._came, now))
        self._came += len(wanted)
        self._queue.extend(wanted)
        self._wake()

    def _wants(self, event: Event) -> bool:
        return self._event_filter.matches(event) or isinstance(event, Gap)

    def end(self, error: Callable[[], BaseException] | None) -> None:
        """No more events follow those that are queued."""
        if not self._ended:
            self._ended = True
            self._error = error
            self._wake()

    def cut(self) -> None:
        """Drop what waits, since nobody asks for it: a `Gap` stands for it from now on.

        It also stands for what follows, up to the next time that somebody asks, but for a
        terminal event.
        """
        if self._queue:
            dropped, self._queue = list(self._queue), deque()
            self._queue.extend(self._beyond(dropped))

    def _beyond(self, events: list[Event]) -> list[Event]:
        """Events in, those that are kept all the same out; the gap covers the others."""
        dropped = [event for event in events if not event.terminal]
        if dropped:
            first, last = dropped[0], dropped[-1]
            gap = self._overflow
            self._overflow = Gap(
                seq=gap.seq if gap is not None else first.seq,
                first=gap.first if gap is not None else first.seq or 0,
                last=last.seq if last.seq is not None else gap.last if gap is not None else None,
                reason="overflow",
                session_id=first.session_id,
                job_id=first.job_id if self._until_terminal else None,
            )
        return [event for event in events if event.terminal]

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def waiting(self) -> Iterator[Event]:
        """What it took and is not done with."""
        if self._current is not None:
            yield self._current
        yield from self._queue

    def since(self) -> float | None:
        """When the oldest of these came."""
        moments = self._moments
        done = self._came - self.outstanding
        while len(moments) > 1 and moments[1][0] <= done:
            moments.popleft()
        return moments[0][1] if done < self._came else None

    @property
    def outstanding(self) -> int:
        """How many events it took and is not done with."""
        return len(self._queue) + (self._current is not None)


class Tap:
    """A set of iterators that get the same events; a consumer of the fan-out.

    It holds its iterators weakly.

    Args:
        gate: told when an iterator went away and what it held is done.
    """

    def __init__(self, gate: ReaderGate | None = None) -> None:
        self._gate = gate
        self._iterators: list[weakref.ref[Iteration[Event]]] = []
        self._ended = False
        self._error: Callable[[], BaseException] | None = None

    def add(self, iterator: Iteration[Event]) -> None:
        """Every later event goes to it as well."""
        if self._ended:
            iterator.end(self._error)
            return
        self._iterators.append(weakref.ref(iterator, self._gone))

    def _gone(self, ref: weakref.ref[Iteration[Event]]) -> None:
        if ref in self._iterators:
            self._iterators.remove(ref)
        if self._gate is not None and self._gate.watching:
            self._gate.progress()

    def takes(self, gap: Gap) -> bool:
        return any(iterator.open for iterator in self.iterators())

    @property
    def listening(self) -> bool:
        """Whether there is anybody to push to."""
        return bool(self._iterators)

    def accept(self, events: list[Event], now: float, _largest: int = 0) -> None:
        for iterator in self.iterators():
            iterator.extend(events, now)

    def end(self, error: Callable[[], BaseException] | None = None) -> None:
        """End every iterator, now and later."""
        if self._ended:
            return
        self._ended = True
        self._error = error
        for iterator in self.iterators():
            iterator.end(error)

    def iterators(self) -> list[Iteration[Event]]:
        """Those that are still referenced."""
        return [it for ref in self._iterators if (it := ref()) is not None]

    @property
    def outstanding(self) -> int:
        if not self._iterators:
            return 0
        return max((it.outstanding for it in self.iterators()), default=0)

    def waiting(self) -> Iterator[Event]:
        for iterator in self.iterators():
            yield from iterator.waiting()

    def oldest(self, session_id: str) -> int | None:
        return min(
            (
                event.seq
                for event in self.waiting()
                if event.session_id == session_id and event.seq is not None
            ),
            default=None,
        )

    def since(self) -> float | None:
        moments = (iterator.since() for iterator in self.iterators())
        return min((moment for moment in moments if moment is not None), default=None)
