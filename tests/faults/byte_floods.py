"""Floods of bytes against a runtime or a client, in a process of its own; prints peak and start.

    python -m tests.faults.byte_floods NAME

The other end runs in the same process, but holds no more than one frame at a time: what is measured
beside the bound is what both need to run.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from arcp_client import Buffer, Client
from arcp_client._tasks import TaskOwner
from arcp_client.errors import ArcpError
from arcp_client.runtime import JobContext, Limits, MemoryEventLog, Runtime, SqliteEventLog
from arcp_client.runtime._log.entries import Entry
from arcp_client.transports import WebSocketConnector
from arcp_client.transports.memory import memory_pair
from tests.alone import resident
from tests.unit.runtime.peer import Peer

MIB = 1024 * 1024
BIG = "x" * (3 * MIB)


class Peak:
    def __init__(self) -> None:
        self.start = self.peak = resident()

    def look(self) -> None:
        self.peak = max(self.peak, resident())


async def answers(peak: Peak) -> None:
    """Refusals that repeat a request whose id has 3 MB, to a client that reads nothing."""
    runtime = Runtime(limits=Limits(outbox_bytes=8 * MIB))
    async with runtime.serve() as server, asyncio.timeout(60):
        peer = await Peer.to(WebSocketConnector(server.url))
        await peer.hello()
        await until_stuck(peak, lambda: peer.send("session.ping", {"nonce": "n"}, id=BIG), peer)
        await peer.cut()
    await runtime.close()


async def nonces(peak: Peak) -> None:
    """Pings with 3 MB nonces, to whose answers nobody listens."""
    runtime = Runtime(limits=Limits(outbox_bytes=8 * MIB))
    async with runtime.serve() as server, asyncio.timeout(60):
        peer = await Peer.to(WebSocketConnector(server.url))
        await peer.hello()
        await until_stuck(peak, lambda: peer.send("session.ping", {"nonce": BIG}), peer)
        await peer.cut()
    await runtime.close()


async def until_stuck(peak: Peak, send: Callable[[], Awaitable[Any]], peer: Peer) -> None:
    """Send until the other end takes nothing more for a while, or enough."""
    for _ in range(50):
        try:
            await asyncio.wait_for(send(), 2.0)
        except (TimeoutError, ArcpError):
            break
        peak.look()
    peak.look()


async def inputs(peak: Peak) -> None:
    """Jobs with 3 MB of input each that never end."""
    runtime = Runtime(limits=Limits(input_bytes=16 * MIB))

    @runtime.agent("wait")
    async def wait(input: Any, job: JobContext) -> None:
        await asyncio.Event().wait()

    peer = await Peer.to(runtime)
    await peer.hello()
    for _ in range(40):
        await peer.ask("job.submit", {"agent": "wait", "input": BIG})
        peak.look()
    await peer.close()
    await runtime.close()


async def retained(peak: Peak) -> None:
    """Ended jobs with the largest leases and with large results."""
    runtime = Runtime(
        limits=Limits(retained_bytes=16 * MIB, idempotency_bytes=4 * MIB),
        event_log=MemoryEventLog(max_bytes=8 * MIB),
    )

    @runtime.agent("quick")
    async def quick(input: Any, job: JobContext) -> Any:
        return input

    peer = await Peer.to(runtime)
    await peer.hello()
    lease = {"fs.read": [f"/{n}/" + "x" * 490 for n in range(250)]}
    for n in range(150):
        await peer.run("quick", "y" * 300_000, lease_request=lease, idempotency_key=f"k{n}")
        peak.look()
    await peer.close()
    await runtime.close()


class Full(SqliteEventLog):
    full = False

    async def write(self, entries: Sequence[Entry]) -> None:
        if self.full:
            raise OSError("disk full")
        await super().write(entries)


async def journal(peak: Peak) -> None:
    """Agents that emit as fast as they may, while the disk is full."""
    with TemporaryDirectory() as directory:
        log = Full(Path(directory) / "log.db", max_bytes=8 * MIB)
        limits = Limits(journal_bytes=8 * MIB, history_bytes=4 * MIB)
        runtime = Runtime(event_log=log, limits=limits)
        go = asyncio.Event()

        @runtime.agent("flood")
        async def flood(input: Any, job: JobContext) -> None:
            await go.wait()
            while True:
                await job.log("x" * 100_000)

        peer = await Peer.to(runtime)
        await peer.hello()
        for _ in range(4):
            await peer.submit("flood")
        log.full = True
        go.set()
        for _ in range(20):
            await asyncio.sleep(0.05)
            peak.look()
        await peer.cut()
        log.full = False
        await runtime.close()


class Flooding:
    """A runtime that pings with what fits a frame, and reads nothing after the hello."""

    target = "flooding"

    def __init__(self, peak: Peak, tasks: TaskOwner, ping: dict[str, Any]) -> None:
        self._peak = peak
        self._tasks = tasks
        self._ping = ping

    async def connect(self) -> Any:
        near, far = memory_pair(capacity=4)
        self._tasks.spawn(self._flood(far), name="flood")
        return near

    async def _flood(self, link: Any) -> None:
        hello = json.loads(await link.receive())
        welcome = {
            "session_id": "s",
            "runtime": {"name": "r", "version": "1"},
            "resume_token": "t",
            "resume_window_sec": 60,
            "heartbeat_interval_sec": 30,
            "capabilities": {"encodings": ["json"], "features": ["heartbeat"], "agents": []},
        }
        await link.send(frame("session.welcome", welcome | {"request_id": hello["id"]}))
        ping = frame("session.ping", self._ping)
        for _ in range(100_000):
            try:
                await asyncio.wait_for(link.send(ping), 2.0)
            except (TimeoutError, ArcpError):
                break
            self._peak.look()


def frame(kind: str, payload: dict[str, Any]) -> bytes:
    content = {"arcp": "1.1", "id": "i", "type": kind, "session_id": "s", "payload": payload}
    return json.dumps(content).encode()


async def _client(peak: Peak, ping: dict[str, Any]) -> None:
    tasks = TaskOwner("flood")
    client = Client(Flooding(peak, tasks, ping), buffer=Buffer(bytes=4 * MIB))
    await client.connect()
    for _ in range(30):
        await asyncio.sleep(0.05)
        peak.look()
    await client.close(timeout=0.1)
    await tasks.close()


async def client_nonces(peak: Peak) -> None:
    """The same to a client."""
    await _client(peak, {"nonce": BIG})


async def client_answers(peak: Peak) -> None:
    """Pings with nonces that are answered, from a runtime that reads nothing."""
    await _client(peak, {"nonce": "n" * 1000})


FLOODS = {
    each.__name__: each
    for each in (answers, nonces, inputs, retained, journal, client_nonces, client_answers)
}


def main(name: str) -> None:
    async def run() -> Peak:
        peak = Peak()
        await FLOODS[name](peak)
        return peak

    peak = asyncio.run(run())
    print(json.dumps({"start": peak.start, "peak": peak.peak}))


if __name__ == "__main__":
    main(sys.argv[1])
