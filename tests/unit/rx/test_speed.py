"""Guards that hold on any machine: ratios in one process, memory, and the CPU time of a turn."""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import reactivex as rx
from reactivex import operators as ops
from reactivex.subject import Subject

from arcp_client.rx import EventChannel, concat_map_async, concat_map_async_by


async def _returns(number: int) -> int:
    return number


async def _by_operator(count: int) -> float:
    channel: EventChannel[int] = EventChannel()
    ended = asyncio.get_running_loop().create_future()
    channel.observable().pipe(concat_map_async(_returns)).subscribe(
        lambda _: None, on_completed=lambda: ended.set_result(None)
    )
    start = time.perf_counter()
    for number in range(count):
        await channel.push(number)
    channel.complete()
    await ended
    return (time.perf_counter() - start) / count


async def _by_concat_map(count: int) -> float:
    subject: Subject[int] = Subject()
    ended = asyncio.get_running_loop().create_future()

    def later(number: int) -> Any:
        return rx.defer(lambda _: rx.from_future(asyncio.ensure_future(_returns(number))))

    subject.pipe(ops.concat_map(later)).subscribe(
        lambda _: None, on_completed=lambda: ended.set_result(None)
    )
    start = time.perf_counter()
    for number in range(count):
        subject.on_next(number)
    subject.on_completed()
    await ended
    return (time.perf_counter() - start) / count


async def test_the_operator_is_twenty_times_as_fast_as_concat_map() -> None:
    ratios = [await _by_concat_map(500) / await _by_operator(20_000) for _ in range(5)]
    assert max(ratios) >= 20


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()  # how long a collection takes depends on what other tests have left
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("keyed", [False, True])
async def test_timers_keep_their_time_while_handlers_never_suspend(keyed: bool) -> None:
    operator = (
        concat_map_async_by(lambda n: n % 100, _returns) if keyed else concat_map_async(_returns)
    )
    channel: EventChannel[int] = EventChannel(cap=200_001)
    ended = asyncio.get_running_loop().create_future()
    channel.observable().pipe(operator).subscribe(on_completed=lambda: ended.set_result(None))
    for number in range(200_000):
        channel.push_nowait(number)
    channel.complete()

    # CPU time of this thread, since the machine's other work is not the operator's fault.
    last = time.thread_time()
    worst = 0.0
    ticks = 0
    while not ended.done():
        await asyncio.sleep(0.001)
        now = time.thread_time()
        worst = max(worst, now - last)
        last = now
        ticks += 1
    assert ticks > 10
    assert worst < 0.025


async def test_slow_sync_handlers_give_up_their_slice_by_time() -> None:
    def burn(_: int) -> None:
        until = time.thread_time() + 0.002
        while time.thread_time() < until:
            pass

    turns = 0
    channel: EventChannel[int] = EventChannel()
    ended = asyncio.get_running_loop().create_future()
    channel.observable().pipe(concat_map_async(burn)).subscribe(
        on_completed=lambda: ended.set_result(None)
    )
    for number in range(32):
        channel.push_nowait(number)
    channel.complete()
    while not ended.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 32 / 3  # at most three handlers of 2 ms fit before 5 ms are over


@pytest.mark.slow
@pytest.mark.parametrize("keyed", [False, True])
async def test_a_million_events_leave_memory_flat(keyed: bool) -> None:
    handled = 0

    async def handle(event: bytes) -> None:
        nonlocal handled
        handled += 1

    operator: Callable[[rx.Observable[bytes]], rx.Observable[None]] = (
        concat_map_async_by(lambda event: event[-3:], handle) if keyed else concat_map_async(handle)
    )
    channel: EventChannel[bytes] = EventChannel()
    channel.observable().pipe(operator).subscribe()

    async def push(count: int, push: Callable[[bytes], Awaitable[bool]]) -> None:
        for number in range(count):
            await push(b"an event of some length, number %d" % number)

    await push(20_000, channel.push)
    gc.collect()
    before = _resident()
    await push(1_000_000, channel.push)
    while channel.stats().outstanding:
        await asyncio.sleep(0)
    assert handled == 1_020_000
    assert _resident() - before < 20 * 2**20


def _resident() -> int:
    with open("/proc/self/statm") as statm:  # noqa: PTH123
        return int(statm.read().split()[1]) * resource.getpagesize()
