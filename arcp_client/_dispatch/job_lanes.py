"""Queues events for a handler under `Order.JOB`, in a lane for each job.

An event that concerns all jobs (a `Gap`, or an event of the session) is handled after all earlier
events and before all later ones (rule D2 in docs/explanation/rules.md). Until then it and the
events after it are *held*.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from arcp_client._dispatch.deadlock import LaneOwner, set_call
from arcp_client._dispatch.lanes import Lane
from arcp_client._dispatch.reader_gate import ReaderGate
from arcp_client._rx.lanes import LaneSink
from arcp_client.events import Event, Gap

__all__ = ["JobLane", "JobLanes"]

_LANES = 1024
"""Lanes above which those without events are dropped, because their jobs may never end."""


class JobLane(Lane):
    """The lane of one job.

    Attributes:
        events: the outstanding events, oldest first. The first one is being handled, or is next.
        arrived: arrival time of the first event.
        latest: arrival time of the last event.
    """

    __slots__ = ("_lanes", "_later", "arrived", "events", "latest")

    def __init__(self, lanes: JobLanes, registration: LaneOwner, gate: ReaderGate) -> None:
        super().__init__(registration, gate)
        self._lanes = lanes
        self.events: deque[Event] = deque()
        self.arrived = self.latest = 0.0
        # The counts at which later arrival times begin. Most lanes are empty before there is one.
        self._later: list[tuple[int, float]] | None = None

    @property
    def accepted(self) -> int:  # type: ignore[override]
        """The number of events that the lane has accepted."""
        return self.done + len(self.events)

    def mark_arrival(self, now: float) -> None:
        """Note that the events after the present ones arrive at a later time than these."""
        self._later = self._later or []
        self._later.append((self.done + len(self.events), now))
        self.latest = now

    def waiting(self) -> Iterator[Event]:
        return iter(self.events)

    def since(self) -> float | None:
        return self.arrived if self.events else None

    def clear_events(self) -> None:
        self.events.clear()

    # -- for the operator

    def begin(self) -> Event:
        """Let the present task call the handler for the first event, and return that event."""
        set_call((self, self.done))
        return self.events[0]

    def end(self) -> bool:
        """Count the first event as done. Returns whether the lane has another one."""
        events, lanes = self.events, self._lanes
        event = events.popleft()
        self.done += 1
        lanes.done += 1
        if self._later and self._later[0][0] <= self.done:
            self.arrived = self._later.pop(0)[1]
        if self.waiters:
            self._resolve_waiters()
        gate = self.gate
        if gate.watching and gate.follower is not None:
            gate.follower(event)
        more = bool(events)
        if event.terminal and not more:
            lanes.forget(event)
        if lanes.held:
            lanes.release_held()
        if gate.watching and gate.progress_wanted:
            self.report_progress(lanes.accepted - lanes.done)
        return more


class JobLanes:
    """The lanes of one registration.

    Attributes:
        accepted: number of events, held ones included.
        done: number of events whose handlers have ended.
        held: the events, with their arrival times, that must wait for all lanes.

    Args:
        registration: the registration that owns the lanes.
        gate: is told of progress.
    """

    def __init__(self, registration: LaneOwner, gate: ReaderGate) -> None:
        self._registration = registration
        self._gate = gate
        self._table: dict[str | None, JobLane] = {}
        self._sweep_at = _LANES
        self.accepted = 0
        self.done = 0
        self.held: deque[tuple[Event, float]] = deque()

    def add(self, events: list[Event], now: float, sink: LaneSink[Event, object]) -> None:
        """Queue events in their lanes, up to the first one that must wait for all lanes."""
        self._sink = sink
        self.accepted += len(events)
        if self.held:
            self.held.extend((event, now) for event in events)
            return
        for at, event in enumerate(events):
            if event.job_id is None or type(event) is Gap:
                self._queue(events[:at], now)
                self.held.extend((event, now) for event in events[at:])
                self.release_held()
                return
        self._queue(events, now)

    def _queue(self, events: list[Event], now: float) -> None:
        table = self._table
        ready = []
        for event in events:
            lane = table.get(event.job_id)
            if lane is None:
                lane = table[event.job_id] = JobLane(self, self._registration, self._gate)
            if not lane.events:
                ready.append(lane)
                lane.arrived = lane.latest = now
            elif lane.latest != now:
                lane.mark_arrival(now)
            lane.events.append(event)
        if ready:
            self._sink.run(ready)
        if len(table) > self._sweep_at:
            self._sweep()

    def _sweep(self) -> None:
        self._table = {job_id: lane for job_id, lane in self._table.items() if lane.events}
        self._sweep_at = max(_LANES, 2 * len(self._table))

    def release_held(self) -> None:
        """If all lanes are done, queue a held event that concerns all jobs, or those before it."""
        if len(self.held) < self.accepted - self.done:
            return
        event, now = self.held.popleft()
        together = [event]
        if not _concerns_all(event):
            while self.held and not _concerns_all(self.held[0][0]):
                together.append(self.held.popleft()[0])
        self._queue(together, now)

    def forget(self, event: Event) -> None:
        """Drop the lane of a job, whose terminal event has been handled."""
        self._table.pop(event.job_id, None)

    def abandon(self) -> None:
        """Drop all events, count them as done, and resolve all waiters."""
        for lane in self._table.values():
            lane.abandon()
        self._table.clear()
        self.held.clear()
        self.done = self.accepted

    def __iter__(self) -> Iterator[JobLane]:
        """The lanes with outstanding events."""
        return iter([lane for lane in self._table.values() if lane.events])


def _concerns_all(event: Event) -> bool:
    """Whether the event is ordered relative to the events of all lanes (rule D2)."""
    return event.job_id is None or isinstance(event, Gap)
