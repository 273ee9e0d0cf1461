"""What replicas on PostgreSQL cost: events a second, delays, observers, bytes; prints JSON.

Processes of this machine and a PostgreSQL server with fsync, made by initdb. The ways of each
measurement take turns, and medians are printed: read the ratios. Busy machines want
``chrt -f 10 python benchmarks/bench_replicas.py`` and few rounds.

- one replica against a runtime with SQLite and full sync, to one peer that counts
- the time from an event's emission to the peer, on the same replica and on another one, against the
  statement that stores one event, alone on one connection
- three replicas that write at once, with and without wake-ups
- the CPU time of a replica whose job a hundred sessions of another one observe, against none

    python benchmarks/bench_replicas.py [--rounds 5] [--events 15000] [--only one,delay,size]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import secrets
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

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent)]

from bench_runtime import TEXT, Served, frame, read, received  # noqa: E402

from tests.postgres import Cluster  # noqa: E402

RATE = 80  # events a second: each is a batch of its own


async def serve(kind: str, place: str, schema: str) -> None:
    from arcp_client import JobContext, Limits, Runtime, SqliteEventLog
    from arcp_client.runtime import PostgresEventLog
    from arcp_client.runtime._log.wakeups import Wakeups

    if kind == "quiet":
        Wakeups.tell = lambda self, ids: None  # type: ignore[method-assign]
    log: Any = (
        SqliteEventLog(Path(place) / f"{schema}.db", full_sync=True)
        if kind == "sqlite"
        else PostgresEventLog(place, schema=schema, lease=30)
    )
    runtime = Runtime(event_log=log, limits=Limits(lag_events=1_000_000))

    @runtime.agent("emit")
    async def emit(input: Any, job: JobContext) -> None:
        for _ in range(input["n"]):
            await job.log(TEXT)

    @runtime.agent("noise")
    async def noise(input: Any, job: JobContext) -> None:
        """Emits texts that do not compress."""
        for _ in range(input["n"]):
            await job.log(secrets.token_hex(60))

    @runtime.agent("steady")
    async def steady(input: Any, job: JobContext) -> None:
        """Emits at a rate, each event with the moment of its emission."""
        await asyncio.sleep(input.get("after", 0.0))
        for _ in range(round(input["rate"] * input["seconds"])):
            await job.log(f"{time.perf_counter_ns()} {TEXT}")
            await asyncio.sleep(1 / input["rate"])

    async with runtime.serve() as server:
        print(server.port, flush=True)
        await asyncio.Event().wait()


class Replica(Served):
    """A runtime as a process."""

    def __init__(self, kind: str, place: str, schema: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", kind, place, schema],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())


@contextlib.contextmanager
def replicas(kind: str, place: str, schema: str, count: int = 1) -> Iterator[list[Replica]]:
    made = [Replica(kind, place, schema) for _ in range(count)]
    try:
        yield made
    finally:
        for each in made:
            each.end()


def session(port: int) -> socket:
    """A connection in a session that may subscribe."""
    import base64
    import os

    sock = create_connection(("127.0.0.1", port), timeout=60)
    key = base64.b64encode(os.urandom(16)).decode()
    sock.sendall(
        f"GET /arcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        "\r\n".encode()
    )
    hello = {
        "client": {"name": "bench", "version": "1"},
        "auth": {"scheme": "bearer", "token": "t"},
        "capabilities": {"encodings": ["json"], "features": ["subscribe", "list_jobs"]},
    }
    sock.sendall(frame("session.hello", hello))
    until(sock, b"session.welcome")
    return sock


def until(sock: socket, seen: bytes) -> bytes:
    data = b""
    while seen not in data:
        data += read(sock)
    return data


def submitted(sock: socket, **input: Any) -> str:
    """The id of a new job of the agent ``steady``."""
    sock.sendall(frame("job.submit", {"agent": "steady", "input": input}))
    found = re.search(rb'"job_id":"([^"]+)"', until(sock, b"job.accepted"))
    assert found is not None
    return found[1].decode()


def subscribed(port: int, job_id: str) -> socket:
    sock = session(port)
    sock.sendall(frame("job.subscribe", {"job_id": job_id, "history": True}))
    until(sock, b"job.subscribed")
    return sock


def delays(sock: socket) -> list[float]:
    """Milliseconds from the emission of each event until it was read."""
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


# -------------------------------------------------------------------- the measurements


def one(dsn: str, rounds: int, count: int) -> dict[str, Any]:
    """Events a second of one replica, and of SQLite with full sync."""
    with (
        tempfile.TemporaryDirectory() as folder,
        replicas("sqlite", folder, "one") as (sqlite,),
        replicas("postgres", dsn, "one") as (postgres,),
    ):
        pairs = []
        for n in range(rounds + 1):
            pair = [received(server, count) for server in (sqlite, postgres)]
            if n:  # the first warms
                pairs.append(pair)
    return {
        "sqlite_full_events_per_second": round(statistics.median(p[0][0] for p in pairs)),
        "postgres_events_per_second": round(statistics.median(p[1][0] for p in pairs)),
        "postgres_over_sqlite": round(statistics.median(p[1][0] / p[0][0] for p in pairs), 2),
        "postgres_cpu_microseconds_per_event": round(statistics.median(p[1][1] for p in pairs), 1),
    }


async def bare(dsn: str, schema: str, count: int) -> list[float]:
    """Milliseconds of the statement that stores one event, with its fence and its number."""
    import asyncpg

    from arcp_client._wire.stamp import EventIds, Record
    from arcp_client.runtime._log.entries import Appended
    from arcp_client.runtime._log.postgres import _WRITE, WriteBatch

    connection = await asyncpg.connect(dsn, server_settings={"search_path": schema, "jit": "off"})
    epoch = await connection.fetchval(
        "INSERT INTO replicas (id, epoch, until, agents, timeline, draining) VALUES ('bare',"
        " nextval('epochs'), clock_timestamp() + interval '60 s', '[]', timeline(), true)"
        " ON CONFLICT (id) DO UPDATE SET until = excluded.until RETURNING epoch"
    )
    held = await connection.fetchval(
        "INSERT INTO sessions (id, principal, holder, epoch, floor, last, state, timeline) VALUES"
        " ('bare', 'bare', 'bare', nextval('epochs'), 0, 0, ''::bytea, timeline())"
        " ON CONFLICT (id) DO UPDATE SET floor = 0 RETURNING epoch"
    )
    first = await connection.fetchval(
        "SELECT coalesce(max(idx + count), 0) FROM events WHERE job_id = 'bare'"
    )
    ids, found = EventIds(), []
    payload = b'{"kind":"log","body":{"level":"info","message":"' + TEXT.encode() + b'"}}'
    for index in range(first, first + count):
        record = Record(ids.next(), b"job.event", b"", payload, 0.0, None, "bare", index, 400)
        batch = WriteBatch([Appended(record, index + 1, "bare")], {"bare": held})
        columns = list(batch.columns())
        begun = time.perf_counter()
        lost = await connection.fetchval(_WRITE, "bare", epoch, ["bare"], [held], *columns)
        found.append(1000 * (time.perf_counter() - begun))
        assert lost is None
        await asyncio.sleep(1 / RATE)
    await connection.execute("DELETE FROM replicas WHERE id = 'bare'")
    await connection.close()
    return found


def delay(dsn: str, rounds: int) -> dict[str, Any]:
    """Median milliseconds to the wire, on the job's replica and on another one."""
    found: dict[str, list[float]] = {"statement": [], "same": [], "other": []}
    with replicas("postgres", dsn, "delay", 2) as (a, b):
        for n in range(rounds + 1):
            alone = asyncio.run(bare(dsn, "delay", 2 * RATE))
            owner = session(a.port)
            job_id = submitted(owner, rate=RATE, seconds=2.0)
            same = delays(owner)
            owner = session(a.port)
            job_id = submitted(owner, rate=RATE, seconds=2.0, after=0.3)
            other = delays(subscribed(b.port, job_id))
            owner.close()
            if n:
                for name, times in zip(found, (alone, same, other), strict=True):
                    found[name].append(statistics.median(times))
    medians = {name: statistics.median(times) for name, times in found.items()}
    return {f"{name}_p50_ms": round(value, 2) for name, value in medians.items()} | {
        "same_over_statement": _ratio(found["same"], found["statement"]),
        "other_over_statement": _ratio(found["other"], found["statement"]),
    }


def _ratio(one: list[float], other: list[float]) -> float:
    return round(statistics.median(a / b for a, b in zip(one, other, strict=True)), 2)


def three(dsn: str, rounds: int, count: int) -> dict[str, Any]:
    """Events a second of three replicas together, with and without wake-ups."""
    found: dict[str, list[float]] = {"with": [], "without": []}
    with (
        replicas("postgres", dsn, "told", 3) as told,
        replicas("quiet", dsn, "quiet", 3) as quiet,
    ):
        for n in range(rounds + 1):
            for name, servers in (("with", told), ("without", quiet)):
                begun = time.perf_counter()
                threads = [
                    threading.Thread(target=received, args=(each, count)) for each in servers
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                if n:
                    found[name].append(3 * count / (time.perf_counter() - begun))
    return {
        "with_wakeups_events_per_second": round(statistics.median(found["with"])),
        "with_over_without": _ratio(found["with"], found["without"]),
    }


def drain(sock: socket) -> None:
    tail = b""
    while b"job.result" not in tail:
        tail = tail[-40:] + read(sock)
    sock.close()


def observers(dsn: str, rounds: int, most: int = 100) -> dict[str, Any]:
    """CPU time of the replica of a job that many sessions of another one observe."""
    cpu: dict[int, list[float]] = {0: [], most: []}
    with replicas("postgres", dsn, "observed", 2) as (a, b):
        for n in range(rounds + 1):
            for count, costs in cpu.items():
                owner = session(a.port)
                job_id = submitted(owner, rate=300, seconds=3.0, after=1.5)
                threads = [
                    threading.Thread(target=drain, args=(subscribed(b.port, job_id),))
                    for _ in range(count)
                ]
                before = a.cpu()
                for thread in threads:
                    thread.start()
                drain(owner)
                spent = a.cpu() - before
                for thread in threads:
                    thread.join()
                if n:
                    costs.append(spent)
    return {
        "cpu_seconds_alone": statistics.median(cpu[0]),
        f"over_alone_with_{most}_observers": _ratio(cpu[most], cpu[0]),
    }


def size(dsn: str, count: int) -> dict[str, Any]:
    """Bytes that an event takes in the database, and that an idle session takes in a replica."""

    async def total() -> int:
        import asyncpg

        connection = await asyncpg.connect(dsn)
        found = await connection.fetchval(
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class AS c JOIN pg_namespace AS n"
            " ON n.oid = c.relnamespace WHERE n.nspname = 'size' AND c.relkind = 'r'"
        )
        await connection.close()
        return int(found)

    with replicas("postgres", dsn, "size") as (a,):
        received(a, count)
        before = asyncio.run(total())
        owner = session(a.port)
        owner.sendall(frame("job.submit", {"agent": "noise", "input": {"n": count}}))
        drain(owner)
        bulk = (asyncio.run(total()) - before) / count
        before = asyncio.run(total())
        owner = session(a.port)
        submitted(owner, rate=RATE, seconds=500 / RATE)
        drain(owner)
        lone = (asyncio.run(total()) - before) / 500
        held, begun = a.resident(), time.perf_counter()
        idle = [session(a.port) for _ in range(300)]
        took = time.perf_counter() - begun
        kept = (a.resident() - held) / 300
        for sock in idle:
            sock.close()
    return {
        "bytes_per_event_in_bursts": round(bulk),
        "bytes_per_event_alone": round(lone),
        "sessions_opened_per_second": round(300 / took),
        "kib_per_idle_session": round(kept / 1024, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--events", type=int, default=15000)
    parser.add_argument("--only", default="one,delay,three,observers,size")
    options = parser.parse_args()
    wanted = set(options.only.split(","))
    cluster = Cluster(Cluster.make_folder(on_disk=True), ["fsync = on"]).create()
    found: dict[str, Any] = {}
    try:
        dsn, rounds, events = cluster.dsn, options.rounds, options.events
        ways = {
            "one": lambda: one(dsn, rounds, events),
            "delay": lambda: delay(dsn, rounds),
            "three": lambda: three(dsn, rounds, events),
            "observers": lambda: observers(dsn, rounds),
            "size": lambda: size(dsn, events),
        }
        for name, measure in ways.items():
            if name in wanted:
                found[name] = measure()
                print(name, json.dumps(found[name]), file=sys.stderr, flush=True)
    finally:
        cluster.remove()
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(*sys.argv[2:5]))
    else:
        main()
