"""stream(): bounded, in order, never a silent gap, and gone when its user is."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from typing import Any

import pytest
import reactivex as rx
from reactivex import operators as ops
from reactivex.subject import Subject

from arcp_client.errors import BufferFull, LocalProtocolError
from arcp_client.rx import EventChannel, concat_map_async, stream
from arcp_client.testing.clock import VirtualClock
from tests.unit.rx.kit import Tape


async def test_it_yields_every_item_and_ends() -> None:
    assert [item async for item in stream(rx.of(1, 2, 3))] == [1, 2, 3]
    assert [item async for item in stream(rx.empty())] == []


async def test_it_subscribes_at_once() -> None:
    subject: Subject[int] = Subject()
    items = stream(subject)
    subject.on_next(1)
    subject.on_completed()
    assert [item async for item in items] == [1]


async def test_a_source_error_comes_after_the_items_before_it() -> None:
    subject: Subject[int] = Subject()
    items = stream(subject)
    subject.on_next(1)
    subject.on_next(2)
    subject.on_error(OSError("source"))
    assert await anext(items) == 1
    assert await anext(items) == 2
    with pytest.raises(OSError, match="source"):
        await anext(items)
    with pytest.raises(StopAsyncIteration):
        await anext(items)


async def test_a_waiting_reader_gets_items_as_they_come(clock: VirtualClock) -> None:
    subject: Subject[int] = Subject()
    got: list[int] = []

    async def read() -> None:
        async for item in stream(subject):
            got.append(item)  # noqa: PERF401

    reader = asyncio.ensure_future(read())
    await clock.settle()
    for number in range(3):
        subject.on_next(number)
        await clock.settle()
        assert got == list(range(number + 1))
    subject.on_completed()
    await reader


async def test_items_from_another_thread_wake_the_reader() -> None:
    async with asyncio.timeout(10):
        got = [item async for item in stream(rx.timer(0.01).pipe(ops.map(lambda _: "tick")))]
    assert got == ["tick"]


# ---------------------------------------------------------------------- overflow


async def test_a_full_stream_raises_after_what_it_held() -> None:
    subject: Subject[int] = Subject()
    items = stream(subject, maxsize=3)
    for number in range(10):
        subject.on_next(number)
    assert subject.observers == []
    assert [await anext(items) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(BufferFull, match="3 items"):
        await anext(items)
    with pytest.raises(StopAsyncIteration):
        await anext(items)


async def test_a_channel_in_front_holds_back_instead(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel(cap=2000)
    items = stream(channel.observable(), maxsize=1)
    producer = asyncio.ensure_future(_push(channel, range(3000)))
    got = [item async for item in items]
    await producer
    assert got == list(range(3000))


async def test_the_item_in_hand_is_done_when_the_next_is_asked_for(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel(cap=2)
    mapped = channel.observable().pipe(concat_map_async(lambda n: n), ops.map(lambda n: n))
    async with stream(mapped) as items:
        channel.push_nowait(1)
        channel.push_nowait(2)
        assert await anext(items) == 1
        assert channel.stats().outstanding == 2
        assert await anext(items) == 2
        assert channel.stats().outstanding == 1
        channel.complete()
        with pytest.raises(StopAsyncIteration):
            await anext(items)
    assert channel.stats().outstanding == 0


async def _push(channel: EventChannel[int], numbers: range) -> None:
    for number in numbers:
        await channel.push(number)
    channel.complete()


# ---------------------------------------------------------------------- leaving


@pytest.mark.parametrize("source", ["subject", "channel"])
async def test_break_unsubscribes(source: str) -> None:
    subject: Subject[int] = Subject()
    channel: EventChannel[int] = EventChannel()
    channel.push_nowait(1)

    if source == "subject":
        items = stream(subject)
        subject.on_next(1)
        async for _ in items:
            break
        del items
        assert subject.observers == []
    else:
        async for _ in stream(channel.observable()):
            break
        assert channel.push_nowait(2) is False
        assert channel.stats().outstanding == 0


async def test_a_stream_in_a_cycle_unsubscribes_when_collected() -> None:
    subject: Subject[int] = Subject()
    items: Any = stream(subject)
    items.itself = items
    dead = weakref.ref(items)
    del items
    assert len(subject.observers) == 1
    gc.collect()
    assert dead() is None
    assert subject.observers == []


@pytest.mark.parametrize("how", ["aclose", "context"])
async def test_closing_unsubscribes_and_ends_a_waiting_reader(
    clock: VirtualClock, how: str
) -> None:
    subject: Subject[int] = Subject()
    items = stream(subject)
    reader = asyncio.ensure_future(anext(items, "ended"))
    await clock.settle()
    if how == "aclose":
        await items.aclose()
        await items.aclose()
    else:
        async with items as entered:
            assert entered is items
    assert await reader == "ended"
    assert subject.observers == []
    assert await anext(items, "ended") == "ended"


async def test_closing_drops_what_was_buffered_and_a_pending_error(clock: VirtualClock) -> None:
    subject: Subject[int] = Subject()
    items = stream(subject)
    subject.on_next(1)
    subject.on_error(OSError())
    await items.aclose()
    assert await anext(items, "ended") == "ended"


async def test_a_contextlib_closing_works() -> None:
    subject: Subject[int] = Subject()
    async with contextlib.aclosing(stream(subject)) as items:
        subject.on_next(1)
        assert await anext(items) == 1
    assert subject.observers == []


def test_a_stream_collected_after_its_loop_is_quiet() -> None:
    kept: list[Any] = []

    async def main() -> None:
        channel: EventChannel[int] = EventChannel()
        kept.append(stream(channel.observable()))
        channel.push_nowait(1)
        kept.append(stream(Subject()))

    asyncio.run(main())
    kept.clear()
    gc.collect()


# ---------------------------------------------------------------------- cancellation


@pytest.mark.parametrize("source", ["subject", "channel"])
async def test_tiny_timeouts_lose_nothing(source: str) -> None:
    subject: Subject[int] = Subject()
    channel: EventChannel[int] = EventChannel()
    items = stream(subject if source == "subject" else channel.observable())
    push = subject.on_next if source == "subject" else channel.push_nowait
    got: list[int] = []

    async def produce() -> None:
        for number in range(300):
            push(number)
            for _ in range(number % 4):
                await asyncio.sleep(0)

    producer = asyncio.ensure_future(produce())
    while len(got) < 300:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                got.append(await anext(items))
    await producer
    assert got == list(range(300))


async def test_a_reader_cancelled_in_the_turn_an_item_comes_loses_nothing() -> None:
    subject: Subject[int] = Subject()
    items = stream(subject)
    reader = asyncio.ensure_future(anext(items))
    await asyncio.sleep(0)
    subject.on_next(1)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert await anext(items) == 1


async def test_two_readers_at_once_are_refused(clock: VirtualClock) -> None:
    subject: Subject[int] = Subject()
    items = stream(subject)
    reader = asyncio.ensure_future(anext(items))
    await clock.settle()
    with pytest.raises(LocalProtocolError, match="another task"):
        await anext(items)
    subject.on_next(1)
    assert await reader == 1


async def test_maxsize_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="maxsize"):
        stream(rx.never(), maxsize=0)


async def test_a_stream_counts_as_a_recorded_subscription(clock: VirtualClock) -> None:
    subject: Subject[int] = Subject()
    tape = Tape()
    tape.record(subject)
    items = stream(subject)
    subject.on_next(1)
    assert tape.items == [1]
    assert await anext(items) == 1
    await items.aclose()
