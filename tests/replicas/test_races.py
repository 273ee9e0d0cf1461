"""Races between replicas are decided in the database: whole or not at all, and by one.

Sixty races of a batch and fifteen takeovers by default; 1,000 and 300 with ``ARCP_SLOW=1``.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import asyncpg
import pytest

from arcp_client._wire.ids import now_text
from arcp_client._wire.stamp import Record
from arcp_client.errors import RequestError, StoreLocked
from arcp_client.runtime._log.directory import Bounds
from arcp_client.runtime._log.entries import Appended, LoggedJobState, SessionState, Watch
from arcp_client.runtime._log.postgres import PostgresEventLog
from tests.postgres import Cluster

TOKEN = b"t" * 32
SLOW = "ARCP_SLOW" in os.environ
RACES, TAKEOVERS, CONTENDERS = (1000, 300, 8) if SLOW else (60, 15, 4)


class Member:
    """A replica without agents and links: what it is told is recorded."""

    bounds = Bounds()

    def __init__(self, cluster: Cluster, schema: str) -> None:
        self.log = PostgresEventLog(cluster.dsn, schema=schema, lease=30.0)
        self.directory = self.log.directory()
        self.webhooks: dict[str, list[str]] = {}
        self.lost: list[str] = []
        self.was_fenced = False

    async def begin(self) -> Member:
        await self.log.open()
        await self.directory.join(self)
        return self

    async def end(self) -> None:
        await self.directory.leave(timeout=5)
        await self.log.close()

    def inventory(self) -> list[dict[str, Any]]:
        return []

    async def flushed(self) -> None: ...

    def session_lost(self, session_id: str) -> None:
        self.lost.append(session_id)

    def fenced(self) -> None:
        self.was_fenced = True


def session(id: str) -> SessionState:
    return SessionState(id, "alice", (), (TOKEN,), 0)


def job(id: str, owner: str) -> LoggedJobState:
    return LoggedJobState(
        id, 0, "alice", "agent", owner, (owner,), None, None, "0" * 31 + "1", {}, None, now_text(),
        "running", b"{}", {}, None,
    )  # fmt: skip


def events(job_id: str, session_id: str, count: int, first: int = 0) -> list[Appended]:
    return [
        Appended(
            Record(b"%d" % n, b"job.event", b"", b"{}", 0.0, None, job_id, n, 10), n + 1, session_id
        )
        for n in range(first, first + count)
    ]


async def race(
    member: Member, reaper: Member, connection: Any, schema: str, n: int, chance: random.Random
) -> int:
    """Let a replica write a batch while another one ends it; return the number of events stored."""
    session_id, job_id = f"sess_{n}", f"job_{n}"
    await member.directory.sessions.open(session(session_id))
    await member.directory.accept(job(job_id, session_id), None)
    writing = asyncio.create_task(member.log.write(events(job_id, session_id, 20)))
    await asyncio.sleep(chance.random() * 0.02)
    name = member.log.replica
    await connection.execute(
        f"UPDATE {schema}.replicas SET until = '-infinity' WHERE id = $1", name
    )
    # Ending a replica skips a row that another transaction has locked; FOR UPDATE waits for that.
    while await connection.fetchval(
        f"SELECT true FROM {schema}.replicas WHERE id = $1 FOR UPDATE", name
    ):
        await reaper.directory._leases.reap(name)  # type: ignore[attr-defined]
    await writing
    rows = await connection.fetch(
        f"SELECT idx, count FROM {schema}.events WHERE job_id = $1 ORDER BY idx", job_id
    )
    numbers = await connection.fetchval(
        f"SELECT coalesce(sum(count), 0) FROM {schema}.numbers WHERE job_id = $1", job_id
    )
    total: int = sum(row["count"] for row in rows)
    assert (total, numbers) in ((21, 20), (1, 0)), rows
    assert member.was_fenced or total == 21
    return total


@pytest.mark.timeout(900 if SLOW else 120)
async def test_a_batch_and_the_end_of_its_replica_exclude_each_other(
    cluster: Cluster, schema: str
) -> None:
    """Either the whole batch precedes the end of the job, or nothing of it is stored."""
    reaper = await Member(cluster, schema).begin()
    connection = await asyncpg.connect(cluster.dsn)
    whole = nothing = 0
    chance = random.Random(1)
    try:
        for n in range(RACES):
            member = await Member(cluster, schema).begin()
            try:
                total = await race(member, reaper, connection, schema, n, chance)
            finally:
                await member.end()
            whole += total == 21
            nothing += total == 1
    finally:
        await connection.close()
        await reaper.end()
    assert whole + nothing == RACES
    print(f"{RACES} races: {whole} whole, {nothing} nothing, 0 partial")


@pytest.mark.timeout(600 if SLOW else 120)
async def test_each_takeover_has_one_winner(cluster: Cluster, schema: str) -> None:
    """Only its winner writes numbers of the session afterwards."""
    members = [await Member(cluster, schema).begin() for _ in range(CONTENDERS)]
    await members[0].directory.sessions.open(session("sess_1"))
    await members[0].directory.accept(job("job_1", "sess_1"), None)
    last = 0
    try:
        for _ in range(TAKEOVERS):

            async def contend(member: Member, last: int = last) -> bool:
                try:
                    await member.directory.sessions.take("alice", "sess_1", TOKEN, last)
                except RequestError:
                    return False
                return True

            await asyncio.gather(*map(contend, members))
            for member in members:
                member.lost.clear()
            batch = events("job_1", "sess_1", 1, last)
            entries = [Watch("sess_1", "job_1", 0), *batch]
            await asyncio.gather(*(member.log.write(entries) for member in members))
            holding = [m for m in members if "sess_1" in m.log._member.held]
            assert len(holding) == 1
            last += 1
    finally:
        for member in members:
            await member.end()


async def test_two_live_replicas_have_different_ids(cluster: Cluster, schema: str) -> None:

    first = PostgresEventLog(cluster.dsn, schema=schema, replica="one")
    await first.open()
    member = await Member(cluster, schema).begin()
    await first.directory().join(member)
    second = PostgresEventLog(cluster.dsn, schema=schema, replica="one")
    await second.open()
    try:
        with pytest.raises(StoreLocked, match="one is alive"):
            await second.directory().join(member)
    finally:
        await second.close()
        await first.directory().leave(timeout=5)
        await first.close()
        await member.end()
