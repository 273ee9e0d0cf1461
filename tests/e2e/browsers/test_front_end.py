"""The front end of the tutorial, in a browser: it follows a job, also after a reload."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from playwright.async_api import async_playwright, expect

from tests.e2e.web.conftest import ARGS, chromium

pytestmark = pytest.mark.usefixtures("forked")

SERVICE = Path(__file__).parents[3] / "examples" / "browsers" / "front_end.py"
SOON = 30.0


@pytest_asyncio.fixture
async def base() -> AsyncIterator[str]:
    """The address of the service, which runs as its reader starts it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"PORT": str(port), "PYTHONPATH": str(SERVICE.parents[2])}
    environment.pop("ARCP_URL", None)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-u", SERVICE, env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(SOON):
            assert b"Running on" in await process.stdout.readline()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def test_a_page_follows_its_job_and_shows_it_again_after_a_reload(base: str) -> None:
    path = chromium()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=ARGS)
        page = await browser.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto(f"{base}/")
        await page.get_by_label("Where to?").fill("Porto")
        await page.get_by_role("button").click()
        lines = page.get_by_role("listitem")
        expected = [f"searches {what} to Porto" for what in ("flights", "hotels", "trains")]
        expected.append("Take the night train to Porto.")
        for _ in range(2):
            await expect(lines).to_have_text(expected, timeout=SOON * 1000)
            await expect(page.get_by_role("status")).to_have_text("success")
            await expect(page.get_by_role("progressbar")).to_have_js_property("value", 1)
            await page.reload()
        assert complaints == []
        await browser.close()


async def test_a_refused_job_is_an_error_with_its_reason(base: str) -> None:
    async with aiohttp.ClientSession(base) as http:
        order = {"agent": "nobody", "input": "x", "key": "k"}
        async with http.post("/jobs", json=order) as response:
            assert response.status == 400
            assert "nobody" in (await response.json())["error"]
        async with http.get("/jobs/job_unknown") as response:
            assert response.status == 404
