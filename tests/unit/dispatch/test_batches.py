"""Handlers that get lists of events (D21): limits, order, failures, and what ends a wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client import Batch, Buffer, Event, Order, Timeouts, events
from arcp_client.errors import HandlerError, HandlerFailed, WouldDeadlock
from arcp_client.testing import VirtualClock
from tests.unit.dispatch.kit import SESSION, Hub, log, turns


class Calls:
    """A handler of batches that records the numbers of each call, and can be held."""

    def __init__(self) -> None:
        self.calls: list[list[int | None]] = []
        self.running = 0
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, batch: list[Event]) -> None:
        self.calls.append([event.seq for event in batch])
        self.running += 1
        assert self.running == 1
        try:
            await self.go.wait()
        finally:
            self.running -= 1


def logs(first: int, last: int, job: str = "job_1") -> list[Event]:
    return [log(seq, job) for seq in range(first, last + 1)]


def end(seq: int, job: str = "job_1") -> Event:
    return events.Completed(seq=seq, session_id=SESSION, job_id=job)


# ------------------------------------------------------------------ what one call gets


async def test_a_call_gets_the_events_that_wait_when_the_previous_call_has_ended() -> None:
    hub, calls = Hub(), Calls()
    hub.on(events.Log, batch=True)(calls)
    calls.go.clear()
    hub.publish(log(1))
    await turns()
    hub.publish(*logs(2, 4))
    hub.publish(log(5))
    await turns()
    assert calls.calls == [[1]]
    calls.go.set()
    await turns()
    assert calls.calls == [[1], [2, 3, 4, 5]]


async def test_a_call_gets_at_most_count_events() -> None:
    hub, calls = Hub(), Calls()
    hub.subscribe(calls, batch=Batch(count=3))
    hub.publish(*logs(1, 7))
    await turns()
    assert calls.calls == [[1, 2, 3], [4, 5, 6], [7]]


async def test_a_plain_function_gets_lists_too() -> None:
    hub = Hub()
    got: list[list[int | None]] = []

    @hub.on(events.Log, batch=True)
    def handle(batch: list[events.Log]) -> None:
        got.append([event.seq for event in batch])

    hub.publish(*logs(1, 3))
    await turns()
    assert got == [[1, 2, 3]]


async def test_only_events_that_match_the_filter_are_in_the_list() -> None:
    hub, calls = Hub(), Calls()
    hub.subscribe(calls, events.Log, job="a", batch=True)
    hub.publish(log(1, "a"), log(2, "b"), end(3, "a"), log(4, "a"))
    await turns()
    assert calls.calls == [[1, 4]]


async def test_without_seconds_no_timer_is_set(clock: VirtualClock) -> None:
    hub, calls = Hub(), Calls()
    hub.subscribe(calls, batch=True)
    hub.publish(log(1))
    await turns()
    assert calls.calls == [[1]]
    assert clock.jumps == 0


async def test_events_wait_until_the_batch_is_full_or_the_oldest_has_waited_long_enough(
    clock: VirtualClock,
) -> None:
    hub, calls = Hub(), Calls()
    hub.subscribe(calls, batch=Batch(count=3, seconds=1.0))
    hub.publish(log(1))
    await clock.advance(0.9)
    hub.publish(log(2))
    await turns()
    assert calls.calls == []
    await clock.advance(0.1)
    assert calls.calls == [[1, 2]]
    hub.publish(*logs(3, 4))
    await turns()
    hub.publish(log(5))
    await turns()
    assert calls.calls == [[1, 2], [3, 4, 5]]


async def test_the_time_of_events_that_arrive_during_a_call_counts(clock: VirtualClock) -> None:
    hub, calls = Hub(), Calls()
    hub.subscribe(calls, batch=Batch(count=3, seconds=1.0))
    calls.go.clear()
    hub.publish(*logs(1, 3))
    await turns()
    hub.publish(log(4))
    await clock.advance(0.7)
    calls.go.set()
    await turns()
    assert calls.calls == [[1, 2, 3]]
    await clock.advance(0.3)
    assert calls.calls == [[1, 2, 3], [4]]


async def test_a_call_after_a_wait_gets_all_that_waits_up_to_count(clock: VirtualClock) -> None:
    """Filling ends at half of ``Buffer.soft``, so that it does not pause the reader."""
    hub, calls = Hub(buffer=Buffer(soft=8)), Calls()
    hub.subscribe(calls, batch=Batch(count=100, seconds=60.0))
    hub.publish(*logs(1, 3))
    await turns()
    assert calls.calls == []
    hub.publish(*logs(4, 7))
    await turns()
    assert calls.calls == [[1, 2, 3, 4, 5, 6, 7]]


# ------------------------------------------------------------------ what counts as processed


async def test_the_events_of_a_batch_are_processed_together_when_the_call_has_returned() -> None:
    hub, calls = Hub(), Calls()
    registration = hub.subscribe(calls, batch=Batch(count=3))
    calls.go.clear()
    hub.publish(*logs(1, 4))
    await turns()
    assert (hub.mark, hub.processed, registration.lag) == (0, 0, 4)
    calls.go.set()
    await turns()
    assert (hub.mark, hub.processed, registration.lag) == (4, 4, 0)


async def test_waiting_events_are_outstanding(clock: VirtualClock) -> None:
    hub, calls = Hub(), Calls()
    registration = hub.subscribe(calls, batch=Batch(seconds=1.0))
    hub.publish(*logs(1, 2))
    await turns()
    assert (hub.mark, registration.lag) == (0, 2)
    registration.dispose()
    await clock.advance(2)
    assert (hub.mark, registration.lag, calls.calls) == (2, 0, [])


async def test_each_event_of_a_batch_is_reported_as_processed_once() -> None:
    hub, calls = Hub(), Calls()
    hub.subscribe(calls, batch=Batch(count=3))
    reported: list[int | None] = []
    hub.back_pressure.follower = lambda event: event and reported.append(event.seq)
    hub.publish(*logs(1, 5))
    await turns()
    assert reported == [1, 2, 3, 4, 5]


async def test_a_handler_may_change_its_list() -> None:
    hub = Hub()
    reported: list[int | None] = []
    hub.back_pressure.follower = lambda event: event and reported.append(event.seq)
    failures: list[HandlerError] = []
    hub.on_error(failures.append)

    @hub.on(events.Log, batch=True)
    async def handle(batch: list[events.Log]) -> None:
        batch.clear()
        raise ValueError

    hub.publish(*logs(1, 3))
    await turns()
    assert hub.mark == 3
    assert reported == [1, 2, 3]
    [failure] = failures
    assert failure.event.seq == 1
    assert "failed on 3 events, from Log 1 to Log 3: ValueError" in str(failure)


# ------------------------------------------------------------------ failures


async def test_after_a_failure_the_whole_batch_counts_as_processed() -> None:
    hub = Hub()
    failures: list[HandlerError] = []
    hub.on_error(failures.append)
    calls: list[int] = []

    @hub.on(batch=Batch(count=2))
    async def handle(batch: list[Event]) -> None:
        calls.append(len(batch))
        if len(calls) == 1:
            raise ValueError

    hub.publish(*logs(1, 3))
    await turns()
    assert calls == [2, 1]
    assert hub.mark == 3
    assert [failure.event.seq for failure in failures] == [1]


async def test_on_error_gets_the_list_and_is_awaited_before_the_next_call() -> None:
    hub = Hub()
    got: list[Any] = []
    go = asyncio.Event()

    async def on_error(batch: list[Event], error: Exception) -> None:
        got.append([event.seq for event in batch])
        await go.wait()

    @hub.on(batch=Batch(count=2), on_error=on_error)
    async def handle(batch: list[Event]) -> None:
        got.append(len(batch))
        raise ValueError

    hub.publish(*logs(1, 3))
    await turns()
    assert got == [2, [1, 2]]
    assert hub.mark == 0
    go.set()
    await turns()
    assert got == [2, [1, 2], 1, [3]]
    assert hub.mark == 3


async def test_stop_leaves_all_events_of_the_batch_unprocessed() -> None:
    hub = Hub()
    hub.on_error(lambda failure: None)

    @hub.on(batch=Batch(count=3), on_error="stop")
    async def handle(batch: list[Event]) -> None:
        if batch[0].seq == 4:
            raise ValueError

    hub.publish(*logs(1, 8))
    await turns()
    assert isinstance(hub.stopped, HandlerFailed)
    assert "3 events, from Log 4 to Log 6" in str(hub.stopped)
    assert hub.mark == 3
    assert hub.processed == 3


async def test_the_time_limit_of_handlers_applies_to_a_call(clock: VirtualClock) -> None:
    hub, calls = Hub(handler_timeout=1.0), Calls()
    failures: list[HandlerError] = []
    hub.on_error(failures.append)
    hub.subscribe(calls, batch=Batch(count=2, seconds=5.0))
    hub.publish(log(1))
    await clock.advance(5)  # to wait for more events is no part of the call
    assert (calls.calls, failures) == ([[1]], [])
    calls.go.clear()
    hub.publish(*logs(2, 3))
    await clock.advance(1)
    await turns()
    [failure] = failures
    assert isinstance(failure.__cause__, TimeoutError)
    assert hub.mark == 3


async def test_a_cancelled_handler_has_failed_for_its_batch_and_the_next_call_comes(
    clock: VirtualClock,
) -> None:
    """D5: also if the cancellation arrives only while the next batch fills."""
    hub, calls = Hub(), Calls()
    failures: list[HandlerError] = []
    hub.on_error(failures.append)

    @hub.on(batch=Batch(count=2, seconds=1.0))
    async def handle(batch: list[Event]) -> None:
        await calls(batch)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        if batch[0].seq == 1:
            await asyncio.sleep(0)

    hub.publish(*logs(1, 5))
    await clock.advance(1)
    await turns()
    assert calls.calls == [[1, 2], [3, 4], [5]]
    assert hub.mark == 5
    [failure] = failures
    assert isinstance(failure.__cause__, HandlerError)
    assert failure.__cause__.event.seq == 1


# ------------------------------------------------------------------ what ends a wait for events


async def test_a_drain_does_not_wait_until_the_batch_is_full(clock: VirtualClock) -> None:
    hub, calls = Hub(), Calls()
    hub.subscribe(calls, batch=Batch(seconds=60.0))
    hub.publish(*logs(1, 2))
    await turns()
    assert calls.calls == []
    before = clock.time()
    await hub._consumers.drained()
    assert calls.calls == [[1, 2]]
    assert clock.time() == before


async def test_a_result_does_not_wait_until_the_batch_is_full(clock: VirtualClock) -> None:
    hub, calls = Hub(), Calls()
    hub.subscribe(calls, batch=Batch(seconds=60.0))
    hub.publish(*logs(1, 2), end(3), log(4, "other"))
    barriers = list(hub._consumers.barriers("job_1"))
    await turns()
    assert calls.calls == []
    before = clock.time()
    await hub.wait_graph.wait_for(barriers, "the result")
    assert calls.calls == [[1, 2, 3, 4]]
    assert clock.time() == before


async def test_a_drain_that_began_during_a_call_does_not_wait_for_the_next_batch(
    clock: VirtualClock,
) -> None:
    hub, calls = Hub(), Calls()
    hub.subscribe(calls, batch=Batch(count=2, seconds=60.0))
    calls.go.clear()
    hub.publish(*logs(1, 3))
    await turns()
    drain = asyncio.create_task(hub._consumers.drained())
    await turns()
    assert calls.calls == [[1, 2]]
    before = clock.time()
    calls.go.set()
    await drain
    assert calls.calls == [[1, 2], [3]]
    assert clock.time() == before


async def test_a_paused_reader_continues_as_soon_as_a_batch_leaves_few_enough() -> None:
    """D6: a batch counts several events at once, and may pass the limit without meeting it."""
    hub, calls = Hub(buffer=Buffer(soft=8)), Calls()
    hub.subscribe(calls, batch=Batch(count=3))
    calls.go.clear()
    hub.publish(*logs(1, 9))
    reader = asyncio.create_task(hub.back_pressure.caught_up())
    for call in ([1, 2, 3], [4, 5, 6]):
        await turns()
        assert calls.calls[-1] == call
        assert not reader.done()
        calls.go.set()
        calls.go.clear()
    await turns()
    assert calls.calls[-1] == [7, 8, 9]
    assert reader.done()
    calls.go.set()
    await turns()


async def test_batches_do_not_fill_while_the_reader_is_paused(clock: VirtualClock) -> None:
    """Another consumer is behind: no event comes that could fill the batch."""
    hub, calls = Hub(), Calls()
    hub.subscribe(calls, batch=Batch(seconds=60.0))
    hub.publish(log(1))
    await turns()
    assert calls.calls == []
    reader = asyncio.create_task(hub.back_pressure.caught_up())
    await turns()
    assert calls.calls == [[1]]
    reader.cancel()
    await turns()


async def test_a_batch_that_begins_while_the_reader_is_paused_does_not_fill(
    clock: VirtualClock,
) -> None:
    hub, calls = Hub(), Calls()
    hub.subscribe(calls, batch=Batch(count=2, seconds=60.0))
    hub.back_pressure.set_stored(True)
    hub.publish(log(1))
    await turns()
    assert calls.calls == [[1]]


async def test_a_batch_that_begins_while_events_wait_for_a_checkpoint_does_not_fill(
    clock: VirtualClock,
) -> None:
    hub, calls = Hub(held=lambda: 1), Calls()
    hub.subscribe(calls, batch=Batch(count=2, seconds=60.0))
    hub.publish(log(1))
    await turns()
    assert calls.calls == [[1]]


async def test_dispose_inside_the_handler_ends_the_registration_after_the_call() -> None:
    hub = Hub()
    got: list[int] = []

    async def handle(batch: list[Event]) -> None:
        got.append(len(batch))
        registration.dispose()
        await asyncio.sleep(0)
        got.append(0)

    registration = hub.subscribe(handle, batch=Batch(count=2))
    hub.back_pressure.follower = lambda event: None
    hub.publish(*logs(1, 5))
    await turns()
    assert got == [2, 0]
    assert (registration.lag, hub.mark) == (0, 5)


# ------------------------------------------------------------------ deadlocks


async def test_waits_for_any_job_of_the_batch_are_refused() -> None:
    """D10."""
    hub = Hub(timeouts=Timeouts(deadlock=0.01))
    refused: list[str] = []

    @hub.on(events.Log, batch=True)
    async def handle(batch: list[events.Log]) -> None:
        for job in ("a", "b"):
            with pytest.raises(WouldDeadlock, match="barrier=False"):
                hub._consumers.own_call(job)
            refused.append(job)
        assert hub._consumers.own_call("c") is None

    hub.publish(log(1, "a"), log(2, "b"))
    await turns()
    assert refused == ["a", "b"]


async def test_the_end_of_a_job_in_the_batch_is_no_reason_to_refuse() -> None:
    """D9: a result does not wait for the handlers of the terminal event."""
    hub = Hub()
    done: list[bool] = []

    @hub.on(batch=True)
    async def handle(batch: list[Event]) -> None:
        assert hub._consumers.own_call("a") is None
        done.append(True)

    hub.publish(end(1, "a"), log(2, "b"))
    await turns()
    assert done == [True]


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("batch", [True, Batch()], ids=str)
def test_batches_of_order_job_are_refused(batch: bool | Batch) -> None:
    hub, by_job = Hub(), Hub(order=Order.JOB)
    for refused, arguments in ((hub, {"order": Order.JOB}), (by_job, {})):
        with pytest.raises(ValueError, match=r"order=Order\.SESSION"):
            refused.on(batch=batch, **arguments)  # type: ignore[call-overload]
        with pytest.raises(ValueError, match=r"order=Order\.SESSION"):
            refused.subscribe(print, batch=batch, **arguments)  # type: ignore[call-overload]
    by_job.on(batch=batch, order=Order.SESSION)
    by_job.on(batch=False)


@pytest.mark.parametrize("batch", [1, None, "yes", 2.0], ids=repr)
def test_other_values_of_batch_are_refused(batch: Any) -> None:
    with pytest.raises(TypeError, match="batch must be True, False or a Batch"):
        Hub().on(batch=batch)


# ------------------------------------------------------------------ whatever happens


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 12)),
        st.tuples(st.just("advance"), st.sampled_from([0.0, 0.4, 1.0])),
        st.tuples(st.just("turn"), st.just(1)),
        st.tuples(st.just("drain"), st.just(1)),
        st.tuples(st.just("pause"), st.just(1)),
    ),
    max_size=25,
)
_calls = st.lists(st.sampled_from(["return", "sync", "sleep", "raise", "cancelled"]), max_size=30)


@given(
    steps=_steps,
    behaviours=_calls,
    count=st.integers(1, 9),
    seconds=st.sampled_from([0.0, 0.5, 2.0]),
    soft=st.sampled_from([2, 8, 1024]),
)
def test_every_event_is_handled_once_in_order_and_within_the_limits(
    steps: list[tuple[str, Any]], behaviours: list[str], count: int, seconds: float, soft: int
) -> None:
    """D1, D3, D21: any arrivals, limits, failures and waits."""
    clock = VirtualClock()

    async def scenario() -> None:
        hub = Hub(buffer=Buffer(soft=soft))
        hub.on_error(lambda failure: None)
        loop = asyncio.get_running_loop()
        todo = iter(behaviours)
        handled: list[int | None] = []
        reported: list[int | None] = []
        arrivals: dict[int, float] = {}
        free_since = 0.0
        running = 0
        hub.back_pressure.follower = lambda event: event and reported.append(event.seq)

        def handle(batch: list[Event]) -> Any:
            assert not running, "two calls at once"
            assert 1 <= len(batch) <= count
            handled.extend(event.seq for event in batch)
            oldest = max(arrivals[batch[0].seq or 0] + seconds, free_since)
            assert loop.time() <= oldest + 0.001, "a batch waited too long"
            behaviour = next(todo, "return")
            return None if behaviour == "sync" else going_on(behaviour, len(batch))

        async def going_on(behaviour: str, size: int) -> None:
            nonlocal running, free_since
            running += 1
            assert len(reported) == len(handled) - size, "an event is processed before its end"
            try:
                await asyncio.sleep(0.3 if behaviour == "sleep" else 0)
                if behaviour == "raise":
                    raise ValueError
                if behaviour == "cancelled":
                    raise asyncio.CancelledError
            finally:
                running -= 1
                free_since = loop.time()

        hub.subscribe(handle, batch=Batch(count=count, seconds=seconds))
        for step, argument in steps:
            match step:
                case "publish":
                    first = hub.published + 1
                    arrivals |= dict.fromkeys(range(first, first + argument), loop.time())
                    hub.publish(*logs(first, first + argument - 1))
                case "advance":
                    await asyncio.sleep(argument)
                case "turn":
                    await asyncio.sleep(0)
                case "drain":
                    await hub._consumers.drained()
                    assert len(handled) == hub.published
                case "pause":
                    hub.back_pressure.set_stored(True)
                    await turns(3)
                    hub.back_pressure.set_stored(False)
        await asyncio.sleep(60)
        assert handled == reported == list(range(1, hub.published + 1))
        assert hub.mark == hub.published

    with clock.installed():
        clock.run(scenario())
