"""A frame that ends every link costs one event, not the session, on each transport (S18)."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import WSMsgType, web
from tenacity import wait_fixed

from arcp_client import (
    Client,
    Gap,
    JobContext,
    Reconnect,
    Runtime,
    StdioConnector,
    Timeouts,
    events,
)
from arcp_client.errors import ResultUnavailable
from arcp_client.transports import WebSocketConnector

SOON = Reconnect(wait=wait_fixed(0.0))
LIMIT = 20_000


def big_runtime() -> Runtime:
    runtime = Runtime()

    @runtime.agent("talk")
    async def talk(input: list[int], job: JobContext) -> str:
        """Says lines of these lengths."""
        for number, size in enumerate(input):
            await job.log(f"{number}:" + "x" * size)
        return "done"

    @runtime.agent("give")
    async def give(input: int, job: JobContext) -> str:
        await job.log("before")
        return "x" * input

    return runtime


async def heard(client: Client, sizes: list[int]) -> list[str]:
    """What a job says, each line by its number, and gaps with their reasons."""
    job = await client.submit("talk", sizes)
    told: list[str] = []
    async with asyncio.timeout(120):
        async for event in job:
            if isinstance(event, events.Log):
                told.append(event.message.partition(":")[0])
            elif isinstance(event, Gap):
                told.append(event.reason)
        assert (await job.result()).value == "done"
    return told


BIG = 3 * LIMIT


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([1, BIG, 1], ["0", "undecodable", "2"]),
        ([BIG, 1], ["undecodable", "1"]),
        ([1, BIG], ["0", "undecodable"]),
        ([1, BIG, BIG, BIG, 1], ["0", *["undecodable"] * 3, "4"]),
        ([BIG, 1, BIG], ["undecodable", "1", "undecodable"]),
    ],
)
async def test_s18_over_a_websocket_one_link_more_and_a_gap(
    sizes: list[int], expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    runtime = big_runtime()
    async with runtime, runtime.serve("127.0.0.1", 0) as server:
        connector = WebSocketConnector(server.url, max_frame=LIMIT)
        async with Client(connector, reconnect=SOON) as client:
            assert await heard(client, sizes) == expected
            count = expected.count("undecodable")
            assert client.stats().reconnects == 2 * count
            assert client.stats().gaps == count
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert sum(f"limit of {LIMIT} bytes (max_frame)" in text for text in warnings) == 2 * count


async def test_s18_a_result_that_does_not_fit_is_an_error_and_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runtime = big_runtime()
    async with runtime, runtime.serve("127.0.0.1", 0) as server:
        connector = WebSocketConnector(server.url, max_frame=LIMIT)
        async with Client(connector, reconnect=SOON) as client:
            job = await client.submit("give", BIG)
            async with asyncio.timeout(120):
                with pytest.raises(ResultUnavailable):
                    await job.result()
                assert "(max_frame)" in caplog.text
                small = await client.submit("give", 5)
                assert (await small.result()).value == "xxxxx"


CHILD = """
import asyncio
from tests.unit.link.test_refused_event import big_runtime
asyncio.run(big_runtime().serve_stdio())
"""


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([1, BIG, 1], ["0", "undecodable", "2"]),
        ([1, BIG, BIG], ["0", "undecodable", "undecodable"]),
    ],
)
async def test_s18_over_lines_the_link_lives_on(
    sizes: list[int], expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    root = Path(__file__).parents[3]
    connector = StdioConnector([sys.executable, "-c", CHILD], cwd=root, max_line=LIMIT)
    patient = Timeouts(connect=60.0, open=60.0)
    async with Client(connector, reconnect=SOON, timeouts=patient) as client:
        assert await heard(client, sizes) == expected
        assert client.stats().reconnects == 0
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    count = expected.count("undecodable")
    assert sum(f"limit of {LIMIT} bytes" in text for text in warnings) == count


@asynccontextmanager
async def proxied(target: str, *, code: int | None, largest: int) -> AsyncIterator[str]:
    """A proxy that looks into WebSockets, and ends those with too large a frame, with this code."""

    async def handle(request: web.Request) -> web.WebSocketResponse:
        front = web.WebSocketResponse(max_msg_size=0)
        await front.prepare(request)
        async with session.ws_connect(target, max_msg_size=0) as back:

            async def up() -> None:
                async for message in front:
                    await back.send_str(message.data)

            upwards = asyncio.ensure_future(up())
            try:
                async for message in back:
                    if message.type is WSMsgType.TEXT and len(message.data) > largest:
                        await front.close(code=code or 1000)
                        break
                    await front.send_str(message.data)
            finally:
                upwards.cancel()
                await asyncio.gather(upwards, return_exceptions=True)
        return front

    app = web.Application()
    app.router.add_get("/arcp", handle)
    runner = web.AppRunner(app)
    session = aiohttp.ClientSession()
    async with session:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"ws://127.0.0.1:{runner.addresses[0][1]}/arcp"
        finally:
            await runner.cleanup()


@pytest.mark.parametrize("code", [1009, 1002, 1003, 1007])
async def test_s18_a_frame_that_a_proxy_refuses_is_stepped_over(code: int) -> None:
    runtime = big_runtime()
    async with (
        runtime,
        runtime.serve("127.0.0.1", 0) as server,
        proxied(server.url, code=code, largest=LIMIT) as url,
        Client(url, reconnect=SOON) as client,
    ):
        assert await heard(client, [1, BIG, 1]) == ["0", "undecodable", "2"]
        assert client.stats().reconnects == 2
