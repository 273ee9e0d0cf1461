"""Async handlers complete in arrival order, one at a time, over a real WebSocket (D1).

The tests record when handlers start and end, never only what was emitted.
"""

from __future__ import annotations

import asyncio
import random
import sys
from typing import Any

import pytest

from arcp_client import Client, Order, events
from arcp_client.errors import HandlerError
from arcp_client.runtime import Server


class Record:
    """Starts and ends of handlers, and how many ran at once."""

    def __init__(self) -> None:
        self.starts: list[Any] = []
        self.ends: list[Any] = []
        self.running = 0
        self.peak = 0

    async def run(self, what: Any, seconds: float) -> None:
        self.starts.append(what)
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            await asyncio.sleep(seconds)
            self.ends.append(what)
        finally:
            self.running -= 1


DELAYS = [0.150, 0.120, 0.090, 0.060, 0.030]


async def test_five_handlers_that_wait_ever_shorter_complete_in_arrival_order(
    server: Server,
) -> None:
    record = Record()
    async with Client(server.url) as client:

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            n = int(event.message)
            await record.run(n, DELAYS[n])

        job = await client.submit("say", {"lines": ["0", "1", "2", "3", "4"]})
        await job.result()
    assert record.starts == record.ends == [0, 1, 2, 3, 4]
    assert record.peak == 1


async def test_a_handler_that_raises_is_reported_and_the_others_keep_their_order(
    server: Server,
) -> None:
    record = Record()
    failures: list[HandlerError] = []
    async with Client(server.url) as client:
        client.on_error(failures.append)

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            n = int(event.message)
            await record.run(n, DELAYS[n] / 5)
            if n == 2:
                raise RuntimeError("two")

        job = await client.submit("say", {"lines": ["0", "1", "2", "3", "4"]})
        await job.result()
    assert record.ends == [0, 1, 2, 3, 4]
    assert record.peak == 1
    [failure] = failures
    assert failure.event.message == "2"
    assert isinstance(failure.__cause__, RuntimeError)


async def test_a_handler_that_cancels_itself_is_a_failure_like_any_other(server: Server) -> None:
    record = Record()
    failures: list[HandlerError] = []
    async with Client(server.url) as client:
        client.on_error(failures.append)

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            n = int(event.message)
            if n == 1:
                inner = asyncio.get_running_loop().create_future()
                inner.cancel()
                await inner
            await record.run(n, DELAYS[n] / 5)

        job = await client.submit("say", {"lines": ["0", "1", "2", "3", "4"]})
        await job.result()
    assert record.starts == record.ends == [0, 2, 3, 4]
    assert record.peak == 1
    assert [failure.event.message for failure in failures] == ["1"]


@pytest.mark.parametrize("order", Order)
async def test_a_handler_that_cancels_its_own_task_is_a_failure_like_any_other(
    server: Server, order: Order
) -> None:
    record = Record()
    failures: list[HandlerError] = []
    async with Client(server.url) as client:
        client.on_error(failures.append)

        @client.on(events.Log, order=order)
        async def handle(event: events.Log) -> None:
            n = int(event.message)
            if n == 1:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            await record.run(n, DELAYS[n] / 5)

        job = await client.submit("say", {"lines": ["0", "1", "2", "3", "4"]})
        await job.result()
    assert record.ends == [0, 2, 3, 4]
    assert record.peak == 1
    assert [failure.event.message for failure in failures] == ["1"]


async def test_a_program_that_ends_with_a_handler_running_ends() -> None:
    code = """
import asyncio
from arcp_client import Client, Runtime

runtime = Runtime()

@runtime.agent("say")
async def say(input, job):
    for n in range(100):
        await job.log(str(n))
    await asyncio.Event().wait()

async def main():
    client = Client(runtime)
    started = asyncio.Event()

    @client.on()
    async def handle(event):
        started.set()
        await asyncio.Event().wait()

    await client.connect()
    await client.submit("say")
    await started.wait()

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    async with asyncio.timeout(20):
        assert await process.wait() == 0


async def test_200_chunks_over_three_interleaved_jobs_with_random_delays_keep_their_order(
    server: Server,
) -> None:
    rng = random.Random(7)
    record = Record()
    async with Client(server.url) as client:

        @client.on(events.Progress)
        async def handle(event: events.Progress) -> None:
            await record.run(event.seq, rng.random() * 0.003)

        jobs = [await client.submit("count", {"n": n, "step": 3}) for n in (67, 67, 66)]
        for job in jobs:
            await job.result()
    assert len(record.starts) == 200
    assert record.starts == record.ends == sorted(record.starts)
    assert record.peak == 1


async def test_under_order_job_each_job_keeps_its_order_and_jobs_run_side_by_side(
    server: Server,
) -> None:
    records: dict[str, Record] = {}
    together = Record()
    async with Client(server.url, order=Order.JOB) as client:

        @client.on(events.Progress)
        async def handle(event: events.Progress) -> None:
            assert event.job_id is not None
            record = records.setdefault(event.job_id, Record())
            together.running += 1
            together.peak = max(together.peak, together.running)
            await record.run(event.current, 0.002)
            together.running -= 1

        jobs = [await client.submit("count", {"n": 20}) for _ in range(3)]
        for job in jobs:
            await job.result()
    assert len(records) == 3
    for record in records.values():
        assert record.starts == record.ends == list(range(20))
        assert record.peak == 1
    assert together.peak > 1


async def test_a_slow_registration_does_not_hold_back_another(server: Server) -> None:
    quick: list[int] = []
    gate = asyncio.Event()
    async with Client(server.url) as client:

        @client.on(events.Log, barrier=False)
        async def auditor(event: events.Log) -> None:
            await gate.wait()

        @client.on(events.Log)
        async def screen(event: events.Log) -> None:
            quick.append(int(event.message))

        job = await client.submit("say", {"lines": ["0", "1", "2"]})
        await job.result()
        assert quick == [0, 1, 2]
        gate.set()


async def test_result_returns_after_the_handlers_of_what_came_before(server: Server) -> None:
    handled: list[str] = []
    async with Client(server.url) as client:

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            await asyncio.sleep(0.02)
            handled.append(event.message)

        job = await client.submit("say", {"lines": ["a", "b"]})
        await job.result()
        assert handled == ["a", "b"]
