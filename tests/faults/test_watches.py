"""Jobs watched, left and watched again while the link is cut: each told whole, in order, once."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from tenacity import wait_random

from arcp_client import Client, JobContext, Reconnect, Runtime, events
from arcp_client.testing import FaultyProxy

JOBS = 20
QUICK = Reconnect(wait=wait_random(0, 0.01))


async def watch_through_cuts(seed: int) -> int:
    """One seed: every other job is left in the middle and watched anew. Gives the cuts."""
    rng = random.Random(seed)
    said: dict[str, list[str]] = {}
    async with Runtime(name=f"seed-{seed}") as runtime:

        @runtime.agent("emit")
        async def emit(input: Any, job: JobContext) -> int:
            mine = said.setdefault(job.id, [])
            own = random.Random(input)
            for n in range(own.randint(20, 100)):
                mine.append(f"{n}".ljust(own.choice([2, 10, 400]), "."))
                await job.log(mine[-1])
                if own.random() < 0.2:
                    await asyncio.sleep(own.random() * 0.01)
            return input  # type: ignore[no-any-return]

        async with (
            runtime.serve() as server,
            FaultyProxy.for_url(server.url) as proxy,
            Client(server.url) as submitter,
            Client(proxy.url, reconnect=QUICK) as client,
        ):
            jobs = [await submitter.submit("emit", seed * 1000 + k) for k in range(JOBS)]
            for _ in range(rng.randint(5, 25)):
                if rng.random() < 0.15:
                    proxy.cut_after(rng.randint(1, 1500), direction="up")
                else:
                    proxy.cut_after(rng.randint(1, 60_000))

            async def look(job_id: str, leaves_after: int) -> None:
                if leaves_after:
                    view = await client.watch(job_id, history=True)
                    seen = 0
                    async for _ in view:
                        seen += 1
                        if seen == leaves_after:
                            break
                    await view.unsubscribe()
                view = await client.watch(job_id, history=True)
                told = [event async for event in view]
                assert [e.message for e in told if isinstance(e, events.Log)] == said[job_id]
                assert not [event for event in told if isinstance(event, events.Gap)]
                assert told[-1].terminal
                assert (view.agent, view.status) == ("emit", "success")

            async with asyncio.timeout(60), asyncio.TaskGroup() as group:
                for n, job in enumerate(jobs):
                    group.create_task(look(job.id, rng.randint(1, 60) * (n % 2)))
            return proxy.cuts


@pytest.mark.timeout(180)
async def test_whatever_is_cut_each_watch_is_told_whole_in_order_and_once() -> None:
    assert sum([await watch_through_cuts(seed) for seed in range(6)]) >= 20
