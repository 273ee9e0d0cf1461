"""A job that has ended is watched once more: told again from its beginning to its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arcp_client import Client, JobContext, JobView, Reconnect, Runtime, errors, events
from arcp_client.testing import Drop, FaultyConnector, FaultyProxy, VirtualClock
from arcp_client.testing.scripted import ScriptedRuntime, Withhold
from arcp_client.transports import WebSocketConnector

SOON = 10.0
TIME = "2026-01-01T00:00:00Z"


async def told(view: JobView) -> list[events.Event]:
    async with asyncio.timeout(SOON):
        return [event async for event in view]


@pytest.mark.parametrize("held", [True, False], ids=["held", "dropped"])
async def test_every_time_it_is_told_whole(runtime: Runtime, client: Client, held: bool) -> None:
    job = await client.submit("say", [f"{n}" for n in range(600)])
    await job.result()
    async with Client(runtime) as other:
        views = []
        for _ in range(3):
            view = await other.watch(job.id, history=True)
            found = await told(view)
            assert [type(event) for event in found] == [events.Log] * 600 + [events.Completed]
            assert view.status == "success"
            async with asyncio.timeout(SOON):
                assert (await view.result()).value == 600
            if held:
                views.append(view)


async def test_an_earlier_view_keeps_what_it_has(runtime: Runtime, client: Client) -> None:
    job = await client.submit("say", ["a", "b"])
    await job.result()
    async with Client(runtime) as other:
        first = await other.watch(job.id, history=True)
        before = await told(first)
        second = await other.watch(job.id, history=True)
        await told(second)
        assert await told(first) == before
        assert first.status == second.status == "success"


async def test_a_refusal_leaves_what_was_known(runtime: Runtime, client: Client) -> None:
    job = await client.submit("say", ["a", "b"])
    await job.result()
    async with Client(runtime) as other:
        first = await other.watch(job.id, history=True)
        before = await told(first)
        with pytest.raises(errors.RequestTimeout):
            await other.watch(job.id, history=True, timeout=0.0)
        known = other.job(job.id)
        assert known is not None
        assert known.status == "success"
        assert await told(first) == before


async def test_what_a_session_heard_of_a_child_it_is_not_told_again() -> None:
    """S11: no second copy, and no wait for one."""
    async with Runtime() as runtime, Client(runtime) as client:

        @runtime.agent("child")
        async def child(input: Any, job: JobContext) -> Any:
            await job.log("working")
            return input

        @runtime.agent("parent")
        async def parent(input: Any, job: JobContext) -> Any:
            return await (await job.delegate("child", input)).result()

        job = await client.submit("parent", 7, lease={"agent.delegate": ["*"]})
        await job.result()
        (child_id,) = job.children
        view = await client.watch(child_id, history=True)
        found = await told(view)
        assert [type(event) for event in found] == [events.Log, events.Completed]
        assert (await view.result()).value == 7


async def test_a_history_that_comes_before_its_confirmation_is_told_whole_and_once(
    runtime: Runtime, client: Client
) -> None:
    job = await client.submit("say", [f"{n}" for n in range(600)])
    await job.result()
    async with runtime.serve() as server, FaultyProxy(server.url) as proxy:
        connector = FaultyConnector(
            WebSocketConnector(proxy.url),
            plan=lambda link: [] if link else [Drop(when=lambda frame: b"job.subscribed" in frame)],
        )
        async with Client(connector, reconnect=Reconnect(wait=lambda _: 0.0)) as other:
            watching = asyncio.create_task(other.watch(job.id, history=True))
            async with asyncio.timeout(SOON):
                while other.stats().received < 601:
                    await other.ping()
            await proxy.cut()  # the subscription is sent again, and answered with all of it again
            async with asyncio.timeout(SOON):
                view = await watching
            found = await told(view)
            assert [type(event) for event in found] == [events.Log] * 600 + [events.Completed]
            assert (view.agent, view.status) == ("say", "success")
            async with asyncio.timeout(SOON):
                while other.stats().repeated < 600:
                    await other.ping()
            assert other.job(job.id) is not None
            assert await told(view) == found


async def test_it_is_told_whole_if_a_replay_brings_its_end_while_the_history_is_requested() -> None:
    """A new process resumes a session and watches the job, before it has read the replay."""

    def events_of(job_id: str) -> list[dict[str, Any]]:
        head = {"job_id": job_id, "session_id": session}
        sent: list[dict[str, Any]] = [
            {
                **head,
                "type": "job.event",
                "id": f"e{n}",
                "payload": {"kind": "progress", "ts": TIME, "body": {"current": n}},
            }
            for n in (1, 2, 3)
        ]
        done = {"final_status": "success", "result": 3}
        return [*sent, {**head, "type": "job.result", "id": "end", "payload": done}]

    async with ScriptedRuntime("arcp-client", agents={}) as runtime, Client(runtime) as client:
        (session,) = runtime.sessions
        runtime.next("job.subscribe", Withhold())
        watching = asyncio.create_task(client.watch("job_a", history=True))
        async with asyncio.timeout(SOON):
            while not (asked := [f for f in runtime.heard if f["type"] == "job.subscribe"]):
                await client.ping()
        frames = events_of("job_a")
        for seq, frame in enumerate(frames[2:], start=1):
            runtime.send({**frame, "event_seq": seq})
        confirmed = {
            "request_id": asked[0]["id"],
            "job_id": "job_a",
            "current_status": "success",
            "replayed": True,
        }
        runtime.send({"type": "job.subscribed", "session_id": session, "payload": confirmed})
        for seq, frame in enumerate(frames, start=3):
            runtime.send({**frame, "event_seq": seq})
        async with asyncio.timeout(SOON):
            view = await watching
        found = await told(view)
        assert [type(event) for event in found] == [events.Progress] * 3 + [events.Completed]
        assert (await view.result()).value == 3


@pytest.mark.parametrize("size", [10, 1000])
async def test_s22_a_long_history_waits_whole_for_its_first_iterator(size: int) -> None:
    """An iterator begins a few turns of the loop after the confirmation, or much later."""
    async with Runtime() as runtime:

        @runtime.agent("say")
        async def say(input: Any, job: JobContext) -> None:
            for n in range(3000):
                await job.log(f"{n} ".ljust(size, "."))

        async with runtime.serve() as server:
            async with Client(server.url) as client:
                job = await client.submit("say")
                await job.result()
            async with asyncio.timeout(SOON * 4), Client(server.url) as client:
                view = await client.watch(job.id, history=True)
                await view.result()  # all of it has arrived
                seen = [event async for event in view]
                assert not [event for event in seen if isinstance(event, events.Gap)]
                said = [event.message for event in seen if isinstance(event, events.Log)]
                assert [int(message.split()[0]) for message in said] == list(range(3000))
                assert isinstance(seen[-1], events.Completed)
                # The others say that the first client lagged: how often depends on the machine.
                others = [event for event in seen[:-1] if not isinstance(event, events.Log)]
                assert {event.phase for event in others} <= {"back_pressure"}
                late = [event async for event in view]  # later ones get the last events only
                assert isinstance(late[0], events.Gap)
                assert late[1:] == seen[-len(late) + 1 :]
                assert len(late) <= 1025


async def test_a_history_that_no_iterator_takes_is_kept_for_ten_seconds(
    clock: VirtualClock,
) -> None:
    async with Runtime() as runtime:

        @runtime.agent("say")
        async def say(input: Any, job: JobContext) -> None:
            for n in range(3000):
                await job.log(str(n))

        async with Client(runtime) as client:
            job = await client.submit("say")
            await job.result()
        async with Client(runtime) as client:
            view = await client.watch(job.id, history=True)
            await view.result()
            await clock.advance(9)
            assert len([event async for event in view]) >= 3001
            other = await client.watch(job.id, history=True)
            await other.result()
            await clock.advance(11)
            seen = [event async for event in other]
            assert isinstance(seen[0], events.Gap)
            assert len(seen) == 1025
