"""The ordered operators against RxPY, aioreactive and asyncio.Queue with a worker; prints JSON.

Every way handles the items one at a time and in order. aioreactive has two: its concat_map queues
what comes, as ours does; its map_async has no queue, the producer awaits the handler itself. It is
left out if it is not there: `make bench` installs it into build/bench, apart from the environment,
since it asks for reactivex 4 (which it imports for one conversion only, not measured here).

Rounds are interleaved, and time is CPU time, so that a busy machine falls on all of them alike;
what is printed are medians. Read the ratios: absolute numbers are this machine's.

    python benchmarks/bench_operator.py [rounds]
"""

from __future__ import annotations

import asyncio
import json
import platform
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import reactivex as rx
from reactivex import operators as ops
from reactivex.subject import Subject

from arcp_client._rx.delivery import HolderCount, publish
from arcp_client.rx import EventChannel, concat_map_async, concat_map_async_by, stream

PEERS = Path(__file__).parents[1] / "build" / "bench"
sys.path.append(str(PEERS))  # at the end: what is in the environment comes first
try:
    import aioreactive
    from aioreactive.transform import concat_map as aioreactive_concat_map
except ImportError:
    aioreactive = None

Handler = Callable[[int], Any]


async def returns(number: int) -> int:
    return number


async def suspends(number: int) -> int:
    await asyncio.sleep(0)
    return number


def plain(number: int) -> int:
    return number


def ignore(_: Any) -> None:
    pass


async def timed(count: int, run: Callable[[], Awaitable[None]]) -> float:
    start = time.process_time()  # nothing here waits, so on a quiet machine it is the time itself
    await run()
    return count / (time.process_time() - start)


async def through(
    operator: Any, count: int, *, cap: int = 1024, subject: bool = False, per_turn: int = 0
) -> float:
    ended = asyncio.get_running_loop().create_future()
    channel: EventChannel[int] = EventChannel(cap)
    source: Subject[int] = Subject()
    (source if subject else channel.observable()).pipe(operator).subscribe(
        ignore, on_completed=lambda: ended.set_result(None)
    )

    async def run() -> None:
        if subject:
            for number in range(count):
                source.on_next(number)
            source.on_completed()
        else:
            for number in range(count):
                await channel.push(number)
                if per_turn and not number % per_turn:
                    await asyncio.sleep(0)
            channel.complete()
        await ended

    return await timed(count, run)


async def by_concat_map(handler: Handler, count: int) -> float:
    def later(number: int) -> Any:
        return rx.defer(lambda _: rx.from_future(asyncio.ensure_future(handler(number))))

    return await through(ops.concat_map(later), count, subject=True)


async def by_aioreactive(operator: Any, count: int) -> float:
    subject = aioreactive.AsyncSubject()
    ended = asyncio.get_running_loop().create_future()
    got = 0

    async def take(_: Any) -> None:
        nonlocal got
        got += 1

    async def failed(error: Exception) -> None:
        ended.set_exception(error)

    async def completed() -> None:
        ended.set_result(None)

    observer = aioreactive.AsyncAnonymousObserver(take, failed, completed)
    await operator(subject).subscribe_async(observer)

    async def run() -> None:
        for number in range(count):
            await subject.asend(number)
        await subject.aclose()
        await ended
        assert got == count

    return await timed(count, run)


def aio_concat_map(handler: Handler) -> Any:
    return aioreactive_concat_map(lambda number: aioreactive.from_async(handler(number)))


async def by_queue(handler: Handler, count: int, *, per_turn: int = 0) -> float:
    queue: asyncio.Queue[int | None] = asyncio.Queue(1024)

    async def work() -> None:
        while (number := await queue.get()) is not None:
            ignore(await handler(number))

    async def run() -> None:
        worker = asyncio.create_task(work())
        for number in range(count):
            await queue.put(number)
            if per_turn and not number % per_turn:
                await asyncio.sleep(0)
        await queue.put(None)
        await worker

    return await timed(count, run)


async def by_stream(count: int) -> float:
    channel: EventChannel[int] = EventChannel()

    async def read() -> None:
        async for _ in stream(channel.observable()):
            pass

    async def run() -> None:
        reader = asyncio.create_task(read())
        await asyncio.sleep(0)
        for number in range(count):
            await channel.push(number)
        channel.complete()
        await reader

    return await timed(count, run)


async def published(count: int, holders: bool) -> float:
    subject: Subject[int] = Subject()
    if holders:
        subject.pipe(concat_map_async(returns)).subscribe()
    else:
        subject.subscribe(ignore)
    left = count
    ended = asyncio.get_running_loop().create_future()

    def done(_: bool) -> None:
        nonlocal left
        left -= 1
        if not left:
            ended.set_result(None)

    async def run() -> None:
        for number in range(count):
            publish(HolderCount(done), subject.on_next, number)
        await ended

    return await timed(count, run)


async def timer_lateness(operator: Any) -> float:
    """Milliseconds by which a 1 ms timer was late at worst, with 200,000 items in the queue."""
    channel: EventChannel[int] = EventChannel(200_001)
    ended = asyncio.get_running_loop().create_future()
    channel.observable().pipe(operator).subscribe(on_completed=lambda: ended.set_result(None))
    for number in range(200_000):
        channel.push_nowait(number)
    channel.complete()
    loop = asyncio.get_running_loop()
    worst = 0.0
    while not ended.done():
        due = loop.time() + 0.001
        await asyncio.sleep(0.001)
        worst = max(worst, loop.time() - due)
    return worst * 1000


def by_key(keys: int, handler: Handler, **options: Any) -> Any:
    return concat_map_async_by(lambda number: number % keys, handler, **options)


CASES: dict[str, Callable[[], Awaitable[float]]] = {
    "returns / operator": lambda: through(concat_map_async(returns), 100_000),
    "returns / concat_map": lambda: by_concat_map(returns, 2_000),
    "returns / queue": lambda: by_queue(returns, 100_000),
    "suspends / operator": lambda: through(concat_map_async(suspends), 30_000),
    "suspends / concat_map": lambda: by_concat_map(suspends, 2_000),
    "suspends / queue": lambda: by_queue(suspends, 30_000),
    "one a turn / operator": lambda: through(concat_map_async(returns), 20_000, per_turn=1),
    "one a turn / queue": lambda: by_queue(returns, 20_000, per_turn=1),
    "sync handler / operator": lambda: through(concat_map_async(plain), 100_000),
    "item_timeout / operator": lambda: through(concat_map_async(returns, item_timeout=60), 100_000),
    "isolate_context / operator": lambda: through(
        concat_map_async(returns, isolate_context=True), 20_000
    ),
    "subject source / operator": lambda: through(concat_map_async(returns), 50_000, subject=True),
    "10,000 keys, returns": lambda: through(by_key(10_000, returns), 50_000, cap=16_384),
    "10,000 keys, suspends": lambda: through(by_key(10_000, suspends), 50_000, cap=16_384),
    "10,000 keys, 64 lanes, suspends": lambda: through(
        by_key(10_000, suspends, lanes=64), 50_000, cap=16_384
    ),
    "100 keys, returns": lambda: through(by_key(100, returns), 50_000),
    "stream": lambda: by_stream(50_000),
    "published, nobody holds": lambda: published(50_000, False),
    "published, one operator holds": lambda: published(50_000, True),
}


if aioreactive:
    CASES |= {
        "returns / aioreactive concat_map": lambda: by_aioreactive(aio_concat_map(returns), 1_000),
        "returns / aioreactive map_async": lambda: by_aioreactive(
            aioreactive.map_async(returns), 50_000
        ),
        "suspends / aioreactive concat_map": lambda: by_aioreactive(
            aio_concat_map(suspends), 1_000
        ),
        "suspends / aioreactive map_async": lambda: by_aioreactive(
            aioreactive.map_async(suspends), 30_000
        ),
    }


def main(rounds: int) -> None:
    results: dict[str, list[float]] = {name: [] for name in CASES}
    late: dict[str, list[float]] = {"operator": [], "100 keys": []}
    for _ in range(rounds):
        for name, case in CASES.items():
            results[name].append(asyncio.run(case()))  # type: ignore[arg-type]
        late["operator"].append(asyncio.run(timer_lateness(concat_map_async(returns))))
        late["100 keys"].append(asyncio.run(timer_lateness(by_key(100, returns))))
    median = {name: statistics.median(values) for name, values in results.items()}

    def ratios() -> dict[str, float]:
        """Ours to each other way, for each kind of handler: the medians of all rounds."""
        found = {}
        for name in CASES:
            group, _, other = name.partition(" / ")
            ours = results.get(f"{group} / operator")
            if ours and other not in ("", "operator"):
                each = [mine / theirs for mine, theirs in zip(ours, results[name], strict=True)]
                found[f"{group}, to {other}"] = round(statistics.median(each), 2)
        return found

    print(
        json.dumps(
            {
                "python": platform.python_version(),
                "rounds": rounds,
                "ratios": ratios(),
                "items per second of CPU time": {
                    name: round(value) for name, value in median.items()
                },
                "worst timer lateness, ms": {
                    name: round(statistics.median(values), 1) for name, values in late.items()
                },
                "aioreactive": "measured" if aioreactive else f"not installed in {PEERS}",
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
