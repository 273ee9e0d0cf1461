"""W2: the job list is up to date, and can be searched and sorted."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, Page, expect

from arcp_client import Client
from arcp_client.web import serve
from tests.e2e.web.conftest import OpenSite
from tests.e2e.web.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")


def ids(page: Page) -> Locator:
    return page.locator("table.jobs a.job")


async def shows(page: Page, *job_ids: str) -> None:
    """Wait until the table has exactly these rows, in this order."""
    await page.wait_for_function(
        """(ids) => JSON.stringify([...document.querySelectorAll('tr[data-job]')]
            .map((row) => row.dataset.job)) === JSON.stringify(ids)""",
        arg=list(job_ids),
    )


async def test_a_job_appears_progresses_and_ends_without_a_reload(site: Site, page: Page) -> None:
    await page.goto(site.url)
    await expect(page.get_by_text("No jobs yet.")).to_be_visible()
    job = await site.submit()
    row = page.locator(f"tr[data-job='{job.id}']")
    await expect(row).to_contain_text("puppet@1.2.0")
    await expect(row.locator(".badge")).to_have_text("running")
    await job.says.progress(3, total=12, units="files")
    await expect(row.get_by_role("progressbar")).to_have_attribute("aria-valuetext", "3 / 12 files")
    await job.finish()
    await expect(row.locator(".badge")).to_have_text("success")
    await expect(page.locator("#jobs-count")).to_have_text("1 job")


async def test_the_job_list_is_filtered_by_text_and_status(site: Site, page: Page) -> None:
    puppet = await site.submit("puppet")
    mason = await site.submit("mason")
    done = await site.submit("scribe")
    await done.finish()
    await page.goto(site.url)
    await expect(ids(page)).to_have_count(3)
    await page.get_by_role("searchbox", name="Find").fill("MASON@0")
    await shows(page, mason.id)
    await expect(page.locator("#jobs-count")).to_have_text("1 of 3 jobs")
    await page.get_by_role("searchbox", name="Find").fill("")
    await page.get_by_role("button", name="running").click()
    await expect(page.locator("#jobs-count")).to_have_text("2 of 3 jobs")
    await page.get_by_role("button", name="success").click()
    await shows(page, done.id)
    await page.get_by_role("searchbox", name="Find").fill("nothing like it")
    await expect(page.get_by_text("No job matches the filter.")).to_be_visible()
    await page.get_by_role("button", name="Show all jobs").click()
    await expect(ids(page)).to_have_count(3)
    assert await page.locator(f"tr[data-job='{puppet.id}']").count() == 1
    await page.get_by_role("link", name=puppet.id).click()
    await page.go_back()
    await expect(page.get_by_role("searchbox", name="Find")).to_have_value("")


async def test_a_click_on_a_column_head_sorts_and_a_second_one_reverses(
    site: Site, page: Page
) -> None:
    for agent in ("puppet", "mason", "scribe"):
        await site.submit(agent)
    await page.goto(site.url)
    agents = page.locator("table.jobs .agent")
    await expect(agents).to_have_count(3)
    head = page.get_by_role("columnheader", name="Agent")
    await head.get_by_role("button").click()
    await expect(agents).to_have_text(["mason", "puppet", "scribe"])
    await expect(head).to_have_attribute("aria-sort", "ascending")
    await head.get_by_role("button").click()
    await expect(agents).to_have_text(["scribe", "puppet", "mason"])
    await expect(head).to_have_attribute("aria-sort", "descending")
    await page.get_by_role("columnheader", name="Job").get_by_role("button").click()
    await expect(head).not_to_have_attribute("aria-sort", "descending")


async def test_children_stand_below_their_parents_until_told_otherwise(
    site: Site, page: Page
) -> None:
    parent = await site.submit(lease={"agent.delegate": ["**"]})
    other = await site.submit("mason")
    child = await parent.says.delegate("scribe")
    await page.goto(site.url)
    await page.get_by_role("columnheader", name="Job").get_by_role("button").click()
    # Ids of the same millisecond are in no order.
    family = [parent.id, child.id]
    first = min(family) < other.id
    await shows(page, *([*family, other.id] if first else [other.id, *family]))
    row = page.locator(f"tr[data-job='{child.id}']")
    await expect(row).to_contain_text(f"child of {parent.id}")
    await page.get_by_label("Children below their parents").uncheck()
    await shows(page, *sorted((parent.id, other.id, child.id)))
    await expect(row).to_contain_text(f"child of {parent.id}")


async def test_the_focus_stays_on_its_row_when_the_order_changes(site: Site, page: Page) -> None:
    first = await site.submit("puppet")
    await site.submit("mason")
    await page.goto(site.url)
    await page.get_by_role("columnheader", name="State").get_by_role("button").click()
    link = page.get_by_role("link", name=first.id)
    await link.focus()
    await expect(ids(page)).to_have_count(2)
    await first.finish()
    await expect(page.locator("tr[data-job]").last).to_have_attribute("data-job", first.id)
    await expect(link).to_be_focused()


async def test_many_jobs_are_rendered_in_parts(site: Site, page: Page) -> None:
    await page.goto(site.url)
    await page.evaluate(
        """async () => {
            // A second table of the same module, fed by hand: two thousand jobs take a while.
            const { jobsView } = await import('./static/jobsview.js');
            const { createStore } = await import('./static/overview.js');
            const store = createStore();
            const jobs = Array.from({length: 2000}, (_, n) => ({job_id: `job_${n}`, status: 'running'}));
            store.dispatch({type: 'overview', at: 0, data: {jobs}});
            const announcer = {say() {}};
            const route = {name: 'jobs', query: new URLSearchParams()};
            const view = jobsView(route, {store, announcer});
            document.querySelector('main').replaceChildren(view.element);
        }"""  # noqa: E501
    )
    await expect(ids(page)).to_have_count(200)
    await page.get_by_role("button", name="Show 200 more").click()
    await expect(ids(page)).to_have_count(400)


async def test_w2_running_jobs_show_their_progress_although_no_page_opened_them(
    site: Site, page: Page
) -> None:
    jobs = [await site.submit("puppet") for _ in range(10)]
    for n, job in enumerate(jobs, 1):
        await job.says.progress(n, total=12, units="files")
    async with Client(site.runtime) as watcher, serve(watcher) as server:
        await page.goto(server.url)
        for n, job in enumerate(jobs, 1):
            bar = page.locator(f"tr[data-job='{job.id}']").get_by_role("progressbar")
            await expect(bar).to_have_attribute("aria-valuetext", f"{n} / 12 files")
        await jobs[0].says.progress(11, total=12, units="files")
        bar = page.locator(f"tr[data-job='{jobs[0].id}']").get_by_role("progressbar")
        await expect(bar).to_have_attribute("aria-valuetext", re.compile(r"^11 / 12 files"))
        await jobs[0].says.progress(11_999, total=12_000, units="files")
        await expect(bar).to_have_attribute("aria-valuetext", re.compile(r"^11,999"))
        await expect(bar.locator(".bar-fill")).to_have_attribute("style", "inline-size: 97%;")
        await jobs[0].says.progress(12_000, total=12_000, units="files")
        await expect(bar.locator(".bar-fill")).to_have_attribute("style", "inline-size: 100%;")


async def test_w2_ended_jobs_show_how_long_they_took_when_they_ended_and_why(
    site: Site, page: Page
) -> None:
    done, failed = await site.submit("puppet"), await site.submit("mason")
    await done.finish()
    failed.fail("X_NO_BRANCH", "no such branch")
    async with Client(site.runtime) as watcher, serve(watcher) as server:
        await page.goto(server.url)
        row = page.locator(f"tr[data-job='{failed.id}']")
        await expect(row.locator(".col-status")).to_contain_text("X_NO_BRANCH: no such branch")
        for job in (done, failed):
            time = page.locator(f"tr[data-job='{job.id}'] .col-age")
            await expect(time).to_contain_text("took 0")
            await expect(time).to_contain_text("ended ")


async def test_w2_a_job_that_a_restarted_runtime_no_longer_knows_is_lost(
    open_site: OpenSite, page: Page
) -> None:
    site = await open_site(linked=True)
    job = await site.submit("puppet")
    await job.says.progress(120, total=600)
    await page.goto(site.url)
    row = page.locator(f"tr[data-job='{job.id}']")
    await expect(row.get_by_role("progressbar")).to_have_attribute("aria-valuetext", "120 / 600")
    await site.replace_runtime()
    await expect(row.locator(".badge")).to_have_text("lost")
    await expect(row).to_contain_text("the runtime no longer knows it")


async def test_w2_running_jobs_are_above_ended_ones(site: Site, page: Page) -> None:
    running = await site.submit("puppet", lease={"agent.delegate": ["**"]})
    for _ in range(3):
        await (await site.submit("mason")).finish()
    await page.goto(site.url)
    await expect(ids(page)).to_have_count(4)
    await expect(page.locator("tr[data-job]").first).to_have_attribute("data-job", running.id)


async def test_w2_the_whole_row_opens_the_job(site: Site, page: Page) -> None:
    job = await site.submit("puppet")
    await page.goto(site.url)
    await page.locator(f"tr[data-job='{job.id}'] .col-age").click(force=True)
    await expect(page.get_by_role("heading", level=1)).to_have_text(job.id)


async def test_a_row_says_how_its_job_is_doing(site: Site, page: Page) -> None:
    job = await site.submit("puppet", lease={"cost.budget": ["USD:5.00"], "tool.call": ["**"]})
    await job.says.status("reading", "the billing package")
    await job.says.metric("cost.inference", 1.25, "USD")
    await job.says.metric("tokens.output", 12345, "tokens")
    await job.says.progress(3, total=12, units="files")
    await job.says.tool_call("fs.read", {"path": "a"})
    await page.goto(site.url)
    row = page.locator(f"tr[data-job='{job.id}']")
    await expect(row.locator("a.job")).to_have_text("the billing package")
    await expect(row.locator(".col-job")).to_contain_text(job.id[-8:])
    await expect(row.locator(".last")).to_have_text('calls fs.read {"path": "a"}')
    await expect(row.locator(".col-last")).to_contain_text(" ago")
    gauge = row.get_by_role("meter")
    await expect(gauge).to_have_attribute("aria-valuetext", "3.75 of 5.00 USD left")
    await expect(gauge).to_have_attribute("aria-valuenow", "75")
    await expect(row.locator(".spent")).to_have_text("1.25 USD")
    await expect(row.locator(".col-money")).to_contain_text("12,345 tokens")


async def test_a_job_that_needs_attention_says_why_and_can_be_found(site: Site, page: Page) -> None:
    fine = await site.submit("puppet")
    await fine.says.log("all is well")
    failed = await site.submit("mason")
    failed.fail("X_NO_BRANCH", "no such branch")
    broke = await site.submit("scribe", lease={"cost.budget": ["USD:1.00"]})
    await broke.says.metric("cost.inference", 0.5, "USD")
    await broke.says.metric("cost.inference", 0.45, "USD")
    await page.goto(site.url)
    row = page.locator(f"tr[data-job='{broke.id}']")
    await expect(row.locator(".reason")).to_contain_text("budget in USD ends in")
    await expect(row).to_have_class("needs-look")
    look = page.get_by_role("button", name="Needs attention")
    await expect(look).to_contain_text("2")
    await look.click()
    await shows(page, broke.id, failed.id)
    assert "status=look" in page.url


async def test_the_filters_live_in_the_address(site: Site, page: Page) -> None:
    puppet = await site.submit("puppet")
    mason = await site.submit("mason")
    await page.goto(f"{site.url}#/?agent=mason&sort=job&order=descending&nest=no&since=1h")
    await shows(page, mason.id)
    await expect(page.locator("#jobs-agent")).to_have_value("mason")
    await expect(page.locator("#jobs-since")).to_have_value("1h")
    await expect(page.get_by_label("Children below their parents")).not_to_be_checked()
    await page.locator("#jobs-agent").select_option("")
    await expect(page.locator("tr[data-job]")).to_have_count(2)
    assert "agent" not in page.url
    await page.get_by_role("searchbox", name="Find").fill("puppet")
    await shows(page, puppet.id)
    await page.locator(f"tr[data-job='{puppet.id}'] a.job").click()
    await page.get_by_role("link", name="All jobs").click()
    await shows(page, puppet.id)
    await page.reload()
    await shows(page, puppet.id)
    await expect(page.get_by_role("searchbox", name="Find")).to_have_value("puppet")


async def test_the_choice_of_columns_is_remembered(site: Site, page: Page) -> None:
    await site.submit("puppet")
    await page.goto(site.url)
    head = page.get_by_role("columnheader", name="Agent")
    await expect(head).to_be_visible()
    await page.get_by_text("Columns", exact=True).click()
    await page.get_by_role("checkbox", name="Agent").uncheck()
    await expect(head).to_be_hidden()
    await page.reload()
    await expect(page.locator("tr[data-job]")).to_have_count(1)
    await expect(head).to_be_hidden()


async def test_many_jobs_are_selected_and_cancelled_at_once(site: Site, page: Page) -> None:
    jobs = [await site.submit("puppet") for _ in range(5)]
    kept = await site.submit("mason")
    await page.goto(site.url)
    await expect(page.locator("tr[data-job]")).to_have_count(6)
    await page.get_by_label("Select all running jobs that are listed").check()
    await expect(page.get_by_text("6 selected")).to_be_visible()
    await page.get_by_role("checkbox", name=f"Select {kept.id}").uncheck()
    await expect(page.get_by_text("5 selected")).to_be_visible()
    await page.get_by_role("button", name="Cancel selected…").click()
    await page.get_by_role("button", name="Cancel 5 jobs").click()
    await expect(page.get_by_text("5 jobs asked to stop.")).to_be_visible()
    for job in jobs:
        badge = page.locator(f"tr[data-job='{job.id}'] .badge")
        await expect(badge).to_have_text("cancelled")
    assert kept.job.status == "running"
