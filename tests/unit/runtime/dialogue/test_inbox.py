"""Messages to running jobs on the wire: rules X17 to X21 of "Extensions of the protocol"."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from arcp_client._wire import names
from arcp_client.errors import LocalProtocolError
from arcp_client.runtime import JobContext, Limits, Runtime, SqliteEventLog
from tests.unit.runtime.conftest import MakeRuntime
from tests.unit.runtime.peer import Frame, Peer, bodies


def listens(runtime: Runtime, count: int = 2) -> list[Any]:
    """Register an agent that takes some messages; what it got."""
    got: list[Any] = []

    @runtime.agent("listens")
    async def run(input: Any, job: JobContext) -> Any:
        await job.status("listening")
        async for message in job.inbox():
            got.append((message.mode, message.value, message.by))
            if len(got) == count:
                return len(got)
        raise AssertionError("unreachable")

    return got


async def begun(peer: Peer) -> str:
    job_id: str = (await peer.submit("listens"))["payload"]["job_id"]
    await peer.until("job.event", kind="status")
    return job_id


async def send(peer: Peer, job_id: str, message_id: str, value: Any, **more: Any) -> Frame:
    payload = {"job_id": job_id, "message_id": message_id, "value": value, **more}
    return await peer.ask(names.SEND, payload)


async def test_x17_messages_are_consumed_in_order(runtime: Any, open_peer: Any) -> None:
    got = listens(runtime)
    peer = await open_peer(runtime)
    job_id = await begun(peer)
    queued = await send(peer, job_id, "m1", "first", mode="steer")
    assert queued["type"] == names.QUEUED
    assert queued["payload"]["state"] == "queued"
    await send(peer, job_id, "m2", {"n": 2})
    frames = await peer.follow(job_id)
    kinds = [frame["payload"].get("kind") for frame in frames]
    assert kinds.count(names.SENT) == kinds.count(names.CONSUMED) == 2
    assert bodies(frames, names.SENT)[0] == {
        "message_id": "m1",
        "mode": "steer",
        "value": "first",
        "by": "anonymous",
        "client": "peer 1",
    }
    assert bodies(frames, names.CONSUMED) == [
        {"message_id": "m1", "at": 1},
        {"message_id": "m2", "at": 2},
    ]
    assert got == [("steer", "first", "anonymous"), ("queue", {"n": 2}, "anonymous")]


async def test_x18_a_message_is_queued_once_under_its_id(runtime: Any, open_peer: Any) -> None:
    got = listens(runtime, count=1)
    peer = await open_peer(runtime)
    job_id = await begun(peer)
    first = await send(peer, job_id, "m1", "once")
    assert first["payload"]["state"] == "queued"
    await peer.follow(job_id)
    again = await send(peer, job_id, "m1", "once")
    assert again["payload"]["state"] == "consumed"
    other = await send(peer, job_id, "m1", "another")
    assert other["payload"]["code"] == "DUPLICATE_KEY"
    late = await send(peer, job_id, "m2", "late")
    assert late["payload"]["code"] == "JOB_ENDED"
    assert len(got) == 1


async def test_x19_what_was_not_taken_is_returned_before_the_end(
    runtime: Any, open_peer: Any
) -> None:
    @runtime.agent("listens")
    async def deaf(input: Any, job: JobContext) -> str:
        await job.status("listening")
        await job.steered.wait()
        assert len(job.inbox) == 2
        return "deaf"

    peer = await open_peer(runtime)
    job_id = await begun(peer)
    await send(peer, job_id, "m1", 1)
    await send(peer, job_id, "m2", 2, mode="steer")
    frames = await peer.follow(job_id)
    assert [body["message_id"] for body in bodies(frames, names.RETURNED)] == ["m1", "m2"]
    assert frames[-1]["type"] == "job.result"
    assert (await send(peer, job_id, "m1", 1))["payload"]["state"] == "returned"


async def test_x19_a_restart_returns_what_was_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "runtime.db"
    runtime = Runtime(event_log=SqliteEventLog(path))
    listens(runtime, count=5)
    peer = await Peer.to(runtime)
    await peer.hello()
    job_id = await begun(peer)
    await send(peer, job_id, "m1", 1)
    await peer.until("job.event", kind=names.CONSUMED)
    log: Any = runtime._core._event_log
    await runtime._core._journal.flushed()
    write, log.write = log.write, _nothing  # from here on as if killed
    runtime._core.mailroom._inboxes.clear()
    await runtime.close()
    log.write = write

    async with Runtime(event_log=SqliteEventLog(path)) as runtime:
        listens(runtime)
        again = await Peer.to(runtime)
        await again.hello(resume=peer.block())
        state = (await send(again, job_id, "m1", 1))["payload"]["state"]
        assert state == "consumed"
        await again.close()
    await peer.close()


async def _nothing(entries: Any) -> None:
    """Lose what a killed process had not written."""


async def test_x20_only_the_submitter_sends_unless_the_policy_allows_more(
    make: MakeRuntime, open_peer: Any
) -> None:
    allowed: list[str] = []
    runtime = make(
        auth={"t-alice": "alice", "t-bob": "bob"},
        steering=lambda watch: watch.observer in allowed,
    )
    got = listens(runtime)
    alice = await open_peer(runtime, token="t-alice")
    phone = await open_peer(runtime, token="t-alice")
    bob = await open_peer(runtime, token="t-bob")
    job_id = await begun(alice)
    for peer in (phone, bob):
        assert (await send(peer, job_id, "m", 1))["payload"]["code"] == "PERMISSION_DENIED"
    allowed += ["alice", "bob"]
    await send(phone, job_id, "m1", "from the phone")
    await send(bob, job_id, "m2", "from bob")
    await alice.follow(job_id)
    assert got == [("queue", "from the phone", "alice"), ("queue", "from bob", "bob")]


async def test_x21_a_tool_can_stop_early_for_a_steering_message(
    runtime: Any, open_peer: Any
) -> None:
    @runtime.agent("listens")
    async def busy(input: Any, job: JobContext) -> Any:
        await job.status("listening")
        async with job.tool("search") as call:
            assert not call.steered
            await call.steered.wait()
            call.result = "stopped early"
        message = await job.inbox.take()
        assert not job.steered
        return message.value

    peer = await open_peer(runtime)
    job_id = await begun(peer)
    await send(peer, job_id, "m1", "not that file", mode="steer")
    frames = await peer.follow(job_id)
    assert bodies(frames, "tool_result")[0]["result"] == "stopped early"
    assert frames[-1]["payload"]["result"] == "not that file"


async def test_a_take_that_times_out_loses_no_message(runtime: Any, open_peer: Any) -> None:
    @runtime.agent("listens")
    async def impatient(input: Any, job: JobContext) -> Any:
        await job.status("listening")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await job.inbox.take()
        return (await job.inbox.take()).value

    peer = await open_peer(runtime)
    job_id = await begun(peer)
    await send(peer, job_id, "m1", 7)
    assert (await peer.follow(job_id))[-1]["payload"]["result"] == 7


async def test_an_inbox_is_bounded_and_closes_with_its_job(
    make: MakeRuntime, open_peer: Any
) -> None:
    runtime = make(limits=Limits(inbox_messages=1, message_bytes=100))
    kept: list[JobContext] = []

    @runtime.agent("listens")
    async def deaf(input: Any, job: JobContext) -> None:
        kept.append(job)
        await job.status("listening")
        await asyncio.Event().wait()

    peer = await open_peer(runtime)
    job_id = await begun(peer)
    assert (await send(peer, job_id, "m0", "x" * 200))["payload"]["code"] == "INVALID_REQUEST"
    await send(peer, job_id, "m1", 1)
    full = await send(peer, job_id, "m2", 2)
    assert (full["payload"]["code"], full["payload"]["retryable"]) == ("INTERNAL_ERROR", True)
    await peer.ask("job.cancel", {"job_id": job_id})
    await peer.follow(job_id)
    with pytest.raises(LocalProtocolError, match="its inbox is closed"):
        await kept[0].inbox.take()
