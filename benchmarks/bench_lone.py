"""Clients at low rates: CPU of a lone event and of a connect, first event, memory; prints JSON.

Agents emit a few events a second, and many programs are short. So ours, the reference client and
bare aiohttp each take single events at a low rate, connect again and again, and stand idle in great
number; each in a process of its own, in interleaved rounds. What counts are the ratios to the
reference.

    python benchmarks/bench_lone.py [--rounds 9] [--events 200] [--connects 60] [--clients 200]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KINDS = ("ours", "reference", "bare")
EVERY = 0.01
LIMIT = 120
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


@asynccontextmanager
async def bare(url: str) -> AsyncIterator[Any]:
    import aiohttp

    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, compress=0, max_msg_size=0) as ws,
    ):
        hello = {"arcp": "1.1", "id": "01J1", "type": "session.hello", "payload": {}}
        await ws.send_json(hello)
        await ws.receive()

        async def events(count: int, **wish: Any) -> AsyncIterator[None]:
            submit = {"agent": "load", "input": {"events": count, **wish}}
            message = {"arcp": "1.1", "id": "01J2", "type": "job.submit", "payload": submit}
            await ws.send_json(message)
            await ws.receive()
            for _ in range(count):
                yield json.loads((await ws.receive()).data) and None

        yield events


CLIENTS = {"ours": ours, "reference": reference, "bare": bare}


# ----------------------------------------------------------------------- one process


async def measured(kind: str, url: str, events: int, connects: int, clients: int) -> dict[str, Any]:
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
    connect = (time.process_time() - cpu) / connects
    opened = []
    gc.collect()
    before = resident()
    for _ in range(clients):
        context = make(url)
        opened.append((context, await context.__aenter__()))
    gc.collect()
    held = (resident() - before) / clients
    cpu, begin = time.process_time(), time.perf_counter()
    await asyncio.sleep(2)
    idle = (time.process_time() - cpu) / (time.perf_counter() - begin)
    for context, _ in opened:
        await context.__aexit__(None, None, None)
    return {
        "event_us": event * 1e6,
        "connect_cpu_us": connect * 1e6,
        "first_event_us": statistics.median(firsts) * 1e6,
        "kib_per_client": held / 1024,
        "idle_cores_per_1000": idle / clients * 1000,
    }


def one(kind: str, port: str, options: argparse.Namespace) -> dict[str, float]:
    numbers = map(str, (options.events, options.connects, options.clients))
    command = [sys.executable, __file__, "--run", kind, port, *numbers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        raise SystemExit(f"{kind} failed:\n{done.stderr}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--connects", type=int, default=60)
    parser.add_argument("--clients", type=int, default=200)
    options = parser.parse_args()
    server = subprocess.Popen(
        [sys.executable, str(HERE / "frames_server.py")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        rounds = []
        for number in range(options.rounds):
            turn = KINDS[number % 3 :] + KINDS[: number % 3]
            rounds.append({kind: one(kind, port, options) for kind in turn})
    finally:
        server.terminate()
        server.wait()
    figures = list(rounds[0]["ours"])

    def medians(value: Callable[[dict[str, Any], str], float]) -> dict[str, float]:
        return {f: round(statistics.median(value(r, f) for r in rounds), 2) for f in figures}

    result = {"python": platform.python_version(), "cores": os.cpu_count(), "rounds": len(rounds)}
    result |= {kind: medians(lambda r, f, kind=kind: r[kind][f]) for kind in KINDS}
    result["ours_over_reference"] = medians(lambda r, f: r["ours"][f] / (r["reference"][f] or 1e-9))
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        kind, port, *numbers = sys.argv[2:]
        url = f"ws://127.0.0.1:{port}/arcp"
        print(json.dumps(asyncio.run(measured(kind, url, *map(int, numbers)))))
    else:
        main()
