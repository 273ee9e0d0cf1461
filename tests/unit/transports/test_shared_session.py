"""Which aiohttp session WebSocket links use, and how long it lives."""

from __future__ import annotations

import asyncio
import gc

import aiohttp
import pytest

from arcp_client.errors import ConnectFailed
from arcp_client.transports import WebSocketConnector
from arcp_client.transports._shared_session import SharedSession
from tests.unit.transports.raw import RawSocket, raw_server


async def echo(ws: RawSocket) -> None:
    while True:
        _, payload = await ws.receive()
        await ws.send(bytes([0x81, len(payload)]) + payload)


def open_sessions() -> list[aiohttp.ClientSession]:
    every = gc.get_objects()
    return [one for one in every if type(one) is aiohttp.ClientSession and not one.closed]


async def test_the_links_of_a_loop_share_a_session_until_the_last_of_them_is_closed() -> None:
    async with raw_server(echo) as url:
        first = await WebSocketConnector(url).connect()
        second = await WebSocketConnector(url).connect()
        (session,) = open_sessions()
        await first.close()
        assert not session.closed
        await second.send(b"still here")
        assert await second.receive() == b"still here"
        await second.close()
        assert session.closed
        third = await WebSocketConnector(url).connect()
        await third.send(b"again")
        assert await third.receive() == b"again"
        await third.close()


async def test_a_connect_that_fails_leaves_the_links_beside_it_open(unused: str) -> None:
    async with raw_server(echo) as url:
        link = await WebSocketConnector(url).connect()
        with pytest.raises(ConnectFailed):
            await WebSocketConnector(unused).connect()
        await link.send(b"still here")
        assert await link.receive() == b"still here"
        await link.close()


async def test_a_cancelled_connect_leaves_no_session_behind() -> None:
    accepted = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        connecting = asyncio.ensure_future(WebSocketConnector(f"ws://127.0.0.1:{port}/").connect())
        await accepted.wait()
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        assert open_sessions() == []


def test_each_loop_has_its_own_session() -> None:
    async def entered() -> SharedSession:
        shared = SharedSession.enter()
        assert SharedSession.enter() is shared
        await shared.leave()
        assert not shared.session.closed
        await shared.leave()
        return shared

    first, second = asyncio.run(entered()), asyncio.run(entered())
    assert first is not second
    assert first.session.closed
    assert second.session.closed


@pytest.fixture
async def unused() -> str:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return f"ws://127.0.0.1:{port}/"
