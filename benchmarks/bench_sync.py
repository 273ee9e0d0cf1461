"""`arcp_client.sync` against the asynchronous client: CPU time of events and of calls; prints JSON.

Events come over a real WebSocket from another process, into an iterator and into a handler. Calls
go to an embedded runtime: a job that is submitted and awaited, and a ping. Every way is a process
of its own, in interleaved rounds. What counts are the ratios of CPU time within a round, async over
blocking: 0.5 says that blocking takes twice as much.

    python benchmarks/bench_sync.py [--rounds 9] [--events 50000] [--calls 500] [--only TEXT]
                                    [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from consume import Meter
from rounds import LIMIT, answer, frames_server, interleaved, machine, quartiles, report


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


def compared(rounds: list[dict[str, dict[str, float]]], pair: str) -> dict[str, Any]:
    them, us = (
        [round_[f"{pair}/{kind}"]["cpu_us_per_event"] for round_ in rounds]
        for kind in ("async", "sync")
    )
    return {
        "pair": pair,
        "async_us": quartiles(them),
        "sync_us": quartiles(us),
        "ratio": quartiles(one / other for one, other in zip(them, us, strict=True)),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--only", default="", help="only pairs whose name holds this")
    parser.add_argument("--write", action="store_true", help="keep the numbers in results.json")
    options = parser.parse_args()
    pairs = [pair for pair in PAIRS if options.only in pair]
    ways = [f"{pair}/{kind}" for pair in pairs for kind in ("async", "sync")]
    with frames_server() as port:

        def measured(way: str) -> dict[str, float]:
            pair, kind = way.split("/")
            number = options.events if pair.startswith("events") else options.calls
            found: dict[str, float] = answer(__file__, "--run", pair, kind, port, number)
            return found

        rounds = interleaved(ways, options.rounds, measured)
    result = {
        **machine(),
        "rounds": options.rounds,
        "events": options.events,
        "calls": options.calls,
        "pairs": [compared(rounds, pair) for pair in pairs],
    }
    report("sync", result, write=options.write)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        _, _, pair, kind, port, number = sys.argv
        run(pair, kind, port, int(number))
    else:
        main()
