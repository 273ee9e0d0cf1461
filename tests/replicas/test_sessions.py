"""A session is resumed on any replica, and only one replica holds it."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from arcp_client import Client
from arcp_client.errors import request_error
from arcp_client.runtime import Limits
from arcp_client.runtime._jobs import mirrors
from arcp_client.runtime._log.entries import SessionState
from arcp_client.runtime._log.postgres_jobs import PostgresJobs
from arcp_client.runtime._log.postgres_sessions import PostgresSessions
from arcp_client.runtime._sessions.session import ServerSession
from tests.postgres import Cluster
from tests.replicas.conftest import Gate, MakeReplica, OpenPeer
from tests.replicas.interruptions import cancel
from tests.unit.runtime.peer import Frame, Peer, seqs


async def read_to(peer: Peer, last: int) -> list[Frame]:
    """The numbered frames up to a number."""
    frames: list[Frame] = []
    while not frames or frames[-1]["event_seq"] < last:
        frame = await peer.read()
        if "event_seq" in frame:
            frames.append(frame)
    return frames


async def moved(peer: Peer, target: Any, open_peer: OpenPeer, last: int | None = None) -> Peer:
    """The peer's session, resumed over a link to another replica."""
    other: Peer = await open_peer(target, resume=peer.block(last))
    assert other.welcome["payload"]["resumed"] is True
    return other


async def test_a_session_continues_on_another_replica_without_a_gap_or_a_repeat(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    a, b = replica(), replica()
    first = await peer(a)
    await first.submit("gated", 1)
    gates.setdefault(1, Gate()).emit(10)
    frames = await read_to(first, 10)
    await first.cut()
    gates[1].emit(10)
    second = await moved(first, b, peer)
    gates[1].emit(10)
    gates[1].emit(0)
    frames += await read_to(second, 31)
    assert seqs(frames) == list(range(1, 32))
    assert frames[-1]["type"] == "job.result"
    counts = [f["payload"]["body"]["current"] for f in frames[:-1]]
    assert counts == list(range(1, 31))


async def test_unacknowledged_events_are_sent_again_with_the_same_numbers_and_ids(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    a, b = replica(), replica()
    first = await peer(a)
    await first.submit("count", 20)
    frames = await read_to(first, 21)
    second = await moved(first, b, peer, last=5)
    again = await read_to(second, 21)
    assert [(f["event_seq"], f["id"]) for f in again] == [
        (f["event_seq"], f["id"]) for f in frames[5:]
    ]


async def test_the_old_holder_drops_its_link(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    a, b = replica(), replica()
    first = await peer(a)
    await first.submit("gated", 1)
    gates.setdefault(1, Gate()).emit(3)
    await read_to(first, 3)
    await moved(first, b, peer)
    await first.ended()


async def test_a_session_that_moves_to_and_fro_stays_whole(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    replicas = [replica(), replica(), replica()]
    current = await peer(replicas[0])
    await current.submit("gated", 1)
    gate = gates.setdefault(1, Gate())
    frames: list[Frame] = []
    for turn in range(1, 10):
        gate.emit(7)
        frames += await read_to(current, 7 * turn)
        current = await moved(current, replicas[turn % 3], peer)
    gate.emit(0)
    frames += await read_to(current, 64)
    assert seqs(frames) == list(range(1, 65))
    assert len({f["id"] for f in frames}) == 64
    assert frames[-1]["payload"]["result"] == 63


async def test_a_foreign_or_guessed_token_changes_no_epoch(
    replica: MakeReplica, peer: OpenPeer, cluster: Cluster, schema: str
) -> None:
    auth = {"a": "alice", "b": "bob"}
    a, b = replica(auth=auth), replica(auth=auth)
    first = await peer(a, token="a")
    block = first.block()
    connection = await asyncpg.connect(cluster.dsn)
    try:
        query = f"SELECT id, epoch, holder FROM {schema}.sessions"
        before = await connection.fetch(query)
        for token, resume in (
            ("b", block),
            ("a", block | {"resume_token": "rt_guessed"}),
            ("a", block | {"last_event_seq": 99}),
        ):
            other = await Peer.to(b)
            reply = await other.hello(token=token, resume=resume)
            assert reply["type"] == "session.error"
            await other.close()
        assert await connection.fetch(query) == before
    finally:
        await connection.close()
    await first.submit("count", 1)  # the session goes on where it was


async def test_of_two_clients_that_resume_one_session_at_once_one_has_it(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    replicas = [replica() for _ in range(3)]
    first = await peer(replicas[0])
    await first.submit("count", 5)
    await read_to(first, 6)
    peers = [await Peer.to(each) for each in replicas]
    try:
        replies = await asyncio.gather(*(p.hello(resume=first.block(0)) for p in peers))
        welcomed = [p for p, r in zip(peers, replies, strict=True) if "resumed" in r["payload"]]
        assert welcomed
        ends = {asyncio.ensure_future(each.ended()) for each in welcomed}
        while len(ends) > 1:
            _, ends = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        await asyncio.wait(ends)
    finally:
        for each in peers:
            await each.close()


async def test_after_a_close_its_sessions_continue_elsewhere(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    a, b = replica(), replica()
    first = await peer(a)
    await first.submit("count", 5)
    await read_to(first, 6)
    await a.close()
    second = await moved(first, b, peer, last=3)
    assert seqs(await read_to(second, 6)) == [4, 5, 6]


async def test_a_subscription_that_was_continued_is_not_begun_again_because_another_one_failed(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = replica(), replica(), replica()
    owner, observer = await peer(b), await peer(a)
    jobs = [(await owner.submit("gated", n))["payload"]["job_id"] for n in (1, 2)]
    monkeypatch.setattr(a._core._mirrors, "wake", lambda job_id: None)  # it reads no events
    for job_id in jobs:
        await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
    await observer.cut()
    for n in (1, 2):
        gates.setdefault(n, Gate()).emit(2)
        gates[n].emit(0)
        await read_to(owner, 3 * n)

    monkeypatch.setattr(mirrors, "_RETRY", 0.01)
    find, calls = PostgresJobs.find, 0

    async def failing(self: PostgresJobs, wanted: str) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise request_error("INTERNAL_ERROR", "the database is away", retryable=True)
        return await find(self, wanted)

    monkeypatch.setattr(PostgresJobs, "find", failing)
    first = await Peer.to(c)
    assert (await first.hello(resume=observer.block()))["type"] == "session.error"
    await first.close()
    second = await moved(observer, c, peer)
    frames = await read_to(second, 6)
    assert [f["type"] for f in frames].count("job.result") == 2
    await second.ask("session.list_jobs", {})
    assert not second.held
    assert second.last == 6


@pytest.mark.parametrize("fault", ["refused", "cancelled"])
async def test_a_subscription_continues_although_the_resume_that_took_the_session_failed(
    fault: str,
    replica: MakeReplica,
    peer: OpenPeer,
    gates: dict[Any, Gate],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The replica holds the session then: the next resume does not take it again."""
    a, b = replica(), replica()
    owner, observer = await peer(a), await peer(a)
    job_id = (await owner.submit("gated", 1))["payload"]["job_id"]
    await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
    gate = gates.setdefault(1, Gate())
    gate.emit(10)
    frames = await read_to(observer, 10)
    await observer.cut()

    monkeypatch.setattr(mirrors, "_RETRY", 0.01)
    find, reached, go_on = PostgresJobs.find, asyncio.Event(), asyncio.Event()

    async def failing(self: PostgresJobs, wanted: str) -> Any:
        monkeypatch.setattr(PostgresJobs, "find", find)
        reached.set()
        if fault == "refused":
            raise request_error("INTERNAL_ERROR", "the database is away", retryable=True)
        await go_on.wait()
        return await find(self, wanted)

    monkeypatch.setattr(PostgresJobs, "find", failing)
    first = await Peer.to(b)
    resuming = asyncio.create_task(first.hello(resume=observer.block()))
    await reached.wait()
    if fault == "refused":
        assert (await resuming)["payload"]["message"] == "the database is away"
    else:
        (connection,) = b._core.links.connections
        cancel(connection)
        await connection.ended()
    await first.close()
    await asyncio.gather(resuming, return_exceptions=True)

    second = await moved(observer, b, peer)
    go_on.set()
    gate.emit(10)
    gate.emit(0)
    frames += await read_to(second, 21)
    assert [f["payload"]["body"]["current"] for f in frames[:-1]] == list(range(1, 21))
    assert frames[-1]["payload"]["result"] == 20


async def test_a_client_tries_again_if_the_database_opens_its_session_too_late(
    replica: MakeReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session that is opened too late is forgotten: no client knows of it."""
    a = replica(limits=Limits(handshake_timeout=1.0))
    sessions, open_session = a._core.sessions, PostgresSessions.open
    expire = sessions.expire
    asked, go_on, forgotten = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def late_once(self: PostgresSessions, state: SessionState) -> None:
        if not asked.is_set():
            asked.set()
            await go_on.wait()
        await open_session(self, state)

    def expired(session: ServerSession) -> None:
        expire(session)
        forgotten.set()

    monkeypatch.setattr(PostgresSessions, "open", late_once)
    monkeypatch.setattr(sessions, "expire", expired)
    async with Client(a) as client:
        assert (await (await client.submit("count", 2)).result()).value == 2
        assert asked.is_set()
        go_on.set()
        await forgotten.wait()
        assert len(sessions) == 1
