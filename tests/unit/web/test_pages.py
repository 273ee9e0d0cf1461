"""The pages of an application stream jobs, with and without the dashboard."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from arcp_client import Client
from arcp_client.web import add_routes, end_streams, sse
from tests.unit.web.kit import SOON, Gates, Parser, Tab


class Own:
    """An application with a page of its own that streams jobs."""

    def __init__(self, client: Client, *, dashboard: bool) -> None:
        self.app = web.Application()
        self.client = client
        self.app.router.add_get("/follow/{id}", self.follow)
        self.app.router.add_get("/api/mine", self.mine)
        if dashboard:
            add_routes(self.app, client, prefix="/jobs")
        else:
            self.app.on_shutdown.append(end_streams)

    async def follow(self, request: web.Request) -> web.StreamResponse:
        job = self.client.job(request.match_info["id"])
        if job is None:
            raise web.HTTPNotFound
        return sse(job)

    async def mine(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"mine": True})


@pytest.fixture(params=[False, True], ids=["alone", "with the dashboard"])
async def own(request: Any, client: Client) -> AsyncIterator[tuple[TestServer, Any]]:
    made = Own(client, dashboard=request.param)
    async with TestServer(made.app) as server, aiohttp.ClientSession() as http:
        yield server, http


async def test_a_page_of_the_application_follows_a_job_and_reconnects(
    own: tuple[TestServer, aiohttp.ClientSession], client: Client, gates: Gates
) -> None:
    server, http = own
    job = await client.submit("say", {"lines": 100, "gate": "half"})
    tab = Tab(http, server.make_url(f"/follow/{job.id}"))
    await tab.follow(lambda timeline: len(timeline.numbers) >= 50)
    gates["half"].set()
    await job.result()
    timeline = await tab.follow()
    assert timeline.resets == ["start"]
    assert timeline.numbers == list(range(1, 102))
    assert timeline.end == "success"
    assert timeline.details[-1]["status"] == "success"
    other = Tab(http, tab.url, parser=Parser(last=tab.parser.last))
    assert (await other.follow()).numbers == []


async def test_other_urls_of_the_application_are_not_changed(
    own: tuple[TestServer, aiohttp.ClientSession],
) -> None:
    server, http = own
    async with http.get(server.make_url("/api/mine")) as response:
        assert await response.json() == {"mine": True}
        assert "Content-Security-Policy" not in response.headers
    async with http.get(server.make_url("/follow/none")) as response:
        assert response.status == 404


@pytest.mark.parametrize("registered", [False, True], ids=["not registered", "registered"])
async def test_an_open_stream_does_not_delay_the_shutdown(
    client: Client,
    gates: Gates,
    registered: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("arcp_client.web.pages._UNENDED_SECONDS", 0.2)
    job = await client.submit("say", {"lines": 100, "gate": "half"})
    app = web.Application()

    async def follow(request: web.Request) -> web.StreamResponse:
        return sse(job)

    app.router.add_get("/follow", follow)
    if registered:
        app.on_shutdown.append(end_streams)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=600)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = URL(f"http://127.0.0.1:{runner.addresses[0][1]}/follow")
    async with aiohttp.ClientSession() as http:
        tab = Tab(http, url)
        if not registered:  # a stream ends by itself, and its reader goes on where it was
            for _ in range(2):
                await tab.follow(lambda timeline: False)
            assert [record.levelname for record in caplog.records] == ["WARNING"]
            assert "end_streams" in caplog.text
        tab = Tab(http, url)
        following = asyncio.ensure_future(tab.follow(lambda timeline: False))
        while not tab.timeline.numbers:
            await asyncio.sleep(0)
        async with asyncio.timeout(SOON):
            await runner.cleanup()
        timeline = await following
    assert timeline.resets == ["start"]
    assert timeline.numbers == list(range(1, len(timeline.numbers) + 1))
    gates["half"].set()


async def test_streams_of_sse_end_with_the_application(
    own: tuple[TestServer, aiohttp.ClientSession], client: Client, gates: Gates
) -> None:
    server, http = own
    job = await client.submit("gated", "one")
    tabs = [Tab(http, server.make_url(f"/follow/{job.id}")) for _ in range(5)]
    following = [asyncio.create_task(tab.follow()) for tab in tabs]
    async with asyncio.timeout(SOON):
        while not all(tab.timeline.numbers for tab in tabs):
            await asyncio.sleep(0.01)
        await server.close()
        for timeline in await asyncio.gather(*following):
            assert timeline.end is None
    gates["one"].set()
    await job.result()


async def test_two_applications_share_no_feeds(client: Client) -> None:
    job = await client.submit("echo", 1)
    await job.result()
    epochs = set()
    for _ in range(2):
        made = Own(client, dashboard=False)
        async with (
            TestServer(made.app) as server,
            aiohttp.ClientSession() as http,
            http.get(server.make_url(f"/follow/{job.id}")) as response,
        ):
            epochs |= set(re.findall(r"^id: (~\w+)-0$", await response.text(), re.MULTILINE))
    assert len(epochs) == 2


async def test_a_head_request_streams_no_events(
    own: tuple[TestServer, aiohttp.ClientSession], client: Client, gates: Gates
) -> None:
    server, http = own
    job = await client.submit("gated", "one")
    async with asyncio.timeout(SOON), http.head(server.make_url(f"/follow/{job.id}")) as response:
        assert response.content_type == "text/event-stream"
        assert await response.read() == b""
    gates["one"].set()
    await job.result()
