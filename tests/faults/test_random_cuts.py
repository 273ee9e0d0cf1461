"""Cuts at random bytes of a real connection: nothing lost, repeated, or out of order."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from tenacity import wait_random

from arcp_client import Client, JobContext, Reconnect, Runtime, events
from arcp_client.testing import FaultyProxy

JOBS = 3
EVENTS = 2000
CUTS = 20
QUICK = Reconnect(wait=wait_random(0, 0.005))


async def follow_through_cuts(seed: int) -> tuple[list[tuple[str | None, Any]], int]:
    """One seed: three jobs, 2,000 events, up to 20 cuts. Gives what the handler saw, and cuts."""
    rng = random.Random(seed)
    seen: list[tuple[str | None, Any]] = []
    share = EVENTS // JOBS
    async with Runtime(name=f"seed-{seed}") as runtime:

        @runtime.agent("emit")
        async def emit(input: Any, job: JobContext) -> int:
            for n in range(input["n"]):
                await job.progress(n)
                if n % 7 == input["phase"]:
                    await asyncio.sleep(0)
            return input["n"]

        async with runtime.serve() as server, FaultyProxy.for_url(server.url) as proxy:
            client = Client(proxy.url, reconnect=QUICK)

            @client.on(events.Progress)
            async def handle(event: events.Progress) -> None:
                seen.append((event.job_id, event.current))
                if rng.random() < 0.01:
                    await asyncio.sleep(0)

            @client.on(events.Gap)
            async def gap(event: events.Gap) -> None:
                seen.append((None, event))

            async with client:
                for _ in range(rng.randint(1, CUTS)):
                    if rng.random() < 0.1:
                        proxy.cut_after(rng.randint(1, 1500), direction="up")
                    else:
                        proxy.cut_after(rng.randint(1, 40_000))
                jobs = [
                    await client.submit(
                        "emit", {"n": share + (EVENTS % JOBS) * (k == 0), "phase": k}
                    )
                    for k in range(JOBS)
                ]
                results = [(await job.result()).value for job in jobs]
            assert sum(results) == EVENTS
            return seen, proxy.cuts


@pytest.mark.timeout(120)
@pytest.mark.parametrize("block", range(10))
async def test_no_event_is_lost_repeated_or_out_of_order_through_random_cuts(block: int) -> None:
    total = 0
    for seed in range(block * 10, block * 10 + 10):
        seen, cuts = await follow_through_cuts(seed)
        total += cuts
        by_job: dict[str | None, list[Any]] = {}
        for job_id, current in seen:
            by_job.setdefault(job_id, []).append(current)
        assert None not in by_job, f"seed {seed}: {by_job[None]}"
        assert len(by_job) == JOBS, f"seed {seed}"
        for numbers in by_job.values():
            assert numbers == list(range(len(numbers))), f"seed {seed}"
        assert len(seen) == EVENTS, f"seed {seed}"
    assert total >= 60  # the faults did happen
