"""Handlers of batches on a client: results, waits in handlers, closing, and restarts (D21)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arcp_client import Batch, Client, Event, JobContext, Runtime, Timeouts, events
from arcp_client.errors import HandlerFailed, WouldDeadlock
from tests.unit.client.conftest import Gates
from tests.unit.client.test_durable import Dying

LONG = Batch(seconds=3600.0)


async def test_a_result_waits_for_the_batch_and_not_until_it_is_full(client: Client) -> None:
    """D9."""
    ended: list[list[str]] = []

    @client.on(events.Log, batch=LONG)
    async def handle(batch: list[events.Log]) -> None:
        await asyncio.sleep(0)
        ended.append([event.message for event in batch])

    async with asyncio.timeout(60):
        for _ in range(3):
            job = await client.submit("say", ["a", "b", "c"])
            await job.result()
    assert ended == [["a", "b", "c"]] * 3


@pytest.mark.parametrize("leave", ["close", "detach", "drain"])
async def test_leaving_does_not_wait_until_a_batch_is_full(runtime: Runtime, leave: str) -> None:
    seen: list[str] = []
    async with asyncio.timeout(60), Client(runtime) as client:

        @client.on(events.Log, batch=LONG)
        async def handle(batch: list[events.Log]) -> None:
            seen.extend(event.message for event in batch)

        job = await client.submit("say", ["a", "b"])
        async for _ in job:
            pass
        assert seen == []
        await getattr(client, leave)()
        assert seen == ["a", "b"]


async def test_the_result_of_a_job_in_the_batch_is_refused(client: Client, gates: Gates) -> None:
    """D10: at once, whether the job runs or has ended, wherever its event is in the list."""
    refused: list[str | None] = []

    @client.on(events.Log, batch=True)
    async def handle(batch: list[events.Log]) -> None:
        await gates["handler"].wait()
        for event in batch:
            with pytest.raises(WouldDeadlock, match="barrier=False"):
                await client.job(event.job_id or "").result()
            refused.append(event.job_id)

    async with asyncio.timeout(60):
        ended = await client.submit("say", ["a", "b"])
        async for _ in ended:
            pass
        open_job = await client.submit("gated", "go")
        await anext(aiter(open_job))
        gates["handler"].set()
        await ended.result()
        gates["go"].set()
        await open_job.result()
    assert {ended.id, open_job.id} <= set(refused)


async def test_a_child_task_that_waits_for_the_batch_is_refused_after_patience(
    runtime: Runtime,
) -> None:
    """D10."""
    refused: list[bool] = []
    async with Client(runtime, timeouts=Timeouts(deadlock=0.05)) as client:

        @client.on(events.Log, batch=True)
        async def handle(batch: list[events.Log]) -> None:
            wait = client.job(batch[-1].job_id or "").result()
            with pytest.raises(WouldDeadlock):
                await asyncio.ensure_future(wait)
            refused.append(True)

        job = await client.submit("say", ["a"])
        await job.result()
    assert refused == [True]


async def test_the_result_of_another_job_is_awaited_inside_a_batch(client: Client) -> None:
    results: list[Any] = []

    @client.on(events.Log, batch=True)
    async def handle(batch: list[events.Log]) -> None:
        other = await client.submit("echo", len(batch))
        results.append((await other.result()).value)

    async with asyncio.timeout(60):
        job = await client.submit("say", ["a", "b"])
        await job.result()
    assert sum(results) == 2


async def test_stop_fails_the_result_of_every_job_of_the_batch(
    client: Client, gates: Gates
) -> None:
    @client.on(events.Log, batch=True, on_error="stop")
    async def handle(batch: list[events.Log]) -> None:
        await gates["handler"].wait()
        raise ValueError("bad")

    job = await client.submit("say", ["a", "b"])
    async for _ in job:
        pass
    gates["handler"].set()
    with pytest.raises(HandlerFailed):
        await job.result()


async def test_after_a_crash_the_events_of_an_unfinished_batch_come_again_marked(
    runtime: Runtime, gates: Gates
) -> None:
    """S10."""
    store = Dying(every=256)
    first = Client(runtime, store=store)
    seen: list[list[str]] = []

    @first.on(events.Log, batch=Batch(count=2))
    async def handle(batch: list[events.Log]) -> None:
        seen.append([event.message for event in batch])
        if len(seen) > 1:
            await gates["crash"].wait()

    await first.connect()
    job = await first.submit("say", ["a", "b", "c", "d", "e"])
    async for _ in job:
        pass
    while len(seen) < 2:
        await asyncio.sleep(0)
    await store.crash(first)

    again: list[tuple[str, bool]] = []
    second = Client(runtime, store=store)

    @second.on(events.Log, batch=True)
    async def handle_again(batch: list[events.Log]) -> None:
        again.extend((event.message, event.redelivered) for event in batch)

    async with second:
        for one in second.open_jobs():
            await one.result()
        await second.drain()
    assert [message for message, _ in again][-3:] == ["c", "d", "e"]
    assert all(redelivered for _, redelivered in again)
    assert seen[:2] == [["a", "b"], ["c", "d"]]


async def test_a_batch_does_not_fill_while_events_wait_for_a_checkpoint(
    runtime: Runtime, gates: Gates
) -> None:
    """S10: a batch that waits for others would hold back the events that it waits for."""
    seen = asyncio.Event()

    @runtime.agent("mixed")
    async def mixed(input: Any, job: JobContext) -> None:
        await job.log("one")
        await gates["filling"].wait()
        for number in range(40):
            await job.progress(number, total=40)  # no handler takes these

    store = Dying(every=4, interval=3600.0)
    async with asyncio.timeout(60), Client(runtime, store=store) as client:

        @client.on(events.Log, batch=Batch(count=4, seconds=3600.0), barrier=False)
        async def handle(batch: list[events.Log]) -> None:
            seen.set()

        job = await client.submit("mixed")
        while not client.stats().queued:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not seen.is_set()
        gates["filling"].set()
        await job.result()
        assert seen.is_set()


@pytest.mark.parametrize(("every", "most"), [(3, 3), (256, 10)])
async def test_with_a_store_a_call_gets_at_most_its_number_of_events_between_two_checkpoints(
    runtime: Runtime, gates: Gates, every: int, most: int
) -> None:
    """S10: a crash repeats a whole batch."""
    sizes: list[int] = []
    async with Client(runtime, store=Dying(every=every)) as client:

        @client.on(events.Log)
        async def quick(event: events.Log) -> None: ...

        @client.on(events.Log, batch=Batch(count=10))
        async def handle(batch: list[events.Log]) -> None:
            sizes.append(len(batch))
            await gates["handler"].wait()

        job = await client.submit("say", [str(number) for number in range(30)])
        async for _ in job:
            pass
        gates["handler"].set()
        await job.result()
    assert sum(sizes) == 30
    assert max(sizes) == most


async def test_every_event_is_in_the_list_by_default(client: Client) -> None:
    kinds: list[str] = []

    @client.on(batch=True)
    async def handle(batch: list[Event]) -> None:
        kinds.extend(event.kind for event in batch)

    job = await client.submit("say", ["a"])
    await job.result()
    await client.drain()
    assert kinds[-2:] == ["log", "result"]
