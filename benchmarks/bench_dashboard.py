"""The dashboard in a real Chromium: script time before the first paint, and lag under load; JSON.

``paint``: the time that the browser's main thread spends in scripts until something is painted, and
until the first row of the table is there, from a trace; medians of fresh contexts with cold caches.
The bar is 300 ms.

``load``: a job that emits so many events a second for ten seconds, and the lag that the page prints
meanwhile: from the arrival of an event at the dashboard's server to its row. The bar is 1 s at
1,000 a second.

Runtime, client, server and this script share one process and one core with what measures them.

    python benchmarks/bench_dashboard.py [rounds] [events a second …]
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import sys
from typing import Any

from playwright.async_api import Browser, Page, async_playwright

from arcp_client import Client, JobContext, Runtime
from arcp_client.web import serve

NAMES = ("chromium", "chromium-browser", "google-chrome")
SCRIPTS = {"EvaluateScript", "FunctionCall", "v8.compile", "v8.compileModule", "v8.evaluateModule"}
CATEGORIES = ["devtools.timeline", "blink.user_timing", "loading", "v8"]
SECONDS = 10
JOBS = 40


async def main() -> None:
    executable = os.environ.get("ARCP_TEST_CHROMIUM") or next(
        filter(None, map(shutil.which, NAMES)), ""
    )
    if not executable:
        print("no chromium: on Debian, apt-get install chromium", file=sys.stderr)
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    rates = [int(each) for each in sys.argv[2:]] or [1000, 2000]
    async with Runtime(name="bench") as runtime, async_playwright() as playwright:
        opened = asyncio.Event()

        @runtime.agent("emit")
        async def emit(input: Any, job: JobContext) -> None:
            if input["seconds"]:
                await opened.wait()
            loop = asyncio.get_running_loop()
            began, sent = loop.time(), 0
            while sent < input["rate"] * input["seconds"]:
                due = min(
                    int((loop.time() - began) * input["rate"]), input["rate"] * input["seconds"]
                )
                for _ in range(due - sent):
                    sent += 1
                    await job.log(f"event {sent}: a line of the usual length, about what was read")
                await asyncio.sleep(0.02)

        browser = await playwright.chromium.launch(executable_path=executable)
        async with Client(runtime) as client, serve(client) as server:
            for _ in range(JOBS):
                await (await client.submit("emit", {"rate": 1, "seconds": 0})).result()
            result = {
                "chromium": browser.version,
                "paint": await paint(browser, server.url, rounds),
                "load": [await load(browser, server.url, client, rate, opened) for rate in rates],
            }
        await browser.close()
    print(json.dumps(result, indent=2))


async def paint(browser: Browser, url: str, rounds: int) -> dict[str, float]:
    """Milliseconds of script until the first paint and until the first row, and of waiting."""
    found: dict[str, list[float]] = {"script_ms": [], "script_to_rows_ms": [], "paint_ms": []}
    for _ in range(rounds):
        context = await browser.new_context(viewport={"width": 1280, "height": 900})
        page = await context.new_page()
        await browser.start_tracing(page=page, categories=CATEGORIES)
        await page.goto(url)
        await page.wait_for_selector("table.jobs a.job")
        await page.evaluate("performance.mark('rows')")
        trace = json.loads(await browser.stop_tracing())["traceEvents"]
        paint_ms = await page.evaluate(
            "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        )
        first = next(e for e in trace if e["name"] == "firstContentfulPaint")
        rows = next(e for e in trace if e["name"] == "rows")
        found["script_ms"].append(script_ms(trace, first))
        found["script_to_rows_ms"].append(script_ms(trace, {**first, "ts": rows["ts"]}))
        found["paint_ms"].append(paint_ms)
        await context.close()
    return {name: round(statistics.median(values), 1) for name, values in found.items()}


def script_ms(trace: list[dict[str, Any]], until: dict[str, Any]) -> float:
    """Milliseconds in scripts of one thread up to an event of it; what is nested counts once."""
    total, end = 0.0, 0.0
    mine = (
        event
        for event in trace
        if event["name"] in SCRIPTS
        and event.get("ph") == "X"
        and (event["pid"], event["tid"]) == (until["pid"], until["tid"])
    )
    for event in sorted(mine, key=lambda each: each["ts"]):
        begin = max(event["ts"], end)
        end = max(end, min(event["ts"] + event.get("dur", 0), until["ts"]))
        total += max(0.0, end - begin)
    return total / 1000


async def load(
    browser: Browser, url: str, client: Client, rate: int, opened: asyncio.Event
) -> dict[str, Any]:
    """The worst lag that the page printed in each half of the run, in seconds."""
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    page = await context.new_page()
    job = await client.submit("emit", {"rate": rate, "seconds": SECONDS})
    await page.goto(f"{url}#/job/{job.id}")
    await page.get_by_text("running").wait_for()
    opened.set()
    printed: list[float] = []
    ended = asyncio.ensure_future(job.result())
    while not ended.done():
        printed.append(await lag(page))
        await asyncio.sleep(0.25)
    await page.wait_for_function(
        "(n) => Number(document.querySelector('#timeline-count').dataset.last) > n",
        arg=rate * SECONDS,
    )
    nodes = await page.evaluate("document.querySelectorAll('*').length")
    await context.close()
    opened.clear()
    half = len(printed) // 2
    return {
        "events_per_second": rate,
        "worst_lag_s": round(max(printed[:half]), 3),
        "worst_lag_second_half_s": round(max(printed[half:]), 3),
        "elements": nodes,
    }


async def lag(page: Page) -> float:
    return float(await page.get_attribute("#lag", "data-seconds") or 0)


if __name__ == "__main__":
    asyncio.run(main())
