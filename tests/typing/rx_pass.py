"""The operators as users write them; mypy --strict and basedpyright accept every line."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import assert_type

from reactivex import Observable
from reactivex import operators as ops

from arcp_client.rx import (
    AckedSource,
    ChannelStats,
    EventChannel,
    SourceStats,
    Stream,
    concat_map_async,
    concat_map_async_by,
    stream,
)


async def length(text: str) -> int:
    return len(text)


def upper(text: str) -> str:
    return text.upper()


def is_long(text: str) -> bool:
    return len(text) > 3


def first(text: str) -> str:
    return text[:1]


async def save(number: int) -> None: ...


class Handler:
    async def __call__(self, text: str) -> bytes:
        return text.encode()

    def method(self, text: str) -> float:
        return float(text)


def on_error(text: str, error: Exception) -> None: ...


async def on_error_async(text: str, error: Exception) -> None: ...


def elements(source: Observable[str]) -> None:
    assert_type(source.pipe(concat_map_async(length)), Observable[int])
    assert_type(source.pipe(concat_map_async(upper)), Observable[str])
    assert_type(source.pipe(concat_map_async(Handler())), Observable[bytes])
    assert_type(source.pipe(concat_map_async(Handler().method)), Observable[float])
    assert_type(source.pipe(concat_map_async_by(first, length)), Observable[int])
    assert_type(source.pipe(concat_map_async_by(first, upper, lanes=4)), Observable[str])
    assert_type(concat_map_async(length)(source), Observable[int])


def chains(source: Observable[str]) -> None:
    piped = source.pipe(ops.filter(is_long), concat_map_async(length), concat_map_async(save))
    assert_type(piped, Observable[None])
    mapped = source.pipe(ops.map(upper), concat_map_async_by(first, length), ops.take(3))
    assert_type(mapped, Observable[int])


def options(source: Observable[str]) -> None:
    source.pipe(concat_map_async(length, on_error="raise")).subscribe()
    source.pipe(concat_map_async(length, on_error=on_error)).subscribe()
    source.pipe(concat_map_async(length, on_error=on_error_async)).subscribe()
    source.pipe(
        concat_map_async(
            length, slice_items=16, slice_seconds=0.001, item_timeout=5, isolate_context=True
        )
    ).subscribe(print)


async def channels() -> None:
    channel: EventChannel[str] = EventChannel(cap=16, low=4, hard_cap=64)
    assert_type(await channel.push("a"), bool)
    assert_type(channel.push_nowait("a"), bool)
    assert_type(channel.observable(), Observable[str])
    assert_type(channel.stats(), ChannelStats)
    assert_type(channel.observable().pipe(concat_map_async(length)), Observable[int])
    channel.complete()
    channel.fail(OSError())
    EventChannel[str](overflow="coalesce", key=first)
    EventChannel[str](size=len)


async def sources(items: AsyncIterator[str], ack: Callable[[Sequence[str]], None]) -> None:
    source = AckedSource(items, ack, cap=4, size=len)
    assert_type(source, AckedSource[str])
    assert_type(source.observable().pipe(concat_map_async(length)), Observable[int])
    assert_type(source.stats(), SourceStats)
    await source.join()
    await source.aclose(timeout=1)


async def iteration(source: Observable[str]) -> None:
    items = stream(source, maxsize=16)
    assert_type(items, Stream[str])
    iterator: AsyncIterator[str] = items
    async for item in iterator:
        assert_type(item, str)
    async with stream(source.pipe(concat_map_async(length))) as numbers:
        async for number in numbers:
            assert_type(number, int)
    await items.aclose()
