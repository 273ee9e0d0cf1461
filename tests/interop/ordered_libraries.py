"""Five events, five handlers that wait ever shorter: what each public library makes of their order.

``python -m tests.interop.ordered_libraries`` prints the table that the documentation shows. Each
function gives five numbers to a handler by the way that its library documents for handlers in
order, or that its users take for one.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import reactivex as rx
from reactivex import operators as ops
from reactivex.subject import Subject

from arcp_client.rx import EventChannel, concat_map_async

PEERS = Path(__file__).parents[2] / "build" / "bench"  # aioreactive asks for an older reactivex

COUNT = 5
STEP = 0.02  # seconds; the first handler waits 5 of them, the last one 1
QUIET = 0.3  # seconds without a start after which no further handler is expected

Handler = Callable[[int], Awaitable[int]]


class Record:
    """Which handlers started and ended, in order, and how many ran at once.

    Args:
        fails: the number whose handler raises; None for no one.
    """

    def __init__(self, fails: int | None = None) -> None:
        self.fails = fails
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.running = self.peak = 0

    async def handle(self, number: int) -> int:
        self.starts.append(number)
        self.running += 1
        self.peak = max(self.peak, self.running)
        await asyncio.sleep((COUNT - number) * STEP)
        self.running -= 1
        if number == self.fails:
            raise OSError("disk full")
        self.ends.append(number)
        return number

    async def settled(self) -> None:
        """Wait until no handler runs and none has started for a while."""
        started = -1
        while self.running or started != len(self.starts):
            started = len(self.starts)
            await asyncio.sleep(QUIET)


async def ours(record: Record) -> None:
    channel: EventChannel[int] = EventChannel()
    channel.observable().pipe(concat_map_async(record.handle)).subscribe()
    for number in range(COUNT):
        await channel.push(number)
    await record.settled()


async def reactivex_concat_map(record: Record) -> None:
    subject: Subject[int] = Subject()
    start = lambda n: rx.from_future(asyncio.ensure_future(record.handle(n)))  # noqa: E731
    subject.pipe(ops.concat_map(start)).subscribe(on_error=lambda _: None)
    for number in range(COUNT):
        subject.on_next(number)
    await record.settled()


async def reactivex_deferred(record: Record) -> None:
    subject: Subject[int] = Subject()

    def start(number: int) -> Any:
        return rx.defer(lambda _: rx.from_future(asyncio.ensure_future(record.handle(number))))

    subject.pipe(ops.concat_map(start)).subscribe(on_error=lambda _: None)
    for number in range(COUNT):
        subject.on_next(number)
    await record.settled()


async def aiostream_map(record: Record, **options: Any) -> None:
    import aiostream

    async def numbers() -> AsyncIterator[int]:
        for number in range(COUNT):
            yield number

    results: Any = aiostream.stream.map(numbers(), record.handle, ordered=True, **options)
    with contextlib.suppress(OSError):
        async with results.stream() as streamed:
            async for _ in streamed:
                pass


async def aiostream_one(record: Record) -> None:
    await aiostream_map(record, task_limit=1)


async def streamz_map_async(record: Record) -> None:
    from streamz import Stream

    source = Stream(asynchronous=True)
    source.map_async(record.handle, parallelism=COUNT).sink(lambda _: None)
    for number in range(COUNT):
        with contextlib.suppress(OSError):
            await source.emit(number)
    await record.settled()


async def pyee_emitter(record: Record) -> None:
    from pyee.asyncio import AsyncIOEventEmitter

    emitter = AsyncIOEventEmitter()
    emitter.on("event", record.handle)
    emitter.on("error", lambda _: None)
    for number in range(COUNT):
        emitter.emit("event", number)
    await record.settled()


async def bubus_bus(record: Record) -> None:
    from bubus import BaseEvent, EventBus

    class Numbered(BaseEvent[int]):
        number: int

    async def on_numbered(event: Numbered) -> int:
        return await record.handle(event.number)

    bus = EventBus(name="Numbers")
    bus.on(Numbered, on_numbered)
    for number in range(COUNT):
        bus.dispatch(Numbered(number=number))
    await bus.wait_until_idle()
    await bus.stop()


async def aioreactive_map_async(record: Record) -> None:
    sys.path.append(str(PEERS))
    try:
        import aioreactive
    finally:
        sys.path.remove(str(PEERS))
    subject: Any = aioreactive.AsyncSubject()
    observer: Any = aioreactive.AsyncAnonymousObserver()
    await aioreactive.pipe(subject, aioreactive.map_async(record.handle)).subscribe_async(observer)
    for number in range(COUNT):
        await subject.asend(number)


WAYS: dict[str, Callable[[Record], Awaitable[None]]] = {
    "arcp_client.rx concat_map_async": ours,
    "reactivex concat_map(from_future)": reactivex_concat_map,
    "reactivex concat_map(defer(from_future))": reactivex_deferred,
    "aiostream map(ordered=True)": aiostream_map,
    "aiostream map(task_limit=1)": aiostream_one,
    "streamz map_async": streamz_map_async,
    "pyee AsyncIOEventEmitter": pyee_emitter,
    "bubus EventBus": bubus_bus,
    "aioreactive map_async": aioreactive_map_async,
}


async def row(name: str) -> str:
    """One line of the table: order of the ends, most at once, the later ones after a failure."""
    calm, failing = Record(), Record(fails=1)
    await WAYS[name](calm)
    with contextlib.suppress(OSError):
        await WAYS[name](failing)
    ends = " ".join(map(str, calm.ends))
    left = "run" if failing.ends and max(failing.ends) == COUNT - 1 else "do not run"
    if failing.peak > 1:
        left = "had started already"
    return f"| {name} | {ends} | {calm.peak} | {left} |"


async def main() -> None:
    for name in WAYS:
        try:
            print(await row(name))
        except ImportError as error:
            print(f"{name}: {error}", file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main())
