"""Sessions that go on over another link (§6.3, §6.7)."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

import pytest

from arcp_client.runtime import JobContext, Limits, MemoryEventLog
from arcp_client.runtime._connection import connection
from arcp_client.runtime._sessions.session import ServerSession
from arcp_client.testing import VirtualClock
from tests.unit.runtime.conftest import MakeRuntime
from tests.unit.runtime.peer import Peer, seqs

TOKENS = {"t-alice": "alice", "t-bob": "bob"}


class Stepper:
    """An agent that emits when a test says so."""

    def __init__(self, runtime: Any) -> None:
        self.jobs: list[JobContext] = []
        self.started = asyncio.Event()
        self.end = asyncio.Event()
        runtime.agent("stepper")(self.run)

    async def run(self, input: Any, job: JobContext) -> str:
        self.jobs.append(job)
        self.started.set()
        await self.end.wait()
        return "done"

    async def emit(self, count: int, job: int = -1) -> None:
        for n in range(count):
            await self.jobs[job].log(str(n))


async def started(runtime: Any, peer: Peer) -> tuple[Stepper, str]:
    stepper = Stepper(runtime)
    job_id = (await peer.submit("stepper"))["payload"]["job_id"]
    await stepper.started.wait()
    return stepper, job_id


async def resumed(runtime: Any, peer: Peer, last: int, **hello: Any) -> Peer:
    fresh = await Peer.to(runtime)
    reply = await fresh.hello(resume=peer.block(last), **hello)
    assert reply["type"] == "session.welcome", reply
    return fresh


@pytest.mark.parametrize("form", ["hello", "first", "later"])
async def test_what_was_missed_is_replayed_then_live_events_follow(
    runtime: Any, open_peer: Any, form: str
) -> None:
    peer = await open_peer(runtime)
    stepper, job_id = await started(runtime, peer)
    await stepper.emit(3)
    first = [await peer.read() for _ in range(3)]
    await peer.cut()
    await stepper.emit(700)  # more than any queue holds
    fresh = await Peer.to(runtime)
    block = peer.block(2)
    if form == "hello":
        reply = await fresh.hello(resume=block)
    else:
        if form == "later":
            await fresh.hello()
        else:
            block["auth"] = {"scheme": "bearer", "token": ""}
        fresh.session_id = ""
        await fresh.send("session.resume", block)
        reply = await fresh.read()
    assert reply["type"] == "session.welcome"
    assert reply["session_id"] == peer.session_id
    assert reply["payload"]["resume_token"] != peer.token
    again = await fresh.read()
    assert again == first[2]  # the same frame, number and id
    await stepper.emit(300)
    stepper.end.set()
    frames = await fresh.follow(job_id)
    assert seqs(frames) == list(range(4, 1006))  # one says back_pressure: nothing was acked
    await fresh.close()


async def test_a_resume_before_the_first_event_gets_them_all(runtime: Any, open_peer: Any) -> None:
    peer = await open_peer(runtime)
    stepper, job_id = await started(runtime, peer)
    await peer.cut()
    await stepper.emit(5)
    stepper.end.set()
    fresh = await resumed(runtime, peer, 0)
    assert seqs(await fresh.follow(job_id)) == list(range(1, 7))
    await fresh.close()


async def test_a_caught_up_client_resumes_and_gets_nothing_twice(
    runtime: Any, open_peer: Any
) -> None:
    peer = await open_peer(runtime)
    stepper, job_id = await started(runtime, peer)
    await stepper.emit(2)
    await peer.read(), await peer.read()
    await peer.cut()
    fresh = await resumed(runtime, peer, 2)
    stepper.end.set()
    assert seqs(await fresh.follow(job_id)) == [3]
    await fresh.close()


async def test_a_resumed_session_cancels_its_job(runtime: Any, open_peer: Any) -> None:
    peer = await open_peer(runtime)
    _, job_id = await started(runtime, peer)
    await peer.cut()
    fresh = await resumed(runtime, peer, 0)
    assert (await fresh.ask("job.cancel", {"job_id": job_id}))["type"] == "job.cancelled"
    assert (await fresh.follow(job_id))[-1]["payload"]["code"] == "CANCELLED"
    await fresh.close()


async def test_an_old_link_that_nobody_saw_die_is_taken_over(runtime: Any, open_peer: Any) -> None:
    peer = await open_peer(runtime)
    stepper, job_id = await started(runtime, peer)
    fresh = await resumed(runtime, peer, 0)
    await stepper.emit(2)
    stepper.end.set()
    assert seqs(await fresh.follow(job_id)) == [1, 2, 3]
    assert seqs(await peer.ended()) == []
    await fresh.close()


@pytest.mark.parametrize("farewell", ["session.close", "session.bye"])
async def test_close_is_answered_and_leaves_jobs_and_session_alive(
    runtime: Any, open_peer: Any, farewell: str
) -> None:
    peer = await open_peer(runtime)
    _, job_id = await started(runtime, peer)
    request = await peer.send(farewell, {"reason": "bye"})
    closed = await peer.until("session.closed")
    assert closed["payload"]["request_id"] == request
    assert await peer.ended() == []
    fresh = await resumed(runtime, peer, peer.last)
    (job,) = (await fresh.ask("session.list_jobs"))["payload"]["jobs"]
    assert (job["job_id"], job["status"]) == (job_id, "running")
    await fresh.close()


async def test_a_wrong_token_or_principal_destroys_nothing(make: Any, open_peer: Any) -> None:
    runtime = make(auth=TOKENS)
    peer = await open_peer(runtime, token="t-alice")
    _, job_id = await started(runtime, peer)
    await peer.cut()
    thief = await Peer.to(runtime)
    reply = await thief.hello(token="t-bob", resume=peer.block(0))  # right token, wrong principal
    assert reply["payload"]["code"] == "PERMISSION_DENIED"
    wrong = peer.block(0) | {"resume_token": "rt_guess"}
    reply = await thief.hello(token="t-alice", resume=wrong)
    assert reply["payload"]["code"] == "PERMISSION_DENIED"
    await thief.close()
    unauthenticated = await Peer.to(runtime)
    await unauthenticated.send("session.resume", peer.block(0))
    assert (await unauthenticated.read())["payload"]["code"] == "UNAUTHENTICATED"
    fresh = await resumed(runtime, peer, 0, token="t-alice")
    assert (await fresh.ask("job.cancel", {"job_id": job_id}))["type"] == "job.cancelled"
    await fresh.close()


async def test_a_refused_resume_may_be_followed_by_a_fresh_hello(runtime: Any) -> None:
    peer = await Peer.to(runtime)
    block = {"session_id": "sess_x", "resume_token": "rt_x", "last_event_seq": 0}
    reply = await peer.hello(resume=block)
    assert reply["payload"]["code"] == "RESUME_WINDOW_EXPIRED"
    assert reply["payload"]["request_id"]
    assert (await peer.hello())["type"] == "session.welcome"
    await peer.close()


async def test_tokens_rotate_and_old_ones_die_once_the_welcome_was_read(
    runtime: Any, open_peer: Any
) -> None:
    first = await open_peer(runtime)
    second = await resumed(runtime, first, 0)
    await second.cut()  # whether it read the welcome, nobody knows
    third = await resumed(runtime, first, 0)  # so the token it had is still good
    fourth = await resumed(runtime, third, 0)
    await fourth.ask("session.list_jobs")  # it did read the welcome
    for stale in (first, second, third):
        refused = await (await Peer.to(runtime)).hello(resume=stale.block(0))
        assert refused["payload"]["code"] == "PERMISSION_DENIED"
    last = await resumed(runtime, fourth, 0)
    await last.close()


async def test_below_the_floor_a_resume_is_refused_never_cut_short(
    make: MakeRuntime, open_peer: Any
) -> None:
    runtime = make(event_log=MemoryEventLog(max_events=100))
    peer = await open_peer(runtime)
    stepper, job_id = await started(runtime, peer)
    await peer.cut()
    await asyncio.sleep(0)
    await stepper.emit(150)
    for last in (0, 3, 49):
        refused = await (await Peer.to(runtime)).hello(resume=peer.block(last))
        assert refused["payload"]["code"] == "RESUME_WINDOW_EXPIRED"
    stepper.end.set()
    beyond = await (await Peer.to(runtime)).hello(resume=peer.block(500))
    assert beyond["payload"]["code"] == "RESUME_WINDOW_EXPIRED"
    await asyncio.sleep(0)
    fresh = await resumed(runtime, peer, 51)  # refusals changed nothing
    assert seqs(await fresh.follow(job_id)) == list(range(52, 152))
    await fresh.close()


async def test_the_log_is_bounded_in_bytes_as_well(make: MakeRuntime, open_peer: Any) -> None:
    runtime = make(event_log=MemoryEventLog(max_bytes=20_000))
    peer = await open_peer(runtime)
    stepper, _ = await started(runtime, peer)
    await peer.cut()
    await asyncio.sleep(0)
    for _ in range(20):
        await stepper.jobs[0].log("x" * 2_000)
    refused = await (await Peer.to(runtime)).hello(resume=peer.block(0))
    assert refused["payload"]["code"] == "RESUME_WINDOW_EXPIRED"


@pytest.mark.parametrize("freed", [True, False])
async def test_acknowledged_events_are_freed_and_over_acks_refused(
    runtime: Any, open_peer: Any, monkeypatch: pytest.MonkeyPatch, freed: bool
) -> None:
    """A resume does not get acknowledged events, even if they are not freed yet."""
    if not freed:
        monkeypatch.setattr(ServerSession, "_free", lambda session: None)
    peer = await open_peer(runtime)
    stepper, job_id = await started(runtime, peer)
    await stepper.emit(10)
    for _ in range(10):
        await peer.read()
    answer = await peer.ask("session.ack", {"last_processed_seq": 9999})
    assert answer["payload"]["code"] == "INVALID_REQUEST"
    await peer.send("session.ack", {"last_processed_seq": 4})
    await peer.send("session.ack", {"last_processed_seq": 2})  # never backwards
    await peer.ask("session.list_jobs")
    await peer.cut()
    refused = await (await Peer.to(runtime)).hello(resume=peer.block(3))
    assert refused["payload"]["code"] == "RESUME_WINDOW_EXPIRED"
    stepper.end.set()
    fresh = await resumed(runtime, peer, 4)
    assert seqs(await fresh.follow(job_id)) == list(range(5, 12))
    await fresh.close()


async def test_a_closed_runtime_frees_no_more_events(
    make: MakeRuntime, open_peer: Any, clock: VirtualClock
) -> None:
    runtime = make()
    peer = await open_peer(runtime)
    stepper, _ = await started(runtime, peer)
    await stepper.emit(500)
    for _ in range(500):
        await peer.read()
    await peer.send("session.ack", {"last_processed_seq": 500})
    await peer.ask("session.list_jobs")
    await runtime.close()
    with mock.patch.object(ServerSession, "_free") as free:
        await clock.advance(1.0)
    free.assert_not_called()


async def test_a_link_that_falls_out_of_the_log_is_ended_not_given_a_hole(
    make: MakeRuntime, open_peer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_FAREWELL", 60.0)  # the last frame is read late
    runtime = make(event_log=MemoryEventLog(max_events=50), limits=Limits(lag_delay=0.0))
    peer = await open_peer(runtime)
    stepper, _ = await started(runtime, peer)
    await stepper.emit(5000)  # the link takes 1,024 frames, nobody reads
    frames = await peer.ended()
    numbers = seqs(frames)
    assert numbers == list(range(1, len(numbers) + 1))
    assert frames[-1]["type"] == "session.error"
    assert frames[-1]["payload"]["code"] == "INTERNAL_ERROR"


async def test_features_are_negotiated_anew(runtime: Any, open_peer: Any) -> None:
    peer = await open_peer(runtime)
    await peer.cut()
    fresh = await resumed(runtime, peer, 0, features=("ack",))
    assert (await fresh.ask("session.list_jobs"))["payload"]["code"] == "INVALID_REQUEST"
    await fresh.close()


async def test_a_session_in_use_cannot_be_swapped_for_another(runtime: Any, open_peer: Any) -> None:
    old = await open_peer(runtime)
    await old.cut()
    busy = await open_peer(runtime)
    stepper, _ = await started(runtime, busy)
    answer = await busy.ask("session.resume", old.block(0))
    assert answer["payload"]["code"] == "INVALID_REQUEST"
    stepper.end.set()
    await busy.until("job.result")
