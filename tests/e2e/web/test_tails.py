"""The page of a job begins with its state and its newest events, and reads older ones."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.async_api import Page, Request, Route, expect

from arcp_client import Client, Runtime, events
from arcp_client._feeds import frames
from arcp_client._feeds.job_feed import JobFeed
from tests.e2e.web.site import Puppet, Site, all_rows, lines
from tests.e2e.web.test_accessibility import both_themes
from tests.unit.feeds.test_frames import BODIES, received

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]

WORDS = st.sampled_from(["a", "ü", "😀", "long " * 4000])
CALLS = st.sampled_from(["c1", "c2"])
EVENT = st.one_of(
    st.builds(events.Log, message=WORDS, level=st.sampled_from(["info", "error"])),
    st.builds(events.Thought, text=WORDS),
    st.builds(events.Status, phase=WORDS),
    st.builds(events.Progress, current=st.integers(0, 9), units=st.sampled_from(["x", None])),
    st.builds(events.Metric, name=WORDS, value=st.sampled_from([0.5, 2**53 + 1, 10**20])),
    st.builds(events.ToolCall, tool=st.just("t"), call_id=CALLS, args=st.just({"n": 1})),
    st.builds(events.ToolResult, call_id=CALLS, result=st.just(1)),
    st.builds(events.Gap, first=st.just(1), last=st.just(2), reason=st.just("lost")),
    st.builds(
        events.ResultChunk,
        result_id=st.sampled_from([f"r{n}" for n in range(10)]),
        chunk_seq=st.integers(0, 3),
        data=WORDS,
        more=st.booleans(),
    ),
    BODIES.map(lambda told: received(*told)),
)

SHOWN = """async ([whole, begun, rest, pages]) => {
    const { JobState } = await import('/jobstate.js');
    const { parse, write } = await import('/numbers.js');
    const shown = (s) => {
        const rows = [];
        for (let id = s.timeline.first; id < s.timeline.next; id += 1) {
            const { id: _id, version: _v, weight: _w, ...row } = s.timeline.row(id);
            rows.push(row);
        }
        const { last, start, at, received, missing, errors } = s.timeline;
        return write({ rows, last, start, at, received, missing, errors, older: s.older, held: s.held,
                       value: s.value, failure: s.failure, streams: [...s.streams.byId.values()] });
    };
    const all = new JobState();
    all.take('reset', { reason: 'start' }, 0, '');
    for (const batch of whole) all.take('events', parse(batch), batch.length);
    const one = new JobState();
    one.take('reset', parse(begun[0]), 0, begun[1]);
    for (const batch of rest) one.take('events', parse(batch), batch.length);
    const lost = [];
    for (const page of pages) {
        const before = new Map();
        for (let id = one.timeline.first; id < one.timeline.next; id += 1) before.set(id, one.timeline.row(id).n);
        const renamed = one.prepend(parse(page), page.length);
        for (const [id, n] of before) {
            const row = one.timeline.row(renamed(id));
            if (!row || row.n > n) lost.push([id, n]);
        }
    }
    return { all: shown(all), one: shown(one), more: one.before, lost };
}"""  # noqa: E501


NEAR_THE_TOP = """(log) => {
    log.scrollTop = log.clientHeight - 5;
    const height = parseFloat(getComputedStyle(log.querySelector('.rows')).gridAutoRows);
    return Math.floor(log.scrollTop / height);
}"""
IN_SIGHT = """async (log) => {
    log.scrollIntoView({ block: 'center' });
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const { x, y } = log.getBoundingClientRect();
    const top = y + log.clientTop + 1;
    return Number(document.elementFromPoint(x + 40, top).closest('.row').ariaPosInSet);
}"""


async def feed_of(client: Client) -> JobFeed:
    job = await client.submit("echo", None)
    await job.result()
    return JobFeed(job)


def batches(feed: JobFeed, after: int) -> list[str]:
    """The data of the frames with the events after a number."""
    found = []
    while (batch := feed.kept.read(after)) is not None:
        after = batch[0]
        found.append(batch[1].decode().partition("data: ")[2].strip())
    return found


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    given_events=st.lists(EVENT, max_size=40),
    at=st.integers(0, 40),
    tail=st.integers(1, 12),
    page_size=st.integers(1, 9),
)
async def test_snapshot_and_tail_are_the_state_of_all_events(
    modules: Page, given_events: list[events.Event], at: int, tail: int, page_size: int
) -> None:
    """At every number: the page that begins there shows what a page shows that read all events."""
    async with Runtime() as runtime, Client(runtime) as client:

        @runtime.agent("echo")
        async def echo(input: Any, _job: Any) -> Any:
            return input

        feed = await feed_of(client)
        for event in given_events[:at]:
            feed.add(event)
        after = feed.kept.tail_start(tail)
        head = feed.reset("start", after, tail=True).decode()
        begun = [head.partition("data: ")[2].strip(), head.partition("id: ")[2].partition("\n")[0]]
        for event in given_events[at:]:
            feed.add(event)
        pages = []
        position = frames.position(begun[1]) if after else None
        while position is not None:
            page = older(feed, position, page_size)
            pages.append(page)
            position = frames.position(json.loads(page)["before"])
        told = await modules.evaluate(SHOWN, [batches(feed, 0), begun, batches(feed, after), pages])
        feed.close()
    assert told["one"] == told["all"]
    assert told["more"] is None
    assert told["lost"] == []


def older(feed: JobFeed, position: frames.Position, most: int) -> str:
    """`KeptEvents.older` with smaller pages."""
    import arcp_client._feeds.kept_events as module

    whole, module.PAGE_EVENTS = module.PAGE_EVENTS, most
    try:
        page = feed.kept.older(position)
    finally:
        module.PAGE_EVENTS = whole
    assert page is not None
    return page.decode()


async def long_job(site: Site, page: Page, number: int) -> Puppet:
    """A job with so many lines, all of which the dashboard's server has received."""
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    # From here on the server is told of each event; before, it would begin with a gap.
    await expect(page.locator(".facts .badge")).to_have_text("running")
    await job.lines(1, number)
    await expect(page.locator(".row").last).to_contain_text(f"line {number}")
    await page.goto("about:blank")
    return job


async def held(page: Page) -> tuple[int, int]:
    """How many rows the page has, and the number of the newest event."""
    count = page.locator("#timeline-count")
    rows = (await count.inner_text()).split()[0]
    return int(rows.replace(",", "")), int(await count.get_attribute("data-last") or 0)


async def test_a_long_job_opens_with_its_newest_events_and_older_ones_come_as_one_scrolls_up(
    site: Site, page: Page
) -> None:
    job = await long_job(site, page, 3500)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(site.job_url(job.id))
    count = page.locator("#timeline-count")
    await expect(page.locator(".row").last).to_contain_text("line 3500")
    begun, total = await held(page)
    assert 1000 < begun <= 2000
    note = page.get_by_text(f"{total - begun:,} older events are not loaded yet")
    await expect(note).to_be_visible()
    await both_themes(page)
    log = page.locator(".log")
    await page.get_by_role("button", name="Jump to latest").wait_for(state="hidden")
    above = await log.evaluate(NEAR_THE_TOP)
    await expect(count).to_have_text(f"{begun + 1000:,} rows")
    place = await log.evaluate(IN_SIGHT)
    assert place == above + 1 + 1000, "what was in sight stays in sight"
    await page.get_by_role("button", name="Show older events").click()
    await expect(count).to_have_text(f"{total:,} rows")
    await expect(page.get_by_role("button", name="Show older events")).to_be_hidden()
    assert [row for row in await all_rows(page) if "line" in row] == lines(1, 3500)
    await job.lines(3501, 3510)
    await expect(count).to_have_text(f"{total + 10:,} rows")
    assert len([url for url in asked if "/events?until=" in url]) == 2


async def test_a_link_to_an_old_event_loads_the_events_up_to_it(site: Site, page: Page) -> None:
    job = await long_job(site, page, 3500)
    await page.goto(f"{site.job_url(job.id)}?event=700")
    row = page.locator(".row.open")
    await expect(row).to_contain_text("line 700")
    await expect(row.locator(".line")).to_be_focused()


async def test_pages_of_older_events_do_not_come_while_the_timeline_is_paused(
    site: Site, page: Page
) -> None:
    job = await long_job(site, page, 2100)
    await page.goto(site.job_url(job.id))
    count = page.locator("#timeline-count")
    await expect(page.locator(".row").last).to_contain_text("line 2100")
    begun, total = await held(page)
    await page.locator("#pause").click()
    await expect(page.get_by_role("button", name="Show older events")).to_be_hidden()
    await page.locator(".log").evaluate("(e) => { e.scrollTop = 0; }")
    await expect(count).to_have_text(f"{begun:,} rows · paused, 0 new")
    await page.locator("#pause").click()
    await page.get_by_role("button", name="Show older events").click()
    await expect(count).to_have_text(f"{total:,} rows")


async def test_the_server_reads_a_job_before_the_page_has_its_scripts(
    site: Site, page: Page
) -> None:
    job = await site.submit()
    asked = asyncio.Event()

    def note(request: Request) -> None:
        if request.url.endswith(f"/api/jobs/{job.id}"):
            asked.set()

    async def after(route: Route) -> None:
        await asked.wait()
        await route.continue_()

    page.on("request", note)
    await page.route("**/static/app.js", after)
    await page.goto(site.job_url(job.id))
    await expect(page.locator(".facts .badge")).to_have_text("running")


async def test_an_address_that_names_no_job_has_the_server_read_none(
    site: Site, page: Page
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(f"{site.url}#/inbox")
    await expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    assert not [url for url in asked if "api/jobs/" in url]
