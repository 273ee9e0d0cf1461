"""A killed replica costs its own running jobs: no session, no order and no number."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from arcp_client import Client
from arcp_client.errors import JobFailed
from arcp_client.events import Gap, Progress
from arcp_client.transports import WebSocketConnector
from tests.alone import ROOT
from tests.postgres import Cluster
from tests.replicas.conftest import Gate, MakeReplica, OpenPeer
from tests.replicas.test_sessions import read_to
from tests.unit.runtime.peer import seqs

pytestmark = pytest.mark.usefixtures("forked")

LEASE = 3.0


class Process:
    """A replica in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self._process = process
        self.url = url

    def kill(self) -> None:
        """As kill -9 does."""
        self._process.kill()

    def signal(self, number: int) -> None:
        """Stop or continue the process."""
        os.kill(self._process.pid, number)


@contextlib.asynccontextmanager
async def process(cluster: Cluster, schema: str) -> AsyncIterator[Process]:
    """Start a replica; it is killed at the end of the block."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.replicas.server", cluster.dsn, schema, str(LEASE),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        yield Process(child, (await child.stdout.readline()).decode().strip())
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


class Balancer:
    """Connects to each replica in turn, as a plain TCP balancer does; dead ones are skipped."""

    def __init__(self, *urls: str) -> None:
        self.urls = list(urls)

    async def connect(self) -> Any:
        for _ in range(len(self.urls) - 1):
            self.urls.append(self.urls.pop(0))
            with contextlib.suppress(ConnectionError):
                return await WebSocketConnector(self.urls[0]).connect()
        self.urls.append(self.urls.pop(0))
        return await WebSocketConnector(self.urls[0]).connect()

    target = "ws://balancer/arcp"


async def test_kill_of_a_replica_ends_its_jobs_and_continues_its_sessions(
    cluster: Cluster, schema: str
) -> None:
    async with (
        process(cluster, schema) as a,
        process(cluster, schema) as b,
        Client(Balancer(b.url, a.url)) as client,
        Client(b.url) as other,
    ):
        doomed = await client.submit("ticks", {"count": 100_000, "pause": 0.01})
        survives = await other.submit("ticks", {"count": 300, "pause": 0.02})
        doomed_view = await other.watch(doomed.id, history=True)
        view = await client.watch(survives.id, history=True)
        seen: list[int] = []
        async for event in doomed_view.events(Progress, Gap):
            assert isinstance(event, Progress)
            seen.append(int(event.current))
            if len(seen) == 50:
                break
        a.kill()
        for handle in (doomed, doomed_view):
            with pytest.raises(JobFailed) as failed:
                await asyncio.wait_for(handle.result(), 60)
            assert failed.value.code == "INTERNAL_ERROR"
            assert failed.value.retryable
        numbers = [int(e.current) async for e in view.events(Progress)]
        assert numbers == list(range(1, 301))
        assert (await view.result()).value == 300
        assert seen == list(range(1, 51))
        assert client.resumed or client.session is not None


async def test_a_replica_that_is_stopped_for_longer_than_its_lease_writes_nothing_afterwards(
    cluster: Cluster, schema: str
) -> None:
    connection = await asyncpg.connect(cluster.dsn)
    async with (
        process(cluster, schema) as a,
        process(cluster, schema) as b,
        Client(b.url) as other,
        Client(a.url) as first,
    ):
        job = await first.submit("ticks", {"count": 100_000, "pause": 0.005})
        view = await other.watch(job.id, history=True)
        events = view.events(Progress)
        await anext(events)
        a.signal(signal.SIGSTOP)
        with pytest.raises(JobFailed):
            await asyncio.wait_for(view.result(), 60)
        query = f"SELECT job_id, max(idx + count) FROM {schema}.events GROUP BY job_id"
        before = await connection.fetch(query)
        a.signal(signal.SIGCONT)
        with pytest.raises(JobFailed):
            await asyncio.wait_for(job.result(), 60)
        again = await first.submit("ticks", {"count": 3, "pause": 0})
        assert (await again.result()).value == 3
        after = {row[0]: row[1] for row in await connection.fetch(query)}
        assert all(after[row[0]] == row[1] for row in before)
    await connection.close()


async def test_the_end_of_a_dead_replica_is_written_once_by_the_others(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate], cluster: Cluster, schema: str
) -> None:
    a, b, c = replica(), replica(), replica()
    owner = await peer(a)
    job_id = (await owner.submit("gated", 1))["payload"]["job_id"]
    gates.setdefault(1, Gate()).emit(5)
    await read_to(owner, 5)
    observers = [await peer(b), await peer(c)]
    for each in observers:
        await each.ask("job.subscribe", {"job_id": job_id, "history": True})
    connection = await asyncpg.connect(cluster.dsn)
    try:
        await connection.execute(
            f"UPDATE {schema}.replicas SET until = clock_timestamp() - interval '1 s'"
            f" WHERE id = (SELECT runner FROM {schema}.jobs WHERE id = $1)",
            job_id,
        )
        for each in observers:
            frames = await read_to(each, 6)
            assert seqs(frames) == [1, 2, 3, 4, 5, 6]
            assert frames[-1]["type"] == "job.error"
            assert frames[-1]["payload"]["retryable"] is True
        gates[1].emit(5)  # the old runner may still try
        await owner.ended()
        (count,) = await connection.fetchrow(
            f"SELECT sum(count) FROM {schema}.events WHERE job_id = $1", job_id
        )
        assert count == 6
    finally:
        await connection.close()


async def test_a_terminated_listener_is_replaced(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate], cluster: Cluster
) -> None:
    a, b = replica(), replica()
    owner, observer = await peer(a), await peer(b)
    job_id = (await owner.submit("gated", 1))["payload"]["job_id"]
    await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
    connection = await asyncpg.connect(cluster.dsn)
    try:
        for turn in range(1, 4):
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'arcp-client' AND query LIKE 'LISTEN%'"
            )
            gates.setdefault(1, Gate()).emit(10)
            await read_to(observer, 10 * turn)
    finally:
        await connection.close()
    gates[1].emit(0)


async def test_all_connections_of_the_database_may_be_cut(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate], cluster: Cluster
) -> None:
    a, b = replica(), replica()
    owner, observer = await peer(a), await peer(b)
    job_id = (await owner.submit("gated", 1))["payload"]["job_id"]
    await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
    gate = gates.setdefault(1, Gate())
    gate.emit(100)
    cluster.stop("immediate")  # crash recovery follows
    cluster.start()
    gate.emit(100)
    gate.emit(0)
    for each in (owner, observer):
        frames = await read_to(each, 201)
        assert seqs(frames) == list(range(1, 202))
        assert frames[-1]["type"] == "job.result"
