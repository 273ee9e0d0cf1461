"""Queues events for handlers, and counts the events whose handlers have ended.

An event is *outstanding* in a lane from its arrival until its handler has ended. When it is
outstanding in no lane and no other consumer, it is *processed* (see `fan_out`). An operator of the
package `_rx` removes events from the lanes and calls the handlers. `registration` explains which
lanes a handler has. The kinds of lanes:

- `SessionLane`: the events of all jobs. It is also the input queue (`_rx.buffer.Inbox`) of the
  operator.
- `BatchLane`: a `SessionLane` from which the operator removes several events at once.
- `JobLane`, in the module `job_lanes`: the events of one job. The workers of the operator
  (`_rx.lanes.LaneSink`) remove events from the lanes of several jobs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from arcp_client._dispatch.deadlock import LaneOwner, WaitEdge, set_call, set_first_call
from arcp_client._dispatch.reader_gate import ReaderGate, report_progress
from arcp_client._rx.delivery import Delivery
from arcp_client._rx.sink import Sink
from arcp_client.events import Event
from arcp_client.policy import Batch

__all__ = ["BatchLane", "Lane", "SessionLane"]


class Lane:
    """The ordered outstanding events of one registration, or of one of its jobs.

    Attributes:
        registration: the registration that owns the lane.
        accepted: number of events that were put into the lane.
        done: number of events of the lane whose handlers have ended.
        waiters: pairs of a count and the future to resolve when `done` reaches that count.
        edges: the waits of the running handler and of its child tasks, as edges of the `WaitGraph`,
            which detects deadlocks.
    """

    __slots__ = ("_over", "done", "edges", "gate", "registration", "waiters")

    accepted: int

    def __init__(self, registration: LaneOwner, gate: ReaderGate) -> None:
        self.registration = registration
        self.gate = gate
        self.done = 0
        self.waiters: list[tuple[int, asyncio.Future[None]]] = []
        self.edges: list[WaitEdge] = []
        self._over = False

    def waiting(self) -> Iterator[Event]:
        """The outstanding events, oldest first."""
        raise NotImplementedError

    def since(self) -> float | None:
        """Arrival time of the oldest outstanding event."""
        raise NotImplementedError

    def clear_events(self) -> None:
        """Drop the outstanding events."""
        raise NotImplementedError

    def current(self) -> Sequence[Event]:
        """The events of the handler call that runs, or runs next; empty if none is outstanding."""
        return list(islice(self.waiting(), 1))

    def runs(self, number: int) -> bool:
        """Whether the handler call with that ordinal is running, or runs next."""
        return self.done == number < self.accepted

    def blockers(self, count: int) -> Sequence[Lane]:
        """Other lanes whose present events are handled before `done` can reach the count."""
        return ()

    def last_of(self, job_id: str) -> int | None:
        """The value that `done` has once the job's outstanding events are processed.

        The terminal event does not count. ``None`` if no other event of the job is outstanding.
        """
        last = None
        for count, event in enumerate(self.waiting(), self.done + 1):
            if event.job_id == job_id and not event.terminal:
                last = count
        return last

    def reached(self, count: int) -> asyncio.Future[None]:
        """A future that resolves when `done` has reached the count or the lane has stopped."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.done >= count or self._over:
            waiter.set_result(None)
        else:
            self.waiters.append((count, waiter))
        return waiter

    def abandon(self) -> None:
        """Drop the outstanding events, count them as done, and resolve all waiters."""
        self.done = self.accepted
        self.clear_events()
        self._resolve_waiters()

    def stop(self) -> None:
        """Resolve all waiters, because no more handlers run. Events stay outstanding."""
        self._over = True
        for _, waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters.clear()

    def _resolve_waiters(self) -> None:
        due = [entry for entry in self.waiters if entry[0] <= self.done or entry[1].done()]
        for entry in due:
            self.waiters.remove(entry)
            if not entry[1].done():
                entry[1].set_result(None)


class SessionLane(Lane):
    """The lane of a registration under `Order.SESSION`, and the `Inbox` of its operator.

    When the handler of an event has ended, the operator calls `release` of the event's `Delivery`.
    The lane itself is the `Delivery` of every event, so no object is created for each event.

    The fan-out gives the same list of events to several consumers, so the lane never changes a
    list. The lane counts the events whose handlers have ended: if `done` is 3, the current event is
    the fourth event that the lane has accepted.
    """

    __slots__ = ("_batches", "_idle", "_sink", "accepted", "queue")

    evicts = False

    def __init__(self, registration: LaneOwner, gate: ReaderGate) -> None:
        super().__init__(registration, gate)
        self.accepted = 0
        self.queue: deque[Event] = deque()
        self._batches: deque[tuple[int, float, list[Event]]] = deque()
        self._idle = True
        self._sink: Any = None

    # -- for the registration

    def add(self, events: list[Event], now: float) -> None:
        """Accept a list of events. The list must not change afterwards."""
        batches = self._batches
        while batches and batches[0][0] + len(batches[0][2]) <= self.done:
            batches.popleft()
        batches.append((self.accepted, now, events))
        self.accepted += len(events)

    def waiting(self) -> Iterator[Event]:
        for first, _, events in self._batches:
            yield from islice(events, max(self.done - first, 0), None)

    def since(self) -> float | None:
        for first, when, events in self._batches:
            if first + len(events) > self.done:
                return when
        return None

    def clear_events(self) -> None:
        self._batches.clear()

    # -- for the operator, as its inbox

    @property
    def take(self) -> Callable[[], Any]:
        """Removes and returns the oldest queued event; raises IndexError if there is none."""
        return self.queue.popleft

    @property
    def idle(self) -> bool:
        """Whether the operator has no task that takes events, or one that waits for them."""
        return self._idle

    @idle.setter
    def idle(self, idle: bool) -> None:
        self._idle = idle
        if idle:
            self._batches.clear()  # so that an idle lane does not keep events alive
        else:
            set_first_call(self._sink.context, self, self.done)

    def attach(self, sink: Sink[Event]) -> None:
        """Set the operator that takes events from the lane."""
        self._sink = sink

    def new_slot(self) -> SessionLane:
        """The delivery of the current event: the lane itself."""
        return self

    def clear(self) -> None:
        """Drop the queued events."""
        self.queue.clear()

    # -- for the operator, as a delivery

    def hold(self) -> Delivery:
        """Not called, because no further operator follows."""
        raise NotImplementedError

    def release(self, processed: bool = True) -> None:
        """Count the current event as done. With ``processed=False`` it stays outstanding."""
        done = self.done + 1
        if processed and done <= self.accepted:  # otherwise the handler has abandoned the lane
            self.done = done
            set_call((self, done))
            if self.waiters:
                self._resolve_waiters()
            gate = self.gate
            if gate.watching:
                if gate.follower is not None:
                    gate.follower(self._at(done - 1))
                if gate.progress_wanted:
                    report_progress(gate, self.accepted - done)

    def _at(self, number: int) -> Event:
        return next(
            events[number - first]
            for first, _, events in self._batches
            if number - first < len(events)
        )


class BatchLane(SessionLane):
    """The lane of a handler of batches. The operator takes lists of events from it.

    A list that the operator takes is a batch. The handler may change the batch, so the lane keeps a
    copy of the batch. While events wait until their batch is full, the lane is *filling*.
    """

    __slots__ = ("_count", "_current", "_due", "_filling", "_full", "_seconds")

    def __init__(self, registration: LaneOwner, gate: ReaderGate, batch: Batch) -> None:
        super().__init__(registration, gate)
        self._count = batch.count
        self._seconds = batch.seconds
        self._full = min(batch.count, gate.low)  # so that filling does not pause the reader
        self._current: list[Event] = []
        self._due = False
        self._filling: asyncio.Future[None] | None = None

    def add(self, events: list[Event], now: float) -> None:
        super().add(events, now)
        if self.accepted - self.done >= self._full:
            self.flush()

    def current(self) -> Sequence[Event]:
        return self._current or super().current()

    def reached(self, count: int) -> asyncio.Future[None]:
        waiter = super().reached(count)
        if not waiter.done():
            self.flush()
        return waiter

    def flush(self) -> None:
        """End the filling, so that the handler gets the events that wait."""
        if self._filling is not None and not self._filling.done():
            self._filling.set_result(None)

    # -- for the operator, as its inbox

    @property
    def take(self) -> Callable[[], Any]:
        """Removes and returns the next batch; raises IndexError if none is due."""
        return self._take

    def _take(self) -> list[Event]:
        queue = self.queue
        if not queue or (self._seconds and not self._due and len(queue) < self._full):
            raise IndexError
        self._due = False
        events = [queue.popleft() for _ in range(min(len(queue), self._count))]
        self._current = events.copy()
        return events

    async def filled(self) -> None:
        """Wait until the batch of the queued events is due."""
        since = self.since()
        if since is not None and not self.waiters and not self.gate.blocked:
            loop = asyncio.get_running_loop()
            self._filling = loop.create_future()
            timer = loop.call_at(since + self._seconds, self.flush)
            try:
                await self._filling
            finally:
                timer.cancel()
                self._filling = None
        self._due = True

    # -- for the operator, as a delivery

    def release(self, processed: bool = True) -> None:
        """Count the events of the batch as done. With ``processed=False`` they stay outstanding."""
        events, self._current = self._current, []
        if not processed:
            return
        self.done = done = min(self.done + len(events), self.accepted)
        set_call((self, done))
        if self.waiters:
            self._resolve_waiters()
        gate = self.gate
        if gate.watching:
            if gate.follower is not None:
                for event in events:
                    gate.follower(event)
            if gate.progress_wanted:
                gate.progress()
