"""Messages to jobs of other replicas: stored, in order, consumed once or returned."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arcp_client._wire import names
from arcp_client.runtime import JobContext, Limits, Runtime
from tests.postgres import Cluster
from tests.replicas.conftest import MakeReplica, OpenPeer
from tests.replicas.test_questions import lose
from tests.unit.runtime.peer import Frame, Peer, bodies


def listens(runtime: Runtime) -> list[Any]:
    """Register an agent that takes messages until one says "stop"; what it got."""
    got: list[Any] = []

    @runtime.agent("listens")
    async def run(input: Any, job: JobContext) -> Any:
        async for message in job.inbox():
            got.append((message.message_id, message.mode, message.value))
            if message.value == "stop":
                break
        return len(got)

    @runtime.agent("deaf")
    async def deaf(input: Any, job: JobContext) -> Any:
        await job.cancelled.wait()

    return got


async def send(peer: Peer, job_id: str, message_id: str, value: Any, **more: Any) -> Frame:
    payload = {"job_id": job_id, "message_id": message_id, "value": value, **more}
    return await peer.ask(names.SEND, payload)


async def a_job(peer: Peer, agent: str, *, beside: Peer | None = None) -> tuple[str, Peer]:
    """Submit a job under a key, and repeat the submit from another replica: both may send."""
    job_id: str = (await peer.submit(agent, idempotency_key="k"))["payload"]["job_id"]
    other = peer if beside is None else beside
    if beside is not None:
        again = (await beside.submit(agent, idempotency_key="k"))["payload"]["job_id"]
        assert again == job_id
    return job_id, other


async def test_messages_from_another_replica_are_consumed_once_in_order(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    a, b = replica(), replica()
    got = listens(a)
    listens(b)
    owner, other = await peer(a), await peer(b)
    job_id, _ = await a_job(owner, "listens", beside=other)
    requests = [
        await other.send(
            names.SEND, {"job_id": job_id, "message_id": f"m{n}", "value": n, "mode": "steer"}
        )
        for n in range(20)
    ]
    answered = set()
    while len(answered) < len(requests):
        frame = await other.until(names.QUEUED)
        assert frame["payload"]["state"] in ("queued", "consumed")
        answered.add(frame["payload"]["request_id"])
    assert (await send(owner, job_id, "mine", "here"))["payload"]["state"] == "queued"
    assert (await send(other, job_id, "last", "stop"))["type"] == names.QUEUED
    frames = await owner.follow(job_id)
    order = [body["message_id"] for body in bodies(frames, names.SENT)]
    assert order == [f"m{n}" for n in range(20)] + ["mine", "last"]
    assert [body["message_id"] for body in bodies(frames, names.CONSUMED)] == order
    assert [message_id for message_id, _, _ in got] == order
    assert got[3] == ("m3", "steer", 3)


async def test_a_message_is_queued_once_under_its_id_on_any_replica(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    a, b = replica(), replica()
    got = listens(a)
    listens(b)
    owner, other = await peer(a), await peer(b)
    job_id, _ = await a_job(owner, "listens", beside=other)
    replies = await asyncio.gather(
        send(owner, job_id, "m1", "once"), send(other, job_id, "m1", "once")
    )
    assert {reply["type"] for reply in replies} == {names.QUEUED}
    changed = await send(other, job_id, "m1", "another")
    assert changed["payload"]["code"] == "DUPLICATE_KEY"
    assert (await send(owner, job_id, "m2", "stop"))["type"] == names.QUEUED
    frames = await owner.follow(job_id)
    assert [body["message_id"] for body in bodies(frames, names.SENT)] == ["m1", "m2"]
    assert [value for _, _, value in got] == ["once", "stop"]
    again = await send(other, job_id, "m1", "once")
    assert again["payload"]["state"] == "consumed"
    late = await send(other, job_id, "m3", "late")
    assert late["payload"]["code"] == "JOB_ENDED"


async def test_messages_that_were_not_consumed_are_returned_at_the_end(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    a, b = replica(), replica()
    listens(a)
    listens(b)
    owner, other = await peer(a), await peer(b)
    job_id, _ = await a_job(owner, "deaf", beside=other)
    for n in range(3):
        assert (await send(other, job_id, f"m{n}", n))["payload"]["state"] == "queued"
    await other.ask("job.cancel", {"job_id": job_id})
    frames = await owner.follow(job_id)
    assert [body["message_id"] for body in bodies(frames, names.RETURNED)] == ["m0", "m1", "m2"]
    assert (await send(other, job_id, "m1", 1))["payload"]["state"] == "returned"


async def test_the_messages_of_a_replica_that_is_gone_are_returned_once_before_the_end(
    replica: MakeReplica, peer: OpenPeer, cluster: Cluster, schema: str
) -> None:
    a, b, c = replica(), replica(), replica()
    for each in (a, b, c):
        listens(each)
    owner, other, third = await peer(a), await peer(b), await peer(c)
    job_id, _ = await a_job(owner, "deaf", beside=other)
    await third.ask("job.subscribe", {"job_id": job_id, "history": True})
    for n in range(3):
        await send(other if n % 2 else owner, job_id, f"m{n}", n)
    await lose(cluster, schema, job_id)
    frames = await third.follow(job_id)
    assert frames[-1]["type"] == "job.error"
    assert [body["message_id"] for body in bodies(frames, names.SENT)] == ["m0", "m1", "m2"]
    assert [body["message_id"] for body in bodies(frames, names.RETURNED)] == ["m0", "m1", "m2"]
    assert (await send(other, job_id, "m1", 1))["payload"]["state"] == "returned"
    assert (await send(other, job_id, "m9", 1))["payload"]["code"] == "JOB_ENDED"


async def test_who_may_send_messages_to_jobs_of_other_replicas(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    options: Any = {"auth": {"t-alice": "alice", "t-bob": "bob", "t-carol": "carol"}}
    options["steering"] = lambda watch: watch.observer == "bob"
    a, b = replica(**options), replica(**options)
    got = listens(a)
    alice = await peer(a, token="t-alice")
    bob, carol = await peer(b, token="t-bob"), await peer(b, token="t-carol")
    job_id, _ = await a_job(alice, "listens")
    assert (await send(carol, job_id, "m1", 1))["payload"]["code"] == "PERMISSION_DENIED"
    unknown = await send(bob, "job_unknown", "m1", 1)
    assert unknown["payload"]["code"] == "JOB_NOT_FOUND"
    assert (await send(bob, job_id, "m1", "stop"))["type"] == names.QUEUED
    await alice.follow(job_id)
    assert [message_id for message_id, _, _ in got] == ["m1"]


async def test_the_inbox_of_a_job_is_bounded_on_every_replica(
    replica: MakeReplica, peer: OpenPeer
) -> None:
    limits = Limits(inbox_messages=2, message_bytes=1000)
    a, b = replica(limits=limits), replica(limits=limits)
    listens(a)
    listens(b)
    owner, other = await peer(a), await peer(b)
    job_id, _ = await a_job(owner, "deaf", beside=other)
    large = await send(other, job_id, "large", "x" * 1001)
    assert large["payload"]["code"] == "INVALID_REQUEST"
    await send(owner, job_id, "m1", 1)
    await send(other, job_id, "m2", 2)
    full = await send(other, job_id, "m3", 3)
    assert (full["payload"]["code"], full["payload"]["retryable"]) == ("INTERNAL_ERROR", True)
    assert "inbox" in full["payload"]["message"]


@pytest.mark.timeout(120)
async def test_a_sender_is_refused_if_no_replica_decides(
    replica: MakeReplica, peer: OpenPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message, or an answer, does not wait for ever for a replica that does not look."""
    monkeypatch.setattr("arcp_client.runtime._dialogue.elsewhere._PATIENCE", 1.5)
    a, b = replica(), replica()
    listens(a)
    listens(b)
    owner, other = await peer(a), await peer(b)
    job_id, _ = await a_job(owner, "deaf", beside=other)
    a._core.mailroom.offered = lambda messages, jobs: None  # type: ignore[method-assign]
    refused = await send(other, job_id, "m1", 1)
    assert (refused["payload"]["code"], refused["payload"]["retryable"]) == ("INTERNAL_ERROR", True)
