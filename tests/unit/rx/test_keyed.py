"""concat_map_async_by: order per key, keys side by side, lanes that bound and yield (D11, I9)."""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc
from collections import defaultdict
from typing import Any

import pytest
import reactivex as rx
from reactivex import operators as ops
from reactivex.subject import Subject

from arcp_client.rx import EventChannel, concat_map_async, concat_map_async_by
from arcp_client.testing.clock import VirtualClock
from tests.unit.rx.kit import Probe, Tape, drain_tasks


def _tens(number: int) -> int:
    return number // 10


# ---------------------------------------------------------------------- order and concurrency


@pytest.mark.parametrize("lanes", [None, 1, 3])
async def test_order_and_one_handler_at_a_time_in_each_key(
    clock: VirtualClock, lanes: int | None
) -> None:
    draw = random.Random(7)
    running: set[int] = set()
    peak = 0
    done: defaultdict[int, list[int]] = defaultdict(list)

    async def handle(number: int) -> int:
        nonlocal peak
        key = number % 10
        assert key not in running
        running.add(key)
        peak = max(peak, len(running))
        for _ in range(draw.randrange(3)):
            await asyncio.sleep(draw.choice([0, 0, 0.001]))
        running.discard(key)
        done[key].append(number)
        return number

    channel: EventChannel[int] = EventChannel()
    tape = Tape()
    operator = concat_map_async_by(lambda n: n % 10, handle, lanes=lanes)
    tape.record(channel.observable().pipe(operator))
    for number in range(2000):
        await channel.push(number)
    channel.complete()
    await tape.ended

    assert all(done[key] == list(range(key, 2000, 10)) for key in range(10))
    assert sorted(tape.items) == list(range(2000))
    assert peak == (lanes or 10)
    assert channel.stats().outstanding == 0


async def test_one_blocked_key_does_not_hold_back_another(clock: VirtualClock) -> None:
    probe, tape = Probe(), Tape()
    channel: EventChannel[int] = EventChannel()
    tape.record(channel.observable().pipe(concat_map_async_by(_tens, probe)))
    for number in (10, 11, 20, 21, 30):
        await channel.push(number)
    await clock.settle()
    assert probe.started == [10, 20, 30]

    probe.let_go(20)
    await clock.settle()
    assert probe.started == [10, 20, 30, 21]
    assert tape.items == [20]

    probe.let_all_go()
    await clock.settle()
    assert [n for n in tape.items if n < 20] == [10, 11]
    assert [n for n in tape.items if 20 <= n < 30] == [20, 21]
    assert sorted(tape.items) == [10, 11, 20, 21, 30]


async def test_without_lanes_every_key_with_work_runs(clock: VirtualClock) -> None:
    probe = Probe()
    channel: EventChannel[int] = EventChannel(cap=5000)
    channel.observable().pipe(concat_map_async_by(lambda n: n % 1000, probe)).subscribe()
    for number in range(3000):
        await channel.push(number)
    await clock.settle()
    assert probe.running == 1000
    assert clock.time() == 0

    probe.let_all_go()
    await clock.settle()
    assert len(probe.finished) == 3000
    assert drain_tasks() == []


async def test_many_blocked_keys_are_started_in_few_turns_of_the_loop() -> None:
    probe = Probe()
    channel: EventChannel[int] = EventChannel(cap=1000)
    channel.observable().pipe(concat_map_async_by(lambda n: n, probe, slice_seconds=60)).subscribe()
    for number in range(1000):
        channel.push_nowait(number)
    turns = 0
    while probe.running < 1000:
        await asyncio.sleep(0)
        turns += 1
    assert turns < 100
    probe.let_all_go()
    while channel.stats().outstanding:
        await asyncio.sleep(0)


async def test_ready_keys_take_turns() -> None:
    handled: list[str] = []
    channel: EventChannel[str] = EventChannel()
    operator = concat_map_async_by(lambda s: s[0], handled.append, lanes=1)
    tape = Tape()
    tape.record(channel.observable().pipe(operator))
    for name in ("a1", "a2", "a3", "b1", "c1", "b2"):
        await channel.push(name)
    channel.complete()
    await tape.ended
    assert handled == ["a1", "b1", "c1", "a2", "b2", "a3"]


async def test_a_handler_that_pushes_to_its_own_key_comes_back_later(clock: VirtualClock) -> None:
    subject: Subject[int] = Subject()
    order: list[int] = []

    async def handle(number: int) -> None:
        order.append(number)
        if number < 3:
            subject.on_next(number + 1)
            subject.on_next(number + 100)
        await asyncio.sleep(0)

    subject.pipe(concat_map_async_by(lambda n: n >= 100, handle)).subscribe()
    subject.on_next(0)
    await clock.settle()
    assert [n for n in order if n < 100] == [0, 1, 2, 3]
    assert [n for n in order if n >= 100] == [100, 101, 102]


@pytest.mark.parametrize("keyed", [False, True])
async def test_a_batch_is_handled_like_its_items(clock: VirtualClock, keyed: bool) -> None:
    tape = Tape()
    subject: Subject[int] = Subject()
    operator = (
        concat_map_async_by(lambda n: n % 3, lambda n: n)
        if keyed
        else concat_map_async(lambda n: n)
    )
    sink: Any = tape.record(subject.pipe(operator))
    subject.on_next(0)
    sink.feed(range(1, 50))
    sink.feed([])
    await clock.settle()
    sink.feed(range(50, 60))
    subject.on_completed()
    await tape.ended
    sink.feed([99])
    await clock.settle()
    assert sorted(tape.items) == list(range(60))
    assert all([n for n in tape.items if n % 3 == k] == list(range(k, 60, 3)) for k in range(3))
    assert drain_tasks() == []


@pytest.mark.parametrize("keyed", [False, True])
async def test_a_batch_that_comes_after_the_end_is_dropped(
    clock: VirtualClock, keyed: bool
) -> None:
    probe, tape = Probe(), Tape()
    subject: Subject[int] = Subject()
    operator = concat_map_async_by(_tens, probe) if keyed else concat_map_async(probe)
    sink: Any = tape.record(subject.pipe(operator))
    sink.feed([0])
    subject.on_completed()
    sink.feed([1, 10])
    probe.let_all_go()
    await tape.ended
    assert tape.items == [0]


@pytest.mark.parametrize("keyed", [False, True])
async def test_a_batch_that_comes_after_the_disposal_starts_no_task(
    clock: VirtualClock, keyed: bool
) -> None:
    probe = Probe()
    subject: Subject[int] = Subject()
    operator = concat_map_async_by(_tens, probe) if keyed else concat_map_async(probe)
    sink: Any = subject.pipe(operator).subscribe()
    sink.dispose()
    sink.feed([1, 10])
    assert drain_tasks() == []


# ---------------------------------------------------------------------- lanes


async def test_lanes_bound_the_handlers_that_run(clock: VirtualClock) -> None:
    probe = Probe()
    channel: EventChannel[int] = EventChannel()
    channel.observable().pipe(concat_map_async_by(lambda n: n, probe, lanes=4)).subscribe()
    for number in range(20):
        await channel.push(number)
    await clock.settle()
    assert probe.started == [0, 1, 2, 3]

    probe.let_go(2)
    await clock.settle()
    assert probe.started == [0, 1, 2, 3, 4]
    probe.let_all_go()
    await clock.settle()
    assert probe.peak == 4


async def test_when_all_lanes_wait_one_more_starts_each_100_ms(clock: VirtualClock) -> None:
    started: list[tuple[int, float]] = []
    release = asyncio.Event()

    async def handle(number: int) -> None:
        started.append((number, round(clock.time(), 3)))
        if number == 4:
            release.set()
        await release.wait()

    channel: EventChannel[int] = EventChannel()
    tape = Tape()
    tape.record(channel.observable().pipe(concat_map_async_by(lambda n: n, handle, lanes=2)))
    for number in range(8):
        await channel.push(number)
    channel.complete()
    await tape.ended

    assert [at for _, at in started[:5]] == [0, 0, 0.1, 0.2, 0.3]
    assert [number for number, _ in started] == list(range(8))
    assert started[-1][1] == 0.3


async def test_lanes_that_make_progress_are_not_exceeded(clock: VirtualClock) -> None:
    running = peak = 0

    async def handle(_: int) -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0.09)
        running -= 1

    tape = Tape()
    tape.record(rx.range(0, 20).pipe(concat_map_async_by(lambda n: n, handle, lanes=2)))
    await tape.ended
    assert peak == 2


async def test_lanes_return_to_their_bound_after_a_stall(clock: VirtualClock) -> None:
    probe = Probe()
    channel: EventChannel[int] = EventChannel()
    channel.observable().pipe(concat_map_async_by(lambda n: n, probe, lanes=2)).subscribe()
    for number in range(10):
        await channel.push(number)
    await clock.advance(0.25)
    assert probe.started == [0, 1, 2, 3]

    probe.let_go(0)
    probe.let_go(1)
    probe.let_go(2)
    await clock.settle()
    assert probe.started == [0, 1, 2, 3, 4]
    assert probe.running == 2
    probe.let_all_go()
    await clock.settle()
    assert len(probe.finished) == 10


async def test_a_second_stall_is_relieved_like_the_first(clock: VirtualClock) -> None:
    probe = Probe()
    channel: EventChannel[int] = EventChannel()
    channel.observable().pipe(concat_map_async_by(lambda n: n, probe, lanes=2)).subscribe()
    for number in range(4):
        await channel.push(number)
    await clock.advance(0.35)  # and once more, when nothing waits any longer
    assert probe.started == [0, 1, 2, 3]

    for number in range(3):  # one handler runs on, so that the lanes are never at rest
        probe.let_go(number)
    await clock.settle()
    for number in range(4, 7):
        await channel.push(number)
    await clock.advance(0.09)
    assert probe.started == [0, 1, 2, 3, 4]
    await clock.advance(0.02)
    assert probe.started == [0, 1, 2, 3, 4, 5]
    await clock.advance(0.1)
    assert probe.started == [0, 1, 2, 3, 4, 5, 6]
    probe.let_all_go()
    await clock.settle()
    assert len(probe.finished) == 7


async def test_a_stall_that_begins_after_a_handler_ended_is_relieved_100_ms_after_that(
    clock: VirtualClock,
) -> None:
    probe = Probe()
    channel: EventChannel[int] = EventChannel()
    channel.observable().pipe(concat_map_async_by(lambda n: n, probe, lanes=1)).subscribe()
    for number in range(3):
        await channel.push(number)
    await clock.advance(0.05)
    probe.let_go(0)
    await clock.advance(0.09)
    assert probe.started == [0, 1]
    await clock.advance(0.02)
    assert probe.started == [0, 1, 2]
    probe.let_all_go()
    await clock.settle()


async def test_a_lane_is_added_for_a_key_that_waits_and_not_in_advance(
    clock: VirtualClock,
) -> None:
    probe = Probe()
    channel: EventChannel[int] = EventChannel()
    channel.observable().pipe(concat_map_async_by(lambda n: n, probe, lanes=1)).subscribe()
    await channel.push(0)
    await channel.push(1)
    await clock.advance(0.15)
    assert probe.started == [0, 1]
    await clock.advance(1.0)  # no key waits
    await channel.push(2)
    await clock.advance(0.09)
    assert probe.started == [0, 1]
    await clock.advance(0.02)
    assert probe.started == [0, 1, 2]
    probe.let_all_go()
    await clock.settle()


async def test_lanes_below_one_are_refused() -> None:
    with pytest.raises(ValueError, match="lanes"):
        concat_map_async_by(_tens, lambda n: n, lanes=0)


async def test_idle_keys_hold_no_memory() -> None:
    channel: EventChannel[int] = EventChannel(cap=20_000)
    tape = Tape()
    by_number = concat_map_async_by(lambda n: n, lambda n: None)
    channel.observable().pipe(by_number, ops.filter(lambda _: False)).subscribe(tape.on_next)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(20_000):
            channel.push_nowait(number)
        while channel.stats().outstanding:
            await asyncio.sleep(0)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 100_000


# ---------------------------------------------------------------------- bad keys


async def test_a_key_that_cannot_be_had_is_an_item_error(clock: VirtualClock) -> None:
    failures: list[tuple[Any, type[Exception]]] = []

    def key(item: Any) -> Any:
        return 1 // item if isinstance(item, int) else item

    async def hook(item: Any, error: Exception) -> None:
        await asyncio.sleep(1)
        failures.append((item, type(error)))

    channel: EventChannel[Any] = EventChannel()
    tape = Tape()
    tape.record(channel.observable().pipe(concat_map_async_by(key, lambda x: x, on_error=hook)))
    for item in (1, 0, [], 2):
        await channel.push(item)
    channel.complete()
    await clock.settle()
    assert tape.items == [1, 2]
    assert tape.ends == []

    await tape.ended
    assert failures == [(0, ZeroDivisionError), ([], TypeError)]
    assert channel.stats().outstanding == 0


async def test_a_bad_key_with_raise_ends_the_stream(clock: VirtualClock) -> None:
    tape = Tape()
    channel: EventChannel[int] = EventChannel()
    operator = concat_map_async_by(lambda n: 1 // n, lambda n: n, on_error="raise")
    tape.record(channel.observable().pipe(operator))
    await channel.push(0)
    await clock.settle()
    assert [type(end) for end in tape.ends] == [ZeroDivisionError]
    assert channel.stats().outstanding == 0


# ---------------------------------------------------------------------- raise and dispose


async def test_raise_cancels_the_handlers_of_all_other_keys(clock: VirtualClock) -> None:
    probe, tape = Probe(), Tape()

    async def handle(number: int) -> None:
        if number == 9:
            raise ValueError("nine")
        await probe(number)

    channel: EventChannel[int] = EventChannel()
    operator = concat_map_async_by(lambda n: n, handle, on_error="raise")
    tape.record(channel.observable().pipe(operator))
    for number in (1, 2, 9, 3):
        await channel.push(number)
    await clock.settle()

    assert sorted(probe.cancelled) == [1, 2]
    assert [str(end) for end in tape.ends] == ["nine"]
    assert channel.stats().outstanding == 0
    assert drain_tasks() == []


async def test_disposing_cancels_every_running_key(clock: VirtualClock) -> None:
    probe = Probe()
    channel: EventChannel[int] = EventChannel()
    operator = concat_map_async_by(lambda n: n % 50, probe)
    subscription = channel.observable().pipe(operator).subscribe()
    for number in range(200):
        await channel.push(number)
    await clock.settle()
    subscription.dispose()
    await clock.settle()
    assert sorted(probe.cancelled) == list(range(50))
    assert channel.stats().outstanding == 0


@pytest.mark.parametrize(
    ("ended_before", "expected"), [(0, [0, 1, 3, 7, 15, 31, 40]), (1, [0, 1, 2, 4, 8, 16, 32, 40])]
)
async def test_while_no_handler_ends_twice_as_many_are_started_each_time(
    clock: VirtualClock, ended_before: int, expected: list[int]
) -> None:
    started: list[int] = []

    async def handle(number: int) -> None:
        if number >= 0:
            started.append(number)
            await asyncio.Event().wait()

    channel: EventChannel[int] = EventChannel()
    subscription = (
        channel.observable()
        .pipe(concat_map_async_by(lambda n: n, handle, slice_seconds=60))
        .subscribe()
    )
    for number in range(-ended_before, 40):
        await channel.push(number)
    counts = [len(started)]
    while len(started) < 40:
        await asyncio.sleep(0)
        if len(started) > counts[-1]:
            counts.append(len(started))
    assert counts == expected
    subscription.dispose()
    await clock.settle()
    assert not drain_tasks()
