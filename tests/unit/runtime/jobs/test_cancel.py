"""Cancel, timeouts and slots: how jobs end when somebody asks."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from arcp_client.runtime import JobContext, Limits
from arcp_client.testing import VirtualClock
from tests.unit.runtime.conftest import MakeRuntime
from tests.unit.runtime.peer import Peer

TOKENS = {"t-alice": "alice", "t-bob": "bob"}


def forever(runtime: Any) -> None:
    @runtime.agent("forever")
    async def forever(input: Any, job: JobContext) -> None:
        await job.status("started")
        await asyncio.Event().wait()


async def test_a_cancel_is_acknowledged_and_then_the_job_ends(runtime: Any, open_peer: Any) -> None:
    forever(runtime)
    peer = await open_peer(runtime)
    accepted = await peer.submit("forever")
    job_id = accepted["payload"]["job_id"]
    await peer.until("job.event")
    request = await peer.send("job.cancel", {"job_id": job_id, "reason": "enough"})
    acknowledged, error = await peer.read(), await peer.read()
    assert acknowledged["type"] == "job.cancelled"
    assert acknowledged["payload"]["request_id"] == request
    assert acknowledged["job_id"] == acknowledged["payload"]["job_id"] == job_id
    assert "event_seq" not in acknowledged
    assert error["type"] == "job.error"
    assert error["payload"]["final_status"] == "cancelled"
    assert error["payload"]["code"] == "CANCELLED"
    assert error["payload"]["retryable"] is False
    assert error["event_seq"] == 2


async def test_the_job_may_be_named_in_the_envelope_only(runtime: Any, open_peer: Any) -> None:
    forever(runtime)
    peer = await open_peer(runtime)
    job_id = (await peer.submit("forever"))["payload"]["job_id"]
    answer = await peer.ask("job.cancel", {"reason": "x"}, job_id=job_id)
    assert answer["type"] == "job.cancelled"


async def test_an_ended_job_is_acknowledged_too_and_nothing_changes(
    runtime: Any, open_peer: Any
) -> None:
    @runtime.agent("quick")
    async def quick(input: Any, job: JobContext) -> str:
        return "done"

    peer = await open_peer(runtime)
    job_id, _ = await peer.run("quick")
    answer = await peer.ask("job.cancel", {"job_id": job_id})
    assert answer["type"] == "job.cancelled"
    assert answer["payload"]["current_status"] == "success"
    listed = await peer.ask("session.list_jobs")
    assert [job["status"] for job in listed["payload"]["jobs"]] == ["success"]


async def test_an_agent_that_looks_at_cancelled_ends_by_itself(
    runtime: Any, open_peer: Any
) -> None:
    @runtime.agent("polite")
    async def polite(input: Any, job: JobContext) -> str:
        waiting = job.cancelled.wait()
        await job.status("ready")
        await waiting
        assert job.cancelled.is_set()
        await job.log(f"because: {job.cancelled.reason}")
        return "a result nobody gets"

    peer = await open_peer(runtime)
    job_id = (await peer.submit("polite"))["payload"]["job_id"]
    await peer.until("job.event")
    await peer.ask("job.cancel", {"job_id": job_id, "reason": "lunch"})
    log, error = await peer.follow(job_id)
    assert log["payload"]["body"]["message"] == "because: lunch"
    assert error["payload"]["code"] == "CANCELLED"


def virtual(scenario: Any, **options: Any) -> None:
    """Run a scenario on a runtime in virtual time, and see that nothing is left of it."""

    async def main() -> None:
        from arcp_client.runtime import Runtime

        async with Runtime(**options) as runtime:
            await scenario(runtime)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left

    VirtualClock().run(main())


async def opened(runtime: Any, **hello: Any) -> Peer:
    peer = await Peer.to(runtime)
    await peer.hello(**hello)
    return peer


def test_an_agent_that_never_looks_is_interrupted_at_once() -> None:
    async def scenario(runtime: Any) -> None:
        forever(runtime)
        peer = await opened(runtime)
        job_id = (await peer.submit("forever"))["payload"]["job_id"]
        await peer.until("job.event")
        await peer.ask("job.cancel", {"job_id": job_id})
        await peer.follow(job_id)
        assert asyncio.get_running_loop().time() == 0.0

    virtual(scenario)


def test_the_grace_of_a_cooperative_agent_ends() -> None:
    async def scenario(runtime: Any) -> None:
        @runtime.agent("slow")
        async def slow(input: Any, job: JobContext) -> None:
            assert not job.cancelled
            await job.status("ready")
            await asyncio.Event().wait()

        peer = await opened(runtime)
        job_id = (await peer.submit("slow"))["payload"]["job_id"]
        await peer.until("job.event")
        loop = asyncio.get_running_loop()
        before = loop.time()
        await peer.ask("job.cancel", {"job_id": job_id})
        (error,) = await peer.follow(job_id)
        assert error["payload"]["code"] == "CANCELLED"
        assert loop.time() - before == pytest.approx(5.0)

    virtual(scenario)


def test_an_agent_that_resists_is_left_behind_after_the_grace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(runtime: Any) -> None:
        release = asyncio.Event()

        @runtime.agent("stubborn")
        async def stubborn(input: Any, job: JobContext) -> None:
            await job.status("ready")
            while not release.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await release.wait()

        peer = await opened(runtime)
        job_id = (await peer.submit("stubborn"))["payload"]["job_id"]
        await peer.until("job.event")
        await peer.ask("job.cancel", {"job_id": job_id})
        (error,) = await peer.follow(job_id)
        assert error["payload"]["code"] == "CANCELLED"
        release.set()
        await asyncio.sleep(0)

    virtual(scenario)
    assert "does not end when interrupted" in caplog.text


def test_a_job_over_its_time_is_timed_out() -> None:
    async def scenario(runtime: Any) -> None:
        forever(runtime)
        peer = await opened(runtime)
        loop = asyncio.get_running_loop()
        _, frames = await peer.run("forever", max_runtime_sec=90)
        assert loop.time() == pytest.approx(90)
        assert frames[-1]["type"] == "job.error"
        assert frames[-1]["payload"]["final_status"] == "timed_out"
        assert frames[-1]["payload"]["code"] == "TIMEOUT"

    virtual(scenario)


async def test_jobs_wait_for_a_slot_and_can_be_cancelled_there(
    make: MakeRuntime, open_peer: Any
) -> None:
    runtime = make(limits=Limits(max_concurrent_jobs=1))
    forever(runtime)
    peer = await open_peer(runtime)
    ids = [(await peer.submit("forever"))["payload"]["job_id"] for _ in range(3)]
    listed = await peer.ask("session.list_jobs")
    assert [job["status"] for job in listed["payload"]["jobs"]] == ["running", "pending", "pending"]
    await peer.ask("job.cancel", {"job_id": ids[1]})
    error = await peer.until("job.error")
    assert error["job_id"] == ids[1]
    assert error["payload"]["final_status"] == "cancelled"
    await peer.ask("job.cancel", {"job_id": ids[0]})
    while (await peer.read()).get("job_id") != ids[2]:  # the third one has started
        pass


async def test_only_sessions_of_the_submitter_cancel(make: Any, open_peer: Any) -> None:
    runtime = make(auth=TOKENS)
    forever(runtime)
    owner = await open_peer(runtime, token="t-alice")
    sibling = await open_peer(runtime, token="t-alice")
    stranger = await open_peer(runtime, token="t-bob")
    job_id = (await owner.submit("forever"))["payload"]["job_id"]
    for peer in (sibling, stranger):
        answer = await peer.ask("job.cancel", {"job_id": job_id})
        assert answer["type"] == "session.error"
        assert answer["payload"]["code"] == "PERMISSION_DENIED"
        assert answer["payload"]["job_id"] == job_id
    unknown = await stranger.ask("job.cancel", {"job_id": "job_x"})
    assert unknown["payload"]["code"] == "JOB_NOT_FOUND"
    assert (await owner.ask("session.list_jobs"))["payload"]["jobs"][0]["status"] == "running"
    assert (await stranger.ask("session.list_jobs"))["payload"]["jobs"] == []


async def test_open_jobs_of_one_principal_are_bounded(make: Any, open_peer: Any) -> None:
    runtime = make(auth=TOKENS, limits=Limits(jobs_per_principal=1))
    forever(runtime)
    alice = await open_peer(runtime, token="t-alice")
    bob = await open_peer(runtime, token="t-bob")
    job_id = (await alice.submit("forever"))["payload"]["job_id"]
    refused = await alice.ask("job.submit", {"agent": "forever"})
    assert refused["payload"]["code"] == "INTERNAL_ERROR"
    assert refused["payload"]["retryable"] is True
    await bob.submit("forever")
    await alice.ask("job.cancel", {"job_id": job_id})
    await alice.until("job.error")
    await alice.submit("forever")


async def test_closing_the_runtime_ends_jobs_with_a_terminal(
    make: MakeRuntime, open_peer: Any
) -> None:
    runtime = make()
    forever(runtime)
    peer = await open_peer(runtime)
    await peer.submit("forever")
    await peer.until("job.event")
    await runtime.close()
    frames = await peer.ended()
    assert [f["type"] for f in frames] == ["job.error"]
    assert frames[0]["payload"]["code"] == "INTERNAL_ERROR"
    assert frames[0]["payload"]["retryable"] is True


def test_closing_with_a_timeout_lets_jobs_finish() -> None:
    async def scenario(runtime: Any) -> None:
        @runtime.agent("brief")
        async def brief(input: Any, job: JobContext) -> str:
            await asyncio.sleep(3)
            return "in time"

        peer = await opened(runtime)
        await peer.submit("brief")
        await runtime.close(timeout=10)
        assert asyncio.get_running_loop().time() == pytest.approx(3)
        frames = await peer.ended()
        assert frames[-1]["payload"]["result"] == "in time"

    virtual(scenario)


def test_closing_takes_as_long_for_many_jobs_as_for_one() -> None:
    async def scenario(runtime: Any) -> None:
        @runtime.agent("stubborn")
        async def stubborn(input: Any, job: JobContext) -> None:
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()

        peer = await opened(runtime)
        for _ in range(10):
            await peer.submit("stubborn")
        await runtime.close(timeout=10)
        assert asyncio.get_running_loop().time() == pytest.approx(10 + 2)
        assert [f["type"] for f in await peer.ended()] == ["job.error"] * 10

    virtual(scenario, limits=Limits(kill_grace=2))


async def test_an_agent_that_swallows_every_interruption_is_abandoned(
    make: MakeRuntime, open_peer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = make(limits=Limits(kill_grace=0, cancel_grace=0))
    tasks: list[Any] = []
    closed = []

    @runtime.agent("stubborn")
    async def stubborn(input: Any, job: JobContext) -> None:
        tasks.append(asyncio.current_task())
        await job.status("started")
        try:
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
        finally:
            closed.append(job.id)

    peer = await open_peer(runtime)
    job_id = (await peer.submit("stubborn"))["payload"]["job_id"]
    await peer.until("job.event")
    await peer.ask("job.cancel", {"job_id": job_id})
    assert (await peer.until("job.error"))["payload"]["code"] == "CANCELLED"
    await asyncio.wait(tasks)
    assert closed == [job_id]
    assert "does not end when interrupted; abandoned" in caplog.text


async def test_an_agent_that_cannot_even_be_closed_is_abandoned_and_reported(
    make: MakeRuntime, open_peer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = make(limits=Limits(kill_grace=0))
    tasks: list[Any] = []
    obstinate = True

    @runtime.agent("stubborn")
    async def stubborn(input: Any, job: JobContext) -> None:
        tasks.append(asyncio.current_task())
        await job.status("started")
        while obstinate:
            with contextlib.suppress(BaseException):
                await asyncio.Event().wait()

    peer = await open_peer(runtime)
    await peer.submit("stubborn")
    await peer.until("job.event")
    await runtime.close()
    assert all(task.done() for task in tasks)
    assert "did not clean up when it was abandoned" in caplog.text
    obstinate = False


async def test_what_an_agent_awaits_reaches_it_as_ever(runtime: Any, open_peer: Any) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> Any:
        loop = asyncio.get_running_loop()
        soon = loop.create_future()
        loop.call_soon(soon.set_result, 1)
        broken = loop.create_future()
        loop.call_soon(broken.set_exception, KeyError("x"))
        got = [await soon]
        with contextlib.suppress(KeyError):
            await broken
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        got += await asyncio.gather(asyncio.sleep(0, 2), asyncio.sleep(0, 3))
        return got

    peer = await open_peer(runtime)
    assert (await peer.run("a"))[1][-1]["payload"]["result"] == [1, 2, 3]
