"""Webhooks of replicas: one replica makes each call, and calls of a dead one are made by others."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest
from tenacity import wait_fixed

from arcp_client import Client
from arcp_client.runtime import JobContext, Runtime, Webhook
from arcp_client.runtime._log import postgres_dialogue
from arcp_client.runtime._log.postgres import PostgresEventLog
from tests.postgres import Cluster
from tests.unit.runtime.webhooks.receiver import SECRET, Receiver


def member(cluster: Cluster, schema: str, hook: Webhook, lease: float = 5.0) -> Runtime:
    log = PostgresEventLog(cluster.dsn, schema=schema, lease=lease)
    runtime = Runtime(event_log=log, webhooks=[hook])

    @runtime.agent("quick")
    async def quick(input: Any, job: JobContext) -> Any:
        return input

    @runtime.agent("asks")
    async def asks(input: Any, job: JobContext) -> Any:
        return await job.ask("?", options=["yes", "no"])

    return runtime


async def stored(cluster: Cluster, schema: str) -> int:
    connection = await asyncpg.connect(cluster.dsn)
    try:
        return int(await connection.fetchval(f"SELECT count(*) FROM {schema}.calls"))
    finally:
        await connection.close()


async def test_one_replica_makes_each_call(cluster: Cluster, schema: str) -> None:
    async with Receiver() as receiver:
        hook = Webhook(receiver.url, secret=SECRET)
        async with member(cluster, schema, hook) as one, member(cluster, schema, hook) as two:
            async with Client(one) as a, Client(two) as b:
                jobs = [await client.submit("quick", 1) for client in (a, b) * 5]
                for job in jobs:
                    await job.result()
            calls = await receiver.until(10)
    assert {call["data"]["job_id"] for call in calls} == {job.id for job in jobs}
    assert len(set(receiver.ids)) == len(receiver.ids) == 10
    assert await stored(cluster, schema) == 0


async def test_calls_of_a_replica_that_leaves_are_made_by_another_one(
    cluster: Cluster, schema: str
) -> None:
    async with Receiver(*[503] * 100) as receiver:
        hook = Webhook(receiver.url, secret=SECRET, wait=wait_fixed(3600))
        async with member(cluster, schema, hook) as one, Client(one) as client:
            jobs = [await client.submit("quick", n) for n in range(3)]
            for job in jobs:
                await job.result()
            await receiver.until(3, tries=True)
        assert await stored(cluster, schema) == 3
        first = set(receiver.ids)
        receiver._statuses.clear()
        receiver.ids.clear()
        async with member(cluster, schema, hook):
            calls = await receiver.until(3)
    assert set(receiver.ids) == first
    assert {call["data"]["job_id"] for call in calls} == {job.id for job in jobs}
    assert await stored(cluster, schema) == 0


async def test_left_calls_are_made_although_the_answer_to_their_taking_was_lost(
    cluster: Cluster, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, lost = postgres_dialogue.left_calls, 0

    async def taken_and_lost(connection: Any, *args: Any, **options: Any) -> Any:
        nonlocal lost
        calls = await take(connection, *args, **options)
        if calls and not lost:
            lost = len(calls)
            connection.terminate()
            raise asyncpg.ConnectionDoesNotExistError("the connection was lost")
        return calls

    async with Receiver(*[503] * 3) as receiver:
        hook = Webhook(receiver.url, secret=SECRET, wait=wait_fixed(3600))
        async with member(cluster, schema, hook) as one, Client(one) as client:
            for n in range(3):
                await (await client.submit("quick", n)).result()
            await receiver.until(3, tries=True)
        monkeypatch.setattr(postgres_dialogue, "left_calls", taken_and_lost)
        async with member(cluster, schema, hook):
            await receiver.until(3)
    assert lost == 3
    assert await stored(cluster, schema) == 0


async def test_the_end_of_a_job_of_a_dead_replica_is_called(cluster: Cluster, schema: str) -> None:
    async with Receiver() as receiver:
        hook = Webhook(receiver.url, secret=SECRET)
        dying = member(cluster, schema, hook, lease=1.0)
        async with member(cluster, schema, hook, lease=1.0):
            client = Client(dying)
            await client.connect()
            job = await client.submit("asks")
            await receiver.until(1)
            # As a process does that is stopped: its lease passes.
            dying._core._directory._leases.renew = _never  # type: ignore[attr-defined]
            calls = await receiver.until(3)
            kinds = [(call["type"], call["data"]["status"]) for call in calls]
            await client.detach(timeout=0)
            await dying.close()
    assert kinds == [
        ("question.opened", "open"),
        ("question.settled", "withdrawn"),
        ("job.ended", "error"),
    ]
    assert {call["data"]["job_id"] for call in calls} == {job.id}


async def _never() -> bool:
    await asyncio.Event().wait()
    return True


async def test_a_killed_replica_loses_no_call(cluster: Cluster, schema: str) -> None:
    async with Receiver(*[503] * 1000) as receiver:
        hook = Webhook(receiver.url, secret=SECRET, wait=wait_fixed(3600))
        dying = member(cluster, schema, hook, lease=1.0)
        async with Client(dying) as client:
            with_end = [await client.submit("quick", n) for n in range(20)]
            for job in with_end:
                await job.result()
        dying._core._directory._leases.renew = _never  # type: ignore[attr-defined]
        receiver._statuses.clear()
        async with member(cluster, schema, hook, lease=1.0):
            calls = await receiver.until(20)
            await dying.close()
    assert {call["data"]["job_id"] for call in calls} == {job.id for job in with_end}
