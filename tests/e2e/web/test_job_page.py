"""The page of a job shows its events as they happen, and stays readable."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import Page, expect

from tests.e2e.web.conftest import OpenSite
from tests.e2e.web.site import Site, all_rows, lines

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]


async def test_events_appear_while_they_happen(site: Site, page: Page) -> None:
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    await expect(page.locator(".log")).to_be_visible()
    await job.lines(1, 3)
    await expect(page.locator(".row")).to_have_count(3)
    await job.lines(4, 200)
    await expect(page.locator("#timeline-count")).to_have_text("200 rows")
    assert await all_rows(page) == lines(1, 200)
    await expect(page.locator("#chip")).to_have_text("live")


async def test_a_call_and_its_result_are_one_row_that_opens(site: Site, page: Page) -> None:
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    call = await job.says.tool_call("fs.read", {"path": "src/a.py"})
    row = page.locator(".row")
    await expect(row.locator(".kind")).to_have_text("calling")
    await job.says.log("meanwhile")
    await job.says.tool_result(call, {"lines": 120})
    first = row.nth(0)
    await expect(first.locator(".kind")).to_have_text("called")
    await expect(first.locator(".what")).to_contain_text('fs.read(path: "src/a.py")')
    await expect(first.locator(".what")).to_contain_text("{lines: 120}")
    await expect(row).to_have_count(2)
    button = first.locator(".line")
    await expect(button).to_have_attribute("aria-expanded", "false")
    await button.click()
    await expect(button).to_have_attribute("aria-expanded", "true")
    detail = first.locator(".detail")
    await expect(detail).to_contain_text('"lines": 120')
    below = await row.nth(1).bounding_box()
    above = await first.bounding_box()
    assert below is not None
    assert above is not None
    assert below["y"] >= above["y"] + above["height"] - 0.5, "an opened row pushes the others down"
    await button.click()
    await expect(detail).to_have_count(0)


async def test_a_call_that_failed_says_so_in_words(site: Site, page: Page) -> None:
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    call = await job.says.tool_call("fs.write", None)
    await job.says.tool_result(call, error={"code": "PERMISSION_DENIED", "message": "not there"})
    await expect(page.locator(".row .kind")).to_have_text("failed")
    await expect(page.locator(".row .what")).to_contain_text("PERMISSION_DENIED: not there")


async def test_a_paused_timeline_stands_still_and_loses_no_event(site: Site, page: Page) -> None:
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    await job.lines(1, 5)
    await expect(page.locator(".row")).to_have_count(5)
    pause = page.get_by_role("button", name="Pause")
    await pause.click()
    await job.lines(6, 45)
    shown = page.locator("#timeline-count")
    await expect(shown).to_have_text("5 rows · paused, 40 new")
    assert await all_rows(page) == lines(1, 5)
    await page.get_by_role("button", name="Resume").click()
    await expect(shown).to_have_text("45 rows")
    assert await all_rows(page) == lines(1, 45)


async def test_rows_dropped_during_a_pause_are_counted(site: Site, page: Page) -> None:
    await page.goto(site.url)
    await page.evaluate(
        """async () => {
            const { JobState } = await import('./static/jobstate.js');
            const { timelineView } = await import('./static/timelineview.js');
            const state = new JobState({rows: 100});
            const view = timelineView(state, {transcript: 'api/jobs/j/transcript'});
            document.querySelector('main').replaceChildren(view.element);
            let n = 0;
            window.more = (count) => {
                const event = () => ({n: (n += 1), at: 0, event: {kind: 'log', message: `line ${n}`}});
                view.update(state.take('events', Array.from({length: count}, event)));
            };
            more(30);
        }"""  # noqa: E501
    )
    shown = page.locator("#timeline-count")
    await expect(shown).to_have_text("30 rows")
    await page.get_by_role("button", name="Pause").click()
    await page.evaluate("more(300)")
    await expect(shown).to_have_text("0 rows · paused, 300 new")
    await expect(page.get_by_text("older than what the page holds")).to_be_visible()
    await page.get_by_role("button", name="Resume").click()
    kept = await all_rows(page)
    assert kept == lines(331 - len(kept), 330)
    await expect(page.get_by_text(f"{330 - len(kept)} older events are not shown")).to_be_visible()


async def test_the_filter_hides_kinds_levels_and_what_does_not_match(
    site: Site, page: Page
) -> None:
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    for level in ("debug", "info", "warn", "error"):
        await job.says.log(f"a line of {level}", level=level)
    await job.says.thought("a thought")
    await job.says.emit("x-vendor.acme", {"score": 7})
    row = page.locator(".row .what")
    await expect(row).to_have_count(6)
    await page.get_by_label("Log level").select_option(label="warn and above")
    await expect(row).to_have_text(["a line of warn", "a line of error", "a thought", "{score: 7}"])
    await page.get_by_role("checkbox", name="Thoughts").uncheck()
    await expect(row).to_have_text(["a line of warn", "a line of error", "{score: 7}"])
    await page.get_by_role("searchbox", name="Find in events").fill("OF ERR")
    await expect(row).to_have_text(["a line of error"])
    await expect(page.locator("#timeline-count")).to_have_text("1 of 6 rows")
    await job.says.log("another line of error", level="error")
    await expect(row).to_have_text(["a line of error", "another line of error"])
    await page.get_by_role("searchbox", name="Find in events").fill("no such thing")
    await expect(page.get_by_text("No event matches the filter.")).to_be_visible()
    await page.get_by_role("searchbox", name="Find in events").fill("")
    await page.get_by_role("checkbox", name="Thoughts").check()
    await page.get_by_label("Log level").select_option(label="all")
    await expect(row).to_have_count(7)


async def test_a_reader_who_scrolled_up_is_left_there(site: Site, page: Page) -> None:
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    await job.lines(1, 300)
    await expect(page.locator(".row").last).to_contain_text("line 300")
    log = page.locator(".log")
    await log.evaluate("(e) => { e.scrollTop = 1000; }")
    latest = page.get_by_role("button", name="Jump to latest")
    await expect(latest).to_be_visible()
    await job.lines(301, 400)
    await expect(page.locator("#timeline-count")).to_have_text("400 rows")
    assert await log.evaluate("(e) => e.scrollTop") == 1000
    await latest.click()
    await expect(page.locator(".row").last).to_contain_text("line 400")
    await job.lines(401, 402)
    await expect(page.locator(".row").last).to_contain_text("line 402")


async def test_the_lease_panel_counts_down_and_meters_the_budget(site: Site, page: Page) -> None:
    job = await site.submit(
        lease={"fs.read": ["/src/**"], "cost.budget": ["USD:5.00"]},
        expires_at=datetime.now(UTC) + timedelta(minutes=10),
    )
    await page.goto(site.job_url(job.id))
    panel = page.get_by_role("region", name="Lease and budget")
    await expect(panel.locator("code")).to_have_text(["/src/**", "USD:5.00"])
    await expect(panel).to_contain_text(re.compile(r"Lease expires in (10 min|9 min \d+ s), at"))
    before = await panel.locator(".expiry").text_content()
    await expect(panel.locator(".expiry")).not_to_have_text(before or "")
    await job.says.metric("cost.inference", 0.75, "USD")
    meter = panel.get_by_role("meter", name="USD")
    await expect(meter).to_have_attribute("aria-valuetext", "4.25 of 5.00 left")
    await expect(meter).to_have_attribute("aria-valuenow", "85")
    await expect(panel).to_contain_text("USD a second, lasts about")
    await job.says.metric("cost.inference", 4, "USD")
    await expect(meter).to_have_attribute("aria-valuetext", "low: 0.25 of 5.00 left")


async def test_progress_phase_and_relations_are_shown(site: Site, page: Page) -> None:
    job = await site.submit(lease={"agent.delegate": ["**"]})
    await page.goto(site.job_url(job.id))
    await job.says.status("reading", "all the sources")
    await job.says.progress(3, total=12, units="files")
    child = await job.says.delegate("mason")
    bar = page.get_by_role("progressbar", name="files")
    await expect(bar).to_have_attribute("aria-valuetext", "3 of 12, 25 %")
    await expect(page.locator(".facts")).to_contain_text("reading: all the sources")
    await expect(page.locator(".facts")).to_contain_text("puppet@1.2.0")
    relations = page.locator(".family")
    link = relations.get_by_role("link", name=child.id)
    await link.click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(child.id)
    await expect(page.locator(".facts")).to_contain_text("mason@0.9.1")
    await expect(relations.get_by_role("link", name=job.id)).to_be_visible()


async def test_a_streamed_result_grows_and_can_be_downloaded(site: Site, page: Page) -> None:
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    await job.says.chunk("Once ", more=True)
    await job.says.chunk("upon a time", more=True)
    result = page.get_by_role("region", name="Result")
    await expect(result.locator("pre")).to_have_text("Once upon a time")
    await expect(result).to_contain_text("2 pieces, 16 B · still coming")
    await job.says.chunk(".", more=False)
    await job.finish()
    await expect(result).to_contain_text("complete")
    async with page.expect_download() as started:
        await result.get_by_role("link", name="Download the result").click()
    path = await (await started.value).path()
    assert path.read_text(encoding="utf-8") == "Once upon a time."


async def test_an_inline_result_is_shown(site: Site, page: Page) -> None:
    job = await site.submit()
    await job.finish({"answer": 42})
    await page.goto(site.job_url(job.id))
    result = page.get_by_role("region", name="Result")
    await expect(result.locator("pre")).to_have_text('{\n  "answer": 42\n}')
    await expect(page.locator(".facts .badge")).to_have_text("success")


async def test_a_failure_shows_its_code_and_a_remedy(site: Site, page: Page) -> None:
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    await job.says.log("about to fail")
    job.fail("BUDGET_EXHAUSTED", "the budget of 5.00 USD is spent")
    fault = page.get_by_role("region", name="The job failed")
    await expect(fault).to_contain_text("BUDGET_EXHAUSTED")
    await expect(fault).to_contain_text("the budget of 5.00 USD is spent")
    await expect(fault).to_contain_text("What to do: The budget is spent. Submit the job again")
    await expect(page.locator(".facts .badge")).to_have_text("error")
    await expect(page.get_by_role("button", name="Cancel job")).to_be_hidden()


async def test_the_transcript_can_be_downloaded(site: Site, page: Page) -> None:
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    await job.lines(1, 20)
    await expect(page.locator("#timeline-count")).to_have_text("20 rows")
    await page.get_by_text("Download", exact=True).click()
    async with page.expect_download() as started:
        await page.get_by_role("link", name="Download transcript").click()
    path = await (await started.value).path()
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert found[0]["schema"] == "arcp-client.transcript/1"
    said = [line["event"]["message"] for line in found if line["type"] == "event"]
    assert said == lines(1, 20)


async def test_a_job_that_does_not_exist_is_explained(
    site: Site, page: Page, complaints: list[str]
) -> None:
    await page.goto(site.job_url("job_nobody_knows"))
    alert = page.get_by_role("alert")
    await expect(alert).to_contain_text("JOB_NOT_FOUND")
    assert all("404" in each for each in complaints), complaints
    complaints.clear()


async def test_the_cancel_dialog_asks_first_and_gives_the_focus_back(
    site: Site, page: Page
) -> None:
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    cancel = page.get_by_role("button", name="Cancel job")
    await cancel.click()
    dialog = page.get_by_role("dialog", name="Cancel this job?")
    keep = dialog.get_by_role("button", name="Keep it running")
    await expect(keep).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(cancel).to_be_focused()
    await cancel.click()
    await keep.click()
    await expect(cancel).to_be_focused()
    assert job.job.status == "running"
    await cancel.click()
    await dialog.get_by_label("Reason").fill("enough")
    await page.keyboard.press("Enter")  # the safe answer
    await expect(dialog).to_have_count(0)
    assert job.job.status == "running"
    await cancel.click()
    await dialog.get_by_role("button", name="Cancel job").click()
    await expect(page.locator(".facts .badge")).to_have_text("cancelled")
    await expect(page.get_by_role("region", name="The job was cancelled")).to_be_visible()
    await expect(cancel).to_be_hidden()


async def test_without_control_nothing_can_be_cancelled_or_submitted(
    open_site: OpenSite, page: Page
) -> None:
    site = await open_site(linked=False, allow_control=False)
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    await expect(page.locator(".facts .badge")).to_have_text("running")
    await expect(page.get_by_role("button", name="Cancel job")).to_be_hidden()
    await page.goto(f"{site.url}#/submit")
    await expect(page.get_by_text("This dashboard only watches.")).to_be_visible()
    await expect(page.locator("form")).to_be_hidden()


async def test_tool_calls_and_delegated_jobs_are_bars_over_time(site: Site, page: Page) -> None:
    job = await site.submit(lease={"tool.call": ["**"], "agent.delegate": ["**"]})
    done = await job.says.tool_call("fs.read", {"path": "a"})
    await job.says.tool_result(done, {"lines": 3})
    bad = await job.says.tool_call("fs.write", {"path": "b"})
    await job.says.tool_result(bad, error={"code": "NO", "message": "no"})
    await job.says.tool_call("pytest")
    child = await job.says.delegate("mason")
    await page.goto(site.job_url(job.id))
    bars = page.locator(".waterfall li")
    await expect(bars).to_have_count(4, timeout=30_000)
    await expect(bars.nth(0)).to_contain_text("fs.read")
    await expect(bars.nth(1)).to_contain_text("failed")
    await expect(bars.nth(2)).to_contain_text("running")
    tree = page.get_by_role("region", name="Delegation")
    await expect(tree.locator("li")).to_have_count(2)
    await bars.nth(3).get_by_role("link", name="mason").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(child.id)
    here = page.get_by_role("region", name="Delegation").locator("li[aria-current=page]")
    await expect(here).to_have_attribute("data-job", child.id)


async def test_thoughts_in_a_row_are_folded_into_one_that_opens(site: Site, page: Page) -> None:
    job = await site.submit()
    for n in range(1, 6):
        await job.says.thought(f"thought {n}")
    await job.says.log("done thinking")
    await page.goto(site.job_url(job.id))
    await expect(page.locator("#timeline-count")).to_have_text("2 rows")
    line = page.locator(".row .line").first
    await expect(line).to_contain_text("and 4 earlier thoughts")
    await line.click()
    for n in range(1, 6):
        await expect(page.locator(".detail")).to_contain_text(f"thought {n}")


async def test_the_address_of_an_event_opens_it(site: Site, page: Page) -> None:
    job = await site.submit()
    await job.lines(1, 300)
    await page.goto(site.job_url(job.id))
    await expect(page.locator("#timeline-count")).to_have_text("300 rows")
    await page.get_by_role("log").focus()
    await page.keyboard.press("Home")
    await page.keyboard.press("Enter")
    link = page.get_by_role("link", name="Link to this event")
    assert (await link.get_attribute("href") or "").endswith("?event=1")
    await page.goto("about:blank")
    await page.goto(f"{site.job_url(job.id)}?event=120")
    opened = page.locator(".row.open")
    await expect(opened).to_have_count(1)
    await expect(opened.locator(".what")).to_have_text("line 120")
    await expect(opened.locator(".line")).to_be_in_viewport()


async def test_a_job_is_run_again_with_the_same_digits_and_a_new_key(
    site: Site, page: Page
) -> None:
    await page.goto(f"{site.url}#/submit")
    given = '{"n":12345678901234567890.5,"m":9007199254740993}'
    await page.get_by_label("Input").fill(given)
    await page.get_by_role("button", name="Submit").click()
    await expect(page.locator(".facts .badge")).to_have_text("running")
    first = page.url
    await page.get_by_text("Input, lease and times").click()
    await expect(page.get_by_label("Input", exact=True)).to_contain_text("12345678901234567890.5")
    await page.get_by_role("link", name="Run again").click()
    # The page that is left shows the input as well, and not in a field.
    await expect(page.get_by_role("textbox", name="Input")).to_have_value(
        '{\n  "n": 12345678901234567890.5,\n  "m": 9007199254740993\n}'
    )
    await page.get_by_role("button", name="Submit").click()
    await expect(page.locator(".facts .badge")).to_have_text("running")
    assert page.url != first, "it is another job"


async def test_two_jobs_are_compared(site: Site, page: Page) -> None:
    one, two = await site.submit("puppet"), await site.submit("mason")
    await one.says.metric("cost.x", 0.5, "USD")
    await two.says.metric("cost.x", 1.5, "USD")
    await page.goto(site.job_url(one.id))
    await page.get_by_role("link", name="Compare").click()
    await page.get_by_label("Compare with").fill(two.id)
    await page.get_by_role("button", name="Compare").click()
    spent = page.get_by_role("row", name="Spent")
    await expect(spent).to_contain_text("0.50 USD")
    await expect(spent).to_contain_text("1.50 USD")
    await expect(spent).to_have_class("differs")


async def test_a_job_is_downloaded_as_one_document_with_exact_digits(
    site: Site, page: Page
) -> None:
    job = await site.submit()
    await job.says.metric("big", 9007199254740993, "x")
    await page.goto(site.job_url(job.id))
    await expect(page.locator("#timeline-count")).to_have_text("1 row")
    await page.get_by_text("Download", exact=True).click()
    async with page.expect_download() as found:
        await page.get_by_role("link", name="Download as JSON").click()
    text = (await (await found.value).path()).read_text()
    document = json.loads(text)
    assert document["schema"] == "arcp-client.job/1"
    assert document["job"]["job_id"] == job.id
    assert document["events"][0]["event"]["value"] == 9007199254740993


async def test_a_streamed_result_is_rendered_while_it_grows(site: Site, page: Page) -> None:
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    await job.says.chunk("# Findings\n\n- one\n")
    result = page.get_by_role("region", name="Result", exact=True)
    await expect(result.get_by_role("heading", name="Findings")).to_be_visible()
    await job.says.chunk("- two\n\n<b>not bold</b>\n")
    await expect(result.get_by_role("listitem")).to_have_count(2)
    await expect(result.get_by_text("<b>not bold</b>")).to_be_visible()
    await page.get_by_role("button", name="Show as text").click()
    await expect(page.get_by_label("Result", exact=True).last).to_contain_text("# Findings")
