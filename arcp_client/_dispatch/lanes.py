"""Queues events for handlers and tracks which of them are processed: one lane for each order.

`SessionLane` is the inbox of its operator, so that an event waits in one queue only. `JobLane`
counts the events of one job for an operator that has queues of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from arcp_client._dispatch.deadlock import LaneOwner, WaitEdge, number_call, numbered
from arcp_client._dispatch.reader_gate import ReaderGate
from arcp_client._rx.delivery import Delivery
from arcp_client._rx.sink import Sink
from arcp_client.events import Event

__all__ = ["JobLane", "Lane", "SessionLane"]


class Lane:
    """One ordered queue of one registration.

    Attributes:
        registration: whose it is.
        taken: events that came here.
        done: events whose handlers have ended; the next one is in hand, or next to be.
        waiters: futures that wait for `done` to come to a count.
        edges: what the running handler, or tasks that it started, wait for.
    """

    __slots__ = ("_over", "done", "edges", "gate", "registration", "taken", "waiters")

    def __init__(self, registration: LaneOwner, gate: ReaderGate) -> None:
        self.registration = registration
        self.gate = gate
        self.taken = 0
        self.done = 0
        self.waiters: list[tuple[int, asyncio.Future[None]]] = []
        self.edges: list[WaitEdge] = []
        self._over = False

    def waiting(self) -> Iterator[Event]:
        """What came and is not done, oldest first."""
        raise NotImplementedError

    def since(self) -> float | None:
        """When the oldest of these came."""
        raise NotImplementedError

    def give_up(self) -> None:
        """Forget what waits here."""
        raise NotImplementedError

    @property
    def running(self) -> Event | None:
        """The event whose handler runs, or is next to run."""
        return next(self.waiting(), None)

    def runs(self, number: int) -> bool:
        """Whether the handler of that number has not ended."""
        return self.done == number < self.taken

    def last_of(self, job_id: str) -> int | None:
        """The count at which the last event of a job before its terminal one will be done."""
        last = None
        for count, event in enumerate(self.waiting(), self.done + 1):
            if event.job_id == job_id and not event.terminal:
                last = count
        return last

    def reached(self, count: int) -> asyncio.Future[None]:
        """Resolves when so many events are done, or nothing more will be."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.done >= count or self._over:
            waiter.set_result(None)
        else:
            self.waiters.append((count, waiter))
        return waiter

    def report_progress(self, outstanding: int) -> None:
        """So many are left: tell the reader, if that may be few enough."""
        gate = self.gate
        if gate.heavy or outstanding == gate.low or not outstanding:
            gate.progress()

    def abandon(self) -> None:
        """Nothing more will be handled here: let nobody wait."""
        self.give_up()
        self.done = self.taken
        self._tell()

    def stop(self) -> None:
        """No more handlers run here: let nobody wait for them."""
        self._over = True
        for _, waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters.clear()

    def _tell(self) -> None:
        due = [entry for entry in self.waiters if entry[0] <= self.done or entry[1].done()]
        for entry in due:
            self.waiters.remove(entry)
            if not entry[1].done():
                entry[1].set_result(None)


class SessionLane(Lane):
    """The lane of a registration under `Order.SESSION`, and the inbox of its operator.

    It is its own delivery token, too: the operator releases it after each handler. So an event
    costs one ``popleft`` and one call. Which event is in hand follows from the count and from the
    batches that came, which all consumers share.
    """

    __slots__ = ("_batches", "_idle", "_sink", "queue", "take")

    evicts = False

    def __init__(self, registration: LaneOwner, gate: ReaderGate) -> None:
        super().__init__(registration, gate)
        self.queue: deque[Event] = deque()
        self.take: Callable[[], Event] = self.queue.popleft
        self._batches: deque[tuple[int, float, list[Event]]] = deque()
        self._idle = True
        self._sink: Any = None

    # -- for the registration

    def add(self, events: list[Event], now: float) -> None:
        """Take events that were read at one time. The list must not change afterwards."""
        batches = self._batches
        while batches and batches[0][0] + len(batches[0][2]) <= self.done:
            batches.popleft()
        batches.append((self.taken, now, events))
        self.taken += len(events)

    def waiting(self) -> Iterator[Event]:
        for first, _, events in self._batches:
            yield from islice(events, max(self.done - first, 0), None)

    def since(self) -> float | None:
        for first, when, events in self._batches:
            if first + len(events) > self.done:
                return when
        return None

    def give_up(self) -> None:
        self._batches.clear()

    # -- for the operator: an inbox

    @property
    def idle(self) -> bool:
        """Whether the operator has no drain task."""
        return self._idle

    @idle.setter
    def idle(self, idle: bool) -> None:
        self._idle = idle
        if idle:
            self._batches.clear()  # an idle lane keeps no event alive
        else:
            numbered(self._sink.context, self, self.done)

    def attach(self, sink: Sink[Event]) -> None:
        """This operator empties the lane."""
        self._sink = sink

    def new_slot(self) -> SessionLane:
        """The delivery of whichever event is in hand."""
        return self

    def clear(self) -> None:
        """Give up what is queued."""
        self.queue.clear()

    # -- for the operator: a delivery

    def hold(self) -> Delivery:
        """Nobody is behind the operator who could."""
        raise NotImplementedError

    def release(self, processed: bool = True) -> None:
        """The handler of the event in hand has ended; False: it was cut off."""
        if processed:
            self.done = done = self.done + 1
            number_call(done)
            if self.waiters:
                self._tell()
            gate = self.gate
            if gate.watching:
                if gate.follower is not None:
                    gate.follower(self._at(done - 1))
                if gate.progress_wanted:
                    self.report_progress(self.taken - done)

    def _at(self, number: int) -> Event:
        return next(
            events[number - first]
            for first, _, events in self._batches
            if number - first < len(events)
        )


class JobLane(Lane):
    """The lane of one job under `Order.JOB`; exists while it has work."""

    __slots__ = ("_events", "_head", "_later")

    def __init__(self, registration: LaneOwner, gate: ReaderGate) -> None:
        super().__init__(registration, gate)
        self._events: deque[Event] = deque()
        # When the head came, and from which count on another moment holds: most lanes never
        # live long enough for a second one.
        self._head = 0.0
        self._later: list[tuple[int, float]] | None = None

    def add(self, event: Event, now: float) -> None:
        """Take one event."""
        if self.taken == self.done:
            self._head = now
        elif now != (self._later[-1][1] if self._later else self._head):
            self._later = self._later or []
            self._later.append((self.taken, now))
        self.taken += 1
        self._events.append(event)

    def finish(self) -> None:
        """The oldest event is done."""
        event = self._events.popleft()
        self.done += 1
        if self._later and self._later[0][0] <= self.done:
            self._head = self._later.pop(0)[1]
        if self.waiters:
            self._tell()
        if self.gate.follower is not None:
            self.gate.follower(event)

    def waiting(self) -> Iterator[Event]:
        return iter(self._events)

    def since(self) -> float | None:
        return self._head if self._events else None

    def give_up(self) -> None:
        self._events.clear()
