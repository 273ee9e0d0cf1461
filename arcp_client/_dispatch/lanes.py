"""Events in, handlers run: a registration is a subscription with a lane of its own (D1, D2).

The lane is a unicast source drained by ``rx.concat_map_async``: the next handler starts after the
previous one finished. Under `Order.JOB` it is ``rx.concat_map_async_by``, a lane a job.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Any, Literal, Protocol, cast

from reactivex import Observable, abc
from reactivex.disposable import Disposable

from .._rx.sink import Sink
from ..errors import WouldDeadlock
from ..events import Event
from ..policy import Order
from ..rx import concat_map_async, concat_map_async_by
from .selection import Selection

__all__ = ["Handler", "Lane", "OnError", "Registration", "Relief", "calling_lane", "wait_for_lanes"]

Handler = Callable[[Any], Awaitable[Any] | Any]
OnError = Literal["skip", "stop"] | Callable[[Any, Exception], Awaitable[None] | None]
Failure = Callable[["Registration", Event, Exception], Awaitable[None] | None]


class Relief(Protocol):
    """Whoever may be waiting for consumers to catch up."""

    paused: asyncio.Future[None] | None
    low: int
    follower: Callable[[Event | None], None] | None

    def eased(self) -> None:
        """An event is done."""


class _Source(Observable[Event]):
    """A registration's own events, for the one operator behind it, which is fed directly.

    No `EventChannel`: the bound on what waits is the reader's, for all consumers together.
    """

    def subscribe(
        self,
        on_next: Any = None,
        on_error: Any = None,
        on_completed: Any = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Attach the operator."""
        return Disposable()


class Lane:
    """One ordered queue of one registration: what it took and has not finished, oldest first."""

    __slots__ = ("done", "key", "queue", "registration", "taken", "waiters", "waits_for")

    def __init__(self, registration: Registration, key: str | None) -> None:
        self.registration = registration
        self.key = key
        self.queue: deque[Event] = deque()
        self.taken = 0
        self.done = 0
        self.waiters: list[tuple[int, asyncio.Future[None]]] = []
        self.waits_for: list[Lane] = []

    @property
    def running(self) -> Event | None:
        """The event whose handler runs, or is next to run."""
        return self.queue[0] if self.queue else None

    def finish(self, _result: object = None) -> None:
        """The oldest event is done."""
        event = self.queue.popleft()
        self.done += 1
        _current_call.set((self, self.done))
        if self.waiters:
            self._wake()
        relief = self.registration.relief
        if relief.follower is not None:
            relief.follower(event)
        if relief.paused is not None and len(self.queue) <= relief.low:
            relief.eased()

    def last_of(self, job_id: str) -> int | None:
        """The count at which the last event of a job before its terminal one will be done."""
        for back, event in enumerate(reversed(self.queue)):
            if event.job_id == job_id and not event.terminal:
                return self.taken - back
        return None

    async def reached(self, count: int) -> None:
        """Wait until so many events are done, or the registration is disposed."""
        if self.done >= count:
            return
        waiter = asyncio.get_running_loop().create_future()
        entry = (count, waiter)
        self.waiters.append(entry)
        try:
            await waiter
        finally:
            if entry in self.waiters:
                self.waiters.remove(entry)

    def abandon(self) -> None:
        """Nothing more will be handled here: let nobody wait."""
        self.queue.clear()
        self.done = self.taken
        self._wake()

    def _wake(self) -> None:
        due = [entry for entry in self.waiters if entry[0] <= self.done]
        for entry in due:
            self.waiters.remove(entry)
            if not entry[1].done():
                entry[1].set_result(None)


_current_call: ContextVar[tuple[Lane, int] | None] = ContextVar("arcp_client_call", default=None)


def calling_lane() -> Lane | None:
    """The lane whose running handler this code belongs to, directly or through a child task.

    A task that outlived the handler that started it belongs to none.
    """
    call = _current_call.get()
    if call is None:
        return None
    lane, number = call
    return lane if lane.done == number and lane.queue else None


async def wait_for_lanes(barriers: list[tuple[Lane, int]], what: str) -> None:
    """Wait until each lane has come to its count.

    Raises:
        WouldDeadlock: called inside a handler that one of them, directly or not, waits for.
    """
    mine = calling_lane()
    for lane, count in barriers:
        if lane.done >= count:
            continue
        if mine is None:
            await lane.reached(count)
            continue
        if _leads_to(lane, mine):
            raise WouldDeadlock(
                f"waiting for {what} here would wait for handler {mine.registration.name}, which"
                " is waiting: register it with barrier=False, or wait in a task of its own"
            )
        mine.waits_for.append(lane)
        try:
            await lane.reached(count)
        finally:
            mine.waits_for.remove(lane)


def _leads_to(start: Lane, goal: Lane) -> bool:
    seen: set[int] = set()
    todo = [start]
    while todo:
        lane = todo.pop()
        if lane is goal:
            return True
        if id(lane) not in seen:
            seen.add(id(lane))
            todo.extend(lane.waits_for)
    return False


class Registration:
    """A handler that was registered with ``client.on`` or ``client.subscribe``.

    Its handlers run one at a time (`Order.SESSION`) or one at a time for each job (`Order.JOB`),
    in arrival order, beside every other registration.
    """

    def __init__(
        self,
        handler: Handler,
        selection: Selection,
        *,
        order: Order = Order.SESSION,
        on_error: OnError = "skip",
        barrier: bool = True,
        timeout: float | None = None,
        relief: Relief,
        failed: Failure,
        ended: Callable[[Registration], None],
    ) -> None:
        self.selection = selection
        self._by_job = order is Order.JOB
        self.on_error = on_error
        self.barrier = barrier
        self.relief = relief
        self.name = getattr(handler, "__qualname__", None) or type(handler).__qualname__
        self._handler = handler
        self._failed = failed
        self._ended = ended
        self._timeout = timeout
        self._admits = selection.by_class
        self._exact = selection.exact
        self._wants_all = selection.everything
        self._lanes: dict[str | None, Lane] = {}
        self._sink: Sink[Event] | None = None
        self._disposed = False

    # -- for users

    @property
    def lag(self) -> int:
        """Events that wait here or are being handled."""
        return self.outstanding

    def dispose(self) -> None:
        """Take no more events; the running handler is cancelled, waiting events are dropped.

        Called inside its own handler, that handler runs on to its end. Idempotent.
        """
        if self._disposed:
            return
        self._disposed = True
        self._ended(self)
        if self._sink is not None:
            self._sink.dispose()
        for lane in self._lanes.values():
            lane.abandon()
        self._lanes.clear()
        self.relief.eased()

    # -- for the subject

    def accept(self, events: list[Event]) -> None:
        wanted = events if self._wants_all else self._wanted(events)
        if not wanted:
            return
        if self._sink is None:
            self._sink = self._start()
        if self._by_job:
            for event in wanted:
                lane = self._lanes.get(event.job_id)
                if lane is None:
                    lane = self._lanes[event.job_id] = Lane(self, event.job_id)
                lane.queue.append(event)
                lane.taken += 1
        else:
            lane = self._lanes[None]
            lane.queue.extend(wanted)
            lane.taken += len(wanted)
        self._sink.feed(wanted)

    def _wanted(self, events: list[Event]) -> list[Event]:
        admits = self._admits
        if self._exact:
            return [event for event in events if admits[type(event)]]
        matches = self.selection.matches
        return [event for event in events if admits[type(event)] and matches(event)]

    @property
    def outstanding(self) -> int:
        return sum(len(lane.queue) for lane in self._lanes.values())

    @property
    def lanes(self) -> Iterator[Lane]:
        """The lanes that have work."""
        return iter(tuple(self._lanes.values()))

    def barriers(self, job_id: str) -> Iterator[tuple[Lane, int]]:
        """The lanes that still have events of a job, each with the count it must come to."""
        for lane in self._lanes.values():
            count = lane.last_of(job_id)
            if count is not None:
                yield lane, count

    def would_wait(self, job_id: str) -> Iterator[Lane]:
        """The lanes in whose running handler nobody may wait for all handlers of a job."""
        for lane in self._lanes.values():
            if lane.queue and lane.queue[0].job_id == job_id:
                yield lane

    def oldest(self, session_id: str) -> int | None:
        found = (_first(lane.queue, session_id) for lane in self._lanes.values())
        return min((number for number in found if number is not None), default=None)

    def numbers(self, session_id: str) -> Iterator[int]:
        for lane in self._lanes.values():
            for event in lane.queue:
                if event.session_id == session_id and event.seq is not None:
                    yield event.seq

    # -- running handlers

    def _start(self) -> Sink[Event]:
        source = _Source()
        if self._by_job:
            keyed = concat_map_async_by(
                _job_of, self._in_job_lane, on_error=self._on_error, item_timeout=self._timeout
            )
            return cast(Sink[Event], source.pipe(keyed).subscribe(self._job_event_done))
        lane = self._lanes[None] = Lane(self, None)
        operator = concat_map_async(
            self._handler, on_error=self._on_error, item_timeout=self._timeout
        )
        # The drain task inherits the context of this call: its handlers know their lane.
        token = _current_call.set((lane, 0))
        try:
            return cast(Sink[Event], source.pipe(operator).subscribe(lane.finish))
        finally:
            _current_call.reset(token)

    async def _in_job_lane(self, event: Event) -> Event:
        lane = self._lanes[event.job_id]
        _current_call.set((lane, lane.done))
        result = self._handler(event)
        if hasattr(result, "__await__"):
            await result
        return event

    def _job_event_done(self, event: Event) -> None:
        lane = self._lanes.get(event.job_id)
        if lane is None:
            return
        lane.finish()
        if not lane.queue:
            del self._lanes[event.job_id]

    async def _on_error(self, event: Event, error: Exception) -> None:
        outcome = self._failed(self, event, error)
        if outcome is not None:
            await outcome
        if self._disposed:
            return  # "stop" does not move the mark
        if not self._by_job:
            self._lanes[None].finish()
        else:
            self._job_event_done(event)


def _job_of(event: Event) -> str | None:
    return event.job_id


def _first(queue: deque[Event], session_id: str) -> int | None:
    for event in queue:
        if event.session_id == session_id and event.seq is not None:
            return event.seq
    return None
