"""A connection is closed if its client stops reading, whatever the response is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from aiohttp import web

from arcp_client import Client, JobContext, Runtime
from arcp_client.testing import VirtualClock
from arcp_client.web._http.write_timeout import WriteTimeout
from tests.unit.web.kit import SOON, Site, site

HOST = "Host: localhost\r\n"


class FakeTransport:
    """A connection whose unsent data the test sets."""

    def __init__(self, unsent: int = 0) -> None:
        self.unsent = unsent
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        self.aborted = True

    @property
    def stream(self) -> asyncio.Transport:
        return cast(asyncio.Transport, self)


async def test_a_connection_whose_client_reads_nothing_is_aborted(clock: VirtualClock) -> None:
    timeout, stalled = WriteTimeout(), FakeTransport(100_000)
    timeout.watch(stalled.stream)
    await asyncio.sleep(29)
    assert not stalled.aborted
    await asyncio.sleep(11)
    assert stalled.aborted
    assert len(timeout) == 0


async def test_a_client_that_reads_slowly_gets_its_response(clock: VirtualClock) -> None:
    timeout, slow = WriteTimeout(), FakeTransport(100)
    timeout.watch(slow.stream)
    while slow.unsent:
        await asyncio.sleep(24)
        slow.unsent -= 1
    assert not slow.aborted
    await asyncio.sleep(11)
    assert len(timeout) == 0  # other responses over this connection have no time limit
    slow.unsent = 100
    await asyncio.sleep(100)
    assert not slow.aborted


async def test_a_response_that_begins_late_is_watched_from_its_first_write(
    clock: VirtualClock,
) -> None:
    timeout, late = WriteTimeout(), FakeTransport()
    timeout.watch(late.stream)
    await asyncio.sleep(100)
    timeout.watch(late.stream)
    late.unsent = 100
    await asyncio.sleep(41)
    assert late.aborted


async def test_closing_aborts_what_is_unsent_and_leaves_no_timer(clock: VirtualClock) -> None:
    timeout = WriteTimeout()
    unsent, sent = FakeTransport(100), FakeTransport()
    for each in (unsent, sent):
        timeout.watch(each.stream)
    timeout.watch(None)
    timeout.close()
    timeout.close()
    assert (unsent.aborted, sent.aborted, len(timeout)) == (True, False, 0)


# ---------------------------------------------------------------------- each kind of response


@pytest.fixture
async def large(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Site, dict[str, str]]]:
    """A dashboard with small time limits, and a job for each kind of result."""
    monkeypatch.setattr("arcp_client.web._http.write_timeout._CHECK_INTERVAL", 0.01)
    monkeypatch.setattr("arcp_client.web._http.write_timeout.WRITE_TIMEOUT", 0.1)
    async with Runtime() as runtime, Client(runtime) as client:

        @runtime.agent("inline")
        async def inline(input: Any, job: JobContext) -> Any:
            return [" " * 1000] * 700

        @runtime.agent("streamed")
        async def streamed(input: Any, job: JobContext) -> Any:
            for _ in range(100):
                await job.log("." * 10_000)
                await job.chunk(" " * 100_000)

        jobs = {}
        for agent in ("inline", "streamed"):
            job = await client.submit(agent)
            await job.result()
            jobs[agent] = job.id
        async with site(client) as served:
            yield served, jobs


@asynccontextmanager
async def deaf(served: Site, request: bytes) -> AsyncIterator[None]:
    """A client that sends a request as often as the server takes it, and reads nothing."""
    loop = asyncio.get_running_loop()
    with socket.socket() as connection:
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await loop.sock_connect(connection, ("127.0.0.1", served.server.port))

        async def send() -> None:
            while True:
                await loop.sock_sendall(connection, request * 50)

        sending = asyncio.create_task(send())
        yield
        with pytest.raises(ConnectionError):
            await sending


@pytest.mark.parametrize(
    "request_line",
    [
        "GET /api/jobs/{inline}/result",
        "GET /api/jobs/{streamed}/result",
        "GET /api/jobs/{streamed}/transcript",
        "GET /api/overview",
        "GET /static/app.css",
        "GET /",
        "GET /api/nothing",
        "POST /api/jobs",
        "POST /logout",
    ],
)
async def test_a_client_that_does_not_read_is_disconnected(
    large: tuple[Site, dict[str, str]], request_line: str
) -> None:
    served, jobs = large
    request = f"{request_line.format(**jobs)} HTTP/1.1\r\n{HOST}\r\n"
    async with asyncio.timeout(SOON), deaf(served, request.encode()):
        pass
    app: web.Application = served.server.app
    async with asyncio.timeout(SOON):
        while len(WriteTimeout.of(app)):
            await asyncio.sleep(0.01)
