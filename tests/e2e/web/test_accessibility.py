"""The dashboard is accessible: axe finds no fault, keys suffice, and no page is too wide."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.async_api import Page, expect

from tests.e2e.web.conftest import OpenSite
from tests.e2e.web.site import Puppet, Site

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


async def axe(page: Page, **options: Any) -> None:
    """Assert that axe finds no violation. It comes by the debugger, past the page's own policy."""
    if not await page.evaluate("typeof axe === 'object'"):
        await page.evaluate(AXE)
    found = await page.evaluate(
        "(options) => axe.run(document, {resultTypes: ['violations'], ...options})",
        options or {"runOnly": TAGS},
    )
    assert not found["violations"], "\n".join(
        f"{each['id']}: {each['help']}\n"
        + "\n".join(f"  {node['target']} {node['failureSummary']}" for node in each["nodes"][:5])
        for each in found["violations"]
    )
    assert found["passes"] is not None


async def both_themes(page: Page) -> None:
    """All rules in the light theme; those that see colours in the dark one too."""
    await page.emulate_media(color_scheme="light")
    await axe(page)
    await page.emulate_media(color_scheme="dark")
    await axe(page, runOnly={"type": "rule", "values": ["color-contrast", "link-in-text-block"]})
    await page.emulate_media(color_scheme="light")


async def eventful(site: Site) -> Puppet:
    """A job with an event of each kind."""
    job = await site.submit(
        lease={"agent.delegate": ["**"], "tool.call": ["fs.*"], "cost.budget": ["USD:5.00"]}
    )
    says = job.says
    for level in ("debug", "info", "warn", "error"):
        await says.log(f"a line of {level}", level=level)
    await says.thought("what to do next")
    await says.status("reading", "the sources")
    await says.progress(3, total=12, units="files", message="src/a.py")
    await says.metric("cost.inference", 4.5, "USD", {"model": "large"})
    done = await says.tool_call("fs.read", {"path": "a"})
    await says.tool_result(done, {"lines": 3})
    refused = await says.tool_call("fs.write", {"path": "b"})
    await says.tool_result(refused, error={"code": "PERMISSION_DENIED", "message": "no"})
    await says.tool_call("fs.list", {"path": "."})
    await says.artifact("file:///out/report.pdf", "application/pdf", 123_456)
    await says.emit("x-vendor.acme.scored", {"score": 7})
    await says.delegate("mason")
    await says.chunk("Once upon a time")
    return job


async def pages(site: Site, page: Page) -> AsyncIterator[str]:
    """Every page and state, one after the other."""
    await page.goto(site.url)
    await expect(page.get_by_text("No jobs yet.")).to_be_visible()
    yield "no jobs"
    job = await eventful(site)
    failed = await site.submit("mason")
    failed.fail("BUDGET_EXHAUSTED", "spent")
    await expect(page.locator("table.jobs a.job")).to_have_count(3)
    yield "jobs"
    await page.get_by_role("searchbox", name="Find").fill("nothing like it")
    yield "no match"
    await page.get_by_role("searchbox", name="Find").fill("")
    await page.get_by_role("link", name=job.id).click()
    await expect(page.locator("#timeline-count")).to_have_text("16 rows")
    yield "a running job"
    await page.get_by_text("Input, lease and times").click()
    await page.get_by_text("Download", exact=True).click()
    yield "all that a job's page can unfold"
    await page.get_by_text("Download", exact=True).click()
    await page.locator(".row .line").filter(has_text="fs.read").click()
    await page.get_by_role("button", name="Pause").click()
    await page.get_by_role("checkbox", name="Metrics").uncheck()
    yield "an opened row, paused, filtered"
    await page.get_by_role("button", name="Cancel job").click()
    yield "the cancel dialog"
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Keys").click()
    yield "the keys"
    await page.keyboard.press("Escape")
    await page.goto(site.job_url(failed.id))
    await expect(page.get_by_role("region", name="The job failed")).to_be_visible()
    yield "a failed job"
    await page.goto(f"{site.url}#/compare?a={job.id}&b={failed.id}")
    await expect(page.get_by_role("row", name="Status")).to_contain_text("error")
    yield "two jobs compared"
    await page.goto(f"{site.url}#/overview")
    await expect(page.get_by_role("row", name="mason")).to_be_visible()
    yield "the overview"
    await page.goto(f"{site.url}#/submit")
    await page.get_by_label("Input").fill("{nope")
    await page.get_by_text("Lease and limits").click()
    await page.get_by_role("button", name="Submit").click()
    await expect(page.get_by_text("Not JSON")).to_be_visible()
    yield "the form with an error"
    await page.goto(f"{site.url}#/replay")
    yield "replay without a file"
    await page.locator("#file").set_input_files(
        {"name": "x.txt", "mimeType": "text/plain", "buffer": b"no transcript"}
    )
    await expect(page.get_by_text("This is no transcript")).to_be_visible()
    yield "replay of a wrong file"
    header = b'{"schema":"arcp-client.transcript/1","type":"header","at":0}\n'
    event = b'{"type":"event","at":1,"event":{"kind":"log","job_id":"j","message":"hello"}}\n'
    await page.locator("#file").set_input_files(
        {"name": "x.jsonl", "mimeType": "text/plain", "buffer": header + event}
    )
    await page.locator("#seek").fill("1000")
    await expect(page.locator(".row")).to_have_count(1)
    yield "a replay"


async def test_axe_finds_nothing_on_any_page_in_either_theme(site: Site, page: Page) -> None:
    seen = []
    async for name in pages(site, page):
        seen.append(name)
        await both_themes(page)
    assert len(seen) == 15


async def test_axe_finds_nothing_on_the_login_page(
    open_site: OpenSite, page: Page, complaints: list[str]
) -> None:
    site = await open_site(linked=False, token="open sesame")
    await page.goto(site.url)
    await expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    await both_themes(page)
    assert all("401" in each for each in complaints), complaints
    complaints.clear()


async def test_no_page_is_wider_than_320_pixels_or_than_text_of_double_size(
    site: Site, page: Page
) -> None:
    wide = "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"
    await page.set_viewport_size({"width": 320, "height": 640})
    async for name in pages(site, page):
        assert not await page.evaluate(wide), f"{name} at 320 px"
        await axe(page)
        await page.set_viewport_size({"width": 1920, "height": 1080})
        await axe(page)
        await page.set_viewport_size({"width": 1280, "height": 900})
        await page.evaluate("document.documentElement.style.setProperty('font-size', '200%')")
        assert not await page.evaluate(wide), f"{name} at 200 %"
        await page.evaluate("document.documentElement.style.removeProperty('font-size')")
        await page.set_viewport_size({"width": 320, "height": 640})


async def test_keys_alone_find_open_and_cancel_a_job_and_come_back(site: Site, page: Page) -> None:
    job = await site.submit()
    other = await site.submit("mason")
    await page.goto(site.url)
    await expect(page.locator("table.jobs a.job")).to_have_count(2)

    async def tab_to(name: str, *, role: str) -> None:
        target = page.get_by_role(role, name=name)  # type: ignore[arg-type]
        for _ in range(40):
            await page.keyboard.press("Tab")
            if await target.evaluate("(e) => e === document.activeElement"):
                return
        raise AssertionError(f"no {role} {name} within 40 tabs")

    await page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    await expect(skip).to_be_focused()
    await expect(skip).to_be_in_viewport()
    await page.keyboard.press("Enter")
    await expect(page.locator("main")).to_be_focused()
    first = await page.locator("tr[data-job]").first.get_attribute("data-job")
    await tab_to(first or "", role="link")
    if first != job.id:
        await page.keyboard.press("ArrowDown")
    await expect(page.get_by_role("link", name=job.id)).to_be_focused()
    await page.keyboard.press("Enter")
    heading = page.get_by_role("heading", level=1)
    await expect(heading).to_have_text(job.id)
    await expect(heading).to_be_focused()
    assert job.id in await page.title()
    await expect(page.locator(".facts .badge")).to_have_text("running")
    await tab_to("Cancel job", role="button")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Keep it running")).to_be_focused()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect(page.locator(".facts .badge")).to_have_text("cancelled")
    await expect(heading).to_be_focused()
    await page.keyboard.press("Shift+Tab")
    await expect(page.get_by_role("link", name="All jobs")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(heading).to_have_text("Jobs")
    await expect(heading).to_be_focused()
    assert other.job.status == "running"


async def test_keys_move_through_the_timeline_and_open_its_rows(site: Site, page: Page) -> None:
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    await job.lines(1, 500)
    await expect(page.locator("#timeline-count")).to_have_text("500 rows")
    focused = page.locator(".line:focus .what")
    await page.get_by_role("log").focus()
    await page.keyboard.press("Home")
    await expect(focused).to_have_text("line 1")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("ArrowDown")
    await expect(focused).to_have_text("line 3")
    await page.keyboard.press("Enter")
    await expect(page.locator(".line:focus")).to_have_attribute("aria-expanded", "true")
    await page.keyboard.press("ArrowUp")
    await expect(focused).to_have_text("line 2")
    await page.keyboard.press("PageDown")
    far = await focused.text_content()
    assert int((far or "").removeprefix("line ")) > 10
    await expect(page.locator(".line:focus")).to_be_in_viewport()
    await job.lines(501, 600)
    await expect(page.locator("#timeline-count")).to_have_text("600 rows")
    await expect(focused).to_have_text(far or "")
    await page.keyboard.press("End")
    await expect(focused).to_have_text("line 600")
    await page.keyboard.press("p")
    await expect(page.get_by_role("button", name="Resume")).to_be_visible()
    await page.keyboard.press("p")
    await expect(page.get_by_role("button", name="Pause")).to_be_visible()
    await page.keyboard.press("Tab")
    assert not await focused.count(), "one Tab leaves the timeline"


async def test_no_letter_is_a_global_shortcut(site: Site, page: Page) -> None:
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    await job.lines(1, 3)
    await expect(page.locator(".row")).to_have_count(3)
    before = await page.locator("main").aria_snapshot()
    await page.get_by_role("link", name="All jobs").focus()
    for letter in "abcdefghijklmnopqrstuvwxyz?/":
        await page.keyboard.press(letter)
    ticking = re.compile(r"\d+(\.\d+)? s\b")
    after = await page.locator("main").aria_snapshot()
    assert ticking.sub("", after) == ticking.sub("", before)


async def test_every_control_shows_that_it_has_the_focus(site: Site, page: Page) -> None:
    job = await eventful(site)
    await page.goto(site.job_url(job.id))
    await expect(page.locator("#timeline-count")).to_have_text("16 rows")
    seen: set[str] = set()
    for _ in range(60):
        await page.keyboard.press("Tab")
        name, outline = await page.evaluate(
            """() => {
                const e = document.activeElement;
                const shown = e.closest('.pill') ?? e;
                const style = getComputedStyle(shown);
                const name = e.id || e.className || e.textContent;
                return [`${e.tagName} ${name}`, `${style.outlineStyle} ${style.outlineWidth}`];
            }"""
        )
        if name.startswith("BODY") or name in seen:
            break
        seen.add(name)
        assert outline == "solid 2px", f"{name} has the focus and shows {outline}"
    assert len(seen) > 15


async def test_screen_readers_get_summaries_of_the_log(site: Site, page: Page) -> None:
    job = await site.submit()
    await page.goto(site.job_url(job.id))
    await expect(page.locator(".facts .badge")).to_have_text("running")
    log = page.get_by_role("log")
    await expect(log).to_have_attribute("aria-live", "off")
    told = page.locator("#announcer")
    await expect(told).to_have_attribute("role", "status")
    await page.evaluate(
        """() => {
            window.told = [];
            const region = document.querySelector('#announcer');
            new MutationObserver(() => told.push(region.textContent)).observe(region, {childList: true});
        }"""  # noqa: E501
    )
    await job.lines(1, 250)
    await job.says.log("oh no", level="error")
    await expect(page.locator("#timeline-count")).to_have_text("251 rows")
    await expect(told).to_contain_text("1 error.")
    spoken = await page.evaluate("told")
    numbers = [int(n) for text in spoken for n in re.findall(r"(\d+) new events?", text)]
    assert sum(numbers) == 251
    assert len(spoken) <= 3


async def test_with_reduced_motion_nothing_is_animated(site: Site, new_page) -> None:  # type: ignore[no-untyped-def]
    job = await eventful(site)
    moving = """() => [...document.querySelectorAll('*')].filter((e) => {
        const s = getComputedStyle(e);
        const still = s.transitionDuration.split(', ').every((t) => t === '0s');
        return !still || s.animationName !== 'none';
    }).length"""
    for motion in ("reduce", "no-preference"):
        page = await new_page(reduced_motion=motion)
        await page.goto(site.job_url(job.id))
        await expect(page.locator("#timeline-count")).to_have_text("16 rows")
        assert bool(await page.evaluate(moving)) == (motion == "no-preference")


async def test_status_is_never_shown_by_colour_alone(site: Site, page: Page) -> None:
    job = await eventful(site)
    await page.goto(site.job_url(job.id))
    await expect(page.locator("#timeline-count")).to_have_text("16 rows")
    words = await page.locator(".row .kind").all_text_contents()
    assert words == [
        "debug", "info", "warn", "error", "thought", "status", "progress", "metric", "metric",
        "called", "failed", "calling", "artifact", "x-vendor.acme.scored", "delegate", "result",
    ]  # fmt: skip
    assert await page.locator(".row .kind svg").count() == len(words)


CONTRAST = """(pairs) => {
    const probe = document.createElement('span');
    document.body.append(probe);
    const light = (name) => {
        probe.style.setProperty('color', `var(${name})`);
        const [r, g, b] = getComputedStyle(probe).color.match(/[\\d.]+/g).map(Number);
        const linear = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
        return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    };
    const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const found = pairs.map(([a, b]) => ratio(light(a), light(b)));
    probe.remove();
    return found;
}"""  # noqa: E501


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_pair_of_colours_has_contrast(site: Site, new_page, theme: str) -> None:  # type: ignore[no-untyped-def]
    """What axe cannot judge, such as rows that are half out of sight."""
    page = await new_page(color_scheme=theme)
    await page.goto(site.url)
    grounds = ["--bg", "--surface", "--sunken"]
    texts = [[text, ground] for text in ("--text", "--muted", "--accent") for ground in grounds]
    for tone in ("ok", "warn", "error", "accent"):
        texts += [[f"--{tone}", f"--{tone}-soft"], [f"--{tone}", "--sunken"]]
        texts += [["--text", f"--{tone}-soft"]]
    texts += [["--muted", "--plain-soft"], ["--text", "--plain-soft"], ["--on-accent", "--accent"]]
    edges = [[edge, ground] for edge in ("--edge", "--focus") for ground in grounds]
    for pairs, least in ((texts, 4.5), (edges, 3.0)):
        for pair, ratio in zip(pairs, await page.evaluate(CONTRAST, pairs), strict=True):
            assert ratio >= least, f"{pair} in {theme}: {ratio:.2f}"
