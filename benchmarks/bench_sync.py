"""`arcp_client.sync` against the asynchronous client: CPU time of events and of calls; prints JSON.

Events come over a real WebSocket from another process, into an iterator and into a handler. Calls
go to an embedded runtime: a job that is submitted and awaited, and a ping. Every way is a process
of its own, in interleaved rounds. What counts are the ratios of CPU time within a round, async over
blocking: 0.5 says that blocking takes twice as much.

    python benchmarks/bench_sync.py [--rounds 9] [--events 50000] [--calls 500]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from consume import Meter

HERE = Path(__file__).parent
LIMIT = 120


def count(meter: Meter) -> Callable[[Any], None]:
    def handle(event: object) -> None:
        if not meter.count:
            meter.first()
        meter.count += 1

    return handle


# ----------------------------------------------------------------------- asynchronous


async def async_iterator(url: str, events: int, meter: Meter) -> None:
    from arcp_client import Client

    handle = count(meter)
    async with Client(url, token="t") as client:
        job = await client.submit("load", {"events": events, "jobs": 1})
        async for event in job:
            handle(event)
        await job.result()


async def async_handler(url: str, events: int, meter: Meter) -> None:
    from arcp_client import Client, Event

    async with Client(url, token="t") as client:
        client.on(Event)(count(meter))
        job = await client.submit("load", {"events": events, "jobs": 1})
        await job.result()
        await client.drain()


def embedded() -> Any:
    from arcp_client import Runtime

    runtime = Runtime()

    @runtime.agent("echo")
    async def echo(input: Any, job: Any) -> Any:
        return input

    return runtime


async def async_jobs(url: str, calls: int, meter: Meter) -> None:
    from arcp_client import Client

    async with Client(embedded()) as client:
        meter.first()
        for n in range(calls):
            await (await client.submit("echo", n)).result()
            meter.count += 1


async def async_pings(url: str, calls: int, meter: Meter) -> None:
    from arcp_client import Client

    async with Client(embedded()) as client:
        meter.first()
        for _ in range(calls):
            await client.ping()
            meter.count += 1


# ----------------------------------------------------------------------- blocking


def sync_iterator(url: str, events: int, meter: Meter) -> None:
    from arcp_client.sync import Client

    handle = count(meter)
    with Client(url, token="t") as client:
        job = client.submit("load", {"events": events, "jobs": 1})
        for event in job:
            handle(event)
        job.result()


def sync_handler(url: str, events: int, meter: Meter, *, thread: bool = False) -> None:
    from arcp_client.sync import Client, Event

    with Client(url, token="t") as client:
        client.on(Event, thread=thread)(count(meter))
        client.submit("load", {"events": events, "jobs": 1}).result()
        client.drain(timeout=LIMIT)


def sync_threaded(url: str, events: int, meter: Meter) -> None:
    sync_handler(url, events, meter, thread=True)


def sync_jobs(url: str, calls: int, meter: Meter) -> None:
    from arcp_client.sync import Client

    with Client(embedded()) as client:
        meter.first()
        for n in range(calls):
            client.submit("echo", n).result()
            meter.count += 1


def sync_pings(url: str, calls: int, meter: Meter) -> None:
    from arcp_client.sync import Client

    with Client(embedded()) as client:
        meter.first()
        for _ in range(calls):
            client.ping()
            meter.count += 1


Way = Callable[[str, int, Meter], Awaitable[None] | None]
PAIRS: dict[str, tuple[Way, Way]] = {
    "events, iterator": (async_iterator, sync_iterator),
    "events, handler": (async_handler, sync_handler),
    "events, handler in a thread": (async_handler, sync_threaded),
    "submit and result": (async_jobs, sync_jobs),
    "ping": (async_pings, sync_pings),
}


def run(pair: str, kind: str, port: str, number: int) -> None:
    meter = Meter()
    done = PAIRS[pair][kind == "sync"](f"ws://127.0.0.1:{port}/arcp", number, meter)
    if done is not None:
        asyncio.run(done)  # type: ignore[arg-type]
    assert meter.count >= number, f"{pair}, {kind}: {meter.count} of {number}"
    print(json.dumps(meter.report(pair)))


def measured(pair: str, kind: str, port: str, number: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--run", pair, kind, port, str(number)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        raise SystemExit(f"{pair}, {kind} failed:\n{done.stderr}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


def compared(pair: str, rounds: list[dict[tuple[str, str], dict[str, float]]]) -> dict[str, float]:
    def median(values: list[float]) -> float:
        return round(statistics.median(values), 2)

    both = [
        (r[pair, "async"]["cpu_us_per_event"], r[pair, "sync"]["cpu_us_per_event"]) for r in rounds
    ]
    return {
        "async_us": median([ours for ours, _ in both]),
        "sync_us": median([theirs for _, theirs in both]),
        "ratio": median([ours / theirs for ours, theirs in both]),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--calls", type=int, default=500)
    options = parser.parse_args()
    server = subprocess.Popen(
        [sys.executable, str(HERE / "frames_server.py")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        rounds = []
        for number in range(options.rounds):
            kinds = ("async", "sync") if number % 2 else ("sync", "async")
            rounds.append(
                {
                    (pair, kind): measured(
                        pair, kind, port, options.events if "events" in pair else options.calls
                    )
                    for pair in PAIRS
                    for kind in kinds
                }
            )
    finally:
        server.terminate()
        server.wait()
    result: dict[str, Any] = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "rounds": options.rounds,
    }
    result |= {pair: compared(pair, rounds) for pair in PAIRS}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        _, _, pair, kind, port, number = sys.argv
        run(pair, kind, port, int(number))
    else:
        main()
