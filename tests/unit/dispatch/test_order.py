"""In which order handlers run (D1, D2, D5)."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from arcp_client import Order, events
from arcp_client.testing import VirtualClock
from tests.unit.dispatch.kit import Hub, Tape, gap, log, turns


async def test_the_next_handler_starts_after_the_previous_one_has_ended() -> None:
    """D1."""
    hub, tape = Hub(), Tape()
    hub.on(events.Log)(tape.handle)
    hub.publish(log(1), log(2), log(3))
    await turns()
    assert tape.starts == [1]
    tape.let_go(2, 3)
    await turns()
    assert tape.starts == [1]
    tape.let_go(1)
    await turns()
    assert tape.starts == tape.ends == [1, 2, 3]


async def test_each_registration_has_a_lane_of_its_own() -> None:
    """D2: a slow auditor does not hold back the screen."""
    hub, slow, quick = Hub(), Tape(), Tape()
    auditor = hub.subscribe(slow.handle)
    screen = hub.subscribe(quick.free)
    hub.publish(log(1), log(2))
    await turns()
    assert quick.ends == [1, 2]
    assert slow.starts == [1]
    assert (auditor.lag, screen.lag) == (2, 0)
    auditor.dispose()


async def test_under_order_job_a_gap_stands_between_all_before_and_all_after_it() -> None:
    """D2: it runs after all earlier and before all later events of every lane."""
    hub, tape = Hub(order=Order.JOB), Tape()
    hub.on()(tape.handle)
    hub.publish(log(1, "a"), log(2, "b"), gap(3), log(4, "a"), log(5, "b"))
    await turns()
    assert sorted(tape.running) == [1, 2]
    tape.let_go(1)
    await turns()
    assert tape.running == {2}
    tape.let_go(2)
    await turns()
    assert tape.running == {3}
    hub.publish(log(6, "c"))
    await turns()
    assert tape.running == {3}
    tape.let_go(3)
    await turns()
    assert tape.running == {4, 5, 6}
    tape.let_go(4, 5, 6)
    await turns()
    assert not tape.running
    assert hub.mark == 6


async def test_under_order_job_an_event_of_no_job_waits_for_every_lane_too() -> None:
    """D2, also several in a row, alone at first, and in batches."""
    hub, tape = Hub(order=Order.JOB), Tape()
    hub.on()(tape.handle)
    hub.publish(log(1, None))
    hub.publish(log(2, None), log(3, "a"))
    hub.publish(log(4, "b"), gap(5))
    order = []
    for expected in ({1}, {2}, {3, 4}, {5}):
        await turns()
        assert tape.running == expected
        order.append(expected)
        tape.let_go(*expected)
    await turns()
    assert hub.mark == 5


@pytest.mark.parametrize("seed", range(20))
async def test_under_order_job_random_jobs_and_gaps_keep_every_order(seed: int) -> None:
    """D2: per job in order, nothing of a job across a Gap."""
    rng = random.Random(seed)
    hub = Hub(order=Order.JOB)
    running: set[int] = set()
    done: list[events.Event] = []

    @hub.on()
    async def handle(event: events.Event) -> None:
        if isinstance(event, events.Gap):
            assert not running
        running.add(event.seq or 0)
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        running.discard(event.seq or 0)
        done.append(event)

    seq = 0
    while seq < 300:
        batch = []
        for _ in range(rng.randrange(1, 30)):
            seq += 1
            batch.append(gap(seq) if rng.random() < 0.05 else log(seq, f"job_{rng.randrange(5)}"))
        hub.publish(*batch)
        await turns(rng.randrange(3))
    await turns(2000)
    assert len(done) == seq
    gaps = [event.seq or 0 for event in done if isinstance(event, events.Gap)]
    assert gaps == sorted(gaps)
    for job in {event.job_id for event in done}:
        numbers = [event.seq for event in done if event.job_id == job]
        assert numbers == sorted(numbers)
    for at, event in enumerate(done):
        if isinstance(event, events.Gap):
            assert {one.seq for one in done[:at]} == set(range(1, event.seq or 0))
    assert hub.processed == seq


@pytest.mark.parametrize("order", list(Order))
async def test_a_lane_of_long_calls_yields_to_the_loop_after_a_millisecond(
    order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D5: an event of another lane does not wait for 64 of its calls."""
    hub = Hub(order=order)
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    done = 0
    most = 0

    @hub.on()
    async def handle(event: events.Event) -> None:
        nonlocal now, done
        now += 0.0003
        done += 1

    hub.publish(*[log(seq) for seq in range(1, 41)])
    while done < 40:
        before = done
        await asyncio.sleep(0)
        most = max(most, done - before)
    assert most <= 4


async def test_a_foreign_cancellation_is_an_error_like_any_other() -> None:
    """D5."""
    hub = Hub()
    failures: list[object] = []
    seen: list[int | None] = []
    hub.on_error(failures.append)

    @hub.on()
    async def handle(event: events.Event) -> None:
        if event.seq == 1:
            other = asyncio.get_running_loop().create_future()
            other.cancel()
            await other
        seen.append(event.seq)

    hub.publish(log(1), log(2))
    await turns()
    assert seen == [2]
    assert len(failures) == 1
    assert hub.mark == 2


async def test_a_handlers_own_timeout_never_touches_the_publisher() -> None:
    """D5."""
    hub = Hub()
    ends: list[str] = []

    @hub.on()
    async def handle(event: events.Event) -> None:
        try:
            async with asyncio.timeout(0):
                await asyncio.sleep(1)
        except TimeoutError:
            ends.append("timeout")

    hub.publish(log(1), log(2))
    async with asyncio.timeout(5.0):
        while hub.mark < 2:
            await asyncio.sleep(0)
    assert ends == ["timeout", "timeout"]


def cancel_this_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


@pytest.mark.parametrize("order", list(Order))
async def test_a_handler_that_cancels_its_own_task_and_returns_is_called_again(
    order: Order,
) -> None:
    """D5: the cancellation ends with the task, for which no event is left."""
    hub = Hub(order=order)
    called: list[int | None] = []

    @hub.on()
    def handle(event: events.Event) -> None:
        called.append(event.seq)
        cancel_this_task()

    for number in (1, 2):
        hub.publish(log(number))
        await turns(20)
    assert called == [1, 2]
    assert hub.mark == 2


async def test_a_handler_that_cancels_its_own_task_has_failed_and_the_next_call_comes() -> None:
    """D5: nothing waits for it any more, and no other handler notices."""
    hub, other = Hub(), Tape()
    called: list[int | None] = []

    @hub.on()
    async def handle(event: events.Event) -> None:
        called.append(event.seq)
        cancel_this_task()
        await asyncio.sleep(0)

    hub.subscribe(other.free)
    hub.publish(log(1), log(2))
    await turns(20)
    assert called == other.ends == [1, 2]
    assert hub.mark == 2


async def test_an_on_error_that_cancels_its_own_task_ends_its_registration_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """D5."""
    hub, other = Hub(), Tape()
    called: list[int | None] = []

    def handle(event: events.Event) -> None:
        called.append(event.seq)
        raise ValueError("no")

    async def on_error(event: events.Event, error: Exception) -> None:
        cancel_this_task()
        await asyncio.sleep(0)

    registration = hub.subscribe(handle, on_error=on_error)
    hub.subscribe(other.free)
    hub.publish(log(1), log(2))
    await turns(20)
    hub.publish(log(3))
    await turns()
    assert called == [1]
    assert other.ends == [1, 2, 3]
    assert (registration.lag, hub.mark) == (0, 3)
    assert "is not called any more" in caplog.text


async def test_handlers_may_be_plain_functions_and_callable_objects() -> None:
    hub = Hub()
    seen: list[object] = []

    class Recorder:
        async def __call__(self, event: events.Event) -> None:
            seen.append(event.seq)

    hub.subscribe(Recorder())
    hub.subscribe(lambda event: seen.append(event.seq))
    hub.publish(log(1))
    await turns()
    assert seen == [1, 1]


@pytest.mark.parametrize("order", list(Order))
async def test_a_registration_knows_since_when_its_oldest_event_waits(
    order: Order, clock: VirtualClock
) -> None:
    """What ``stats().lag`` and ``on_slow`` tell."""
    hub, tape = Hub(order=order), Tape()
    hub.on()(tape.handle)
    assert hub.fan_out.since() is None
    for seq in range(1, 4):
        hub.publish(log(2 * seq - 1), log(2 * seq))
        await clock.advance(10)
    for seq, came in enumerate([0.0, 0.0, 10.0, 10.0, 20.0, 20.0], 1):
        assert hub.fan_out.since() == came
        tape.let_go(seq)
        await clock.settle()
    assert hub.fan_out.since() is None


async def test_a_disposed_registration_keeps_no_lane_of_a_job() -> None:
    hub = Hub(order=Order.JOB)

    async def handle(event: events.Event) -> None:
        await asyncio.Event().wait()

    registration = hub.subscribe(handle)
    hub.publish(log(1, "job_1"), log(2, "job_2"))
    await turns()
    assert len(list(registration.lanes)) == 2
    registration.dispose()
    assert list(registration.lanes) == []
