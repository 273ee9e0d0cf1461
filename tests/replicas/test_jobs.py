"""Jobs are watched, listed, cancelled and found by their key on any replica."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest

from arcp_client import Client
from arcp_client.errors import JobCancelled, StorageError, request_error
from arcp_client.runtime import Limits, Runtime
from arcp_client.runtime._jobs import mirrors
from arcp_client.runtime._log import journal
from arcp_client.runtime._log.entries import Entry
from arcp_client.runtime._log.postgres import PostgresEventLog
from arcp_client.runtime._log.postgres_jobs import PostgresJobs
from tests.postgres import Cluster
from tests.replicas.conftest import Gate, MakeReplica, OpenPeer
from tests.replicas.test_sessions import moved, read_to
from tests.unit.runtime.peer import seqs

KEYS = 100 if "ARCP_SLOW" in os.environ else 30


async def test_a_job_is_watched_from_another_replica_in_order_and_to_its_end(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    a, b = replica(), replica()
    owner, observer = await peer(a), await peer(b)
    job_id = (await owner.submit("gated", 1))["payload"]["job_id"]
    gate = gates.setdefault(1, Gate())
    gate.emit(50)
    await read_to(owner, 50)
    answer = await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
    assert answer["payload"]["replayed"] is True
    gate.emit(50)
    gate.emit(0)
    frames = await read_to(observer, 101)
    assert [f["payload"]["body"]["current"] for f in frames[:-1]] == list(range(1, 101))
    assert frames[-1]["payload"]["result"] == 100


async def test_a_subscription_without_history_begins_at_the_next_event(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    a, b = replica(), replica()
    owner, observer = await peer(a), await peer(b)
    job_id = (await owner.submit("gated", 1))["payload"]["job_id"]
    gate = gates.setdefault(1, Gate())
    gate.emit(5)
    await read_to(owner, 5)
    await observer.ask("job.subscribe", {"job_id": job_id})
    gate.emit(2)
    gate.emit(0)
    frames = await read_to(observer, 3)
    assert [f["payload"]["body"]["current"] for f in frames[:2]] == [6, 7]


async def test_a_subscription_begins_after_a_number_of_the_submitting_session(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    """Also when other replicas numbered a part of the job's events."""
    a, b = replica(), replica()
    owner = await peer(a)
    other_job = (await owner.submit("gated", "other"))["payload"]["job_id"]
    job_id = (await owner.submit("gated", "watched"))["payload"]["job_id"]
    gates.setdefault("other", Gate()).emit(3)
    await read_to(owner, 3)
    gate = gates.setdefault("watched", Gate())
    gate.emit(5)  # numbers 4 to 8
    await read_to(owner, 8)
    owner = await moved(owner, b, peer)
    gates["other"].emit(2)  # 9 and 10
    await read_to(owner, 10)
    gate.emit(5)  # 11 to 15
    await read_to(owner, 15)
    for target in (a, b):
        observer = await peer(target)
        await observer.ask(
            "job.subscribe", {"job_id": job_id, "history": True, "from_event_seq": 12}
        )
        frames = await read_to(observer, 3)
        assert [f["payload"]["body"]["current"] for f in frames] == [8, 9, 10]
    assert other_job != job_id
    gate.emit(0)
    gates["other"].emit(0)
    await read_to(owner, 17)


async def test_one_job_for_a_key_that_is_sent_to_all_replicas_at_once(
    replica: MakeReplica, peer: OpenPeer, cluster: Cluster, schema: str
) -> None:
    peers = [await peer(replica()) for _ in range(3)]
    for n in range(KEYS):
        answers = await asyncio.gather(
            *(p.submit("count", 1, idempotency_key=f"key-{n}") for p in peers)
        )
        assert len({answer["payload"]["job_id"] for answer in answers}) == 1
    connection = await asyncpg.connect(cluster.dsn)
    try:
        assert await connection.fetchval(f"SELECT count(*) FROM {schema}.jobs") == KEYS
    finally:
        await connection.close()


async def test_a_key_with_other_parameters_is_refused_on_any_replica(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    first, second = await peer(replica()), await peer(replica())
    await first.submit("count", 1, idempotency_key="k")
    reply = await second.ask("job.submit", {"agent": "count", "input": 2, "idempotency_key": "k"})
    assert reply["payload"]["code"] == "DUPLICATE_KEY"


async def test_a_job_is_cancelled_through_any_replica_by_the_session_that_submitted_it(
    replica: MakeReplica, gates: dict[Any, Gate]
) -> None:
    a, b = replica(), replica()
    async with Client(a) as first, Client(b) as second:
        job = await first.submit("gated", 1, idempotency_key="k")
        same = await second.submit("gated", 1, idempotency_key="k")
        assert same.id == job.id
        await same.cancel("not needed any more")
        with pytest.raises(JobCancelled, match="not needed any more"):
            await job.result()
        with pytest.raises(JobCancelled):
            await same.result()


async def test_a_stranger_may_not_cancel_or_watch_a_job_of_another_replica(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    auth = {"a": "alice", "b": "bob"}
    owner = await peer(replica(auth=auth), token="a")
    other = await peer(replica(auth=auth), token="b")
    job_id = (await owner.submit("gated", 1))["payload"]["job_id"]
    for request in ("job.cancel", "job.subscribe"):
        reply = await other.ask(request, {"job_id": job_id})
        assert reply["payload"]["code"] == "PERMISSION_DENIED"
    assert (await other.ask("session.list_jobs"))["payload"]["jobs"] == []
    missing = await other.ask("job.subscribe", {"job_id": "job_missing"})
    assert missing["payload"]["code"] == "JOB_NOT_FOUND"
    gates.setdefault(1, Gate()).emit(0)


async def test_pages_list_the_jobs_of_all_replicas_once(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    peers = [await peer(replica()) for _ in range(2)]
    accepted = [(await peers[n % 2].submit("count", 0))["payload"]["job_id"] for n in range(25)]
    for each in peers:
        listed: list[str] = []
        cursor = None
        while True:
            page = (await each.ask("session.list_jobs", {"limit": 7, "cursor": cursor}))["payload"]
            listed += [job["job_id"] for job in page["jobs"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert listed == accepted


async def test_a_limit_of_a_principal_holds_over_all_replicas(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    limits = Limits(jobs_per_principal=3)
    peers = [await peer(replica(limits=limits)) for _ in range(2)]
    for n in range(3):
        await peers[n % 2].submit("gated", n)
    for each in peers:
        reply = await each.ask("job.submit", {"agent": "gated", "input": "more"})
        assert reply["payload"]["code"] == "INTERNAL_ERROR"
        assert reply["payload"]["retryable"] is True
    for n in range(3):
        gates.setdefault(n, Gate()).emit(0)


async def test_a_delegated_job_reaches_its_session_on_another_replica(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    """Its acceptance and its events, without a request of the client."""
    a, b = replica(), replica()
    first = await peer(a)
    gate = gates.setdefault("child", Gate())
    parent_id = (await first.submit("parent", "child"))["payload"]["job_id"]
    gate.emit(2)
    frames = await read_to(first, 3)
    second = await moved(first, b, peer)
    gate.emit(2)
    gate.emit(0)
    frames += await read_to(second, 7)
    assert seqs(frames) == list(range(1, 8))
    assert {f["job_id"] for f in frames} - {parent_id}
    ends = [f for f in frames if f["type"] == "job.result"]
    assert [f["payload"]["result"] for f in ends] == [4, 4]


def refuse_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next search for a job of another replica fail."""
    find = PostgresJobs.find
    monkeypatch.setattr(mirrors, "_RETRY", 0.01)

    async def failing(self: PostgresJobs, wanted: str) -> Any:
        monkeypatch.setattr(PostgresJobs, "find", find)
        raise request_error("INTERNAL_ERROR", "the database is away", retryable=True)

    monkeypatch.setattr(PostgresJobs, "find", failing)


@pytest.mark.parametrize("away", [False, True], ids=["ends-at-once", "database-away"])
async def test_a_job_delegated_after_its_session_moved_reaches_it(
    replica: MakeReplica,
    peer: OpenPeer,
    gates: dict[Any, Gate],
    monkeypatch: pytest.MonkeyPatch,
    away: bool,
) -> None:
    """Also if the replica that holds the session learns of the job only after its end."""
    a, b = replica(), replica()
    first = await peer(a)
    parent_id = (await first.submit("delegating", 3))["payload"]["job_id"]
    second = await moved(first, b, peer)
    if away:
        refuse_once(monkeypatch)
    gates.setdefault("delegating", Gate()).emit(1)
    frames = await read_to(second, 6)
    assert {f["job_id"] for f in frames} - {parent_id}
    ends = [f for f in frames if f["type"] == "job.result"]
    assert [f["payload"]["result"] for f in ends] == [3, 3]


async def test_a_job_that_was_accepted_is_run_although_the_log_fails(
    replica: MakeReplica, peer: OpenPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory has stored it: a refusal would leave a key that leads to a job that ended."""
    owner = await peer(replica())
    monkeypatch.setattr(journal, "_PATIENCE", 0.0)
    write, failures = PostgresEventLog.write, 2

    async def failing(self: PostgresEventLog, entries: Sequence[Entry]) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise StorageError("the database is away")
        await write(self, entries)

    monkeypatch.setattr(PostgresEventLog, "write", failing)
    await owner.submit("count", 2, idempotency_key="k")
    assert (await read_to(owner, 3))[-1]["payload"]["result"] == 2


@pytest.mark.parametrize("known", [False, True], ids=["not-heard-yet", "heard-and-back"])
async def test_an_agent_delegates_while_its_session_moves(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate], known: bool
) -> None:
    """Also if its replica has not heard of that, or the session has moved away and back."""
    a, b = replica(), replica()
    first = await peer(a)
    await first.submit("delegating", 3)
    member = a._core._directory._member  # type: ignore[attr-defined]
    epoch = member.held[first.session_id]
    last = await moved(first, b, peer)
    if known:
        last = await moved(last, a, peer)
    else:
        await first.ended()
        member.held[first.session_id] = epoch  # as before the wake-up
    gates.setdefault("delegating", Gate()).emit(1)
    frames = await read_to(last, 6)
    ends = [f for f in frames if f["type"] in ("job.result", "job.error")]
    assert [f["payload"].get("result") for f in ends] == [3, 3], ends


async def polled(runtime: Runtime, times: int = 3) -> None:
    """Wait until a replica has looked for changes several times."""
    directory: Any = runtime._core._directory
    last = directory._polls + times
    while directory._polls < last:
        directory._look_now.set()
        await asyncio.sleep(0.01)


async def test_a_slow_observer_gets_the_rest_of_a_job_that_has_ended_meanwhile(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mirror stops reading ahead, and no further event of the job wakes it."""
    monkeypatch.setattr(mirrors, "_AHEAD", 10)
    monkeypatch.setattr(mirrors, "_PAGE_BYTES", 4096)
    monkeypatch.setattr(mirrors, "_FEW", 1)
    a, b = replica(), replica()
    owner, observer = await peer(a), await peer(b)
    job_id = (await owner.submit("gated", 1))["payload"]["job_id"]
    await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
    gate = gates.setdefault(1, Gate())
    gate.emit(5000)
    gate.emit(0)
    await read_to(owner, 5001)
    await polled(b)
    frames = await read_to(observer, 5001)
    assert seqs(frames) == list(range(1, 5002))


async def test_an_observer_gets_the_end_of_a_job_although_its_first_look_at_it_failed(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No further event of the job wakes its mirror."""
    a, b = replica(), replica()
    owner, observer = await peer(a), await peer(b)
    job_id = (await owner.submit("gated", 1))["payload"]["job_id"]
    directory: Any = b._core._directory
    directory._wakeups._on_heard = lambda ids: None  # they are lost
    jobs, refused = directory.jobs, asyncio.Event()
    database = jobs._db
    find = jobs.find

    class Away:
        def connection(self) -> Any:
            jobs._db = database
            refused.set()
            raise StorageError("the database is away")

    async def found(wanted: str) -> Any:
        known = await find(wanted)
        jobs._db = Away()
        return known

    monkeypatch.setattr(jobs, "find", found)
    await observer.ask("job.subscribe", {"job_id": job_id})
    await refused.wait()
    gates.setdefault(1, Gate()).emit(2)
    gates[1].emit(0)
    frames = await read_to(observer, 3)
    assert frames[-1]["payload"]["result"] == 2


async def stored_one_by_one(owner: Any, gate: Gate, count: int) -> None:
    """Let an agent emit events, each of which is stored alone."""
    for _ in range(count):
        gate.emit(1)
        await read_to(owner, 1)


@pytest.mark.parametrize("mirrored", [False, True], ids=["first", "again"])
async def test_the_history_of_an_ended_job_is_whole_on_any_replica_however_many_pages_it_has(
    replica: MakeReplica,
    peer: OpenPeer,
    gates: dict[Any, Gate],
    monkeypatch: pytest.MonkeyPatch,
    mirrored: bool,
) -> None:
    monkeypatch.setattr(mirrors, "_PAGE_BYTES", 400)
    a, b = replica(), replica()
    owner, observer, later = await peer(a), await peer(b), await peer(b)
    job_id = (await owner.submit("gated", 1))["payload"]["job_id"]
    gate = gates.setdefault(1, Gate())
    await stored_one_by_one(owner, gate, 19)
    if mirrored:
        await observer.ask("job.subscribe", {"job_id": job_id})
    gate.emit(1)
    gate.emit(0)
    await read_to(owner, 2)
    if mirrored:
        await read_to(observer, 2)
    answer = await later.ask("job.subscribe", {"job_id": job_id, "history": True})
    assert answer["payload"]["replayed"] is True
    frames = await read_to(later, 21)
    assert [f["payload"]["body"]["current"] for f in frames[:-1]] == list(range(1, 21))
    assert frames[-1]["payload"]["result"] == 20


@pytest.mark.parametrize("first", ["new event", "history"])
async def test_a_history_is_whole_if_a_new_event_is_read_at_the_same_time(
    replica: MakeReplica,
    peer: OpenPeer,
    gates: dict[Any, Gate],
    monkeypatch: pytest.MonkeyPatch,
    first: str,
) -> None:
    monkeypatch.setattr(mirrors, "_PAGE_BYTES", 400)
    a, b = replica(), replica()
    owner, live, late = await peer(a), await peer(b), await peer(b)
    job_id = (await owner.submit("gated", 1))["payload"]["job_id"]
    gate = gates.setdefault(1, Gate())
    await stored_one_by_one(owner, gate, 20)
    read, reading, paged, paging = (asyncio.Event() for _ in range(4))
    history = PostgresJobs.history

    async def held(self: PostgresJobs, job_id: str, after: int, limit: int) -> Any:
        found = await history(self, job_id, after, limit)
        if after == 20 and found and not reading.is_set():
            reading.set()
            await read.wait()
        elif 0 < after < 20 and not paging.is_set():
            paging.set()
            await paged.wait()
        return found

    # Before the subscription, which begins a read that may find the new event.
    monkeypatch.setattr(PostgresJobs, "history", held)
    await live.ask("job.subscribe", {"job_id": job_id})
    gate.emit(1)
    await reading.wait()
    asking = asyncio.ensure_future(late.ask("job.subscribe", {"job_id": job_id, "history": True}))
    await paging.wait()
    if first == "new event":
        read.set()
        seen = await read_to(live, 1)
        paged.set()
        await asking
    else:
        paged.set()
        await asking
        read.set()
        seen = await read_to(live, 1)
    gate.emit(0)
    frames = await read_to(late, 22)
    assert [f["payload"]["body"]["current"] for f in frames[:-1]] == list(range(1, 22))
    seen += await read_to(live, 1)
    assert seen[0]["payload"]["body"]["current"] == 21
    assert seen[1]["type"] == "job.result"
