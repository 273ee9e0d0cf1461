"""Frames that have arrived are received together; what is no frame is reported in its place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from arcp_client.errors import LinkLost, RemoteProtocolError
from arcp_client.transports import WebSocketTransport
from arcp_client.transports._parsed import ParsedMessages
from arcp_client.transports.base import LARGE, ManyReceiver
from tests.unit.transports.kit import KINDS, Pair, nothing_left


@pytest.fixture(params=sorted(KINDS))
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pair]:
    with nothing_left():
        async with KINDS[request.param](tmp_path) as pair:
            yield pair


@pytest.fixture
async def web(tmp_path: Path) -> AsyncIterator[Pair]:
    async with KINDS["websocket"](tmp_path) as pair:
        yield pair


def many(transport: Any) -> ManyReceiver:
    assert isinstance(transport, ManyReceiver)
    return transport


def aiohttp_queue(transport: Any) -> Any:
    return transport._ws._reader


def queued_bytes(transport: Any) -> int:
    """Bytes in aiohttp's queue, by its own count. It hides the count in 3.14.1 to 3.14.3."""
    return getattr(aiohttp_queue(transport), "_size", 0)


async def all_of(transport: Any, count: int, limit: int = 64) -> list[list[bytes]]:
    """Batches with that many frames together."""
    batches: list[list[bytes]] = []
    while sum(map(len, batches)) < count:
        batches.append(await many(transport).receive_many(limit))
    return batches


async def test_each_frame_is_received_once_and_in_order(pair: Pair) -> None:
    sent = [b"%d" % n for n in range(500)]
    sending = asyncio.create_task(send_all(pair.far, sent))
    batches = await all_of(pair.near, len(sent))
    await sending
    assert [frame for batch in batches for frame in batch] == sent
    assert all(1 <= len(batch) <= 64 for batch in batches)


async def test_a_large_frame_is_the_last_of_its_batch(pair: Pair) -> None:
    large = b"x" * (LARGE + 1)
    sender = asyncio.gather(*[pair.far.send(frame) for frame in (b"1", large, b"2", large, b"3")])
    batches = await all_of(pair.near, 5)
    await sender
    assert [frame for batch in batches for frame in batch] == [b"1", large, b"2", large, b"3"]
    assert all(large not in batch[:-1] for batch in batches)


async def test_the_frames_before_the_end_of_the_link_are_received_first(pair: Pair) -> None:
    for n in range(5):
        await pair.far.send(b"%d" % n)
    closing = asyncio.create_task(pair.far.close())
    batches = await all_of(pair.near, 5)
    assert [frame for batch in batches for frame in batch] == [b"%d" % n for n in range(5)]
    with pytest.raises(LinkLost):
        await many(pair.near).receive_many(64)
    await pair.near.close()
    await closing


async def arrived(transport: Any, count: int) -> None:
    """Wait until aiohttp has parsed that many messages."""
    while len(aiohttp_queue(transport)._buffer) < count:
        await asyncio.sleep(0)


async def test_the_parsed_messages_of_this_aiohttp_can_be_taken(web: Pair) -> None:
    """Otherwise each frame costs a call of aiohttp: see `arcp_client.transports._parsed`."""
    assert ParsedMessages.of(web.near._ws) is not None, aiohttp.__version__  # type: ignore[attr-defined]
    for n in range(100):
        await web.far.send(b"%d" % n)
    await arrived(web.near, 100)
    assert [len(batch) for batch in await all_of(web.near, 100)] == [64, 36]


async def test_aiohttp_counts_the_bytes_that_were_taken_together(web: Pair) -> None:
    """It pauses the socket by this count, which must not drift."""
    for size in (1, 1000, 10_000):
        for _ in range(20):
            await web.far.send(b"x" * size)
    await arrived(web.near, 60)
    await all_of(web.near, 60, limit=7)
    assert queued_bytes(web.near) == 0


async def test_a_flood_pauses_the_socket_and_taking_frames_resumes_it(web: Pair) -> None:
    count = 400
    sending = asyncio.create_task(send_all(web.far, [b"x" * 50_000] * count))
    batches = await all_of(web.near, count)
    await sending
    assert sum(map(len, batches)) == count
    assert queued_bytes(web.near) == 0
    assert not aiohttp_queue(web.near)._protocol._reading_paused


async def send_all(transport: Any, frames: list[bytes]) -> None:
    for frame in frames:
        await transport.send(frame)


async def test_a_binary_message_ends_a_batch_and_is_refused_in_its_place(web: Pair) -> None:
    far: WebSocketTransport = web.far  # type: ignore[assignment]
    await far.send(b"1")
    await far.send(b"2")
    await far._ws.send_frame(b"\xff\xfe", aiohttp.WSMsgType.BINARY)
    await far.send(b"3")
    await arrived(web.near, 4)
    assert await many(web.near).receive_many(64) == [b"1", b"2"]
    with pytest.raises(RemoteProtocolError):
        await many(web.near).receive_many(64)
    assert await many(web.near).receive_many(64) == [b"3"]


async def test_without_a_known_queue_frames_are_received_one_at_a_time(web: Pair) -> None:
    assert ParsedMessages.of(object()) is None
    web.near._parsed = None  # type: ignore[attr-defined]
    for n in range(3):
        await web.far.send(b"%d" % n)
    await arrived(web.near, 3)
    assert await all_of(web.near, 3) == [[b"0"], [b"1"], [b"2"]]
