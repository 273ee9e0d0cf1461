"""Connections without a request are limited and closed, and their data is not logged."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, closing

import pytest

from arcp_client import Client, _connection_limits
from arcp_client._connection_limits import ConnectionLimits
from arcp_client.web import Server, serve
from tests.unit.web.kit import SOON

FULL = b"HTTP/1.1 503"
STREAM = b"GET /api/overview/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr("arcp_client.web.serving._LIMITS", ConnectionLimits(**request.param))


async def ask(stack: AsyncExitStack, server: Server, data: bytes) -> asyncio.StreamReader:
    """A connection over which this was sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    stack.enter_context(closing(writer))
    writer.write(data)
    await writer.drain()
    return reader


@pytest.mark.parametrize("limits", [{"total": 3}, {"per_address": 3}], indirect=True, ids=str)
async def test_connections_are_limited_and_a_closed_one_makes_room(
    client: Client, limits: None
) -> None:
    page = b"GET /api/none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    async with AsyncExitStack() as stack, asyncio.timeout(SOON), serve(client) as server:
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            stack.enter_context(closing(writer))
            writer.write(STREAM)
            assert await reader.readuntil(b"event: overview\n")
        refused = await (await ask(stack, server, b"")).read()
        assert refused.startswith(FULL)
        writer.close()
        while True:
            answer = await (await ask(stack, server, page)).read()
            if not answer.startswith(FULL):
                break
        assert answer.startswith(b"HTTP/1.1 404")


@pytest.mark.parametrize("limits", [{"total": 3}, {"opening": 3}], indirect=True, ids=str)
async def test_connections_without_a_request_make_room_for_one_that_asks(
    client: Client, limits: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_connection_limits, "FRESH", 0.0)  # they count as old at once
    page = b"GET /api/none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    async with AsyncExitStack() as stack, asyncio.timeout(SOON), serve(client) as server:
        half = [await ask(stack, server, b"GET /") for _ in range(3)]
        assert (await (await ask(stack, server, page)).read()).startswith(b"HTTP/1.1 404")
        assert await half[0].read() == b""


@pytest.mark.parametrize("limits", [{"request_timeout": 0.2}], indirect=True, ids=str)
async def test_a_connection_without_a_request_is_closed(client: Client, limits: None) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(SOON), serve(client) as server:
        asked = await ask(stack, server, STREAM)
        assert await asked.readuntil(b"event: overview\n")
        slow = [await ask(stack, server, sent) for sent in (b"", b"GET / HTT", STREAM[:-2])]
        for each in slow:
            assert await each.read() == b""
        await client.close()  # the one that asked is still told
        assert await asked.readuntil(b'"state":"closed"')


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer se\0cret\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: secret\r\n\r\n",
        b"secret / HTTP/1.1\r\n\r\n",
        b"GET /" + b"secret" * 5000 + b" HTTP/1.1\r\n\r\n",
    ],
)
async def test_a_malformed_request_is_refused_and_not_logged(
    client: Client, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        async with AsyncExitStack() as stack, asyncio.timeout(SOON), serve(client) as server:
            answer = await (await ask(stack, server, sent)).read()
            assert b" 400 " in answer.partition(b"\r\n")[0]
    assert "cret" not in caplog.text


async def test_errors_of_the_server_are_logged(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(client):
        logging.getLogger("arcp_client.web.http").error("it failed", exc_info=ValueError("here"))
    assert "ValueError: here" in caplog.text
