"""Events a second that runtimes emit over a WebSocket, and what idle sessions hold; prints JSON.

Our runtime with each event log, and the reference runtime (`agentruntimecontrolprotocol`), each in
a process of its own, send the same events to the same peer: a plain socket that only counts. Rounds
are interleaved, so that a busy moment of the machine falls on all of them alike; what is printed
are medians. Read the ratios, and the CPU time an event: absolute numbers are this machine's.

Then the time from the call that emits an event until a peer has read it: with the SQLite log at
half of the rate just measured, with the memory log at the same rate, and at a thousand events a
second while another session is sent all of its events again. The memory log shows how much of it is
the machine's.

Then a thousand sessions that say nothing, and the same number of bare aiohttp connections.

    python benchmarks/bench_runtime.py [--rounds 9] [--events 20000] [--sessions 1000] [--write]
        [--only emitting | latency | idle]

``--write`` keeps the result in results.json.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from socket import create_connection, socket
from typing import Any

from rounds import footer, machine, report, results, table
from ulid import ULID

TEXT = "x" * 120  # about 300 bytes a frame
KINDS = ("memory", "sqlite", "reference")
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


# -------------------------------------------------------------------------- the servers


async def serve_ours(kind: str) -> None:
    from arcp_client import JobContext, Limits, MemoryEventLog, Runtime, SqliteEventLog

    log = SqliteEventLog(Path(sys.argv[3]) / "runtime.db") if kind == "sqlite" else MemoryEventLog()
    # A client that is behind on purpose must not slow the agents: bench_latency.py
    runtime = Runtime(event_log=log, limits=Limits(lag_events=1_000_000))

    @runtime.agent("emit")
    async def emit(input: Any, job: JobContext) -> None:
        for _ in range(input["n"]):
            await job.log(TEXT)

    @runtime.agent("steady")
    async def steady(input: Any, job: JobContext) -> None:
        """Emits at a rate, each event with the moment of its emission."""
        rate, emitted, start = input["rate"], 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < input["seconds"]:
            for _ in range(round(elapsed * rate) - emitted):
                await job.log(f"{time.perf_counter_ns()} {TEXT}")
                emitted += 1
            await asyncio.sleep(0.001)

    async with runtime.serve() as server:
        print(server.port, flush=True)
        await asyncio.Event().wait()


async def serve_reference() -> None:
    import arcp
    from arcp.runtime import ARCPRuntime, JobContext, StaticBearerVerifier

    runtime = ARCPRuntime(
        runtime=arcp.RuntimeInfo(name="reference", version="1.1.3"),
        bearer=StaticBearerVerifier({"t": "p"}),
    )

    async def emit(input: Any, job: JobContext) -> None:
        for _ in range(input["n"]):
            await job.log("info", TEXT)

    runtime.register_agent("emit", emit)
    server = await arcp.serve_websocket(runtime.accept, host="127.0.0.1", port=0)
    print(next(iter(server.sockets)).getsockname()[1], flush=True)
    await asyncio.Event().wait()


async def serve_bare() -> None:
    from aiohttp import web

    async def handle(request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse(
            heartbeat=None, autoping=False, compress=False, max_msg_size=2**24
        )
        await ws.prepare(request)
        async for _ in ws:
            await ws.send_str('{"type":"session.welcome"}')
        return ws

    app = web.Application()
    app.router.add_get("/arcp", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


class Served:
    """One of them as a process."""

    def __init__(self, kind: str, directory: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", kind, directory],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def cpu(self) -> float:
        """Seconds of CPU time so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident(self) -> int:
        """Bytes in memory."""
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * PAGE

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextlib.contextmanager
def served(*kinds: str) -> Iterator[dict[str, Served]]:
    with tempfile.TemporaryDirectory() as directory:
        servers = {kind: Served(kind, directory) for kind in kinds}
        try:
            yield servers
        finally:
            for server in servers.values():
                server.end()


# ---------------------------------------------------------------------------- the peer


def masked(payload: bytes) -> bytes:
    """A text frame; the mask is nothing, which is a mask like any other."""
    size = len(payload)
    assert size < 65536
    head = bytes([0x81, 0x80 | size]) if size < 126 else b"\x81\xfe" + size.to_bytes(2, "big")
    return head + bytes(4) + payload


def frame(type: str, payload: Any) -> bytes:
    text = json.dumps({"arcp": "1.1", "id": str(ULID()), "type": type, "payload": payload})
    return masked(text.encode())


def read(sock: socket) -> bytes:
    data = sock.recv(2**20)
    if not data:
        raise ConnectionError("the runtime has closed the connection")
    return data


def opened(port: int, resume: dict[str, Any] | None = None) -> socket:
    """A connection in a session."""
    return welcomed(port, resume)[0]


def welcomed(port: int, resume: dict[str, Any] | None = None) -> tuple[socket, bytes]:
    """A connection in a session, and what was read of it."""
    sock = create_connection(("127.0.0.1", port), timeout=60)
    key = base64.b64encode(os.urandom(16)).decode()
    sock.sendall(
        f"GET /arcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        "\r\n".encode()
    )
    reply = b""
    while b"\r\n\r\n" not in reply:
        reply += read(sock)
    assert b" 101 " in reply, reply
    hello = {
        "client": {"name": "bench", "version": "1"},
        "auth": {"scheme": "bearer", "token": "t"},
        "capabilities": {"encodings": ["json"], "features": ["list_jobs"]},
    }
    sock.sendall(frame("session.hello", hello if resume is None else {**hello, "resume": resume}))
    while b"session.welcome" not in reply:
        reply += read(sock)
    return sock, reply


def resumption(welcome: bytes) -> dict[str, Any]:
    """What resumes a session of ours from its start."""
    found = {
        name: re.search(rb'"%b":"([^"]+)"' % name.encode(), welcome)
        for name in ("session_id", "resume_token")
    }
    block = {name: match[1].decode() for name, match in found.items() if match is not None}
    return {**block, "last_event_seq": 0}


def received(server: Served, count: int) -> tuple[float, float]:
    """Events a second, and microseconds of the server's CPU time an event."""
    sock = opened(server.port)
    before, start = server.cpu(), time.perf_counter()
    sock.sendall(frame("job.submit", {"agent": "emit", "input": {"n": count}}))
    seen, tail = 0, b""
    while b"job.result" not in tail:
        tail = tail[-40:] + read(sock)
        seen += tail.count(b'"event_seq"') - tail[:40].count(b'"event_seq"')
    elapsed = time.perf_counter() - start
    sock.close()
    assert count <= seen <= count + 2, (seen, count)
    return count / elapsed, (server.cpu() - before) / count * 1e6


def delays(server: Served, rate: float, seconds: float) -> list[float]:
    """Milliseconds from the emission of each event until it was read."""
    sock = opened(server.port)
    job = {"agent": "steady", "input": {"rate": rate, "seconds": seconds}}
    sock.sendall(frame("job.submit", job))
    found, tail = [], b""
    while b"job.result" not in tail:
        tail += read(sock)
        now = time.perf_counter_ns()
        end = 0
        for match in re.finditer(rb'"message":"(\d+) ', tail):
            found.append((now - int(match[1])) / 1e6)
            end = match.end()
        tail = tail[max(end, len(tail) - 1000) :]
    sock.close()
    return found


def replaying(server: Served, count: int, over: threading.Event) -> None:
    """Have a session's events sent again and again until told to stop."""
    sock, welcome = welcomed(server.port)
    sock.sendall(frame("job.submit", {"agent": "emit", "input": {"n": count}}))
    while not over.is_set():
        tail = b""
        while b"job.result" not in tail and not over.is_set():
            tail = tail[-40:] + read(sock)
        sock.close()
        sock, welcome = welcomed(server.port, resumption(welcome))
    sock.close()


def latency(rounds: int, limit: float) -> dict[str, Any]:
    """Percentiles in milliseconds; of several rounds the medians."""
    names = ("sqlite_half_load", "memory_same_load", "beside_a_replay")
    results: dict[str, list[list[float]]] = {name: [] for name in names}
    with served("sqlite", "memory") as servers:
        delays(servers["sqlite"], 1000, 0.5)  # warm
        for _ in range(rounds):
            results["sqlite_half_load"].append(delays(servers["sqlite"], limit / 2, 2.0))
            results["memory_same_load"].append(delays(servers["memory"], limit / 2, 2.0))
        over = threading.Event()
        other = threading.Thread(target=replaying, args=(servers["memory"], 99_000, over))
        other.start()
        time.sleep(5.0)  # all of them are there
        for _ in range(rounds):
            results["beside_a_replay"].append(delays(servers["memory"], 1000, 2.0))
        over.set()
        other.join()
    return {
        name: {
            f"p{n}_ms": round(
                statistics.median(statistics.quantiles(r, n=100)[n - 1] for r in of), 1
            )
            for n in (50, 99)
        }
        for name, of in results.items()
    } | {"half_load_events_per_second": round(limit / 2)}


def emitting(rounds: int, count: int) -> dict[str, Any]:
    results: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    with served(*KINDS) as servers:
        for kind, server in servers.items():
            received(server, count // 10)  # warm
            results[kind].clear()
        for _ in range(rounds):
            for kind, server in servers.items():
                results[kind].append(received(server, count))
    rates = {kind: statistics.median(r for r, _ in found) for kind, found in results.items()}
    costs = {kind: statistics.median(c for _, c in found) for kind, found in results.items()}
    return {
        "events_per_second": {kind: round(rate) for kind, rate in rates.items()},
        "cpu_microseconds_per_event": {kind: round(cost, 1) for kind, cost in costs.items()},
        "memory_over_reference": ratios(results["memory"], results["reference"]),
        "sqlite_over_reference": ratios(results["sqlite"], results["reference"]),
        "sqlite_over_memory": ratios(results["sqlite"], results["memory"]),
    }


def ratios(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> dict[str, Any]:
    """Quartiles of how much faster one is than the other in the same round."""
    pairs = list(zip(one, other, strict=True))
    each = {
        "events_per_second": [a / b for (a, _), (b, _) in pairs],
        "cpu": [b / a for (_, a), (_, b) in pairs],
    }
    return {
        name: [round(q, 2) for q in statistics.quantiles(of, n=4, method="inclusive")]
        for name, of in each.items()
    }


def idling(count: int) -> dict[str, Any]:
    held = {}
    with served("bare", "memory") as servers:
        for kind, server in servers.items():
            warm = [opened(server.port) for _ in range(20)]
            before = server.resident()
            sockets = [opened(server.port) for _ in range(count)]
            held[kind] = (server.resident() - before) / count / 1024
            for sock in warm + sockets:
                sock.close()
    return {
        "sessions": count,
        "kib_per_bare_connection": round(held["bare"], 1),
        "kib_per_session": round(held["memory"], 1),
        "kib_above_bare": round(held["memory"] - held["bare"], 1),
    }


def shown(result: dict[str, Any]) -> str:
    emitting = result["emitting"]

    def ratio(name: str) -> str:
        low, middle, high = emitting[name]["cpu"]
        return f"{middle:.2f} ({low:.2f}–{high:.2f})"

    rows = [
        ["memory log", ratio("memory_over_reference"), "1.00"],
        ["SQLite log", ratio("sqlite_over_reference"), ratio("sqlite_over_memory")],
        ["reference runtime", "1.00", ""],
    ]
    head = ("by CPU time", "× reference", "× memory log")
    return table(head, rows) + footer(result, f" of {result['events']:,} events")


READING = {
    "sqlite_half_load": "SQLite log, half of its limit",
    "memory_same_load": "memory log, the same rate",
    "beside_a_replay": "memory log, while another session is sent 99,000 events again",
}


def shown_reading(result: dict[str, Any]) -> str:
    latency = result["latency"]
    rates = dict.fromkeys(READING, latency["half_load_events_per_second"])
    rates["beside_a_replay"] = 1000
    rows = [
        [name, f"{rates[part]:,}", *(f"{latency[part][p]:.1f}" for p in ("p50_ms", "p99_ms"))]
        for part, name in READING.items()
    ]
    return table(("", "events/s", "p50", "p99"), rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--only", choices=("emitting", "latency", "idle"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    result = {**machine(), "rounds": options.rounds, "events": options.events}
    kept = results().get("runtime", {})
    if options.only is not None:  # the other parts stay as they were measured
        result |= {part: kept[part] for part in ("emitting", "latency", "idle") if part in kept}
    if options.only in (None, "emitting"):
        result["emitting"] = emitting(options.rounds, options.events)
    if options.only in (None, "latency"):
        limit = result["emitting"]["events_per_second"]["sqlite"]
        result["latency"] = latency(options.rounds, limit)
    if options.only in (None, "idle"):
        result["idle"] = idling(options.sessions)
    report("runtime", result, write=options.write)
    print(shown(result), file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        kind = sys.argv[2]
        made = {"bare": serve_bare, "reference": serve_reference}.get(kind)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(serve_ours(kind) if made is None else made())
    else:
        main()
