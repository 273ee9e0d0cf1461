"""The dashboard in Firefox: live, complete, without a complaint, and accessible."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.web import firefox
from tests.e2e.web.site import Site
from tests.e2e.web.test_accessibility import AXE, TAGS, eventful

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
FAULTS = """axe.run(document, {resultTypes: ['violations'], runOnly: %s})
    .then((found) => found.violations.map((each) => `${each.id}: ${each.nodes[0].target}`))"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[firefox.Bidi]:
    async with firefox.browser(tmp_path_factory.mktemp("firefox") / "profile") as started:
        yield started


@pytest_asyncio.fixture(loop_scope="session")
async def bidi(browser: firefox.Bidi, site: Site) -> AsyncIterator[firefox.Bidi]:
    """The browser; a test's tabs are closed before its site, and must not complain."""
    yield browser
    await browser.close_tabs()
    assert browser.complaints == []


async def faults(tab: firefox.Tab) -> list[str]:
    """What axe finds on a page, at 320 and at 1920 pixels, and whether it is too wide."""
    found: list[str] = []
    for width in (320, 1920):
        await tab.size(width, 900)
        if await tab.evaluate("typeof axe") != '"object"':
            await tab.evaluate(f"(() => {{ {AXE} }})()")
        found += json.loads(await tab.evaluate(FAULTS % json.dumps(TAGS)))
        if await tab.evaluate(WIDE) == "true":
            found.append(f"wider than {width} px")
    return found


async def test_the_pages_are_live_and_axe_finds_nothing(site: Site, bidi: firefox.Bidi) -> None:
    tab = await bidi.tab()
    await tab.goto(site.url)
    await tab.until("document.body.innerText.includes('No jobs yet.')")
    job = await eventful(site)
    await tab.until(f"document.querySelector(\"tr[data-job='{job.id}']\") !== null")
    assert await faults(tab) == []
    await tab.goto(site.job_url(job.id))
    await tab.until("document.querySelector('#timeline-count')?.textContent === '16 rows'")
    assert await faults(tab) == []
    await job.says.log("the newest")
    await tab.until("[...document.querySelectorAll('.row')].at(-1).innerText.includes('newest')")
    await job.finish()
    await tab.until("document.querySelector('.facts .badge').textContent === 'success'")
    assert await faults(tab) == []
    for page in ("overview", "submit", "replay"):
        await tab.goto(f"{site.url}#/{page}")
        await tab.until("document.querySelector('h1') !== null")
        assert await faults(tab) == []


async def test_a_long_job_opens_and_older_events_come_as_one_scrolls_up(
    site: Site, bidi: firefox.Bidi
) -> None:
    job = await site.submit()
    tab = await bidi.tab()
    await tab.goto(site.job_url(job.id))
    first = "document.querySelector('.row')?.innerText.includes('line 1')"
    await job.lines(1, 1)
    await tab.until(first)  # it follows: it is not one that opens the job later
    await job.lines(2, 2500)
    last = "[...document.querySelectorAll('.row')].at(-1)?.innerText.includes('line 2500')"
    await tab.until(last)
    other = await bidi.tab()
    await other.goto(site.job_url(job.id))
    await other.until(last)
    rows = "Number(document.querySelector('#timeline-count').textContent.replace(/\\D/g, ''))"
    begun = int(await other.evaluate(rows))
    assert begun <= 2000
    await other.evaluate("document.querySelector('.log').scrollTop = 100")
    await other.until(f"{rows} >= 2500")
    await asyncio.gather(*(each.until(f"{rows} >= 2500") for each in (tab, other)))
