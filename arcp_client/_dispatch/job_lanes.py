"""Queues events for a handler under `Order.JOB`, in a lane for each job.

An event that concerns all jobs (a `Gap`, or an event of the session) is handled after all earlier
events and before all later ones (rule D2 in docs/explanation/rules.md). Until then it and the
events after it are *held*.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from arcp_client._dispatch.deadlock import LaneOwner, set_call
from arcp_client._dispatch.lanes import Lane
from arcp_client._dispatch.reader_gate import ReaderGate, report_progress
from arcp_client._rx.lanes import LaneSink
from arcp_client.events import Event, Gap

__all__ = ["JobLane", "JobLanes"]

_LANES = 1024
"""Lanes above which those without events are dropped, because their jobs may never end."""


class JobLane(Lane):
    """The lane of one job.

    Attributes:
        entries: the outstanding events and their arrival times, oldest first. The first one is
            being handled, or is next.
        held: how many of them are held. These are the newest ones.
    """

    __slots__ = ("_lanes", "entries", "held")

    def __init__(self, lanes: JobLanes, registration: LaneOwner, gate: ReaderGate) -> None:
        super().__init__(registration, gate)
        self._lanes = lanes
        self.entries: deque[tuple[Event, float]] = deque()
        self.held = 0

    @property
    def accepted(self) -> int:  # type: ignore[override]
        """The number of events that the lane has accepted."""
        return self.done + len(self.entries)

    def waiting(self) -> Iterator[Event]:
        return (event for event, _ in self.entries)

    def since(self) -> float | None:
        return self.entries[0][1] if self.entries else None

    def clear_events(self) -> None:
        self.entries.clear()
        self.held = 0

    def blockers(self, count: int) -> Sequence[Lane]:
        if count <= self.accepted - self.held:
            return ()
        return [lane for lane in self._lanes if lane is not self]

    # -- for the operator

    def begin(self) -> Event:
        """Let the present task call the handler for the first event, and return that event."""
        set_call((self, self.done))
        return self.entries[0][0]

    def end(self) -> bool:
        """Count the first event as done. Returns whether the lane has another one to handle."""
        entries, lanes = self.entries, self._lanes
        event, _ = entries.popleft()
        self.done += 1
        lanes.done += 1
        if self.waiters:
            self._resolve_waiters()
        gate = self.gate
        if gate.watching:
            if gate.follower is not None:
                gate.follower(event)
            if gate.progress_wanted:
                report_progress(gate, lanes.accepted - lanes.done)
        if len(entries) > self.held:
            return True
        if event.terminal and not entries:
            lanes.forget(event)
        if lanes.held:
            lanes.release_held()
        return False


class JobLanes:
    """The lanes of one registration.

    Attributes:
        accepted: number of events, held ones included.
        done: number of events whose handlers have ended.
        held: for each held event, in the order of arrival, its lane, and whether it concerns all
            jobs.

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
        self.held: deque[tuple[JobLane, bool]] = deque()

    def add(self, events: list[Event], now: float, sink: LaneSink[Event, object]) -> None:
        """Queue events in their lanes. From the first one that concerns all jobs on, hold them."""
        self._sink = sink
        self.accepted += len(events)
        table, held = self._table, self.held
        ready = []
        for event in events:
            job_id = event.job_id
            lane = table.get(job_id)
            if lane is None:
                lane = table[job_id] = JobLane(self, self._registration, self._gate)
            concerns_all = job_id is None or type(event) is Gap
            if concerns_all or held:
                held.append((lane, concerns_all))
                lane.held += 1
            elif not lane.entries:
                ready.append(lane)
            lane.entries.append((event, now))
        if ready:
            sink.run(ready)
        if held:
            self.release_held()
        if len(table) > self._sweep_at:
            self._sweep()

    def _sweep(self) -> None:
        self._table = {job_id: lane for job_id, lane in self._table.items() if lane.entries}
        self._sweep_at = max(_LANES, 2 * len(self._table))

    def release_held(self) -> None:
        """Release the next held events if no other events are outstanding.

        These are one event that concerns all jobs, or the events before the next such event.
        """
        held = self.held
        if len(held) < self.accepted - self.done:
            return
        ready: list[JobLane] = []
        while held:
            lane, concerns_all = held[0]
            if concerns_all and ready:
                break
            held.popleft()
            if lane.held == len(lane.entries):
                ready.append(lane)
            lane.held -= 1
            if concerns_all:
                break
        self._sink.run(ready)

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

    def get(self, job_id: str) -> JobLane | None:
        """The lane of a job, if it has one."""
        return self._table.get(job_id)

    def __iter__(self) -> Iterator[JobLane]:
        """The lanes with outstanding events."""
        return iter([lane for lane in self._table.values() if lane.entries])
