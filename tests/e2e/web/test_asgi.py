"""A real browser on ASGI servers: the dashboard below a path, and a page that follows a job."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Page, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, StreamingResponse
from starlette.routing import Mount, Route

from arcp_client import Client
from arcp_client.testing import FaultyProxy
from arcp_client.web import SSE_HEADERS, asgi_app
from tests.e2e.browsers.servers import SERVERS, on_uvicorn
from tests.e2e.web.site import Site, all_rows, lines
from tests.e2e.web.test_links import excused

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]

PAGE = Path(__file__).parents[3] / "examples" / "browsers" / "follow.html"


@pytest.mark.parametrize("server", SERVERS)
async def test_the_dashboard_is_mounted_in_an_application_and_asks_for_its_token(
    site: Site, page: Page, server: str, complaints: list[str]
) -> None:
    job = await site.submit()
    dashboard = asgi_app(site.client, token="the-token", allow_control=True)
    app = Starlette(routes=[Mount("/tools/jobs", dashboard)])
    async with SERVERS[server](app) as base:
        await page.goto(f"{base}/tools/jobs/#/job/{job.id}")
        await page.get_by_label("Token").fill("the-token")
        await page.keyboard.press("Enter")
        await expect(page.locator("#chip")).to_have_text("live")
        await job.lines(1, 200)
        await expect(page.locator("#timeline-count")).to_have_text("200 rows")
        await page.reload()
        await job.lines(201, 300)
        await expect(page.locator("#timeline-count")).to_have_text("300 rows")
        assert await all_rows(page) == lines(1, 300)
        [cookie] = await page.context.cookies()
        assert cookie["path"] == "/tools/jobs"
        await job.finish()
        await expect(page.locator(".facts .badge")).to_have_text("success")
        await page.close()
        await dashboard.close()
    complaints.clear()  # 401 before the login


def service(client: Client) -> Starlette:
    async def home(_: Request) -> HTMLResponse:
        return HTMLResponse(PAGE.read_text())

    async def follow(request: Request) -> StreamingResponse:
        frames = await client.sse(
            request.path_params["job_id"], last_event_id=request.headers.get("Last-Event-ID")
        )
        return StreamingResponse(frames, headers=SSE_HEADERS)

    return Starlette(routes=[Route("/", home), Route("/jobs/{job_id}", follow)])


@asynccontextmanager
async def replica(site: Site, port: int) -> AsyncIterator[None]:
    """A service with a session of its own, as another process has."""
    async with Client(site.runtime) as client, on_uvicorn(service(client), at=port):
        yield
        client.end_streams()  # the server is told to end by a call, and not by a signal


async def test_a_page_follows_a_job_over_cuts_and_over_a_change_of_the_process(
    site: Site, page: Page, complaints: list[str]
) -> None:
    job = await site.submit()
    items = page.locator("li")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with FaultyProxy(f"http://127.0.0.1:{port}/") as proxy:
        seen = 0
        for _ in range(2):
            async with replica(site, port):
                if not seen:
                    await page.goto(f"{proxy.url}#{job.id}")
                    await page.evaluate("window.same = true")
                for _ in range(2):
                    await job.lines(seen + 1, seen + 60)
                    await expect(items).to_have_count(seen + 60)
                    await proxy.cut()
                    await job.lines(seen + 61, seen + 100)
                    seen += 100
                    await expect(items).to_have_count(seen)
            await job.lines(seen + 1, seen + 100)  # while no process serves
            seen += 100
        async with replica(site, port):
            await expect(items).to_have_count(seen)
            await job.finish()
            await expect(items).to_have_count(seen + 1)
        assert await page.evaluate("window.same"), "the page was not loaded again"
        texts = await items.all_text_contents()
        assert texts[:-1] == [f"log line {n}" for n in range(1, seen + 1)]
        await page.close()
    excused(complaints)
