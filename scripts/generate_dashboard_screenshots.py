"""Makes the screenshots of the dashboard in ``docs/images``, in both themes.

    python scripts/generate_dashboard_screenshots.py [directory]

Needs Debian's chromium (or its path in ARCP_TEST_CHROMIUM).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, async_playwright

from arcp_client import Client, Job, JobContext, Runtime
from arcp_client.errors import JobFailed
from arcp_client.web import serve

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
NAMES = ("chromium", "chromium-browser", "google-chrome")
LEASE = {
    "fs.read": ["/src/**", "/tests/**"],
    "fs.write": ["/src/billing/**"],
    "tool.call": ["fs.*", "pytest"],
    "agent.delegate": ["test-writer", "web-research"],
    "cost.budget": ["USD:5.00"],
}


def agents(runtime: Runtime, ready: asyncio.Event) -> None:
    """Register agents that do a part of their work and then wait."""

    async def read(job: JobContext, path: str, lines: int) -> None:
        call = await job.tool_call("fs.read", {"path": path, "limit": 400})
        await asyncio.sleep(0.03 * lines / 100)
        await job.tool_result(call, {"lines": lines})

    @runtime.agent("code-refactor", version="2.0.1")
    async def refactor(_input: Any, job: JobContext) -> Any:
        await job.status("reading", "the billing package")
        await job.log("14 modules, 3 of them with tests", level="info")
        await read(job, "src/billing/invoice.py", 412)
        await job.thought("Invoice and Receipt share their rounding; it belongs into one place.")
        await read(job, "src/billing/receipt.py", 288)
        await job.metric("cost.inference", 0.42, "USD", {"model": "large"})
        await job.delegate("test-writer", {"module": "billing.rounding"})
        for n in range(1, 6):
            await job.progress(n, total=14, units="files", message=f"src/billing/part_{n}.py")
        await job.status("editing", "moving the rounding")
        call = await job.tool_call("fs.write", {"path": "/etc/hosts"})
        error = {"code": "PERMISSION_DENIED", "message": "fs.write does not cover /etc/hosts"}
        await job.tool_result(call, error=error)
        await job.log("kept to the lease, going on without it", level="warn")
        await job.metric("cost.inference", 0.61, "USD", {"model": "large"})
        for n in range(6, 10):
            await job.progress(n, total=14, units="files", message=f"src/billing/part_{n}.py")
        await job.artifact("file:///src/billing/rounding.py", "text/x-python", 3_482)
        await job.thought("The tests of Receipt import the old name: rename there first.")
        call = await job.tool_call("pytest", {"args": ["-q", "tests/billing"]})
        await asyncio.sleep(0.4)
        await job.tool_result(call, {"passed": 61, "failed": 2})
        await job.log("2 tests still expect the old rounding", level="error")
        await job.metric("cost.inference", 0.37, "USD", {"model": "large"})
        await job.tool_call("fs.read", {"path": "tests/billing/test_receipt.py", "limit": 400})
        ready.set()
        await asyncio.Event().wait()

    @runtime.agent("test-writer", version="0.9.4")
    async def writer(_input: Any, job: JobContext) -> Any:
        await job.status("writing")
        await job.progress(11, total=20, units="tests")
        await asyncio.Event().wait()

    @runtime.agent("web-research", version="1.3.0")
    async def research(_input: Any, job: JobContext) -> Any:
        await job.progress(40, total=40, units="pages")
        return {"sources": 12}

    @runtime.agent("nightly-report")
    async def report(_input: Any, job: JobContext) -> Any:
        await job.progress(2, total=9, units="tables")
        raise JobFailed("the budget of 2.00 USD is spent", code="BUDGET_EXHAUSTED")

    @runtime.agent("summarise", version="4.1.0")
    async def summarise(_input: Any, job: JobContext) -> AsyncIterator[str]:
        async def pieces() -> AsyncIterator[str]:
            yield "Three suppliers raised their prices. "
            yield "Two of them by less than inflation."

        return pieces()


async def jobs(client: Client, ready: asyncio.Event) -> Job:
    """Make jobs in several states; return the one to open."""
    await (await client.submit("web-research", lease=LEASE)).result()
    failed = await client.submit("nightly-report", lease={"cost.budget": ["USD:2.00"]})
    await asyncio.gather(failed.result(), return_exceptions=True)
    await (await client.submit("summarise")).result()
    waits = await client.submit("test-writer")
    await waits.cancel("not needed any more")
    shown = await client.submit(
        "code-refactor",
        {"path": "src/billing"},
        lease=LEASE,
        expires_at=datetime.now(UTC) + timedelta(minutes=14, seconds=30),
    )
    await ready.wait()
    return shown


async def shoot(browser: Browser, url: str, job_id: str, directory: Path) -> None:
    """Take pictures of the job list and of a job in both themes, and of the job on a phone."""
    for theme in ("light", "dark"):
        sizes = {"wide": (1280, 880)}
        if theme == "dark":
            sizes["phone"] = (390, 844)
        for size, (width, height) in sizes.items():
            context = await browser.new_context(
                color_scheme=theme,  # type: ignore[arg-type]
                viewport={"width": width, "height": height},
                device_scale_factor=1.5,
                reduced_motion="reduce",
                locale="en-GB",
            )
            page = await context.new_page()
            await page.goto(url)
            await page.locator("table.jobs a.job").nth(5).wait_for()
            if size == "wide":
                await page.set_viewport_size({"width": width, "height": 640})
                await page.screenshot(path=directory / f"dashboard-jobs-{theme}.png")
                await page.set_viewport_size({"width": width, "height": height})
            await page.locator(f"tr[data-job='{job_id}'] a.job").click()
            await page.locator(".row").nth(12).wait_for()
            if size == "wide":
                await page.locator(".row .line", has_text="fs.write").click()
                await page.locator(".log").evaluate("(e) => { e.scrollTop = 0; }")
            await page.locator("#lag", has_text="up to date").wait_for()
            await page.mouse.move(0, 0)
            name = "job" if size == "wide" else "phone"
            await page.screenshot(path=directory / f"dashboard-{name}-{theme}.png")
            await context.close()


async def main() -> None:
    found = os.environ.get("ARCP_TEST_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "")
    if not found:
        raise SystemExit("no chromium: on Debian, apt-get install chromium")
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    directory.mkdir(parents=True, exist_ok=True)
    ready = asyncio.Event()
    async with Runtime(name="atelier", version="1.4.0") as runtime:
        agents(runtime, ready)
        async with (
            Client(runtime) as client,
            serve(client, allow_control=True) as server,
            async_playwright() as playwright,
        ):
            shown = await jobs(client, ready)
            browser = await playwright.chromium.launch(executable_path=found)
            await shoot(browser, server.url, shown.id, directory)
            await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
