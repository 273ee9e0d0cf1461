"""Closing a dashboard ends its streams and leaves no task, timer or socket."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from arcp_client import Client
from arcp_client.web import add_routes, serve
from tests.unit.web.kit import SOON, Gates, Tab, site


async def test_closing_the_server_ends_all_streams_and_leaves_no_task_or_socket(
    client: Client, other: Client, gates: Gates
) -> None:
    job = await other.submit("gated", "one")
    before = asyncio.all_tasks()
    server = serve(client)
    await server.__aenter__()
    async with aiohttp.ClientSession() as http:
        base = URL(server.url)
        tabs = [Tab(http, base / f"api/jobs/{job.id}/stream") for _ in range(10)]
        tabs.append(Tab(http, base / "api/overview/stream"))
        following = [asyncio.create_task(tab.follow()) for tab in tabs]
        async with asyncio.timeout(SOON):
            while not all(tab.timeline.numbers for tab in tabs[:-1]):
                await asyncio.sleep(0.01)
            await server.close()
            await server.close()
            for timeline in await asyncio.gather(*following):  # each is ended, none is cut off
                assert timeline.end is None
    assert server.port != 0
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port))
    left = asyncio.all_tasks() - before
    assert not [task for task in left if not task.done() and "arcp_client.web" in task.get_name()]
    gates["one"].set()
    await job.result()


async def test_a_page_that_does_not_read_does_not_delay_the_shutdown(
    client: Client, other: Client
) -> None:
    job = await other.submit("say", {"lines": 3000, "size": 4000})
    await job.result()
    async with site(client, memory=64 << 20) as served:
        assert served.server.port is not None
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            slow.connect(("127.0.0.1", served.server.port))
            path = served.url(f"api/jobs/{job.id}/stream").path
            slow.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            await served.tab(job.id).follow()
            async with asyncio.timeout(SOON):  # aiohttp itself would wait for a minute
                await served.server.close()


async def test_the_client_stays_open_when_the_dashboard_is_closed(client: Client) -> None:
    async with site(client) as served:
        await served.get("api/overview")
    assert await client.ping() >= 0.0
    async with site(client) as served:
        assert (await served.get("api/overview"))[0] == 200


async def test_closing_the_dashboard_unsubscribes_from_the_jobs_that_pages_showed(
    client: Client, other: Client, gates: Gates
) -> None:
    job = await other.submit("say", {"lines": 20, "gate": "half"})
    async with site(client) as served:
        await served.tab(job.id).follow(lambda timeline: len(timeline.numbers) >= 10)
    received = client.stats().received
    gates["half"].set()
    await job.result()
    await client.ping()
    assert client.stats().received == received == 10


async def test_an_application_that_never_started_can_be_shut_down(client: Client) -> None:
    app = web.Application()
    add_routes(app, client)
    app.freeze()
    await app.shutdown()
    await app.cleanup()
