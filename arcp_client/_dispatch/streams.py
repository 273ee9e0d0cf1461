"""Async iterators over the events of one job, replay buffer included, or of the session.

An item counts as processed when the next one is requested. The client holds iterators weakly, so
leaving a loop with ``break`` unregisters its iterator. A reader in another thread gets several
items at a time, and reports how many it has processed.

See rule D8 in docs/explanation/rules.md.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

from arcp_client._dispatch.event_filter import EventFilter
from arcp_client._dispatch.reader_gate import ReaderGate
from arcp_client.events import Event, Gap

__all__ = ["EventIterator", "Iteration", "Tap"]

E = TypeVar("E", bound=Event)


class EventIterator(AsyncIterator[E], Generic[E]):
    """An iterator over events. Iterators are independent: each gets every event that matches.

    Made by ``events()`` of a client or a job, and by ``async for event in job``. Use it in one task
    at a time. Requesting the next item marks the previous one as processed. An iterator over a job
    begins with the job's replay buffer and ends after its terminal event; an iterator over the
    session begins with the next event. An iterator that is no longer referenced ends.

    The events of the replay buffer count as processed, because they arrived before the iterator was
    made: a client with a store does not get them again after a crash. An iterator over the session
    that is made before ``connect()`` gets every event as it arrives.

    Raises:
        ArcpError: from the iteration, after the client has ended: ClientClosed, or the reason.
        LocalProtocolError: from the iteration, in another event loop than the client's.
    """

    def __aiter__(self) -> EventIterator[E]:
        return self

    async def __anext__(self) -> E:
        raise NotImplementedError

    async def aclose(self) -> None:
        """End the iterator. Idempotent, from any task; a waiting ``anext`` ends."""
        raise NotImplementedError


class Iteration(EventIterator[E], Generic[E]):
    """The implementation of `EventIterator`, with the methods that feed it.

    Args:
        event_filter: selects the events.
        until_terminal: end after a terminal event.
        gate: is told when events are processed.

    Attributes:
        pulls: how many items were requested.
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
        self._arrivals: deque[tuple[int, float]] = deque()
        self._arrived = 0
        self._current: Event | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._overflow: Gap | None = None
        self._handed = 0
        self._settled = 0
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
        if not self._queue:
            await self._item()
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
            self._keep_handed()
        return event  # type: ignore[return-value]  # the filter checked the class

    async def _item(self) -> None:
        """Wait for the next item in the queue, or for a gap over dropped ones."""
        while not self._queue and self._overflow is None:
            if self._ended:
                if self._error is not None:
                    raise self._error()
                raise StopAsyncIteration
            if self._waiter is not None:
                raise RuntimeError("this iterator is already being awaited in another task")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await (self._waiter if self._gate is None else self._gate.wait_for(self._waiter))
            finally:
                self._waiter = None

    # -- for a reader in another thread, in place of ``anext``

    async def batch(self, processed: int, most: int) -> list[E]:
        """Wait for items, and return the next ones; they stay outstanding until `settle`.

        The items that were returned before and are not processed are returned again, so that an
        interrupted call loses none.

        Args:
            processed: as for `settle`.
            most: the limit of the number of items.

        Raises:
            StopAsyncIteration: the iteration has ended.
            ArcpError: as for ``anext``.
        """
        if self._gate is not None:
            self._gate.check_loop()
        self.pulls += 1
        self.settle(processed)
        if not self._past and not self._handed:
            if not self._queue:
                await self._item()
            if self._overflow is not None:
                self._past.append(self._overflow)
                self._overflow = None
        source = self._past or self._queue
        items = []
        for item in islice(source, self._handed or most):
            items.append(item)
            if item.terminal:
                break
        if source is self._queue:
            self._handed = len(items)
        self._given(items[-1])
        return items  # type: ignore[return-value]  # the filter checked the classes

    def settle(self, processed: int) -> bool:
        """Count items of `batch` as processed; returns whether there are new ones.

        Args:
            processed: the number of all items, since the first one, that the reader has processed.
        """
        gate = self._gate
        before = self._settled
        while self._settled < processed:
            self._settled += 1
            self.pulls += 1
            if self._past:
                self._past.popleft()
            elif self._handed:
                self._handed -= 1
                event = self._queue.popleft()
                if gate is not None and gate.follower is not None:
                    gate.follower(event)
        if gate is not None and gate.progress_wanted:
            gate.progress()
        return self._settled > before

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        """End the iterator, as `aclose` does."""
        self.end(None)
        self._past.clear()
        self._queue.clear()
        self._handed = 0
        self._current = self._overflow = None
        if self._gate is not None:
            self._gate.progress()

    # -- for the tap

    @property
    def open(self) -> bool:
        """Whether the iterator has not ended."""
        return not self._ended

    def prepend(self, events: Iterable[Event]) -> None:
        """Begin with earlier events, which do not count as outstanding."""
        self._past.extend(event for event in events if self._wants(event))

    def extend(self, events: list[Event], now: float) -> None:
        """Queue the events that match."""
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
            wanted = self._extend_gap(wanted)
        if self._queue or self._current is not None:
            self.since()  # drops obsolete arrival times
        else:
            self._arrivals.clear()
        self._arrivals.append((self._arrived, now))
        self._arrived += len(wanted)
        self._queue.extend(wanted)
        self._wake()

    def _wants(self, event: Event) -> bool:
        return self._event_filter.matches(event) or isinstance(event, Gap)

    def end(self, error: Callable[[], BaseException] | None) -> None:
        """Refuse further events; the iterator ends after the queued ones."""
        if not self._ended:
            self._ended = True
            self._error = error
            self._wake()

    def cut(self) -> None:
        """Replace the queued events by a `Gap`, because no item is requested.

        The gap also covers later events, except a terminal event, until the next request.
        """
        if len(self._queue) > self._handed:
            self._queue.extend(self._extend_gap(self._keep_handed()))

    def _keep_handed(self) -> list[Event]:
        """Remove the queued events that `batch` has not returned."""
        removed = list(islice(self._queue, self._handed, None))
        while len(self._queue) > self._handed:
            self._queue.pop()
        return removed

    def _extend_gap(self, events: list[Event]) -> list[Event]:
        """Extend the gap over events, and return the terminal ones, which are kept."""
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
        """The outstanding events."""
        if self._current is not None:
            yield self._current
        yield from self._queue

    def since(self) -> float | None:
        """Arrival time of the oldest outstanding event."""
        arrivals = self._arrivals
        done = self._arrived - self.outstanding
        while len(arrivals) > 1 and arrivals[1][0] <= done:
            arrivals.popleft()
        return arrivals[0][1] if done < self._arrived else None

    @property
    def outstanding(self) -> int:
        """The number of outstanding events."""
        return len(self._queue) + (self._current is not None)


class Tap:
    """A set of iterators that get the same events; a consumer of the fan-out.

    It holds its iterators weakly.

    Attributes:
        has_iterators: whether there are iterators.

    Args:
        gate: is told when an iterator is garbage-collected, because its events then count as
            processed.
    """

    def __init__(self, gate: ReaderGate | None = None) -> None:
        self._gate = gate
        self._iterators: list[weakref.ref[Iteration[Event]]] = []
        self.has_iterators = False
        self._ended = False
        self._error: Callable[[], BaseException] | None = None

    def add(self, iterator: Iteration[Event]) -> None:
        """Pass every later event to an iterator."""
        if self._ended:
            iterator.end(self._error)
            return
        self._iterators.append(weakref.ref(iterator, self._gone))
        self.has_iterators = True

    def _gone(self, ref: weakref.ref[Iteration[Event]]) -> None:
        if ref in self._iterators:
            self._iterators.remove(ref)
            self.has_iterators = bool(self._iterators)
        if self._gate is not None and self._gate.watching:
            self._gate.progress()

    def takes(self, gap: Gap) -> bool:
        return any(iterator.open for iterator in self.iterators())

    def accept(self, events: list[Event], now: float, _largest: int = 0) -> None:
        for iterator in self.iterators():
            iterator.extend(events, now)

    def end(self, error: Callable[[], BaseException] | None = None) -> None:
        """End every present and later iterator."""
        if self._ended:
            return
        self._ended = True
        self._error = error
        for iterator in self.iterators():
            iterator.end(error)

    def iterators(self) -> list[Iteration[Event]]:
        """The iterators that are still referenced."""
        return [it for ref in self._iterators if (it := ref()) is not None]

    @property
    def outstanding(self) -> int:
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
