"""What a job's handle promises (D9, D12)."""

from __future__ import annotations

import asyncio

import pytest

from arcp_client import Client, Runtime, events
from arcp_client.errors import ClientClosed, JobCancelled, JobFailed
from tests.unit.client.conftest import Gates


async def test_result_may_be_called_often_late_and_at_once(client: Client) -> None:
    """D9: with the same outcome."""
    job = await client.submit("echo", {"a": 1})
    results = await asyncio.gather(*(job.result() for _ in range(5)))
    assert [result.value for result in results] == [{"a": 1}] * 5
    assert (await job.result()).value == {"a": 1}


async def test_result_raises_what_the_job_failed_with_a_new_one_each_time(client: Client) -> None:
    """D9."""
    job = await client.submit("fail")
    caught = []
    for _ in range(2):
        with pytest.raises(JobFailed) as failure:
            await job.result()
        caught.append(failure.value)
    assert caught[0] is not caught[1]


async def test_result_waits_for_the_matching_handlers_of_earlier_events(client: Client) -> None:
    """D9."""
    handled: list[str] = []

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        await asyncio.sleep(0.002)
        handled.append(event.message)

    job = await client.submit("say", ["a", "b", "c"])
    await job.result()
    assert handled == ["a", "b", "c"]


async def test_result_does_not_wait_for_the_handler_of_the_end_itself(client: Client) -> None:
    """D9: of earlier events only, so a handler of the end may ask for the result."""
    values: list[object] = []

    @client.on(events.Completed)
    async def handle(event: events.Completed) -> None:
        job = client.job(event.job_id or "")
        assert job is not None
        values.append((await job.result()).value)

    job = await client.submit("echo", 1)
    await job.result()
    await client.drain()
    assert values == [1]


async def test_result_does_not_wait_for_handlers_without_a_barrier(
    client: Client, gates: Gates
) -> None:
    """D9."""

    @client.on(events.Log, barrier=False)
    async def handle(event: events.Log) -> None:
        await gates["handler"].wait()

    job = await client.submit("say", ["a"])
    assert (await job.result()).value == 1
    gates["handler"].set()


async def test_result_waits_for_no_handler_of_another_job(client: Client, gates: Gates) -> None:
    """D9."""
    started = asyncio.Event()

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        if event.message == "before":
            started.set()
            await gates["handler"].wait()

    first = await client.submit("gated", "job")
    await started.wait()
    second = await client.submit("echo", 2)
    assert (await second.result()).value == 2
    gates["handler"].set()
    gates["job"].set()
    assert (await first.result()).value == "job"


async def test_results_that_wait_get_client_closed_also_behind_a_barrier(
    runtime: Runtime, gates: Gates
) -> None:
    """D9: no wait outlives the client."""
    async with Client(runtime) as client:

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            await asyncio.get_running_loop().create_future()

        behind = asyncio.create_task((await client.submit("say", ["a"])).result())
        waiting = asyncio.create_task((await client.submit("gated", "never")).result())
        await client.ping()
        await client.close(timeout=0.01)
    with pytest.raises(ClientClosed):
        await waiting
    assert (await behind).value == 1


async def test_cancel_of_a_job_that_has_ended_does_nothing(client: Client) -> None:
    """D9."""
    job = await client.submit("echo", 1)
    await job.result()
    await job.cancel()
    assert job.status == "success"


async def test_cancel_ends_the_wait_for_the_result(client: Client) -> None:
    job = await client.submit("stuck")
    waiting = asyncio.create_task(job.result())
    await job.cancel("enough")
    with pytest.raises(JobCancelled):
        await waiting


async def test_a_cancelled_wait_for_a_result_leaves_the_job_alone(client: Client) -> None:
    gates_job = await client.submit("stuck")
    waiting = asyncio.create_task(gates_job.result())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert gates_job.status in ("pending", "running")
    await gates_job.cancel()


async def test_a_job_is_known_by_its_id_from_the_first_event_on(client: Client) -> None:
    """D12."""
    known: list[bool] = []

    @client.on()
    async def handle(event: events.Event) -> None:
        known.append(client.job(event.job_id or "") is not None)

    await (await client.submit("say", ["a"])).result()
    await client.drain()
    assert len(known) >= 2
    assert all(known)
    assert client.job("job_nobody") is None
