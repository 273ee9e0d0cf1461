"""A recording is played on the page that shows live jobs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.e2e.web.site import Site, all_rows, lines

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def recorded(site: Site, page: Page, path: Path) -> list[str]:
    """Download the transcript of a job that ended; what its page showed."""
    job = await site.submit(lease={"cost.budget": ["USD:5.00"]})
    await page.goto(site.job_url(job.id))
    await job.lines(1, 40)
    call = await job.says.tool_call("fs.read", {"path": "a"})
    await job.says.tool_result(call, {"lines": 3})
    await job.says.metric("cost.inference", 1.25, "USD")
    await job.says.progress(2, total=4, units="files")
    await job.lines(41, 60)
    job.fail("X_NO_BRANCH", "no such branch")
    await expect(page.get_by_role("region", name="The job failed")).to_be_visible()
    rows = await all_rows(page)
    await page.get_by_text("Download", exact=True).click()
    async with page.expect_download() as started:
        await page.get_by_role("link", name="Download transcript").click()
    await (await started.value).save_as(path)
    return rows


async def test_a_replay_ends_with_what_the_live_page_showed(
    site: Site, page: Page, tmp_path: Path
) -> None:
    path = tmp_path / "job.jsonl"
    live = await recorded(site, page, path)
    facts = await page.locator(".job-side").inner_text()
    await page.get_by_role("link", name="Replay").click()
    await page.locator("#file").set_input_files(path)
    play = page.locator("#play")
    await expect(play).to_be_focused()
    await page.get_by_label("Speed").select_option("100")
    await page.keyboard.press("Enter")
    await expect(play).to_have_text("Play again")
    assert await all_rows(page) == live
    assert await page.locator(".job-side").inner_text() == facts
    fault = page.get_by_role("region", name="The job failed")
    await expect(fault).to_contain_text("X_NO_BRANCH")


async def test_it_can_be_paused_and_moved_through(site: Site, page: Page) -> None:
    header = '{"schema":"arcp-client.transcript/1","type":"header","at":0}\n'
    event = (
        '{{"type":"event","at":{n},"event":{{"kind":"log","job_id":"j","message":"line {n}"}}}}\n'
    )
    text = header + "".join(event.format(n=n) for n in range(1, 101))
    await page.goto(f"{site.url}#/replay")
    await page.locator("#file").set_input_files(
        {"name": "x.jsonl", "mimeType": "text/plain", "buffer": text.encode()}
    )
    count, time, seek = (
        page.locator("#timeline-count"),
        page.locator("#replay-time"),
        page.locator("#seek"),
    )
    await expect(count).to_have_text("0 rows")
    await seek.fill("500")
    await expect(count).to_have_text("50 rows")
    assert await all_rows(page) == lines(1, 50)
    await expect(time).to_contain_text("00:50.0 of 01:40.0 · event 50 of 100")
    await seek.fill("200")
    await expect(count).to_have_text("20 rows")
    await seek.focus()
    await page.keyboard.press("End")
    await expect(count).to_have_text("100 rows")
    await seek.fill("0")
    await page.get_by_label("Speed").select_option("5")
    await page.get_by_role("button", name="Play").click()
    await expect(count).to_have_text(re.compile(r"^[1-9]\d? rows?$"))
    await page.locator("#play").click()
    await expect(page.locator("#play")).to_have_text("Play")
    stopped = await time.text_content()
    await page.evaluate("() => new Promise((done) => setTimeout(done, 300))")
    assert await time.text_content() == stopped
    seen = await all_rows(page)
    assert seen == lines(1, len(seen))
