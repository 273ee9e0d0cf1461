"""After a standby was promoted, sessions continue if it had everything, and else expire."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from arcp_client import Client
from arcp_client._postgres.database import Database
from arcp_client.errors import JobFailed, StorageError
from arcp_client.events import Gap, Progress
from arcp_client.runtime import JobContext, Runtime
from arcp_client.stores import PostgresStore
from tests.postgres import PASSWORD, Cluster
from tests.replicas.conftest import Gate, MakeReplica, OpenPeer
from tests.replicas.test_sessions import moved, read_to
from tests.unit.runtime.peer import Peer, seqs

BY_NAME = "synchronous_standby_names = 'standby'"


class Pair:
    """A primary and the standby that is promoted in its place."""

    def __init__(self) -> None:
        self.primary = Cluster(Cluster.make_folder()).create()
        self.standby = self.primary.standby()

    @property
    def dsn(self) -> str:
        """The URL with both hosts."""
        both = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        dsn = self.primary.dsn.replace(f"127.0.0.1:{self.primary.port}", both)
        return f"{dsn}?target_session_attrs=read-write"

    async def wait_for(self, *settings: str) -> None:
        """Change the settings of the primary."""
        self.primary.configure(*settings)
        await asyncio.to_thread(self.primary.reload)

    async def fall_behind(self) -> None:
        """From now on, the standby gets nothing."""
        await asyncio.to_thread(self.standby.stop)

    async def fail_over(self) -> None:
        """Kill the primary and promote the standby."""
        self.primary.kill()
        if not (self.standby.data / "postmaster.pid").exists():
            await asyncio.to_thread(self.standby.start)
        await asyncio.to_thread(self.standby.promote)

    def remove(self) -> None:
        self.standby.remove()
        self.primary.remove()


@pytest.fixture
def cluster() -> Iterator[Pair]:
    """A pair of servers, instead of the one that other modules share."""
    pair = Pair()
    yield pair
    pair.remove()


@pytest.fixture(scope="module")
def alone() -> Iterator[Cluster]:
    """A server without a standby."""
    made = Cluster(Cluster.make_folder()).create()
    yield made
    made.remove()


@pytest.fixture
async def primary(alone: Cluster) -> AsyncIterator[Database]:
    """Its database."""
    database = Database(alone.dsn, "arcp", timeout=10.0)
    await database.open()
    yield database
    await database.close()


async def refused(peer: Peer, target: Any) -> str:
    """The code of the refusal when a session is resumed."""
    while True:
        other = await Peer.to(target)
        reply = await other.hello(resume=peer.block())
        await other.close()
        assert reply["type"] == "session.error", reply
        code: str = reply["payload"]["code"]
        if code != "INTERNAL_ERROR":  # the replica has not noticed the promotion yet
            return code


async def test_nothing_is_lost_or_renumbered_when_the_synchronous_standby_is_promoted(
    cluster: Pair, replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    await cluster.wait_for(BY_NAME)
    a, b, c = (replica(lease=30.0) for _ in range(3))
    owner, observer = await peer(a), await peer(b)
    accepted = await owner.submit("gated", 1, idempotency_key="k")
    job_id = accepted["payload"]["job_id"]
    await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
    gate = gates.setdefault(1, Gate())
    gate.emit(2000)
    frames = await read_to(owner, 50)  # the rest is on its way
    await cluster.fail_over()
    gate.emit(100)
    frames += await read_to(owner, 2100)
    again = await moved(owner, c, peer, last=40)
    repeated = await read_to(again, 2100)
    assert [(f["event_seq"], f["id"]) for f in repeated] == [
        (f["event_seq"], f["id"]) for f in frames[40:]
    ]
    gate.emit(0)
    for found in (frames + await again.follow(job_id), await observer.follow(job_id)):
        assert seqs(found) == list(range(1, len(found) + 1))
        assert [
            f["payload"]["body"]["current"]
            for f in found[:-1]
            if f["payload"]["kind"] == "progress"
        ] == list(range(1, 2101))
    same = await observer.submit("gated", 1, idempotency_key="k")
    assert same["payload"]["job_id"] == job_id


async def behind(
    cluster: Pair, replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate], *after: str
) -> tuple[Peer, Runtime]:
    """A session with 20 events, of which the promoted standby has 10; and another replica."""
    a, b = replica(lease=4.0), replica(lease=4.0)
    owner, _ = await peer(a), await peer(b)
    await owner.submit("gated", 1)
    gate = gates.setdefault(1, Gate())
    gate.emit(10)
    await read_to(owner, 10)
    connection = await asyncpg.connect(cluster.primary.dsn)
    standby = await asyncpg.connect(cluster.standby.dsn)
    position = await connection.fetchval("SELECT pg_current_wal_lsn()")
    while await standby.fetchval("SELECT pg_last_wal_replay_lsn() < $1", position):
        await asyncio.sleep(0.01)
    await connection.close()
    await standby.close()
    await cluster.fall_behind()
    if after:
        await cluster.wait_for(*after)
        await renewals(cluster)
    gate.emit(10)
    await read_to(owner, 20)
    await cluster.fail_over()
    return owner, b


async def renewals(cluster: Pair) -> None:
    """Wait until all replicas have renewed their leases."""
    connection = await asyncpg.connect(cluster.primary.dsn)
    (schema,) = await connection.fetchrow(
        "SELECT schemaname FROM pg_tables WHERE tablename = 'replicas'"
    )
    query = f"SELECT id, until FROM {schema}.replicas"
    before = dict(await connection.fetch(query))
    while any(before[id] == until for id, until in await connection.fetch(query)):
        await asyncio.sleep(0.05)
    await connection.close()


async def test_a_session_expires_when_a_standby_is_promoted_that_commits_did_not_wait_for(
    cluster: Pair, replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    other = await asyncio.to_thread(cluster.primary.standby, "another")
    await cluster.wait_for("synchronous_standby_names = 'another'")
    try:
        owner, target = await behind(cluster, replica, peer, gates)
        owner.last = 10  # the number of an event that the promoted standby has
        assert await refused(owner, target) == "RESUME_WINDOW_EXPIRED"
    finally:
        other.remove()


async def test_a_session_expires_when_commits_no_longer_waited_for_the_promoted_standby(
    cluster: Pair, replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    """The standby has the setting that was switched off while it was away."""
    await cluster.wait_for(BY_NAME)
    owner, target = await behind(cluster, replica, peer, gates, "synchronous_standby_names = ''")
    owner.last = 10
    assert await refused(owner, target) == "RESUME_WINDOW_EXPIRED"


async def test_a_client_is_told_of_the_gap_and_its_job_ends_retryable(
    cluster: Pair, replica: MakeReplica, gates: dict[Any, Gate]
) -> None:
    a = replica(lease=4.0)
    async with Client(a) as client:
        gaps: list[Gap] = []
        client.subscribe(gaps.append, Gap)
        job = await client.submit("gated", 1)
        seen = job.events(Progress)
        gate = gates.setdefault(1, Gate())
        gate.emit(10)
        for _ in range(10):
            await anext(seen)
        await cluster.fall_behind()
        gate.emit(10)
        for _ in range(10):
            await anext(seen)
        await cluster.fail_over()
        with pytest.raises(JobFailed) as failed:
            await job.result()
        assert failed.value.retryable
        assert [gap.reason for gap in gaps] == ["unknown_end"]
        assert client.resumed is False
        again = await client.submit("count", 3)
        assert (await again.result()).value == 3


async def test_a_client_continues_its_checkpoint_on_the_promoted_standby(cluster: Pair) -> None:
    await cluster.wait_for(BY_NAME)
    runtime = Runtime()
    go_on = asyncio.Event()

    @runtime.agent("works")
    async def works(input: object, job: JobContext) -> None:
        for n in range(200):
            if n == 100:
                await go_on.wait()
            await job.progress(n + 1, 200)

    def client() -> Client:
        return Client(runtime, store=PostgresStore(cluster.dsn, lease=30.0, every=1))

    handled: list[tuple[int, bool]] = []
    half = asyncio.Event()

    async def handle(event: Progress) -> None:
        handled.append((int(event.current), event.redelivered))
        if event.current == 100:
            half.set()

    async with runtime:
        first = client()
        first.subscribe(handle, Progress)
        await first.connect()
        await first.submit("works")
        await half.wait()
        await cluster.fail_over()
        go_on.set()
        await first.drain()
        await first.detach()
        second = client()
        second.subscribe(handle, Progress)
        async with second:
            for job in second.open_jobs():
                await job.result()
    # The second client marks events of which it cannot know whether the first one handled them.
    assert list(dict.fromkeys(n for n, _ in handled)) == list(range(1, 201))
    firsts: set[int] = set()
    for n, again in handled:
        assert again or n not in firsts
        firsts.add(n)


# ---------------------------------------------------------------------------- which server


@contextlib.contextmanager
def silent() -> Iterator[int]:
    """A port whose connections are accepted and never answered, as by a machine that is gone."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


async def test_a_host_that_does_not_answer_leaves_time_for_the_next(alone: Cluster) -> None:
    with silent() as port:
        host = f"127.0.0.1:{alone.port}"
        dsn = alone.dsn.replace(host, f"127.0.0.1:{port},{host}")
        database = Database(dsn, "arcp", timeout=6.0)
        await database.open()
        await database.close()


async def test_each_new_connection_is_checked(cluster: Pair) -> None:
    """Whether the server accepts writes, and whether its commits survive a loss of power."""
    database = Database(cluster.standby.dsn, "arcp", timeout=5.0)
    with pytest.raises(StorageError, match="no server there accepts writes") as raised:
        await database.open()
    assert not raised.value.permanent
    assert PASSWORD not in str(raised.value)
    cluster.standby.configure("synchronous_commit = off")
    await asyncio.to_thread(cluster.standby.reload)
    database = Database(cluster.dsn, "arcp", timeout=5.0)
    await database.open()
    await cluster.fail_over()
    errors = []
    for _ in range(2):  # the pool first fails with its connection to the old primary
        try:
            async with database.connection() as connection:
                await connection.execute("SELECT 1")
        except StorageError as error:
            errors.append(str(error))
    assert "synchronous_commit = off" in errors[-1]
    await database.close()


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ("", []),
        ("db2", ["db2"]),
        ('"DB2"', ["db2"]),
        ("db2, db3", []),
        ("FIRST 1 (db2)", ["db2"]),
        ("first 2 (db2, db3)", ["db2", "db3"]),
        ("ANY 1 (db2, db3)", []),
        ("ANY 2 (db2,db3)", ["db2", "db3"]),
        ("2 (db2, db3)", ["db2", "db3"]),
        ("*", []),
        ("2 (*)", []),
    ],
)
async def test_the_standbys_that_every_commit_waits_for(
    primary: Database, setting: str, names: list[str]
) -> None:
    async with primary.connection() as connection:
        assert await connection.fetchval("SELECT standbys($1)", setting) == names
        await connection.execute("SET synchronous_commit = local")
        assert await connection.fetchval("SELECT standbys($1)", setting) == []
