"""A job runs where it is accepted, or else on a replica that has its agent."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from arcp_client import Client
from arcp_client.errors import (
    AgentNotFound,
    AgentVersionNotFound,
    InvalidInput,
    JobCancelled,
    JobFailed,
)
from arcp_client.runtime import JobContext, Limits, Runtime
from arcp_client.runtime._log.directory import ReplicaHost
from arcp_client.runtime._log.postgres_unclaimed import UnclaimedJobs
from tests.postgres import Cluster
from tests.replicas.conftest import Gate, MakeReplica, OpenPeer
from tests.replicas.test_sessions import moved, read_to
from tests.unit.runtime.peer import Peer, seqs

SCHEMA = {"type": "object", "required": ["to"], "properties": {"to": {"type": "integer"}}}


def with_special(runtime: Runtime, gates: dict[Any, Gate], version: str | None = None) -> Runtime:
    """Register an agent that the other replicas of a test do not have."""

    @runtime.agent("special", version)
    async def special(input: Any, job: JobContext) -> Any:
        gate = gates.setdefault(input, Gate())
        sent = 0
        while count := await gate.next():
            for _ in range(count):
                sent += 1
                await job.progress(sent, 1000)
        return sent

    return runtime


async def executed(cluster: Cluster, statement: str, *values: Any) -> Any:
    """The rows of a statement."""
    connection = await asyncpg.connect(cluster.dsn)
    try:
        return await connection.fetch(statement, *values)
    finally:
        await connection.close()


async def test_a_job_runs_on_the_replica_that_has_its_agent_and_its_session_gets_its_events(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    b = with_special(replica(), gates)
    await peer(b)
    owner = await peer(replica())
    answer = await owner.submit("special", 1)
    gate = gates.setdefault(1, Gate())
    gate.emit(30)
    gate.emit(0)
    frames = await read_to(owner, 31)
    assert seqs(frames) == list(range(1, 32))
    assert {frame["job_id"] for frame in frames} == {answer["payload"]["job_id"]}
    assert frames[-1]["payload"]["result"] == 30


async def test_an_agent_of_another_replica_is_in_the_welcome(
    replica: MakeReplica, gates: dict[Any, Gate]
) -> None:
    a, b = replica(), with_special(replica(), gates, "2.0")
    b.agent("checked", input_schema=SCHEMA, description="Checks.")(lambda input, job: input)
    async with Client(b) as first, Client(a) as second:
        assert first.session is not None
        assert second.session is not None
        theirs = {agent.name: agent for agent in first.session.agents}
        ours = {agent.name: agent for agent in second.session.agents}
        assert theirs == ours
        assert ours["special"].versions == ("2.0",)


async def test_replicas_with_two_versions_of_an_agent_run_both(
    replica: MakeReplica, gates: dict[Any, Gate]
) -> None:
    a = with_special(replica(), gates, "1.0")
    b = with_special(replica(), gates, "2.0")
    async with Client(a) as first, Client(b) as second:
        for client in (first, second):
            for version in ("1.0", "2.0"):
                gates[version + client.session.id] = gate = Gate()  # type: ignore[union-attr]
                gate.emit(0)
                job = await client.submit(f"special@{version}", version + client.session.id)  # type: ignore[union-attr]
                assert (await job.result()).value == 0
                assert job.agent == f"special@{version}"
        with pytest.raises(AgentVersionNotFound):
            await first.submit("special@3.0")


async def test_an_agent_that_no_replica_has_is_refused_at_once(
    replica: MakeReplica,
) -> None:
    a, b = replica(), replica()
    async with Client(a) as first, Client(b):
        with pytest.raises(AgentNotFound):
            await first.submit("special")


async def test_an_input_is_checked_before_the_job_is_accepted_elsewhere(
    replica: MakeReplica,
) -> None:
    a, b = replica(), replica()
    b.agent("checked", input_schema=SCHEMA)(lambda input, job: input["to"])
    async with Client(b), Client(a) as client:
        with pytest.raises(InvalidInput, match="to"):
            await client.submit("checked", {"to": "x"})
        job = await client.submit("checked", {"to": 3})
        assert (await job.result()).value == 3


async def test_a_job_waits_until_a_replica_has_room_for_it(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    b = with_special(replica(limits=Limits(max_concurrent_jobs=2)), gates)
    await peer(b)
    owner = await peer(replica())
    for n in range(5):
        await owner.submit("special", n)
    listed = (await owner.ask("session.list_jobs"))["payload"]["jobs"]
    assert len(listed) == 5
    for n in range(5):
        gates.setdefault(n, Gate()).emit(1)
        gates[n].emit(0)
    frames = await read_to(owner, 10)
    assert sum(frame["type"] == "job.result" for frame in frames) == 5


async def test_a_job_is_claimed_once_by_many_replicas(
    replica: MakeReplica, cluster: Cluster, schema: str
) -> None:
    begun: list[str] = []
    workers = [replica() for _ in range(3)]
    for worker in workers:

        @worker.agent("once")
        async def once(input: Any, job: JobContext) -> None:
            begun.append(job.id)

    clients = [Client(worker) for worker in workers]
    for each in clients:
        await each.connect()
    async with Client(replica()) as client:
        jobs = [await client.submit("once", n) for n in range(40)]
        for job in jobs:
            await job.result()
        for each in clients:
            await each.close()
    assert sorted(begun) == sorted(job.id for job in jobs)
    rows = await executed(cluster, f"SELECT runner, request FROM {schema}.jobs")
    assert all(row["runner"] is not None and row["request"] is None for row in rows)


async def test_an_unclaimed_job_is_cancelled_at_once(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    b = with_special(replica(limits=Limits(max_concurrent_jobs=1)), gates)
    async with Client(b) as busy, Client(replica()) as client:
        first = await busy.submit("special", "first")
        job = await client.submit("special", "second")
        await job.cancel("no longer needed")
        with pytest.raises(JobCancelled, match="no longer needed"):
            await job.result()
        gates.setdefault("first", Gate()).emit(0)
        await first.result()
    assert "second" not in gates


async def test_a_job_that_no_replica_claims_in_time_ends_retryable(
    replica: MakeReplica, gates: dict[Any, Gate]
) -> None:
    limits = Limits(max_concurrent_jobs=1, unclaimed_time=0.2)
    b = with_special(replica(limits=limits), gates)
    async with Client(b) as busy, Client(replica(limits=limits)) as client:
        first = await busy.submit("special", "first")
        job = await client.submit("special", "second")
        with pytest.raises(JobFailed, match="special") as failed:
            await job.result()
        assert failed.value.code == "INTERNAL_ERROR"
        assert failed.value.retryable
        gates.setdefault("first", Gate()).emit(0)
        await first.result()
    assert "second" not in gates


async def test_a_session_that_moves_while_its_job_waits_gets_the_job_s_events(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    """Also if the session moves to the replica that runs the job."""
    b = with_special(replica(limits=Limits(max_concurrent_jobs=1)), gates)
    a, c = replica(), replica()
    await (blocker := await peer(b)).submit("special", "first")
    owners = [await peer(a), await peer(a)]
    for n, owner in enumerate(owners):
        await owner.submit("special", n)
    owners = [await moved(owner, b if n else c, peer) for n, owner in enumerate(owners)]
    gates.setdefault("first", Gate()).emit(0)
    await read_to(blocker, 1)
    for n, owner in enumerate(owners):
        gates.setdefault(n, Gate()).emit(10)
        gates[n].emit(0)
        frames = await read_to(owner, 11)
        assert seqs(frames) == list(range(1, 12))
        assert frames[-1]["payload"]["result"] == 10


async def test_an_observer_of_an_unclaimed_job_gets_its_events_on_every_replica(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate]
) -> None:
    b = with_special(replica(limits=Limits(max_concurrent_jobs=1)), gates)
    a = replica()
    await (await peer(b)).submit("special", "first")
    job_id = (await (await peer(a)).submit("special", 1))["payload"]["job_id"]
    observers = [await peer(each) for each in (a, b, replica())]
    for each in observers:
        answer = await each.ask("job.subscribe", {"job_id": job_id, "history": True})
        assert answer["payload"]["current_status"] == "pending"
    gates.setdefault("first", Gate()).emit(0)
    gates.setdefault(1, Gate()).emit(20)
    gates[1].emit(0)
    for each in observers:
        frames = await read_to(each, 21)
        assert seqs(frames) == list(range(1, 22))


async def test_a_key_leads_to_a_job_that_waits_for_another_replica(
    replica: MakeReplica, gates: dict[Any, Gate]
) -> None:
    b = with_special(replica(limits=Limits(max_concurrent_jobs=1)), gates)
    async with Client(b) as busy, Client(replica()) as first, Client(replica()) as second:
        blocker = await busy.submit("special", "first")
        job = await first.submit("special", 1, idempotency_key="k")
        same = await second.submit("special", 1, idempotency_key="k")
        local = await busy.submit("special", 1, idempotency_key="k")
        assert job.id == same.id == local.id
        gates.setdefault("first", Gate()).emit(0)
        gates.setdefault(1, Gate()).emit(3)
        gates[1].emit(0)
        await blocker.result()
        for each in (job, same, local):
            assert (await each.result()).value == 3


async def test_a_client_without_streamed_results_gets_a_plain_one_from_another_replica(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    b = replica()

    @b.agent("streams")
    async def streams(input: Any, job: JobContext) -> None:
        await job.chunk("one ")
        await job.chunk("two", more=False)

    await peer(b)
    owner = await peer(replica(), features=["ack"])
    await owner.submit("streams")
    (frame,) = await read_to(owner, 1)
    assert frame["payload"]["result"] == "one two"


async def test_a_lease_and_a_budget_hold_on_the_replica_that_runs_the_job(
    replica: MakeReplica,
) -> None:
    b = replica()

    @b.agent("spends")
    async def spends(input: Any, job: JobContext) -> Any:
        await job.metric("cost.usd", 3, unit="USD")
        return [{c: str(v) for c, v in job.budget.items()}, job.lease.root]

    async with Client(b), Client(replica()) as client:
        job = await client.submit(
            "spends", lease={"cost.budget": ["USD:5.00"], "tool.call": ["a*"]}, max_runtime=30
        )
        budget, lease = (await job.result()).value
        assert float(budget["USD"]) == 2.0
        assert lease == {"cost.budget": ["USD:5.00"], "tool.call": ["a*"]}


async def test_a_replica_that_ends_hands_on_its_pending_jobs_and_claims_none(
    replica: MakeReplica, peer: OpenPeer, gates: dict[Any, Gate], cluster: Cluster, schema: str
) -> None:
    limits = Limits(max_concurrent_jobs=1)
    a = with_special(replica(limits=limits, name="a"), gates)
    owner = await peer(a)
    await owner.submit("special", "running")
    pending = (await owner.submit("special", "pending"))["payload"]["job_id"]
    b = with_special(replica(limits=limits, name="b"), gates)
    await peer(b)
    closing = asyncio.create_task(a.close(timeout=30))
    await owner.ended()
    there = await peer(b, resume=owner.block(0))
    late = (await (await peer(replica())).submit("special", "late"))["payload"]["job_id"]
    gates.setdefault("pending", Gate()).emit(5)
    gates["pending"].emit(0)
    gates.setdefault("running", Gate()).emit(2)
    gates["running"].emit(0)
    gates.setdefault("late", Gate()).emit(0)
    frames = await read_to(there, 9)
    assert seqs(frames) == list(range(1, 10))
    assert [f["payload"]["result"] for f in frames if f["type"] == "job.result"] in ([2, 5], [5, 2])
    await closing
    rows = await executed(
        cluster, f"SELECT id, runner FROM {schema}.jobs WHERE id = ANY($1)", [pending, late]
    )
    assert {row["runner"] for row in rows} == {"b"}


async def test_a_draining_replica_keeps_a_pending_job_that_no_other_replica_can_run(
    replica: MakeReplica, gates: dict[Any, Gate]
) -> None:
    a = with_special(replica(limits=Limits(max_concurrent_jobs=1)), gates)
    async with Client(replica()) as other, Client(a) as client:
        first = await client.submit("special", "first")
        second = await client.submit("special", "second")
        views = [await other.watch(job.id) for job in (first, second)]
        closing = asyncio.create_task(a.close(timeout=30))
        for name in ("first", "second"):
            gates.setdefault(name, Gate()).emit(0)
        for view in views:
            assert (await view.result()).value == 0
        await closing
        await client.close()


async def test_a_child_with_an_agent_of_another_replica_is_refused(
    replica: MakeReplica, gates: dict[Any, Gate]
) -> None:
    """The jobs of a delegation are on one replica, which has their budgets."""
    a, b = replica(), with_special(replica(), gates)

    @a.agent("delegates")
    async def delegates(input: Any, job: JobContext) -> Any:
        return await (await job.delegate("special", 1)).result()

    async with Client(b), Client(a) as client:
        job = await client.submit("delegates")
        with pytest.raises(JobFailed):
            await job.result()


async def test_pages_miss_no_job_that_is_accepted_while_they_are_read(
    replica: MakeReplica,
) -> None:
    """Jobs are accepted by three replicas at once, in transactions that overlap."""
    runtimes = [replica() for _ in range(3)]
    clients = [Client(runtime) for runtime in runtimes]
    for each in clients:
        await each.connect()
    accepted: list[str] = []

    async def submit(client: Client) -> None:
        for _ in range(20):
            job = await client.submit("count", 0)
            accepted.append(job.id)

    writers = [asyncio.create_task(submit(client)) for client in clients]
    async with Client(runtimes[0]) as reader:
        while not all(writer.done() for writer in writers):
            before = list(accepted)
            listed = [job.job_id async for job in reader.jobs()]
            assert len(listed) == len(set(listed))
            assert set(before) <= set(listed)
        await asyncio.gather(*writers)
        assert sorted([job.job_id async for job in reader.jobs()]) == sorted(accepted)
    for each in clients:
        await each.close()


async def test_sessions_of_a_principal_are_limited_over_all_replicas(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    limits = Limits(sessions_per_principal=3)
    a, b = replica(limits=limits), replica(limits=limits)
    opened = [await peer(each) for each in (a, b, a)]
    other = await Peer.to(b)
    refused = await other.hello()
    await other.close()
    assert refused["payload"]["code"] == "INTERNAL_ERROR"
    assert refused["payload"]["retryable"] is True
    assert len(opened) == 3


async def test_a_claim_whose_answer_was_lost_is_found_and_the_job_runs_once(
    replica: MakeReplica,
    peer: OpenPeer,
    gates: dict[Any, Gate],
    cluster: Cluster,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commit = asyncpg.transaction.Transaction._Transaction__commit
    claim, claiming, lost = UnclaimedJobs.claim, False, asyncio.Event()

    async def noted(self: UnclaimedJobs, host: ReplicaHost) -> bool:
        nonlocal claiming
        claiming = not lost.is_set()
        try:
            return await claim(self, host)
        finally:
            claiming = False

    async def cut_after_commit(self: Any) -> None:
        await commit(self)
        if claiming and not lost.is_set():
            connection = self._connection
            if await connection.fetchval(
                f"SELECT EXISTS (SELECT 1 FROM {schema}.jobs WHERE runner IS NOT NULL)"
            ):
                lost.set()
                connection.terminate()
                raise asyncpg.ConnectionDoesNotExistError("connection was closed")

    b = with_special(replica(), gates)
    await peer(b)
    monkeypatch.setattr(UnclaimedJobs, "claim", noted)
    monkeypatch.setattr(asyncpg.transaction.Transaction, "_Transaction__commit", cut_after_commit)
    owner = await peer(replica())
    await owner.submit("special", 1)
    await lost.wait()
    gate = gates.setdefault(1, Gate())
    gate.emit(3)
    gate.emit(0)
    frames = await read_to(owner, 4)
    assert seqs(frames) == [1, 2, 3, 4]
    assert frames[-1]["payload"]["result"] == 3
    rows = await executed(cluster, f"SELECT request FROM {schema}.jobs")
    assert [row["request"] for row in rows] == [None]
