"""Jobs that the runtime calls running and of which nothing comes are named, once."""

from __future__ import annotations

from typing import Any

import pytest
from tenacity import wait_fixed

from arcp_client import Client, Reconnect, Timeouts
from arcp_client._protocol import actions
from arcp_client._protocol.silence import SILENCE, Silence
from arcp_client._wire import names
from arcp_client.testing import ScriptedRuntime, VirtualClock
from arcp_client.testing.scripted import Accept, Emit, Finish, Wait
from tests.unit.protocol.kit import JOB, Strict, live

MAY_LOSE = ["python", "typescript", "csharp", "ruby"]
KEEP = ["arcp-client", "go", "java", "unknown"]


def silence(*running: str, bound: float = 100.0) -> Silence:
    return Silence(bound, runs=lambda job_id: job_id in running)


def test_a_job_is_due_once_after_the_bound() -> None:
    watched = silence("a", "b")
    watched.lost(["a", "b"], 0.0)
    watched.linked(0.0)
    watched.seen("b", 50.0)
    assert watched.deadline == 100.0
    assert watched.due(99.0) == []
    assert watched.due(100.0) == ["a"]
    assert watched.due(120.0) == []
    assert watched.silent == ("a",)
    assert watched.due(150.0) == ["b"]
    assert watched.silent == ("a", "b")
    assert watched.deadline is None


def test_time_without_a_link_does_not_count() -> None:
    watched = silence("a")
    watched.lost(["a"], 10.0)
    assert watched.deadline is None
    watched.linked(1000.0)
    assert watched.deadline == 1100.0
    watched.lost(["a"], 1050.0)
    watched.linked(2050.0)
    assert watched.deadline == 2100.0  # nor does a new link begin the time anew


def test_what_comes_after_all_ends_the_silence_and_begins_the_next_one() -> None:
    watched = silence("a")
    watched.lost(["a"], 0.0)
    watched.linked(0.0)
    assert watched.due(100.0) == ["a"]
    watched.seen("a", 200.0)
    assert watched.silent == ()
    assert watched.due(300.0) == ["a"]


def test_a_job_that_has_ended_is_not_silent() -> None:
    running = {"a"}
    watched = Silence(100.0, runs=lambda job_id: job_id in running)
    watched.lost(["a"], 0.0)
    watched.linked(0.0)
    running.clear()
    assert watched.due(100.0) == []
    assert watched.silent == ()


def confirm(table: Strict) -> None:
    """Every question about the job is answered: it runs."""
    for frame in list(table.sent):
        table.sent.remove(frame)
        if frame["type"] == names.PING:
            pong = {"ping_nonce": frame["payload"]["nonce"]}
            table.hear({"type": names.PONG, "payload": pong})
        elif frame["type"] == names.SUBSCRIBE:
            payload: dict[str, Any] = {
                "job_id": JOB,
                "current_status": "running",
                "request_id": frame["id"],
            }
            table.hear({"type": names.SUBSCRIBED, "payload": payload, "job_id": JOB})
        elif frame["type"] == names.LIST_JOBS:
            jobs = [{"job_id": JOB, "status": "running", "agent": "a"}]
            payload = {"jobs": jobs, "request_id": frame["id"]}
            table.hear({"type": names.JOBS, "payload": payload})


def spend(table: Strict, seconds: float) -> None:
    """Time passes with a runtime that answers everything and sends nothing of the job."""
    end = table.now + seconds
    while table.now < end:
        deadline = table.session.deadline
        table.now = min(end, max(table.now + 0.01, deadline if deadline is not None else end))
        table.session.tick(table.now)
        table.do()
        if table.of(actions.Relink):
            table.done = [effect for effect in table.done if type(effect) is not actions.Relink]
            table.sent.clear()
            table.cut()
            table.connect()
        confirm(table)


def named(table: Strict) -> int:
    return sum("has sent no event" in report.message for report in table.of(actions.Report))


@pytest.mark.parametrize("spoken", MAY_LOSE)
def test_a_job_that_a_runtime_calls_running_for_ever_is_named_once(spoken: str) -> None:
    table = live(spoken=spoken)
    table.event(1, JOB, 1, id="one")
    table.cut()
    table.connect()
    spend(table, SILENCE - 10)
    assert (named(table), table.session.silent) == (0, ())
    spend(table, 20)
    assert (named(table), table.session.silent) == (1, (JOB,))
    spend(table, 3 * SILENCE)
    assert named(table) == 1
    table.event(2, JOB, 2, id="two")
    assert table.session.silent == ()


@pytest.mark.parametrize("spoken", KEEP)
def test_runtimes_that_keep_events_are_believed(spoken: str) -> None:
    table = live(spoken=spoken)
    table.event(1, JOB, 1)
    table.cut()
    table.connect()
    spend(table, 3 * SILENCE)
    assert (named(table), table.session.silent) == (0, ())


@pytest.mark.parametrize("spoken", [*MAY_LOSE, *KEEP])
def test_without_a_lost_link_a_quiet_job_is_a_quiet_job(spoken: str) -> None:
    table = live(spoken=spoken)
    table.event(1, JOB, 1)
    spend(table, 3 * SILENCE)
    assert (named(table), table.session.silent) == (0, ())


@pytest.mark.parametrize("bound", [20.0, 1000.0])
async def test_the_bound_is_the_users_and_stats_tell_the_job(
    clock: VirtualClock, bound: float, caplog: pytest.LogCaptureFixture
) -> None:
    script = [Accept(), Emit("log", {"message": "x"}), Wait("never"), Finish(1)]
    async with ScriptedRuntime("typescript", agents={"slow": script}) as runtime:
        policy = Reconnect(wait=wait_fixed(1.0))
        async with Client(runtime, reconnect=policy, timeouts=Timeouts(silence=bound)) as client:
            job = await client.submit("slow")
            for _ in range(3):
                runtime.drop()
                await clock.advance(1.5)
                await client.connected()
            await clock.advance(bound / 2)
            assert client.stats().silent == ()
            await clock.advance(bound)
            assert client.stats().silent == (job.id,)
            assert caplog.text.count("has sent no event") == 1
