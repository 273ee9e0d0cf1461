"""Makes a screenshot of the dashboard's job list with ten running agents, to try it on readers.

    python scripts/ten_agents.py FILE.png [seconds]

One agent is stuck in a tool, one is silent, one is nearly done, one costs most, the budget of one
ends soon, and one waits for an answer. The others are doing well. The picture should say which is
which. The scene needs 100 seconds until the silent agent counts as silent, and Debian's chromium
(or its path in ARCP_TEST_CHROMIUM).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from playwright.async_api import async_playwright

from arcp_client import Client, JobContext, Runtime
from arcp_client.web import serve

NAMES = ("chromium", "chromium-browser", "google-chrome")
STEP = 2.0
"""Seconds between two steps of an agent that works."""

Act = Callable[[JobContext], Awaitable[None]]


async def works(job: JobContext, step: int, *, of: int, units: str, cost: float, text: str) -> None:
    """One step of an agent that does well."""
    await job.progress(min(step, of), total=of, units=units, message=text.format(step))
    await job.metric("cost.inference", cost, "USD")
    await job.metric("tokens.output", 180, "tokens")


async def refactors(job: JobContext) -> None:
    await job.status("editing", "moving the rounding of invoices")
    for step in range(1, 1000):
        await works(job, step // 8, of=40, units="files", cost=0.011, text="src/billing/part_{}.py")
        await asyncio.sleep(STEP)


async def is_stuck(job: JobContext) -> None:
    await job.status("testing", "writing tests for the parser")
    await works(job, 11, of=30, units="tests", cost=0.31, text="test {} passes")
    await job.tool_call("pytest", {"args": ["-q", "tests/parser"]})
    await asyncio.Event().wait()


async def is_silent(job: JobContext) -> None:
    await job.status("reading", "sources on battery recycling")
    await works(job, 4, of=25, units="pages", cost=0.22, text="page {} read")
    await asyncio.Event().wait()


async def is_nearly_done(job: JobContext) -> None:
    await job.status("importing", "the customers of 2025")
    for step in range(1, 1000):
        rows = min(9_400 + 10 * step, 9_960)
        await works(job, rows, of=10_000, units="rows", cost=0.002, text="{} rows are in")
        await asyncio.sleep(STEP)


async def costs_most(job: JobContext) -> None:
    await job.status("comparing", "forty annual reports")
    await job.metric("cost.inference", 36.5, "USD")
    await job.metric("tokens.output", 2_140_000, "tokens")
    for step in range(1, 1000):
        await works(job, 18 + step // 20, of=40, units="reports", cost=0.02, text="report {}")
        await asyncio.sleep(STEP)


async def spends_its_budget(job: JobContext) -> None:
    await job.status("captioning", "the recordings of the conference")
    await job.metric("cost.inference", 2.4, "USD")
    for step in range(1, 1000):
        await works(job, 20 + step // 4, of=120, units="minutes", cost=0.012, text="minute {}")
        await asyncio.sleep(STEP)


async def asks(job: JobContext) -> None:
    await job.status("deploying", "the web shop to production")
    await works(job, 3, of=5, units="steps", cost=0.05, text="step {} is done")
    await job.ask("Deploy with two failed smoke tests?", options=["yes", "no"])


async def translates(job: JobContext) -> None:
    await job.status("translating", "the manual into Portuguese")
    for step in range(1, 1000):
        await works(job, 5 + step // 3, of=90, units="sections", cost=0.006, text="section {}")
        await asyncio.sleep(STEP)


async def reports(job: JobContext) -> None:
    await job.status("querying", "the sales of the week")
    for step in range(1, 1000):
        call = await job.tool_call("sql.query", {"table": f"sales_{step % 7}"})
        await asyncio.sleep(STEP / 2)
        await job.tool_result(call, {"rows": 120})
        await works(job, step // 12, of=9, units="tables", cost=0.008, text="table {} is summed up")
        await asyncio.sleep(STEP / 2)


async def sorts(job: JobContext) -> None:
    await job.status("reading", "last night's errors")
    for step in range(1, 1000):
        await job.thought(f"group {step} has the same stack as the time-outs of Tuesday")
        await job.metric("cost.inference", 0.004, "USD")
        await asyncio.sleep(STEP)


SCENE: dict[str, tuple[Act, str]] = {
    "code-refactor@2.0.1": (refactors, "5.00"),
    "test-writer@0.9.4": (is_stuck, "4.00"),
    "web-research@1.3.0": (is_silent, "3.00"),
    "data-import@3.2.0": (is_nearly_done, "2.00"),
    "deep-research@1.0.0": (costs_most, "80.00"),
    "video-captions@0.4.1": (spends_its_budget, "4.50"),
    "shop-deploy@5.1.0": (asks, "1.00"),
    "doc-translator@1.1.0": (translates, "6.00"),
    "sales-report@2.2.0": (reports, "5.00"),
    "log-triage@0.2.0": (sorts, "2.00"),
}


def register(runtime: Runtime) -> None:
    """Register the agents of the scene."""

    def agent(act: Act) -> Callable[[Any, JobContext], Awaitable[None]]:
        async def run(_input: Any, job: JobContext) -> None:
            await act(job)

        return run

    for full, (act, _) in SCENE.items():
        name, _, version = full.partition("@")
        runtime.agent(name, version=version)(agent(act))


async def main() -> None:
    found = os.environ.get("ARCP_TEST_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), "")
    if not found:
        raise SystemExit("no chromium: on Debian, apt-get install chromium")
    path = Path(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 100.0
    path.parent.mkdir(parents=True, exist_ok=True)
    async with Runtime(name="atelier", version="1.4.0") as runtime:
        register(runtime)
        async with (
            Client(runtime) as client,
            serve(client, allow_control=True) as server,
            async_playwright() as playwright,
        ):
            for name, (_, budget) in SCENE.items():
                lease = {"cost.budget": [f"USD:{budget}"]}
                await client.submit(name.partition("@")[0], lease=lease)
            browser = await playwright.chromium.launch(executable_path=found)
            page = await browser.new_page(
                viewport={"width": 1440, "height": 1000},
                device_scale_factor=1.5,
                reduced_motion="reduce",
                locale="en-GB",
            )
            await page.goto(server.url)
            await page.locator("tr[data-job]").nth(9).wait_for()
            await asyncio.sleep(seconds)
            await page.screenshot(path=path, full_page=True)
            await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
