"""After either link is cut, the page shows it, and loses and repeats no event."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.async_api import Page, Request, expect

from arcp_client import events
from arcp_client.testing import FaultyProxy
from tests.e2e.web.site import Site, all_rows, lines

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]


def excused(complaints: list[str]) -> None:
    """A browser says of a server that is away that it is away."""
    away = re.compile(
        r"ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_CONNECTION_RESET|503|ERR_EMPTY"
    )
    assert all(away.search(each) for each in complaints), complaints
    complaints.clear()


async def test_a_browser_that_reconnects_continues_where_it_was(
    site: Site, page: Page, complaints: list[str]
) -> None:
    """The connection of the page is cut while events come; the server and its feed stay."""
    job = await site.submit()
    async with FaultyProxy(site.url) as proxy:
        asked: list[Any] = []
        page.on("request", lambda request: asked.append(request))
        await page.goto(f"{proxy.url}#/job/{job.id}")
        count, chip = page.locator("#timeline-count"), page.locator("#chip")
        seen = 0
        for _ in range(3):
            await job.lines(seen + 1, seen + 60)
            await expect(count).to_have_text(f"{seen + 60} rows")
            with proxy.refuse():
                await proxy.cut()
                await expect(chip).to_have_text("page offline, reconnecting")
                await job.lines(seen + 61, seen + 100)
            seen += 100
            await expect(count).to_have_text(f"{seen} rows")
            await expect(chip).to_have_text("live")
        assert await all_rows(page) == lines(1, seen)
        streams = [each for each in asked if f"{job.id}/stream?" in each.url]
        resumed = [(await each.all_headers()).get("last-event-id") for each in streams]
        assert resumed[0] is None
        assert any(position.endswith("-260") for position in resumed if position)
        await page.close()
    excused(complaints)


async def test_after_a_restart_of_the_server_no_event_is_missing_or_repeated(
    site: Site, page: Page, complaints: list[str]
) -> None:
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    await job.lines(1, 120)
    await expect(page.locator("#timeline-count")).to_have_text("120 rows")
    await site.restart()
    await job.lines(121, 240)
    await expect(page.locator("#timeline-count")).to_have_text("240 rows")
    assert await all_rows(page) == lines(1, 240)
    await expect(page.get_by_text("server was restarted")).to_have_count(0)  # it continued
    excused(complaints)


async def test_after_a_restart_of_the_server_a_page_without_a_usable_position_is_reset(
    site: Site, page: Page, complaints: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a runtime whose events have no ids."""
    monkeypatch.setattr("arcp_client._feeds.frames.mark_of", lambda _: None)
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    await job.lines(1, 120)
    await expect(page.locator("#timeline-count")).to_have_text("120 rows")
    await site.restart()
    await job.lines(121, 240)
    await expect(page.locator("#timeline-count")).to_have_text("240 rows")
    assert await all_rows(page) == lines(1, 240)
    await expect(page.get_by_text("server was restarted")).to_be_visible()
    excused(complaints)


async def test_the_page_waits_for_a_server_that_is_down_for_long(
    site: Site, page: Page, complaints: list[str]
) -> None:
    await site.submit()
    await page.goto(site.url)
    await expect(page.locator("table.jobs a.job")).to_have_count(1)
    assert site.server is not None
    port = site.server.port
    await site.stop()
    await expect(page.locator("#chip")).to_have_text("page offline, reconnecting")
    await site.submit("mason")
    await site.start(port)
    await expect(page.locator("table.jobs a.job")).to_have_count(2)
    await expect(page.locator("#chip")).to_have_text("live")
    excused(complaints)


async def test_a_lost_link_to_the_runtime_is_counted_down_and_recovered(
    linked: Site, page: Page
) -> None:
    job = await linked.submit()
    await page.goto(linked.job_url(job.id))
    chip = page.locator("#chip")
    await expect(chip).to_have_text("live")
    await job.lines(1, 50)
    await expect(page.locator("#timeline-count")).to_have_text("50 rows")
    with linked.proxy.refuse():
        await linked.proxy.cut()
        await expect(chip).to_have_text(re.compile(r"^reconnecting in \d+ s$"))
        await expect(page.locator("#announcer")).to_contain_text("lost, reconnecting")
        await job.lines(51, 150)
    await expect(chip).to_have_text("live, resumed")
    await expect(page.locator("#timeline-count")).to_have_text("150 rows")
    assert await all_rows(page) == lines(1, 150)
    await expect(page.locator("#announcer")).to_contain_text("resumed, nothing was missed")


async def test_a_gap_has_its_numbers_in_the_chip_and_in_the_timeline(
    site: Site, page: Page
) -> None:
    await page.goto(site.url)
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    await expect(page.locator("#chip")).to_have_text("live")
    gap = events.Gap(first=120, last=140, reason="lost", job_id=job.id).to_dict()
    link = {"state": "live", "gap": gap, "processed": 1234}
    await page.route(
        "**/api/jobs/*/stream*",
        lambda route: route.fulfill(
            content_type="text/event-stream",
            body="retry: 60000\n\n"
            + sse(
                ("link", link),
                ("reset", {"reason": "start"}),
                ("events", [{"n": 1, "at": 0, "event": gap}]),
            ),
        ),
    )
    await page.route("**/api/overview", lambda route: route.fulfill(json={"link": link}))
    await page.reload()
    await expect(page.locator("#gap")).to_have_text("21 events missing")
    await expect(page.locator(".row .what")).to_have_text(
        "21 events missingthe runtime no longer had these events"
    )
    await expect(page.locator(".row .kind")).to_have_text("gap")
    await expect(page.locator("#announcer")).to_contain_text("Events were lost: 21 events missing.")


def sse(*messages: tuple[str, object]) -> str:
    return "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in messages)


async def test_a_hidden_page_pauses_and_continues_after_its_last_event(
    site: Site, page: Page
) -> None:
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    await job.lines(1, 30)
    await expect(page.locator("#timeline-count")).to_have_text("30 rows")
    turn = """(hidden) => {
        Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});
        document.dispatchEvent(new Event('visibilitychange'));
    }"""
    await page.evaluate(turn, True)
    await expect(page.locator("#chip")).to_have_text("resting")
    await job.lines(31, 60)
    async with page.expect_request("**/stream?*&after=*"):
        await page.evaluate(turn, False)
    await expect(page.locator("#timeline-count")).to_have_text("60 rows")
    assert await all_rows(page) == lines(1, 60)


async def test_a_page_has_one_stream_at_a_time(site: Site, page: Page) -> None:
    """Browsers open six connections to a server, for all tabs together."""
    job = await site.submit()
    streams: list[str] = []

    def name(request: Request) -> str:
        return request.url.partition("/api/")[2].partition("?")[0]

    page.on("request", lambda r: name(r).endswith("stream") and streams.append(name(r)))
    page.on("requestfailed", lambda r: name(r) in streams and streams.remove(name(r)))
    await page.goto(site.url)
    await expect(page.locator("table.jobs a.job")).to_have_count(1)
    for _ in range(2):
        async with page.expect_event("requestfailed"):
            await page.get_by_role("link", name=job.id).click()
        await expect(page.locator(".facts .badge")).to_have_text("running")
        assert streams == [f"jobs/{job.id}/stream"]
        async with page.expect_event("requestfailed"):
            await page.get_by_role("link", name="Jobs", exact=True).click()
        await expect(page.locator("table.jobs a.job")).to_have_count(1)
        assert streams == ["overview/stream"]


async def test_the_chip_stays_true_after_the_job_has_ended(linked: Site, page: Page) -> None:
    job = await linked.submit()
    await page.goto(linked.job_url(job.id))
    await job.finish()
    await expect(page.locator(".facts .badge")).to_have_text("success")
    with linked.proxy.refuse():
        await linked.proxy.cut()
        await expect(page.locator("#chip")).to_have_text(re.compile(r"^reconnecting"))
    await expect(page.locator("#chip")).to_have_text("live, resumed")
    await expect(page.locator(".facts .badge")).to_have_text("success")


async def test_a_refusal_that_passes_is_shown_until_it_has_passed(
    site: Site, page: Page, complaints: list[str]
) -> None:
    error = {"code": "TOO_MANY_PAGES", "message": "too many pages are open", "remedy": "close some"}
    await page.route(
        "**/stream",
        lambda route: route.fulfill(status=503, json={"error": error}),
        times=2,  # the stream, and the question why it was refused
    )
    await page.goto(site.url)
    alert = page.get_by_role("alert")
    await expect(alert).to_contain_text("too many pages are open")
    await expect(alert).to_contain_text("close some")
    await expect(page.get_by_text("No jobs yet.")).to_be_visible()
    await expect(alert).to_be_hidden()
    excused(complaints)
