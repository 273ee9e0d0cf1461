"""Clients at low rates: CPU of a lone event and of a connect, first event, memory; prints JSON.

Agents emit a few events a second, and many programs are short. So ours, the reference client, bare
aiohttp and bare websockets each take single events at a low rate, connect again and again, and
stand idle in great number; each in a process of its own, in interleaved rounds. Ours does so twice:
with a handler, which passes each event on to a queue, and with an iterator, as the reference does.
What counts are the ratios to the reference, taken within each round. The two bare ones only
exchange the same frames: they show what of a client is its library's.

    event_us             CPU time of an event, when each arrives alone, 100 a second
    connect_cpu_us       CPU time of a connect, a submit, one event and the close
    first_event_us       wall time of all but the close
    kib_per_client       resident memory that another connected client adds
    idle_core_percent    share of a core that all idle clients take together, heartbeats included
    idle_kib_per_client  the same memory, with that many clients

    python benchmarks/bench_lone.py [--rounds 9] [--events 200] [--connects 60] [--clients 200]
                                    [--idle-rounds 3] [--idle-clients 1000] [--idle-seconds 30]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from rounds import footer, machine, table

HERE = Path(__file__).parent
KINDS = ("ours", "iterator", "reference", "aiohttp", "websockets")
EVERY = 0.01
LIMIT = 300
FILES = 8192
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


# ------------------------------------------------- a client of each kind: open, then its events


@asynccontextmanager
async def ours(url: str) -> AsyncIterator[Any]:
    from arcp_client import Client, Event

    async with Client(url, token="t") as client:

        async def events(count: int, **wish: Any) -> AsyncIterator[None]:
            queue: asyncio.Queue[None] = asyncio.Queue()

            @client.on(Event)
            async def handle(event: Event) -> None:
                queue.put_nowait(None)

            await client.submit("load", {"events": count, **wish})
            for _ in range(count):
                yield await queue.get()

        yield events


@asynccontextmanager
async def iterator(url: str) -> AsyncIterator[Any]:
    from arcp_client import Client

    async with Client(url, token="t") as client:

        async def events(count: int, **wish: Any) -> AsyncIterator[None]:
            job = await client.submit("load", {"events": count, **wish})
            seen = 0
            async for _ in job:
                yield
                seen += 1
                if seen == count:
                    break

        yield events


@asynccontextmanager
async def reference(url: str) -> AsyncIterator[Any]:
    from arcp import ClientInfo, WebSocketTransport
    from arcp.client import ARCPClient

    client = ARCPClient(client=ClientInfo(name="bench", version="1"), token="t", auto_ack=True)
    await client.connect(await WebSocketTransport.connect(url, compression=None))

    async def events(count: int, **wish: Any) -> AsyncIterator[None]:
        job = await client.submit(agent="load", input={"events": count, **wish})
        seen = 0
        async for _ in job.events():
            yield
            seen += 1
            if seen == count:
                break

    yield events
    await client.close()


HELLO = {"arcp": "1.1", "id": "01J1", "type": "session.hello", "payload": {}}


def submit(count: int, wish: dict[str, Any]) -> dict[str, Any]:
    payload = {"agent": "load", "input": {"events": count, **wish}}
    return {"arcp": "1.1", "id": "01J2", "type": "job.submit", "payload": payload}


@asynccontextmanager
async def bare_aiohttp(url: str) -> AsyncIterator[Any]:
    import aiohttp

    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, compress=0, max_msg_size=0) as ws,
    ):
        await ws.send_json(HELLO)
        await ws.receive()

        async def events(count: int, **wish: Any) -> AsyncIterator[None]:
            await ws.send_json(submit(count, wish))
            await ws.receive()
            for _ in range(count):
                yield json.loads((await ws.receive()).data) and None

        # aiohttp answers pings and notices the end only inside receive().
        yield events


@asynccontextmanager
async def bare_websockets(url: str) -> AsyncIterator[Any]:
    from websockets.asyncio.client import connect

    async with connect(url, compression=None, proxy=None) as ws:
        await ws.send(json.dumps(HELLO))
        await ws.recv()

        async def events(count: int, **wish: Any) -> AsyncIterator[None]:
            await ws.send(json.dumps(submit(count, wish)))
            await ws.recv()
            for _ in range(count):
                yield json.loads(await ws.recv()) and None

        yield events


CLIENTS = {
    "ours": ours,
    "iterator": iterator,
    "reference": reference,
    "aiohttp": bare_aiohttp,
    "websockets": bare_websockets,
}


# ----------------------------------------------------------------------- one process


async def at_low_rates(kind: str, url: str, events: int, connects: int) -> dict[str, float]:
    make = CLIENTS[kind]
    async with make(url) as consume:  # warm; the peer numbers each job's events from 1
        async for _ in consume(20):
            pass
    async with make(url) as consume:
        cpu = time.process_time()
        async for _ in consume(events, every=EVERY, pause=0):
            pass
        event = (time.process_time() - cpu) / events
    firsts = []
    cpu = time.process_time()
    for _ in range(connects):
        begin = time.perf_counter()
        async with make(url) as consume:
            await anext(consume(1, pause=0))
            firsts.append(time.perf_counter() - begin)
    return {
        "event_us": event * 1e6,
        "connect_cpu_us": (time.process_time() - cpu) / connects * 1e6,
        "first_event_us": statistics.median(firsts) * 1e6,
    }


async def idle(kind: str, url: str, clients: int, seconds: float) -> tuple[float, float]:
    """Bytes a client, and the share of a core that all of them take."""
    async with AsyncExitStack() as opened:
        gc.collect()
        before = resident()
        for _ in range(clients):
            await opened.enter_async_context(CLIENTS[kind](url))
        gc.collect()
        held = (resident() - before) / clients
        cpu, begin = time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        share = (time.process_time() - cpu) / (time.perf_counter() - begin)
    return held, share


async def low(kind: str, url: str, options: argparse.Namespace) -> dict[str, float]:
    figures = await at_low_rates(kind, url, options.events, options.connects)
    held, _ = await idle(kind, url, options.clients, 0)
    return {**figures, "kib_per_client": held / 1024}


async def crowd(kind: str, url: str, options: argparse.Namespace) -> dict[str, float]:
    async with CLIENTS[kind](url) as consume:  # warm
        async for _ in consume(20, pause=0):
            pass
    held, share = await idle(kind, url, options.idle_clients, options.idle_seconds)
    return {"idle_core_percent": share * 100, "idle_kib_per_client": held / 1024}


PARTS = {"low": low, "crowd": crowd}


# ------------------------------------------------------------------------ all rounds


def quartiles(values: list[float]) -> dict[str, float]:
    if len(values) == 1:
        values *= 2
    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": round(median, 3), "lower": round(lower, 3), "upper": round(upper, 3)}


def one(part: str, kind: str, port: str, options: list[str]) -> dict[str, float]:
    command = [sys.executable, __file__, *options, "--run", part, kind, port]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        raise SystemExit(f"{kind} failed:\n{done.stderr}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


Round = dict[str, dict[str, float]]


def rounds_of(part: str, count: int, port: str, options: list[str]) -> list[Round]:
    rounds = []
    for number in range(count):
        first = number % len(KINDS)
        turn = KINDS[first:] + KINDS[:first]
        rounds.append({kind: one(part, kind, port, options) for kind in turn})
    return rounds


def summary(rounds: list[Round]) -> dict[str, dict[str, dict[str, float]]]:
    """Figures of each kind, and the ratios of ours to the others within each round."""
    if not rounds:
        return {}

    def all_of(value: Callable[[Round, str], float]) -> dict[str, dict[str, float]]:
        return {name: quartiles([value(r, name) for r in rounds]) for name in rounds[0]["ours"]}

    figures = {kind: all_of(lambda r, name, kind=kind: r[kind][name]) for kind in KINDS}
    for kind in KINDS[1:]:
        figures[f"ours_over_{kind}"] = all_of(
            lambda r, name, kind=kind: r["ours"][name] / (r[kind][name] or 1e-9)
        )
    return figures


ROWS = {
    "ours": "arcp-client, a handler and a queue",
    "iterator": "arcp-client, async for",
    "reference": "reference client",
    "aiohttp": "aiohttp alone",
    "websockets": "websockets alone",
}
FIGURES = {
    "event_us": "a lone event",
    "connect_cpu_us": "connect, submit, one event, close",
    "kib_per_client": "memory of a client",
    "idle_core_percent": "idle clients",
}


def shown(result: dict[str, Any]) -> str:
    """Each kind over the reference, by the medians of the rounds."""
    base = result["reference"]
    rows = [
        [name, *(f"{result[kind][key]['median'] / base[key]['median']:.2f}" for key in FIGURES)]
        for kind, name in ROWS.items()
        if kind in result
    ]
    told = {key: base[key]["median"] for key in FIGURES}
    units = (
        f"{told['event_us']:.0f} µs, {told['connect_cpu_us'] / 1000:.1f} ms,"
        f" {told['kib_per_client']:.0f} KiB, and {told['idle_core_percent']:.1f} % of a core for"
        f" {result['idle_clients']:,} clients"
    )
    return (
        table(("× reference client", *FIGURES.values()), rows)
        + f"\n\nThe reference client: {units}."
        + footer(result, "")
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--connects", type=int, default=60)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--idle-rounds", type=int, default=3)
    parser.add_argument("--idle-clients", type=int, default=1000)
    parser.add_argument("--idle-seconds", type=float, default=30.0)
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def main(options: argparse.Namespace) -> None:
    server = subprocess.Popen(
        [sys.executable, str(HERE / "frames_server.py")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        low_rates = rounds_of("low", options.rounds, port, sys.argv[1:])
        crowds = rounds_of("crowd", options.idle_rounds, port, sys.argv[1:])
    finally:
        server.terminate()
        server.wait()
    result = {
        **machine(),
        "rounds": options.rounds,
        "idle_rounds": options.idle_rounds,
        "idle_clients": options.idle_clients,
        "idle_seconds": options.idle_seconds,
    }
    parts = summary(low_rates), summary(crowds)
    for name in parts[0] | parts[1]:
        result[name] = parts[0].get(name, {}) | parts[1].get(name, {})
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    options = arguments()
    # Server and clients have a file for each connection.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, hard), hard))
    if options.run:
        part, kind, port = options.run
        url = f"ws://127.0.0.1:{port}/arcp"
        print(json.dumps(asyncio.run(PARTS[part](kind, url, options))))
    else:
        main(options)
