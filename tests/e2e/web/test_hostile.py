"""What agents send is shown as text, and never becomes markup, code, a request or a link."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.e2e.web.conftest import OpenSite
from tests.e2e.web.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVIL = (
    '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'
    '<svg onload=window.pwned=1><a href="javascript:window.pwned=1">x</a>\'"></textarea>{{7*7}}'
)

FOREIGN = """() => ({
    pwned: window.pwned ?? null,
    markup: document.querySelectorAll('img, iframe, object, script:not([src]), style').length,
    handlers: [...document.querySelectorAll('*')].filter((e) =>
        [...e.attributes].some((a) => a.name.startsWith('on') && a.name !== 'on')).length,
    links: [...document.querySelectorAll('[href]')].map((e) => e.getAttribute('href'))
        .filter((href) => !/^(#|api\\/|static\\/)/.test(href)),
})"""


async def harmless(page: Page) -> None:
    found = await page.evaluate(FOREIGN)
    assert found == {"pwned": None, "markup": 0, "handlers": 0, "links": []}


@pytest.fixture
def requests(page: Page) -> list[str]:
    """The addresses that the page asked for."""
    found: list[str] = []
    page.on("request", lambda request: found.append(request.url))
    return found


async def test_no_field_of_an_event_does_anything(
    site: Site, page: Page, requests: list[str]
) -> None:
    job = await site.submit(input=EVIL)
    await page.goto(site.job_url(job.id))
    says = job.says
    await says.log(EVIL, level="error")
    await says.emit("log", {"level": EVIL, "message": "odd level"})
    await says.thought(EVIL)
    await says.status(EVIL, EVIL)
    await says.progress(1, total=2, units=EVIL, message=EVIL)
    await says.metric(f"cost.{EVIL}", 1, EVIL, {EVIL: EVIL})
    done = await says.tool_call(EVIL, {EVIL: [EVIL]}, call_id=EVIL)
    await says.tool_result(done, {EVIL: EVIL})
    bad = await says.tool_call(EVIL, EVIL)
    await says.tool_result(bad, error={"code": EVIL, "message": EVIL})
    await says.tool_result(f"alone {EVIL}", EVIL)
    await says.artifact(f"javascript:{EVIL}", EVIL)
    await says.emit(f"x-{EVIL}", {EVIL: EVIL})
    await says.emit("tool_call", {"tool": {"not": EVIL}, "call_id": [EVIL]})
    await says.chunk(EVIL)
    job.fail("X_EVIL", EVIL)
    await expect(page.get_by_role("region", name="The job failed")).to_contain_text(EVIL)
    await page.get_by_role("log").focus()
    await page.keyboard.press("Home")
    opened = page.locator(".row:has(.line:focus) .detail")
    told = 0
    total = int((await page.locator("#timeline-count").inner_text()).split()[0])
    for _ in range(total):
        await page.keyboard.press("Enter")
        told += "<img src=x" in await opened.inner_text()
        await page.keyboard.press("ArrowDown")
    assert told >= 13, "what was sent can be read as it was sent"
    assert "{{7*7}}" in await page.locator("pre[aria-label='Result']").inner_text()
    await harmless(page)
    await page.get_by_role("link", name="All jobs").click()
    await expect(page.locator("table.jobs a.job")).to_have_count(1)
    await harmless(page)
    assert all(url.startswith(site.url) for url in requests), requests


async def test_a_result_is_shown_as_text_and_not_opened_as_a_page(site: Site, page: Page) -> None:
    job = await site.submit()
    await job.finish({EVIL: EVIL})
    await page.goto(site.job_url(job.id))
    await expect(page.locator("pre[aria-label='Result']")).to_contain_text("{{7*7}}")
    await harmless(page)
    answer = await page.request.get(f"{site.url}api/jobs/{job.id}/result")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "html" not in answer.headers["content-type"]


async def test_names_from_the_runtime_are_text_too(
    site: Site, page: Page, requests: list[str]
) -> None:
    """Ids, agents and versions: a runtime of ours checks them, another one may not."""
    row = {
        "job_id": EVIL, "agent": EVIL, "version": EVIL, "status": EVIL, "phase": EVIL,
        "parent_job_id": f"parent {EVIL}", "created_at": EVIL,
        "progress": {"current": EVIL, "total": EVIL, "units": EVIL, "message": EVIL},
    }  # fmt: skip
    link = {"state": EVIL, "cause": EVIL, "gap": {"first": EVIL, "last": EVIL}, "processed": EVIL}
    overview = {
        "runtime": {"name": EVIL, "version": EVIL},
        "agents": [{"name": EVIL, "versions": [EVIL], "default": EVIL}],
        "control": True,
        "jobs": [row],
        "link": link,
    }
    detail = {
        **row,
        "lease": {EVIL: [EVIL]}, "credentials": [EVIL],
        "children": [{"job_id": EVIL, "agent": EVIL}],
        "meters": [{"currency": EVIL, "granted": EVIL, "left": EVIL, "spent": EVIL, "rate": 1}],
        "counts": {EVIL: 3}, "error": {"code": EVIL, "message": EVIL, "remedy": EVIL},
    }  # fmt: skip

    def answer(*messages: tuple[str, Any]) -> dict[str, Any]:
        body = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in messages)
        return {"content_type": "text/event-stream", "body": body}

    await page.route(
        "**/api/overview/stream", lambda r: r.fulfill(**answer(("overview", overview)))
    )
    await page.route(
        "**/api/jobs/*/stream*",
        lambda r: r.fulfill(**answer(("link", link), ("job", detail))),
    )
    await page.goto(site.url)
    await expect(page.locator("table.jobs a.job")).to_have_count(1)
    await harmless(page)
    await page.get_by_role("link", name="Submit").click()
    await expect(page.locator("#agent option")).to_have_count(1)
    await harmless(page)
    await page.get_by_role("link", name="Jobs", exact=True).click()
    await page.locator("table.jobs a.job").click()
    await expect(page.locator(".facts .badge")).to_contain_text("<img src=x")
    await page.get_by_role("button", name="Cancel job").click()
    await expect(page.get_by_role("dialog")).to_contain_text("<img src=x")
    await harmless(page)
    await page.keyboard.press("Escape")
    assert all(url.startswith(site.url) for url in requests), requests


async def test_a_hostile_transcript_is_text(site: Site, page: Page) -> None:
    said = [
        {"kind": EVIL, "message": EVIL},
        {"kind": "log", "message": {"a": EVIL}, "level": "__proto__"},
        {"kind": "__proto__", "body": EVIL},
        {"kind": "constructor", "body": None},
        {"kind": "error", "code": "toString", "status": "valueOf", "message": EVIL},
    ]
    lines = [
        {"schema": "arcp-client.transcript/1", "type": "header", "at": 0,
         "runtime": {"name": EVIL, "version": EVIL}},
        {"type": "job", "at": 0, "job_id": EVIL, "agent": EVIL, "lease": {EVIL: [EVIL]}},
        *({"type": "event", "at": 0, "event": {**each, "job_id": EVIL}} for each in said),
    ]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    await page.goto(f"{site.url}#/replay")
    await page.locator("#file").set_input_files(
        {"name": f"{EVIL[:40].replace('/', '')}.jsonl", "mimeType": "x/y", "buffer": text.encode()}
    )
    await page.get_by_role("button", name="Play").click()
    await expect(page.locator(".row")).to_have_count(len(said))
    await expect(page.locator(".row .kind")).to_have_text(
        [re.compile("<img"), "__proto__", "__proto__", "constructor", "error"]
    )
    await harmless(page)


async def test_secrets_are_on_no_page(open_site: OpenSite, page: Page) -> None:
    secret = "hunter2-is-a-secret-value"
    site = await open_site(linked=False, secrets=[secret])
    bodies: list[Any] = []
    page.on("response", lambda response: bodies.append(response))
    job = await site.submit()
    await job.says.log(f"the key is {secret}")
    await job.says.tool_call("login", {"password": "something-else", "note": secret})
    await page.goto(site.job_url(job.id))
    await expect(page.locator(".row")).to_have_count(2)
    await page.locator(".row .line").nth(1).click()
    await expect(page.locator(".detail")).to_have_count(1)
    html = await page.content()
    assert secret not in html
    assert "something-else" not in html
    await job.finish({"api_key": secret})
    await expect(page.locator(".facts .badge")).to_have_text("success")
    assert secret not in await page.content()


async def test_the_policy_of_the_page_stops_what_would_get_through(
    site: Site, page: Page, complaints: list[str]
) -> None:
    """Were there a mistake in a module, the browser would still refuse."""
    await page.goto(site.url)
    refused = await page.evaluate(
        """async (evil) => {
            const out = [];
            try { document.body.innerHTML = evil; } catch (e) { out.push(e.name); }
            const script = document.createElement('script');
            try { script.textContent = 'window.pwned = 1'; } catch (e) { out.push(e.name); }
            const style = document.createElement('style');
            style.textContent = 'body { color: rgb(1, 2, 3) }';
            document.head.append(style);
            out.push(getComputedStyle(document.body).color === 'rgb(1, 2, 3)');
            await fetch('https://example.org/').catch((e) => out.push(e.name));
            return out;
        }""",
        EVIL,
    )
    assert refused == ["TypeError", "TypeError", False, "TypeError"]
    assert all("blocked" in each or "Refused" in each for each in complaints), complaints
    assert len(complaints) >= 4
    complaints.clear()
