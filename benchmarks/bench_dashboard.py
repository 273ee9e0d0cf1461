"""The dashboard in a real Chromium: start, lag, a long job, many windows, many jobs; JSON.

``paint``: the time that the browser's main thread spends in scripts until something is painted, and
until the first row of the table is there, from a trace; medians of fresh contexts with cold caches.
The bar is 300 ms.

``load``: a job that emits so many events a second for ten seconds, and the lag that the page prints
meanwhile: from the arrival of an event at the dashboard's server to its row. The bar is 1 s at
1,000 a second.

``open``: the page of a job of 50,000 events, and of one of 10: seconds until its newest event is on
the screen (``s``), until the scripts of the page have run (``scripts_s``), the CPU time of this
process meanwhile, how long the page's main thread was busy, and bytes over the wire, scripts and
styles included. ``cold``: the dashboard has not heard of the job yet, and reads its history from
the runtime; ``warm``: it has read the history for another page. The history alone takes about the
difference between the long and the short job. Medians of fresh contexts; those of a round come one
after another. The bars are 1 s and 5 MB.

``attach``: the same two jobs without a browser. ``ag_ui``: a front end of AG-UI sends the request
of a run to a server that has not heard of the job yet; seconds until it has the newest event, the
CPU time of this process meanwhile, and bytes. ``watch``: ``arcp-client watch JOB --tail 5``;
seconds until it has printed the newest event, the CPU time of its process, start included, and that
of this process. Medians; those of a round come one after another. The bars are 1 s and 5 MB.

``windows``: 20 windows of one browser show a job: seconds from an event to its row in the last of
them. The bar is 2 s.

``jobs``: a list of 1,000 jobs, of which 200 emit five events a second each, for ten seconds: the
age of the newest event in the row of a job, which includes the 0.2 s until its next event; the
share of a core of the page's main thread; the heap of the page; sessions of the runtime. The bars
are 1 s, 20 %, 150 MB, 1.

Runtime, client, server and this script share one process and one core with what measures them.

    python benchmarks/bench_dashboard.py [rounds] [--only PART …]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import shutil
import statistics
import sys
import time
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer
from playwright.async_api import Browser, CDPSession, Page, async_playwright

from arcp_client import Client, Job, JobContext, Runtime
from arcp_client.web import add_ag_ui_routes, serve

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGS = ["--disable-dev-shm-usage"]
SCRIPTS = {"EvaluateScript", "FunctionCall", "v8.compile", "v8.compileModule", "v8.evaluateModule"}
CATEGORIES = ["devtools.timeline", "blink.user_timing", "loading", "v8"]
PARTS = ("paint", "load", "open", "attach", "windows", "jobs")
RATES = (1000, 2000)
SECONDS = 10
JOBS = 40
LONG = 50_000
WINDOWS = 20
LISTED = 1000
RUNNING = 200
EVERY = 0.2
MOST = 120_000
"""Milliseconds after which a wait of the page fails."""


def agents(runtime: Runtime, opened: asyncio.Event, steps: asyncio.Queue[str]) -> None:
    """Register the agents that the parts need."""

    @runtime.agent("emit")
    async def emit(input: Any, job: JobContext) -> None:
        if input["seconds"]:
            await opened.wait()
        loop = asyncio.get_running_loop()
        began, sent = loop.time(), 0
        while sent < input["rate"] * input["seconds"]:
            due = min(int((loop.time() - began) * input["rate"]), input["rate"] * input["seconds"])
            for _ in range(due - sent):
                sent += 1
                await job.log(f"event {sent}: a line of the usual length, about what was read")
            await asyncio.sleep(0.02)

    @runtime.agent("lines")
    async def lines(input: Any, job: JobContext) -> None:
        for n in range(input["lines"]):
            await job.log(f"event {n}: a line of the usual length, about what was read")
        await asyncio.Event().wait()

    @runtime.agent("ticks")
    async def ticks(input: Any, job: JobContext) -> None:
        await asyncio.sleep(input["after"])
        while True:
            await job.log(f"at {time.time() * 1000:.0f}")
            await asyncio.sleep(EVERY)

    @runtime.agent("steps")
    async def follows(input: Any, job: JobContext) -> None:
        while True:
            await job.log(await steps.get())

    @runtime.agent("echo")
    async def echo(input: Any, job: JobContext) -> Any:
        return input


async def main() -> None:
    executable = os.environ.get("ARCP_TEST_CHROMIUM") or next(
        filter(None, map(shutil.which, NAMES)), ""
    )
    if not executable:
        print("no chromium: on Debian, apt-get install chromium", file=sys.stderr)
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("rounds", type=int, nargs="?", default=9)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    opened = asyncio.Event()
    steps: asyncio.Queue[str] = asyncio.Queue()
    result: dict[str, Any] = {}
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=ARGS)
        result["chromium"] = browser.version
        for part in options.only:
            async with Runtime(name="bench") as runtime, Client(runtime) as client:
                agents(runtime, opened, steps)
                if part == "open":  # the dashboard has a session of its own
                    result[part] = await opening(browser, runtime, client, options.rounds)
                    continue
                if part == "attach":
                    result[part] = await attaching(runtime, client, options.rounds)
                    continue
                async with serve(client) as server:
                    if part == "paint":
                        for _ in range(JOBS):
                            await (await client.submit("echo", None)).result()
                        result[part] = await paint(browser, server.url, options.rounds)
                    elif part == "load":
                        result[part] = [
                            await load(browser, server.url, client, rate, opened) for rate in RATES
                        ]
                    elif part == "windows":
                        result[part] = await windows(browser, server.url, client, steps)
                    else:
                        result[part] = await jobs(browser, server.url, client, runtime)
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


async def opening(
    browser: Browser, runtime: Runtime, client: Client, rounds: int
) -> dict[str, Any]:
    """Seconds until the newest event of a long and of a short job is shown, and bytes."""
    jobs = await long_and_short(client)
    found: dict[str, list[dict[str, float]]] = {}
    for number in range(rounds + 1):
        for lines, job in jobs.items():
            async with Client(runtime) as viewer, serve(viewer) as server:
                for state in ("cold", "warm"):
                    took = await opened_page(browser, f"{server.url}#/job/{job.id}", lines)
                    if number:  # the first pages of a browser start processes
                        found.setdefault(f"{state}_{lines}", []).append(took)
    return medians(found)


async def long_and_short(client: Client) -> dict[int, Job]:
    """Two running jobs, by their number of events."""
    jobs: dict[int, Job] = {}
    for lines in (10, LONG):
        given = {"lines": lines}
        job = jobs[lines] = await client.submit("lines", given, idempotency_key=f"lines-{lines}")
        seen = 0
        async for _ in job:
            seen += 1
            if seen == lines:
                break
    return jobs


def medians(found: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    return {
        name: {what: round(statistics.median(one[what] for one in all_), 2) for what in all_[0]}
        for name, all_ in found.items()
    }


async def attaching(runtime: Runtime, client: Client, rounds: int) -> dict[str, Any]:
    """Seconds until others than pages have the newest event of a long and of a short job."""
    jobs = await long_and_short(client)
    found: dict[str, list[dict[str, float]]] = {}
    async with runtime.serve() as listener:
        for number in range(rounds + 1):
            for lines, job in jobs.items():
                for name, took in (
                    ("ag_ui", await attached_front_end(runtime, lines)),
                    ("watch", await attached_watch(listener.url, job.id, lines)),
                ):
                    if number:  # the first ones import modules
                        found.setdefault(f"{name}_{lines}", []).append(took)
    return medians(found)


async def attached_front_end(runtime: Runtime, lines: int) -> dict[str, float]:
    """Send the request of a run to a fresh server; return what it took."""
    app = web.Application()
    body = {"threadId": "t", "runId": "r", "messages": []}
    key = {"Idempotency-Key": f"lines-{lines}"}
    newest = f"event {lines - 1}:".encode()
    async with Client(runtime) as viewer:
        add_ag_ui_routes(app, viewer, "lines", path="/", input=lambda _: {"lines": lines})
        async with TestServer(app) as server, aiohttp.ClientSession() as http:
            began, process = time.monotonic(), time.process_time()
            received, end = 0, b""
            async with http.post(server.make_url("/"), json=body, headers=key) as response:
                async for part in response.content.iter_any():
                    received += len(part)
                    if newest in end + part:
                        break
                    end = part[-len(newest) :]
            took, cpu = time.monotonic() - began, time.process_time() - process
    return {"s": took, "server_cpu_s": cpu, "bytes": received}


async def attached_watch(url: str, job_id: str, lines: int) -> dict[str, float]:
    """Follow a job with the command line; return what it took."""
    command = ["-m", "arcp_client.cli", "watch", job_id, "--tail", "5", "--url", url]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began, process = time.monotonic(), time.process_time()
    child = await asyncio.create_subprocess_exec(
        sys.executable, *command, stderr=asyncio.subprocess.PIPE
    )
    assert child.stderr is not None
    async for line in child.stderr:
        if f"event {lines - 1}:".encode() in line:
            break
    took, cpu = time.monotonic() - began, time.process_time() - process
    child.kill()
    await child.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"s": took, "cpu_s": own, "server_cpu_s": cpu}


async def opened_page(browser: Browser, url: str, lines: int) -> dict[str, float]:
    """Open the page of a job in a fresh context; return what it took."""
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    page = await context.new_page()
    received, devtools = await wire(page)
    began, process = time.monotonic(), time.process_time()
    await page.goto(url)
    await shown(page, lines)
    took, server = time.monotonic() - began, time.process_time() - process
    await page.wait_for_timeout(300)
    scripts = await page.evaluate(
        "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd / 1000"
    )
    busy = (await metrics(devtools))["TaskDuration"]
    await context.close()
    return {
        "s": took,
        "scripts_s": scripts,
        "server_cpu_s": server,
        "page_cpu_s": busy,
        "bytes": sum(received),
    }


async def wire(page: Page) -> tuple[list[int], CDPSession]:
    """The sizes of what the page receives from now on, and its debugger."""
    sizes: list[int] = []
    devtools = await page.context.new_cdp_session(page)
    await devtools.send("Network.enable")
    await devtools.send("Performance.enable")
    devtools.on("Network.dataReceived", lambda told: sizes.append(told["dataLength"]))
    return sizes, devtools


async def shown(page: Page, number: int) -> None:
    """Wait until the timeline has an event and the page has drawn its row."""
    await page.wait_for_function(
        """(n) => Number(document.querySelector('#timeline-count')?.dataset.last) >= n
            && document.querySelector('.row') !== null""",
        arg=number,
        timeout=MOST,
    )


WATCH = """(n) => {
    const count = document.querySelector('#timeline-count');
    const there = () => Number(count.dataset.last) >= n;
    globalThis.drawn = there() ? Date.now() : 0;
    new MutationObserver(() => { if (!globalThis.drawn && there()) globalThis.drawn = Date.now(); })
        .observe(count, { attributes: true });
}"""


async def windows(
    browser: Browser, url: str, client: Client, steps: asyncio.Queue[str]
) -> dict[str, Any]:
    """Seconds from an event to its row in the slowest of many windows, for ten events."""
    job = await client.submit("steps", None)
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(MOST)
    pages: list[Page] = []
    for _ in range(WINDOWS):
        page = await context.new_page()
        await page.goto(f"{url}#/job/{job.id}")
        await page.get_by_text("running").wait_for()
        pages.append(page)
    slowest = []
    for n in range(1, 11):
        await asyncio.gather(*(page.evaluate(WATCH, n) for page in pages))
        began = time.time()
        steps.put_nowait(f"event {n}")
        drawn = "() => globalThis.drawn"
        await asyncio.gather(*(page.wait_for_function(drawn) for page in pages))
        times = [await page.evaluate(drawn) / 1000 - began for page in pages]
        slowest.append(round(max(times), 3))
    await context.close()
    return {"windows": WINDOWS, "worst_s": max(slowest), "median_s": statistics.median(slowest)}


AGE = """() => {
    const found = [...document.querySelectorAll('tr[data-job] .last')].slice(0, 8)
        .map((each) => /^at (\\d+)$/.exec(each.textContent)).filter(Boolean)
        .map(([, at]) => Date.now() - Number(at));
    return found.length ? Math.max(...found) : null;
}"""


async def jobs(browser: Browser, url: str, client: Client, runtime: Runtime) -> dict[str, Any]:
    """The age of what a list of many jobs shows, and what the page takes."""
    for first in range(0, LISTED - RUNNING, 100):
        made = [await client.submit("echo", n) for n in range(first, first + 100)]
        await asyncio.gather(*(job.result() for job in made))
    for n in range(RUNNING):
        await client.submit("ticks", {"after": 2 + EVERY * n / RUNNING})
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    page = await context.new_page()
    devtools = await context.new_cdp_session(page)
    await devtools.send("Performance.enable")
    await page.goto(url)
    await page.wait_for_function(f"() => ({AGE})() !== null", timeout=MOST)
    await page.wait_for_timeout(5000)
    before, began = await metrics(devtools), time.monotonic()
    process = time.process_time()
    ages = []
    while time.monotonic() - began < SECONDS:
        ages.append(await page.evaluate(AGE))
        await asyncio.sleep(0.25)
    after, took = await metrics(devtools), time.monotonic() - began
    server = (time.process_time() - process) / took
    for _ in range(2):
        await devtools.send("HeapProfiler.collectGarbage")
    heap = (await metrics(devtools))["JSHeapUsedSize"] / 2**20
    rows = await page.locator("#jobs-count").inner_text()
    await context.close()
    return {
        "list": rows,
        "median_age_s": round(statistics.median(ages) / 1000, 3),
        "worst_age_s": round(max(ages) / 1000, 3),
        "page_core": round((after["TaskDuration"] - before["TaskDuration"]) / took, 3),
        "server_core": round(server, 3),
        "heap_mib": round(heap, 1),
        "sessions": await sessions(runtime),
    }


async def sessions(runtime: Runtime) -> int:
    async with (
        runtime.serve(probes=True) as listener,
        aiohttp.ClientSession() as http,
        http.get(f"http://127.0.0.1:{listener.port}/metrics") as response,
    ):
        text = await response.text()
    return int(re.findall(r"^arcp_\w*sessions (\d+)", text, re.MULTILINE)[0])


async def metrics(devtools: CDPSession) -> dict[str, float]:
    told = (await devtools.send("Performance.getMetrics"))["metrics"]
    return {each["name"]: each["value"] for each in told}


if __name__ == "__main__":
    asyncio.run(main())
