"""Waits for results in handlers (D10): most just work, those that cannot are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from arcp_client import Client, Job, Order, Runtime, Timeouts, events
from arcp_client.errors import WouldDeadlock
from tests.unit.client.conftest import Gates

SOON = Timeouts(deadlock=0.05)


async def test_a_handler_that_awaits_its_own_jobs_result_is_refused_at_once(
    client: Client,
) -> None:
    """D10: own lane."""
    refused: list[str] = []

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        job = client.job(event.job_id or "")
        assert job is not None
        with pytest.raises(WouldDeadlock, match="barrier=False"):
            await job.result()
        refused.append(event.message)

    job = await client.submit("say", ["a", "b"])
    assert (await job.result()).value == 2
    assert refused == ["a", "b"]


async def test_it_is_refused_too_when_the_job_has_ended_already(
    client: Client, gates: Gates
) -> None:
    """D10."""
    refused: list[bool] = []

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        await gates["handler"].wait()
        job = client.job(event.job_id or "")
        assert job is not None
        with pytest.raises(WouldDeadlock):
            await job.result()
        refused.append(True)

    job = await client.submit("say", ["a"])
    async for _ in job:
        pass
    gates["handler"].set()
    await job.result()
    assert refused == [True]


Nest = Callable[[Awaitable[Any]], Awaitable[Any]]


@pytest.mark.parametrize(
    "nest",
    [
        lambda wait: asyncio.gather(wait, asyncio.sleep(0)),
        lambda wait: asyncio.wait_for(wait, 30),
        lambda wait: asyncio.ensure_future(wait),
    ],
    ids=["gather", "wait_for", "task"],
)
async def test_through_tasks_it_is_refused_after_patience(runtime: Runtime, nest: Nest) -> None:
    """D10: gather and wait_for."""
    refused: list[bool] = []
    async with Client(runtime, timeouts=SOON) as client:

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            job = client.job(event.job_id or "")
            assert job is not None
            with pytest.raises(WouldDeadlock):
                await nest(job.result())
            refused.append(True)

        job = await client.submit("say", ["a"])
        assert (await job.result()).value == 1
    assert refused == [True]


async def test_crossed_waits_of_two_jobs_are_refused_to_one_of_them(
    client: Client, gates: Gates
) -> None:
    """D10: under Order.JOB each handler waits for the job of the other."""
    jobs: dict[str, Job] = {}
    outcomes: list[str] = []
    both = asyncio.Barrier(2)

    @client.on(events.Log, order=Order.JOB)
    async def handle(event: events.Log) -> None:
        if event.message != "before":
            return
        await both.wait()
        [other] = [job for job in jobs.values() if job.id != event.job_id]
        try:
            await other.result()
            outcomes.append("waited")
        except WouldDeadlock:
            outcomes.append("refused")

    for name in ("one", "two"):
        jobs[name] = await client.submit("gated", name)
    for name in ("one", "two"):
        gates[name].set()
    for name in ("one", "two"):
        assert (await jobs[name].result()).value == name
    assert sorted(outcomes) == ["refused", "waited"]


async def test_a_background_task_that_outlives_its_handler_is_no_deadlock(
    runtime: Runtime, gates: Gates
) -> None:
    """D10: no false alarm."""
    values: list[Any] = []
    tasks: list[asyncio.Task[None]] = []
    async with Client(runtime, timeouts=SOON) as client:

        async def follow(job_id: str) -> None:
            job = client.job(job_id)
            assert job is not None
            values.append((await job.result()).value)

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            if event.message == "before":
                tasks.append(asyncio.create_task(follow(event.job_id or "")))

        job = await client.submit("gated", "it")
        await client.ping()
        await asyncio.sleep(0.1)
        gates["it"].set()
        await job.result()
        await asyncio.gather(*tasks)
    assert values == ["it"]


async def test_with_barrier_false_a_handler_may_await_its_own_job(
    client: Client, gates: Gates
) -> None:
    """D10: what the message of WouldDeadlock advises."""
    values: list[Any] = []

    @client.on(events.Log, barrier=False)
    async def handle(event: events.Log) -> None:
        if event.message == "before":
            gates["it"].set()
            job = client.job(event.job_id or "")
            assert job is not None
            values.append((await job.result()).value)

    job = await client.submit("gated", "it")
    await job.result()
    await client.drain()
    assert values == ["it"]


async def test_a_handler_may_await_a_childs_result_in_another_lane(client: Client) -> None:
    """D10: under Order.JOB the child's events have a lane of their own."""
    values: list[Any] = []

    @client.on(events.Log, order=Order.JOB)
    async def handle(event: events.Log) -> None:
        if event.message == "parent":
            child = await client.submit("say", ["child", "child"])
            values.append((await child.result()).value)

    await (await client.submit("say", ["parent"])).result()
    assert values == [2]


async def test_under_order_session_a_childs_events_wait_behind_the_handler_that_asks(
    client: Client,
) -> None:
    """D10: refused as soon as that is known, instead of for ever."""
    outcomes: list[str] = []

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        if event.message == "parent":
            child = await client.submit("say", ["child"])
            with pytest.raises(WouldDeadlock):
                await child.result()
            outcomes.append("refused")
        else:
            outcomes.append(event.message)

    await (await client.submit("say", ["parent"])).result()
    await client.drain()
    assert outcomes == ["refused", "child"]


async def test_drain_in_a_handler_does_not_wait_for_that_handler(client: Client) -> None:
    """S9."""
    drained: list[bool] = []
    other: list[str] = []

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        await client.drain()
        drained.append(True)

    @client.on(events.Log)
    async def slow(event: events.Log) -> None:
        await asyncio.sleep(0.01)
        other.append(event.message)

    await (await client.submit("say", ["a", "b"])).result()
    assert drained == [True, True]
    assert other == ["a", "b"]


async def test_drains_in_two_handlers_at_once_do_not_wait_for_each_other_for_ever(
    client: Client,
) -> None:
    """D10."""
    outcomes: list[str] = []
    both = asyncio.Barrier(2)

    async def handle(event: events.Log) -> None:
        await both.wait()
        try:
            await client.drain()
            outcomes.append("drained")
        except WouldDeadlock:
            outcomes.append("refused")

    async def other(event: events.Log) -> None:
        await handle(event)

    client.subscribe(handle, events.Log)
    client.subscribe(other, events.Log)
    await (await client.submit("say", ["a"])).result()
    assert sorted(outcomes) == ["drained", "refused"]
