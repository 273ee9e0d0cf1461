"""W3: a browser's windows share its few connections, however many windows are visible."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser, Page, expect

from tests.e2e.web.conftest import Complaints
from tests.e2e.web.site import Site, all_rows, lines

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

WINDOWS = 20


async def test_w3_twenty_visible_windows_all_receive_events(
    site: Site, browser: Browser, complaints: Complaints
) -> None:
    job = await site.submit()
    await job.lines(1, 10)
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(60_000)  # the pages wait for one another
    pages: list[Page] = []
    try:
        for n in range(WINDOWS):
            page = await context.new_page()
            complaints.watch(page)
            pages.append(page)
            await page.goto(site.url if n % 2 else site.job_url(job.id))
        tables, timelines = pages[1::2], pages[::2]
        for page in timelines:
            await expect(page.locator("#timeline-count")).to_have_text("10 rows")
        await job.lines(11, 40)
        other = await site.submit("mason")
        for page in timelines:
            await expect(page.locator("#timeline-count")).to_have_text("40 rows")
            assert await all_rows(page) == lines(1, 40)
        for page in tables:
            await expect(page.locator(f"tr[data-job='{other.id}']")).to_be_visible()
            await expect(page.locator("#chip")).to_have_text("live")
            told = await page.locator("#chip").get_attribute("title") or ""
            assert "turns" not in told, "they share one stream"
        await page.reload()
        await expect(page.locator(f"tr[data-job='{other.id}']")).to_be_visible()
        await asyncio.gather(*(page.close() for page in pages[4:]))
        await job.lines(41, 60)
        for page in pages[:4:2]:
            await expect(page.locator("#timeline-count")).to_have_text("60 rows")
    finally:
        await context.close()
    assert not complaints
