"""With many events the page keeps up and holds only a part of them."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import CDPSession, Page, expect

from tests.e2e.web.site import Puppet, Site

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(180),
]

EVENTS = 10_000
MIB = 2**20


async def memory(devtools: CDPSession) -> tuple[float, float]:
    """MiB of the heap of JavaScript, and nodes of the document, after what is unused has gone."""
    for _ in range(2):
        await devtools.send("HeapProfiler.collectGarbage")
    metrics = {
        each["name"]: each["value"]
        for each in (await devtools.send("Performance.getMetrics"))["metrics"]
    }
    return metrics["JSHeapUsedSize"] / MIB, metrics["Nodes"]


async def work(job: Puppet, rounds: int) -> None:
    """Eight events a round, of several kinds; six rows."""
    says = job.says
    for n in range(rounds):
        await says.log(f"round {n}: " + "reading a file and looking for what is wrong in it " * 2)
        await says.thought(f"perhaps file {n} is the one")
        call = await says.tool_call("fs.read", {"path": f"src/module_{n}.py", "limit": 200})
        await says.tool_result(call, {"lines": 120, "first": "import os"})
        await says.status("reading", f"file {n}")
        await says.progress(n, total=rounds, units="files")
        await says.metric("tokens", n, "tokens")
        await says.log("a warning", level="warn")


async def test_memory_and_document_stay_bounded_over_many_events(site: Site, page: Page) -> None:
    job = await site.submit()
    devtools = await page.context.new_cdp_session(page)
    await devtools.send("Performance.enable")
    await page.goto(site.job_url(job.id))
    # From here on the page is told of each event; before, it would begin with a gap.
    await expect(page.locator(".facts .badge")).to_have_text("running")
    seen = []
    for batch in (1, 2, 3):
        await work(job, EVENTS // 8)
        await job.says.log(f"the end of batch {batch}")
        await expect(page.locator(".row").last).to_contain_text(f"the end of batch {batch}")
        await page.wait_for_function(
            "(n) => Number(document.querySelector('#timeline-count').dataset.last) >= n",
            arg=batch * (EVENTS + 1),  # and a few that tell of back-pressure
        )
        heap, nodes = await memory(devtools)
        elements = await page.evaluate("document.querySelectorAll('*').length")
        rows = await page.locator(".row").count()
        assert rows <= 80, "only the rows in sight are in the document"
        assert elements <= 1500
        assert nodes <= 10_000, "what has left the document is not held"
        assert heap <= 64
        seen.append((heap, nodes))
    assert seen[2][0] - seen[1][0] < 8, f"the heap grows without end: {seen}"
    await expect(page.get_by_text("older events are not shown here")).to_be_visible()
    await expect(page.get_by_role("link", name="download the transcript")).to_be_visible()
    # and it can still be read: the middle, the beginning and the end are there at once
    log = page.locator(".log")
    for place in (0.5, 0, 1):
        await log.evaluate("(e, p) => { e.scrollTop = p * e.scrollHeight; }", place)
        await expect(page.locator(".row").first).to_be_attached()
        assert await log.evaluate(
            """async (e) => {
                e.scrollIntoView({ block: "center" });
                await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
                const box = e.getBoundingClientRect();
                const middle = document.elementFromPoint(box.x + 40, box.y + box.height / 2);
                return middle.closest('.row') !== null;
            }"""  # noqa: E501
        ), f"nothing is drawn at {place}"


async def last_shown(page: Page) -> int:
    return int(await page.locator("#timeline-count").get_attribute("data-last") or 0)


async def test_a_thousand_events_a_second_are_shown_as_they_come(site: Site, page: Page) -> None:
    """Ten seconds of them, and longer if the machine had something else to do meanwhile."""
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    await expect(page.locator(".facts .badge")).to_have_text("running")
    loop = asyncio.get_running_loop()
    sent = 0
    over = asyncio.Event()

    async def a_thousand_a_second() -> None:
        nonlocal sent
        began = loop.time()
        while not over.is_set():
            due = int((loop.time() - began) * 1000)
            while sent < due:
                sent += 1
                await job.says.log(f"event {sent} of a thousand a second")
            await asyncio.sleep(0.02)

    running = asyncio.create_task(a_thousand_a_second())
    try:
        await expect(page.locator("#timeline-count")).to_have_attribute(
            "data-last", re.compile(r"^(1\d|[2-9]\d)\d{3}$"), timeout=30_000
        )
        # The page prints the worst of the last two seconds, while they go on coming.
        await page.wait_for_function(
            "() => Number(document.querySelector('#lag').dataset.seconds) < 1", timeout=15_000
        )
        async with asyncio.timeout(30):  # a busy machine falls behind, and catches up
            while sent - await last_shown(page) >= 1000:
                await page.wait_for_timeout(100)
        assert await page.locator(".row").count() <= 80
    finally:
        over.set()
        await running
    await page.wait_for_function(  # back-pressure may have added events of its own
        f"() => Number(document.querySelector('#timeline-count').dataset.last) >= {sent}"
    )
