"""Several frames at once arrive as if they had been sent one by one, whatever the link is."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from arcp_client.errors import LinkLost, LocalProtocolError
from arcp_client.testing import Drop, FaultyTransport
from arcp_client.transports import Transport, WebSocketConnector
from arcp_client.transports.batch import Batching, send_many
from arcp_client.transports.memory import memory_pair
from arcp_client.transports.stdio import StdioServerTransport
from arcp_client.transports.websocket import WebSocketTransport
from arcp_client.transports.websocket_server import server_websocket

LIMIT = 300_000
SIZES = (1, 2, 125, 126, 127, 1000, 65_535, 65_536, 200_000, 3)
FRAMES = [bytes([97 + n % 26]) * size for n, size in enumerate(SIZES * 3)]


@asynccontextmanager
async def websocket() -> AsyncIterator[tuple[Transport, Transport]]:
    """A server's end, and its client's."""
    served: asyncio.Future[Transport] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        ws = server_websocket(max_frame=LIMIT)
        await ws.prepare(request)
        stream = request.transport
        served.set_result(WebSocketTransport(ws, peer="x", max_frame=LIMIT, stream=stream))
        await over.wait()
        return ws

    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    far = await WebSocketConnector(f"ws://127.0.0.1:{runner.addresses[0][1]}/").connect()
    near = await served
    yield near, far
    await asyncio.gather(near.close(timeout=1), far.close(timeout=1))
    over.set()
    await runner.cleanup()


@asynccontextmanager
async def memory() -> AsyncIterator[tuple[Transport, Transport]]:
    near, far = memory_pair(capacity=4, max_frame=LIMIT)
    yield near, far
    await near.close()
    await far.close()


@asynccontextmanager
async def stdio() -> AsyncIterator[tuple[Transport, Transport]]:
    pipes = [os.pipe(), os.pipe()]
    (first_in, first_out), (second_in, second_out) = pipes
    near = StdioServerTransport(stdin=first_in, stdout=second_out, max_line=LIMIT)
    far = StdioServerTransport(stdin=second_in, stdout=first_out, max_line=LIMIT)
    yield near, far
    await asyncio.gather(near.close(timeout=1), far.close(timeout=1))
    for pipe in pipes:
        for end in pipe:
            os.close(end)


@asynccontextmanager
async def faulty() -> AsyncIterator[tuple[Transport, Transport]]:
    async with memory() as (near, far):
        yield FaultyTransport(near, plan=[]), far


LINKS = [websocket, memory, stdio, faulty]


async def received(transport: Transport, count: int) -> list[bytes]:
    return [await transport.receive() for _ in range(count)]


@pytest.mark.parametrize("link", LINKS)
async def test_frames_arrive_whole_and_in_order(link: object) -> None:
    async with link() as (near, far):  # type: ignore[operator]
        reading = asyncio.get_running_loop().create_task(received(far, len(FRAMES) * 2 + 2))
        await near.send(b"before")
        await send_many(near, FRAMES)
        await near.send(b"between")
        await send_many(near, FRAMES)
        assert await reading == [b"before", *FRAMES, b"between", *FRAMES]


@pytest.mark.parametrize("link", [websocket, memory])
async def test_what_is_before_a_frame_that_is_too_large_was_sent(link: object) -> None:
    async with link() as (near, far):  # type: ignore[operator]
        with pytest.raises(LocalProtocolError):
            await send_many(near, [b"a", b"b", b"x" * (LIMIT + 1), b"c"])
        await near.send(b"d")
        assert await received(far, 3) == [b"a", b"b", b"d"]


@pytest.mark.parametrize("link", LINKS)
async def test_a_link_that_has_ended_is_lost(link: object) -> None:
    async with link() as (near, _):  # type: ignore[operator]
        await near.close(timeout=1)
        with pytest.raises(LinkLost):
            await send_many(near, [b"a", b"b"])


async def test_a_peer_that_reads_nothing_holds_the_sender_back() -> None:
    async with websocket() as (near, far):
        assert isinstance(near, Batching)
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while True:
                await send_many(near, [b"x" * 10_000] * 6)
                sent += 6

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(flood(), 0.3)
        stream = near._stream  # type: ignore[attr-defined]
        assert stream.get_write_buffer_size() < 1_000_000
        assert (await received(far, sent)) == [b"x" * 10_000] * sent


async def test_a_fault_hits_one_frame_of_a_batch() -> None:
    near, far = memory_pair()
    broken = FaultyTransport(near, plan=[Drop(1, way="out")])
    await send_many(broken, [b"a", b"b", b"c"])
    assert await received(far, 2) == [b"a", b"c"]
    await broken.close()
    await far.close()
