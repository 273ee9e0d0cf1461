"""Milliseconds from the call that emits an event to its handler, at a steady rate; prints JSON.

An agent of our runtime stamps each event. Our client, the reference client and a handwritten loop
(aiohttp + msgspec) get the same events, each in a process of its own, in interleaved rounds:

- ``quiet``: nothing else happens;
- ``replay``: the runtime sends 99,000 events again and again to another session;
- ``flood``: another lane of the same client has 10,000 events waiting, whose handler takes 50 µs
  of CPU time for each; measured until it is done. Only ours has lanes; the base is ours, quiet.

A busy machine makes these numbers meaningless: give the processes a priority, ``chrt -f 10``.

    chrt -f 10 python benchmarks/bench_latency.py [--rounds 9] [--rate 1000] [--seconds 2] [--write]

The percentiles of ours should be at most those of the reference client. ``--write`` keeps the
result in results.json.
"""

import argparse
import asyncio
import json
import os
import sys
import threading
import time
from typing import Any

from rounds import (
    HERE,
    answer,
    footer,
    interleaved,
    machine,
    percentiles,
    quartiles,
    report,
    spread,
    table,
)

REPLAYED = 99_000  # with the status and the end of the job, what a session keeps
FLOOD = 10_000
WORK = 50e-6  # seconds of a handler of the flood
WAYS = ("ours", "reference", "typed", "ours, replay", "reference, replay", "ours, flood")


def stay_on(core: int) -> None:
    """Keep client and runtime apart: processes of one priority do not interrupt each other."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


# ------------------------------------------------------------------------- one client


class Delays:
    """Milliseconds since the stamps of events."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def add(self, text: str) -> None:
        stamp = text.partition(" ")[0]
        if stamp.isdigit():
            self.found.append((time.perf_counter_ns() - int(stamp)) / 1e6)


async def ours(url: str, job: dict[str, Any], delays: Delays) -> None:
    from arcp_client import Client, events

    async with Client(url, token="t") as client:

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            delays.add(event.message)

        await (await client.submit("steady", job)).result()


async def flooded(url: str, job: dict[str, Any], delays: Delays) -> None:
    from arcp_client import Buffer, Client, events

    room = Buffer(soft=4 * FLOOD, hard=8 * FLOOD, bytes=1 << 28)
    async with Client(url, token="t", buffer=room) as client:
        flood = await client.submit("emit", {"n": FLOOD})
        waiting, done = asyncio.Event(), 0

        @client.on(events.Log, job=flood)
        async def work(event: events.Log) -> None:
            nonlocal done
            await waiting.wait()
            done += 1
            end = time.perf_counter() + WORK
            while time.perf_counter() < end:
                pass

        while client.stats().received < FLOOD:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
        waiting.set()
        steady = await client.submit("steady", job)

        @client.on(events.Log, job=steady)
        async def handle(event: events.Log) -> None:
            if done < FLOOD:
                delays.add(event.message)

        await steady.result()


async def reference(url: str, job: dict[str, Any], delays: Delays) -> None:
    from arcp import ClientInfo, WebSocketTransport
    from arcp.client import ARCPClient

    client = ARCPClient(client=ClientInfo(name="bench", version="1"), token="t", auto_ack=True)
    await client.connect(await WebSocketTransport.connect(url, compression=None))
    handle = await client.submit(agent="steady", input=job)
    async for event in handle.events():
        delays.add(event["body"].get("message", ""))
    await handle.done
    await client.close()


async def typed(url: str, job: dict[str, Any], delays: Delays) -> None:
    import aiohttp
    import msgspec

    class Body(msgspec.Struct):
        message: str = ""

    class Payload(msgspec.Struct):
        body: Body | None = None

    class Frame(msgspec.Struct):
        type: str
        payload: Payload

    decode = msgspec.json.Decoder(Frame).decode

    async def handle(body: Body) -> None:
        delays.add(body.message)

    hello = {
        "client": {"name": "bench", "version": "1"},
        "auth": {"scheme": "bearer", "token": "t"},
        "capabilities": {"encodings": ["json"], "features": []},
    }
    submit = {"agent": "steady", "input": job}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, compress=0, max_msg_size=0, decode_text=False) as ws,
    ):
        for number, (kind, payload) in enumerate(
            [("session.hello", hello), ("job.submit", submit)]
        ):
            frame = {"arcp": "1.1", "id": f"01J{number:023d}", "type": kind, "payload": payload}
            await ws.send_json(frame)
        while (frame := decode((await ws.receive()).data)).type != "job.result":
            if frame.payload.body is not None:
                await handle(frame.payload.body)


CLIENTS = {"ours": ours, "reference": reference, "typed": typed, "flood": flooded}


def one(way: str, port: str, rate: float, seconds: float, core: int) -> None:
    stay_on(core)
    who, _, scene = way.partition(", ")
    client = CLIENTS["flood" if scene == "flood" else who]
    delays = Delays()
    job = {"rate": rate, "seconds": seconds}
    asyncio.run(client(f"ws://127.0.0.1:{port}/arcp", job, delays))
    assert len(delays.found) > rate * seconds / 20, f"{way}: {len(delays.found)} events"
    print(json.dumps(percentiles(delays.found)))


# ------------------------------------------------------------------------- all of them


def shown(result: dict[str, Any]) -> str:
    rows = [
        [
            row["way"],
            f"{row['p50_ms']['median']:.2f}",
            f"{row['p99_ms']['median']:.2f}",
            spread(row["p50_ratio"]),
            spread(row["p99_ratio"]),
            row["base"],
        ]
        for row in result["rows"]
    ]
    head = ("", "p50 ms", "p99 ms", "p50 ×", "p99 ×", "of")
    return table(head, rows) + footer(result, f" at {result['events_per_second']:,.0f} events/s")


def base_of(way: str) -> str:
    return {"ours, replay": "reference, replay", "reference, replay": "reference, replay"}.get(
        way, "ours" if way == "ours, flood" else "reference"
    )


def measured(rounds: int, rate: float = 1000, seconds: float = 2) -> dict[str, Any]:
    import bench_runtime

    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    stay_on(cores[0])  # and the runtimes
    one_run = HERE / "bench_latency.py", "--run"

    def run(way: str) -> dict[str, float]:
        with bench_runtime.served("memory") as servers:
            over, server = threading.Event(), servers["memory"]
            other = threading.Thread(
                target=bench_runtime.replaying, args=(server, REPLAYED, over), daemon=True
            )
            if way.endswith("replay"):
                other.start()
                time.sleep(3.0)  # all of them are there
            try:
                return answer(*one_run, way, server.port, rate, seconds, cores[-1])
            finally:
                over.set()
                if other.ident is not None:
                    other.join()

    found = interleaved(WAYS, rounds, run)
    rows = []
    for way in WAYS:
        pairs = [(round_[way], round_[base_of(way)]) for round_ in found]
        rows.append(
            {
                "way": way,
                "base": base_of(way),
                **{f"{p}_ms": quartiles(mine[p] for mine, _ in pairs) for p in ("p50", "p99")},
                **{f"{p}_ratio": quartiles(a[p] / b[p] for a, b in pairs) for p in ("p50", "p99")},
            }
        )
    return {**machine(), "rounds": rounds, "events_per_second": rate, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    result = measured(options.rounds, options.rate, options.seconds)
    report("latency", result, write=options.write)
    print(shown(result), file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        one(sys.argv[2], sys.argv[3], float(sys.argv[4]), float(sys.argv[5]), int(sys.argv[6]))
    else:
        main()
