"""A job's handle says what the job is doing, why, and since when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tenacity import wait_fixed

from arcp_client import (
    Buffer,
    Client,
    Job,
    JobContext,
    JobHandle,
    LinkState,
    Live,
    Reconnect,
    Runtime,
    Verdict,
    events,
)
from arcp_client.errors import JobFailed
from arcp_client.testing import Cut, FaultyConnector, ScriptedRuntime, VirtualClock
from arcp_client.testing.scripted import Emit, Raw, Wait

HOUR = 3600.0
HEARTBEAT = 30.0


class Agents:
    """A runtime whose agent does as it is told."""

    def __init__(self) -> None:
        self.runtime = Runtime(heartbeat_interval=HEARTBEAT)
        self.may = asyncio.Event()

        @self.runtime.agent("waits")
        async def waits(what: str, job: JobContext) -> Any:
            await job.log("began")
            match what:
                case "tool":
                    async with job.tool("make", {}):
                        await self.may.wait()
                    await self.may.wait()
                case "person":
                    return await job.ask("Deploy?", options=["yes", "no"], timeout=2 * HOUR)
                case "job":
                    child = await job.delegate("waits", "nothing")
                    return await child.result()
                case "fail":
                    raise RuntimeError("no disk")
                case _:
                    await self.may.wait()
            return "done"


@pytest.fixture
async def agents() -> AsyncIterator[Agents]:
    made = Agents()
    async with made.runtime:
        yield made


async def begun(client: Client, what: str, clock: VirtualClock) -> Job:
    job = await client.submit("waits", what)
    await clock.advance(1)
    return job


def seconds(verdict: Verdict) -> float:
    """For how long a verdict has held."""
    assert verdict.since is not None
    return round((datetime.now(UTC) - verdict.since).total_seconds())


async def test_a_tool_call_of_an_hour_is_waited_for_and_never_silent(
    agents: Agents, clock: VirtualClock
) -> None:
    async with Client(agents.runtime) as client:
        job = await begun(client, "tool", clock)
        for minutes in range(60):
            found = job.verdict
            assert (found.kind, found.text) == ("waiting_for_tool", "waiting for make")
            assert seconds(found) == pytest.approx(60 * minutes + 1, abs=1)
            assert client.stats().verdicts[job.id].kind == "waiting_for_tool"
            await clock.advance(60)
        agents.may.set()
        await job.result()
        assert kind(job) == "done"
        assert client.stats().verdicts == {}


async def test_an_agent_that_sends_nothing_is_working_and_then_silent_for_n_heartbeats(
    agents: Agents, clock: VirtualClock
) -> None:
    async with Client(agents.runtime) as client:
        job = await begun(client, "nothing", clock)
        assert kind(job) == "working"
        await clock.advance(2 * HEARTBEAT - 3)
        assert kind(job) == "working"
        await clock.advance(HEARTBEAT + 3)
        found = job.verdict
        assert (found.kind, found.heartbeats, seconds(found)) == ("silent", 3, 91)
        assert found.words(datetime.now(UTC)) == "silent for 1 min (3 heartbeats)"
        assert client.stats().verdicts[job.id].kind == "silent"


async def test_a_job_that_asks_waits_for_you_until_it_is_answered(
    agents: Agents, clock: VirtualClock
) -> None:
    async with Client(agents.runtime) as client:
        job = await begun(client, "person", clock)
        await clock.advance(HOUR)
        found = job.verdict
        assert (found.kind, found.text) == ("waiting_for_you", "waiting for you: Deploy?")
        assert seconds(found) == pytest.approx(HOUR, abs=2)
        [question] = [each async for each in client.questions()]
        await job.answer(question.question_id, "yes")
        await job.result()
        assert (job.verdict.kind, job.verdict.text) == ("done", "done")


async def test_a_job_waits_for_the_job_that_it_delegated(
    agents: Agents, clock: VirtualClock
) -> None:
    async with Client(agents.runtime) as client, Client(agents.runtime) as other:
        job = await begun(client, "job", clock)
        await clock.advance(HOUR)
        assert (job.verdict.kind, job.verdict.text) == ("waiting_for_job", "waiting for waits")
        [child] = job.children
        handle = client.job(child)
        assert handle is not None
        assert kind(handle) == "silent"
        view = await other.watch(job.id, history=True)
        await other.watch(child, history=True)
        await clock.advance(1)
        assert kind(view) == "waiting_for_job"
        agents.may.set()
        await job.result()


async def test_a_failure_is_told_with_its_code(agents: Agents, clock: VirtualClock) -> None:
    async with Client(agents.runtime) as client:
        job = await client.submit("waits", "fail")
        with pytest.raises(JobFailed):
            await job.result()
        assert kind(job) == "failed"
        assert "INTERNAL_ERROR" in job.verdict.text


async def test_a_clock_that_is_an_hour_wrong_makes_no_job_silent(clock: VirtualClock) -> None:
    def log(hours: float) -> Raw:
        at = datetime.now(UTC) + timedelta(hours=hours)
        body = {"level": "info", "message": "x"}
        payload = {"kind": "log", "ts": at.isoformat(), "body": body}
        return Raw({"type": "job.event", "id": "e1", "event_seq": 1, "payload": payload})

    for hours in (-1.0, 1.0):
        runtime = ScriptedRuntime(agents={"says": [log(hours), Wait("end")]})
        async with runtime, Client(runtime, token="t") as client:
            job = await client.submit("says")
            await clock.advance(5)
            assert kind(job) == "working"
            assert job.verdict.since is not None
            assert seconds(job.verdict) == 5
            await clock.advance(120)
            assert (job.verdict.kind, seconds(job.verdict)) == ("silent", 125)


async def test_a_watched_job_that_has_been_silent_for_long_is_silent_at_once(
    agents: Agents, clock: VirtualClock
) -> None:
    async with Client(agents.runtime) as client, Client(agents.runtime) as other:
        job = await begun(client, "nothing", clock)
        with pytest.MonkeyPatch.context() as patch:
            later = datetime.now(UTC) + timedelta(seconds=600)
            patch.setattr("arcp_client._client.verdicts.datetime", _Fixed(later))
            view = await other.watch(job.id, history=True)
            await clock.advance(1)
            assert kind(view) == "silent"
            assert view.verdict.heartbeats >= 19
        await clock.advance(1)
        assert kind(job) == "working"


class _Fixed:
    def __init__(self, now: datetime) -> None:
        self._now = now

    def now(self, _: Any) -> datetime:
        return self._now


async def test_without_a_link_nothing_newer_is_known_and_silence_counts_anew(
    agents: Agents, clock: VirtualClock
) -> None:
    connector = FaultyConnector(
        agents.runtime, plan=lambda link: [Cut(after=8)] if link == 0 else []
    )
    slow = Reconnect(wait=wait_fixed(90))
    states: list[LinkState] = []
    async with Client(connector, reconnect=slow) as client:
        client.on_state(states.append)
        job = await begun(client, "nothing", clock)
        while live(client):  # until the cut
            await client_ping(client)
        await clock.advance(80)
        found = job.verdict
        assert found.kind == "link_down"
        assert found.text.startswith("no link to the runtime: ")
        assert seconds(found) == pytest.approx(80, abs=1)
        await clock.advance(12)
        assert live(client)
        assert kind(job) == "working", "no event could arrive meanwhile"
        await clock.advance(2 * HEARTBEAT)
        assert kind(job) == "silent"
        await client.close()
        assert job.verdict.text == "no link to the runtime: the client is closed"


def kind(job: JobHandle) -> str:
    return job.verdict.kind


def live(client: Client) -> bool:
    return isinstance(client.state, Live)


async def client_ping(client: Client) -> None:
    ping = asyncio.create_task(client.ping(timeout=1))
    await asyncio.wait({ping})
    ping.exception()


async def test_handlers_that_keep_the_client_from_reading_are_named(clock: VirtualClock) -> None:
    runtime = ScriptedRuntime(
        agents={"floods": [Emit("log", {"level": "info", "message": "x"})] * 200 + [Wait("end")]}
    )
    gate = asyncio.Event()

    async def save(_: events.Log) -> None:
        await gate.wait()

    async with runtime, Client(runtime, token="t", buffer=Buffer(soft=10, hard=20)) as client:
        client.on(events.Log)(save)
        job: JobHandle = await client.submit("floods")
        await clock.advance(0.5)
        assert kind(job) == "working"
        await clock.advance(HOUR / 2)
        found = job.verdict
        assert found.kind == "slowed_by_you"
        assert "save has" in found.text
        assert "events to process" in found.text
        gate.set()
        await clock.advance(2)
        assert kind(job) == "working"


async def test_a_job_that_is_no_longer_watched_is_not_dead(
    agents: Agents, clock: VirtualClock
) -> None:
    async with Client(agents.runtime) as client, Client(agents.runtime) as other:
        job = await begun(client, "nothing", clock)
        view = await other.watch(job.id, history=True)
        await view.unsubscribe()
        await clock.advance(HOUR)
        assert kind(view) == "working"
