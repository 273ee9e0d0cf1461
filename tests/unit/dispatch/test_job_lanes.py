"""Lanes of jobs: their number is bounded, and an event that concerns all jobs waits for each."""

import asyncio
from contextvars import copy_context
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from arcp_client import Buffer, Order
from arcp_client._dispatch.job_lanes import JobLanes
from arcp_client.events import Completed, Event
from tests.unit.dispatch.kit import SESSION, Hub, Tape, gap, log, turns


class Gate:
    watching = progress_wanted = heavy = False
    low = 0
    follower = None


class Sink:
    """Keeps the lanes that are to be run, in place of workers."""

    def __init__(self) -> None:
        self.ready: list[Any] = []
        self._context = copy_context()  # as a worker has: a call's lane must not outlive the test

    def run(self, lanes: Any) -> None:
        self.ready.extend(lanes)

    def step(self) -> Event:
        return self._context.run(self._step)

    def _step(self) -> Event:
        lane = self.ready.pop(0)
        event: Event = lane.begin()
        if lane.end():
            self.ready.append(lane)
        return event


def lanes_and_sink() -> tuple[Any, Any]:
    return JobLanes(object(), Gate()), Sink()  # type: ignore[arg-type]


def test_lanes_of_jobs_that_never_end_do_not_accumulate() -> None:
    lanes, sink = lanes_and_sink()
    for n in range(10_000):
        lanes.add([log(n, f"job_{n}")], 0.0, sink)
        sink.step()
    assert len(lanes._table) <= 2048
    assert list(lanes) == []


def test_up_to_1024_lanes_stay_without_events() -> None:
    lanes, sink = lanes_and_sink()
    for n in range(1024):
        lanes.add([log(n, f"job_{n}")], 0.0, sink)
        sink.step()
    assert len(lanes._table) == 1024
    lanes.add([log(1024, "job_1024")], 0.0, sink)
    assert len(lanes._table) == 1


def test_lanes_with_events_are_kept_however_many_there_are() -> None:
    lanes, sink = lanes_and_sink()
    lanes.add([log(n, f"job_{n}") for n in range(5000)], 0.0, sink)
    lanes.add([log(5000 + n, f"job_{n}") for n in range(5000)], 1.0, sink)
    assert [sink.step().seq for _ in range(10_000)] == list(range(10_000))


def test_lanes_with_events_are_looked_through_again_once_their_number_has_doubled() -> None:
    """With every new lane, the time would grow with the square of their number."""
    lanes, sink = lanes_and_sink()
    tables = [lanes._table]
    found_at = []
    for n in range(1, 5001):
        lanes.add([log(n, f"job_{n}")], 0.0, sink)
        if lanes._table is not tables[-1]:
            tables.append(lanes._table)
            found_at.append(n)
    assert found_at == [1025, 2051, 4103]


def test_the_lane_of_a_job_is_dropped_after_its_terminal_event() -> None:
    lanes, sink = lanes_and_sink()
    end = Completed(seq=2, session_id=SESSION, job_id="job_1")
    lanes.add([log(1), end], 0.0, sink)
    sink.step()
    assert len(lanes._table) == 1
    sink.step()
    assert len(lanes._table) == 0


EVENTS = st.lists(st.sampled_from(["a", "b", "c", None, "gap"]), max_size=30)


@given(st.lists(st.tuples(EVENTS, st.integers(0, 20)), max_size=8))
def test_each_event_is_handled_once_in_the_order_of_its_job_and_around_those_of_all(
    steps: list[tuple[list[str | None], int]],
) -> None:
    lanes, sink = lanes_and_sink()
    arrived: list[Event] = []
    handled: list[Event] = []
    for now, (jobs, count) in enumerate(steps):
        first = len(arrived)
        events = [gap(n) if job == "gap" else log(n, job) for n, job in enumerate(jobs, first)]
        arrived += events
        if events:
            lanes.add(events, float(now), sink)
        handled += [sink.step() for _ in range(min(count, len(sink.ready)))]
    while sink.ready:
        handled.append(sink.step())
    assert sorted(event.seq or 0 for event in handled) == list(range(len(arrived)))
    assert lanes.accepted == lanes.done == len(arrived)
    at = {event.seq: n for n, event in enumerate(handled)}
    for n, event in enumerate(arrived):
        for later in arrived[n + 1 :]:
            if event.job_id is None or later.job_id is None or event.job_id == later.job_id:
                assert at[event.seq] < at[later.seq]


async def test_an_event_that_is_held_is_handled_once_where_its_own_lane_ends_the_wait() -> None:
    hub, tape = Hub(order=Order.JOB), Tape()
    hub.on()(tape.handle)
    hub.publish(log(1, "a"), gap(2), log(3, "a"), log(4, "a"))
    for n in (1, 2, 3, 4):
        tape.let_go(n)
    await turns()
    assert tape.ends == [1, 2, 3, 4]
    assert hub.mark == 4


def test_the_oldest_arrival_is_that_of_the_first_event_that_waits() -> None:
    lanes, sink = lanes_and_sink()
    for n, now in enumerate((1.0, 1.0, 2.0, 5.0)):
        lanes.add([log(n)], now, sink)
    seen = []
    for _ in range(4):
        [lane] = lanes
        seen.append(lane.since())
        sink.step()
    assert seen == [1.0, 1.0, 2.0, 5.0]


def test_the_lane_of_a_job_stays_between_its_events() -> None:
    """A new one for each lone event would cost as much as the event."""
    lanes, sink = lanes_and_sink()
    lanes.add([log(1)], 0.0, sink)
    [lane] = sink.ready
    sink.step()
    lanes.add([log(2, "job_2")], 0.0, sink)
    sink.step()
    lanes.add([log(3)], 0.0, sink)
    assert sink.ready == [lane]


async def test_each_event_of_any_lane_is_reported_once_as_processed() -> None:
    hub, tape = Hub(order=Order.JOB), Tape()
    followed: list[int | None] = []
    hub.back_pressure.follower = lambda event: followed.append(event.seq if event else None)
    hub.on()(tape.handle)
    hub.publish(log(1, "a"), log(2, "b"), gap(3), log(4, "a"))
    tape.let_go(2, 3, 4)
    await turns()
    assert [seq for seq in followed if seq is not None] == [2]
    tape.let_go(1)
    await turns()
    assert [seq for seq in followed if seq is not None] == [2, 1, 3, 4]


async def test_a_paused_reader_continues_when_all_lanes_together_have_few_enough_events() -> None:
    """D6."""
    hub, tape = Hub(order=Order.JOB, buffer=Buffer(soft=4)), Tape()
    hub.on()(tape.handle)
    hub.publish(log(1, "a"), log(2, "a"), log(3, "b"), log(4, "b"), gap(5))
    reader = asyncio.create_task(hub.back_pressure.caught_up())
    for number in (1, 3):
        tape.let_go(number)
        await turns()
        assert not reader.done()
    tape.let_go(2)  # two are left, half of the soft limit
    await turns()
    assert reader.done()
    tape.let_go(4, 5)
    await turns()


async def test_a_drain_and_a_result_wait_for_events_that_are_held() -> None:
    """D2, D9: behind an event that concerns all jobs, and so behind the lanes of other jobs."""
    hub, tape = Hub(order=Order.JOB), Tape()
    hub.on()(tape.handle)
    hub.publish(log(1, "a"), gap(2), log(3, "b"), log(4, "b"))
    await turns()
    waits = [
        asyncio.ensure_future(hub.wait_graph.wait_for(hub.barriers("b"), "the result")),
        asyncio.ensure_future(hub.drained()),
    ]
    for n in (1, 2, 3):
        tape.let_go(n)
        await turns()
        assert tape.ends[-1] == n
        assert not any(wait.done() for wait in waits)
    tape.let_go(4)
    await asyncio.gather(*waits)
    assert tape.ends == [1, 2, 3, 4]
