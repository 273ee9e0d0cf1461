"""Heartbeats and what outlives a silent client (§6.4), in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from arcp_client._protocol.heartbeat import DOUBTS
from arcp_client.errors import LinkLost
from arcp_client.runtime import JobContext
from arcp_client.runtime._connection.heartbeat import TimedHeartbeat
from tests.unit.runtime.jobs.test_cancel import opened, virtual
from tests.unit.runtime.peer import Peer, seqs
from tests.unit.runtime.sessions.test_resume import started


def now() -> float:
    return asyncio.get_running_loop().time()


def test_an_idle_peer_is_pinged_every_interval_and_stays() -> None:
    async def scenario(runtime: Any) -> None:
        peer = await opened(runtime)
        peer.lively = False
        for n in range(1, 6):
            ping = await peer.until("session.ping")
            assert now() == pytest.approx(30 * n)
            assert ping["payload"]["sent_at"].endswith("Z")
            assert "event_seq" not in ping
            await peer.send("session.pong", {"ping_nonce": ping["payload"]["nonce"]})

    virtual(scenario)


def test_two_silent_intervals_end_the_link_and_no_job() -> None:
    async def scenario(runtime: Any) -> None:
        peer = await opened(runtime)
        stepper, job_id = await started(runtime, peer)
        peer.lively = False
        frames = await peer.ended()
        assert now() == pytest.approx(60)
        assert [f["type"] for f in frames] == ["session.ping", "session.error"]
        assert frames[-1]["payload"]["code"] == "HEARTBEAT_LOST"
        await stepper.emit(2)
        fresh = await Peer.to(runtime)
        assert (await fresh.hello(resume=peer.block(0)))["type"] == "session.welcome"
        stepper.end.set()
        assert seqs(await fresh.follow(job_id)) == [1, 2, 3]

    virtual(scenario)


class StandingLoop:
    """The clock and the one timer of a heartbeat; time moves when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due = 0.0
        self._callback: Callable[[], None] | None = None

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> StandingLoop:
        return self.call_at(self.now + delay, callback)

    def call_at(self, when: float, callback: Callable[[], None]) -> StandingLoop:
        self.due, self._callback = when, callback
        return self

    def wake(self, now: float) -> None:
        """The timer fires, perhaps late."""
        self.now = now
        callback, self._callback = self._callback, None
        assert callback is not None
        callback()


def test_a_process_that_stood_still_asks_once_more_before_it_ends_a_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = StandingLoop()
    said: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "get_running_loop", lambda: loop)
        TimedHeartbeat(30.0, ping=lambda: said.append("ping"), lost=lambda: said.append("lost"))
    loop.wake(500.0)
    assert said == ["ping"]
    assert loop.due == 530.0
    for _ in range(DOUBTS):
        loop.wake(530.0)
        assert said == ["ping"]
    loop.wake(530.0)
    assert said == ["ping", "lost"]


def test_any_message_counts_as_life() -> None:
    async def scenario(runtime: Any) -> None:
        peer = await opened(runtime)
        peer.lively = False
        for _ in range(20):
            await asyncio.sleep(25)
            await peer.send("session.ack", {"last_processed_seq": 0})
        await peer.ask("session.list_jobs")

    virtual(scenario)


def test_a_busy_stream_is_not_pinged_while_the_peer_talks() -> None:
    async def scenario(runtime: Any) -> None:
        peer = await opened(runtime)
        peer.lively = False
        stepper, _ = await started(runtime, peer)
        for _ in range(10):
            await asyncio.sleep(20)
            await stepper.emit(1)
            await peer.send("session.pong", {})
        types = {(await peer.read())["type"] for _ in range(10)}
        assert types == {"job.event"}
        stepper.end.set()
        await peer.until("job.result")

    virtual(scenario)


def test_a_link_that_takes_nothing_is_cut_off() -> None:
    async def scenario(runtime: Any) -> None:
        peer = await opened(runtime)
        stepper, job_id = await started(runtime, peer)
        await stepper.emit(3000)  # the memory link holds 1,024 frames
        with contextlib.suppress(LinkLost):
            while True:  # it neither reads nor writes
                await asyncio.sleep(30)
                assert now() < 200
                await peer.transport.send(b"") if now() > 100 else None
        fresh = await Peer.to(runtime)
        assert (await fresh.hello(resume=peer.block(0)))["type"] == "session.welcome"
        stepper.end.set()
        told = 1  # that nothing was acknowledged
        assert seqs(await fresh.follow(job_id)) == list(range(1, 3002 + told))

    virtual(scenario)


@pytest.mark.parametrize("features", [("ack",), ("heartbeat", "ack")])
def test_a_ping_is_answered_whether_negotiated_or_not(features: tuple[str, ...]) -> None:
    async def scenario(runtime: Any) -> None:
        peer = await opened(runtime, features=features)
        await peer.send("session.ping", {"nonce": "abc", "sent_at": "whenever"})
        pong = await peer.read()
        assert pong["type"] == "session.pong"
        assert pong["payload"]["ping_nonce"] == "abc"
        assert pong["payload"]["received_at"].endswith("Z")

    virtual(scenario)


def test_without_heartbeats_silence_is_no_sign_of_death() -> None:
    async def scenario(runtime: Any) -> None:
        peer = await opened(runtime, features=("list_jobs",))
        await asyncio.sleep(100_000)
        assert (await peer.ask("session.list_jobs"))["type"] == "session.jobs"

    virtual(scenario)


def test_a_session_without_jobs_expires_after_the_window() -> None:
    async def scenario(runtime: Any) -> None:
        peer = await opened(runtime)
        await peer.cut()
        await asyncio.sleep(599)
        again = await Peer.to(runtime)
        assert (await again.hello(resume=peer.block(0)))["type"] == "session.welcome"
        await again.cut()
        await asyncio.sleep(601)
        late = await Peer.to(runtime)
        reply = await late.hello(resume=again.block(0))
        assert reply["payload"]["code"] == "RESUME_WINDOW_EXPIRED"

    virtual(scenario)


def test_a_session_with_a_running_job_is_kept_until_after_it_ended() -> None:
    async def scenario(runtime: Any) -> None:
        @runtime.agent("night")
        async def night(input: Any, job: JobContext) -> str:
            await asyncio.sleep(10_000)
            return "morning"

        peer = await opened(runtime)
        job_id = (await peer.submit("night"))["payload"]["job_id"]
        await peer.cut()
        await asyncio.sleep(10_100)
        fresh = await Peer.to(runtime)
        assert (await fresh.hello(resume=peer.block(0)))["type"] == "session.welcome"
        assert (await fresh.follow(job_id))[-1]["payload"]["result"] == "morning"

    virtual(scenario)


def test_ended_jobs_are_kept_for_the_retention_time() -> None:
    async def scenario(runtime: Any) -> None:
        @runtime.agent("quick")
        async def quick(input: Any, job: JobContext) -> str:
            return "kept"

        peer = await opened(runtime)
        job_id, whole = await peer.run("quick")
        await asyncio.sleep(590)
        observer = await opened(runtime)
        await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
        assert [f["id"] for f in await observer.follow(job_id)] == [whole[0]["id"]]
        await asyncio.sleep(20)
        answer = await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
        assert answer["payload"]["code"] == "JOB_NOT_FOUND"
        assert len(runtime._core.jobs) == 0

    virtual(scenario)


def test_a_slow_client_slows_its_jobs_and_is_told_but_blocks_nothing() -> None:
    async def scenario(runtime: Any) -> None:
        peer = await opened(runtime)
        stepper, job_id = await started(runtime, peer)
        await stepper.emit(10)
        for _ in range(10):
            await peer.read()
        await peer.send("session.ack", {"last_processed_seq": 5})
        await peer.ask("session.list_jobs")
        reading = asyncio.create_task(peer.follow(job_id))
        await stepper.emit(1000)
        assert now() == 0.0 or now() < 2
        before = now()
        await stepper.emit(10)  # 1,000 behind its acknowledgements by now
        assert 1.0 <= now() - before <= 2.6
        await peer.send("session.ack", {"last_processed_seq": 1010})
        await asyncio.sleep(0.01)
        before = now()
        await stepper.emit(10)
        assert now() == before
        stepper.end.set()
        frames = await reading
        told = [f for f in frames if f["payload"].get("kind") == "status"]
        assert len(told) == 1
        assert told[0]["payload"]["body"]["phase"] == "back_pressure"
        assert seqs(frames) == list(range(11, 1033))

    virtual(scenario)


def test_nobody_is_slowed_down_while_no_connection_is_attached() -> None:
    async def scenario(runtime: Any) -> None:
        peer = await opened(runtime)
        stepper, _ = await started(runtime, peer)
        await stepper.emit(1)
        await peer.read()
        await peer.send("session.ack", {"last_processed_seq": 1})
        await peer.ask("session.list_jobs")
        await peer.cut()
        await asyncio.sleep(0)
        before = now()
        await stepper.emit(5000)
        assert now() == before
        stepper.end.set()

    virtual(scenario)


def test_a_client_that_cannot_acknowledge_has_old_events_freed_once_they_were_sent() -> None:
    async def scenario(runtime: Any) -> None:
        peer = await opened(runtime, features=("heartbeat",))
        stepper, job_id = await started(runtime, peer)
        await stepper.emit(3)
        await peer.read(), await peer.read(), await peer.read()
        waiting = asyncio.create_task(peer.read())  # answers the pings
        await asyncio.sleep(700)
        await stepper.emit(1)
        await waiting
        await peer.cut()
        late = await Peer.to(runtime)
        refused = await late.hello(resume=peer.block(2))
        assert refused["payload"]["code"] == "RESUME_WINDOW_EXPIRED"
        assert (await late.hello(resume=peer.block(3)))["type"] == "session.welcome"
        stepper.end.set()
        assert seqs(await late.follow(job_id)) == [4, 5]

    virtual(scenario)
