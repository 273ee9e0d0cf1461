"""What both checkers must refuse: a line here that passes is reported as an unused ignore."""
# pyright: reportUnnecessaryTypeIgnoreComment=error

from __future__ import annotations

from reactivex import Observable

from arcp_client.rx import EventChannel, concat_map_async, concat_map_async_by, stream


async def length(text: str) -> int:
    return len(text)


def first(text: str) -> str:
    return text[:1]


def only_value_errors(text: str, error: ValueError) -> None: ...


def wrong_items(source: Observable[bytes]) -> None:
    source.pipe(concat_map_async(length))  # type: ignore[arg-type]
    source.pipe(concat_map_async_by(first, length))  # type: ignore[arg-type]


def wrong_results(source: Observable[str]) -> None:
    a: Observable[str] = source.pipe(concat_map_async(length))  # type: ignore[arg-type]
    b: Observable[bytes] = concat_map_async(length)(source)  # type: ignore[assignment]
    print(a, b)


def wrong_options() -> None:
    concat_map_async(length, on_error="stop")  # type: ignore[call-overload]
    concat_map_async(length, on_error=only_value_errors)  # type: ignore[arg-type]
    concat_map_async(length, 64)  # type: ignore[call-overload]
    concat_map_async(3)  # type: ignore[call-overload]
    concat_map_async_by(length)  # type: ignore[call-overload]
    concat_map_async_by(first, length, lanes="many")  # type: ignore[call-overload]


async def wrong_channels(channel: EventChannel[str]) -> None:
    await channel.push(3)  # type: ignore[arg-type]
    channel.push_nowait(None)  # type: ignore[arg-type]
    channel.fail("reason")  # type: ignore[arg-type]
    EventChannel[str](overflow="drop")  # type: ignore[arg-type]
    EventChannel[str](16, 4)  # type: ignore[call-arg]


async def wrong_streams(source: Observable[str]) -> None:
    async for number in stream(source):
        number.bit_length()  # type: ignore[attr-defined]
    stream(source, 16)  # type: ignore[call-arg]
    stream([1, 2])  # type: ignore[arg-type]
