"""What the operators cost, measured in a process of its own; prints numbers as JSON.

``python -m tests.unit.rx.measured NAME [keyed]`` with the name of a function below.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import reactivex as rx
from reactivex import operators as ops
from reactivex.subject import Subject

from arcp_client.rx import EventChannel, concat_map_async, concat_map_async_by
from tests.alone import resident
from tests.unit.rx.kit import Probe, drain_tasks


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


async def ratios(_: bool) -> list[float]:
    """How many times as long RxPY's concat_map takes, five times."""
    return [await _by_concat_map(500) / await _by_operator(20_000) for _ in range(5)]


async def lateness(keyed: bool) -> dict[str, float]:
    """How late a timer of 1 ms is at most while 200,000 handlers run that never suspend."""
    gc.collect()
    gc.disable()  # a collection is not the operator's
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
    return {"ticks": ticks, "worst": worst}


async def growth(keyed: bool) -> dict[str, int]:
    """By how many bytes resident memory grows over a million events."""
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
    before = resident()
    await push(1_000_000, channel.push)
    while channel.stats().outstanding:
        await asyncio.sleep(0)
    return {"handled": handled, "growth": resident() - before}


async def keys(_: bool) -> dict[str, float]:
    """Bytes a key with one, two and three items that wait, and with none any more; 10,000 keys."""
    probe = Probe()
    channel: EventChannel[int] = EventChannel(cap=100_000)
    operator = concat_map_async_by(lambda n: n % 10_000, probe, lanes=1)
    channel.observable().pipe(operator).subscribe()
    await channel.push(0)
    while not probe.started:
        await asyncio.sleep(0)
    items = list(range(1, 10_000))

    gc.collect()
    tracemalloc.start()
    taken = [tracemalloc.get_traced_memory()[0]]
    for _ in range(3):
        for number in items:
            channel.push_nowait(number)
        taken.append(tracemalloc.get_traced_memory()[0])
    probe.let_all_go()
    while channel.stats().outstanding:
        await asyncio.sleep(0)
    await asyncio.sleep(0)  # the drain's last turn
    handled = len(probe.finished)
    probe.finished.clear()
    probe.started.clear()
    gc.collect()
    taken.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    one, two, three, idle = ((size - taken[0]) / 10_000 for size in taken[1:])
    left = len(drain_tasks())
    return {"handled": handled, "one": one, "two": two, "three": three, "idle": idle, "left": left}


if __name__ == "__main__":
    measure = {"ratios": ratios, "lateness": lateness, "growth": growth, "keys": keys}[sys.argv[1]]
    print(json.dumps(asyncio.run(measure("keyed" in sys.argv[2:]))))
