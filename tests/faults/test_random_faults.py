"""Random faults over a real socket: nothing lost, repeated or out of order, and no hang.

Twenty-five seeds by default; three hundred with ``ARCP_SLOW=1``. ``FAULT_SEEDS=n`` sets how many.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tenacity import wait_random

from arcp_client import Client, JobContext, Order, Reconnect, Runtime, Timeouts, events
from arcp_client.testing import FaultyProxy
from arcp_client.transports import WebSocketConnector
from tests.faults.tamper import Tamper, kind_of

JOBS = 3
EVENTS = 120
BOUND = 20.0

FAULTS = ["cut", "reset", "cut after", "stall", "half-open", "refuse", "silent", "slow", "frames"]
schedules = st.lists(
    st.tuples(st.sampled_from(FAULTS), st.integers(0, 30), st.integers(0, 5000)),
    min_size=1,
    max_size=6,
)


class Swapper:
    """Repeats and swaps frames while it is on."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._kept: list[bytes] = []
        self.on = False

    def __call__(self, frame: bytes) -> list[bytes]:
        held, self._kept = self._kept, []
        if self.on and not held and kind_of(frame) == "job.event" and self._rng.random() < 0.3:
            self._kept.append(frame)
            return []
        out = [frame, *held]
        return out * 2 if self.on and self._rng.random() < 0.2 else out


async def strike(proxy: FaultyProxy, swapper: Swapper, fault: str, amount: int) -> None:
    """One fault, from its beginning to its end."""
    if fault == "cut":
        proxy.cut()
    elif fault == "reset":
        proxy.reset()
    elif fault == "cut after":
        proxy.cut_after(amount)
    elif fault == "frames":
        swapper.on = True
        await moved(proxy, 20_000)
        swapper.on = False
    elif fault == "slow":
        with proxy.delay(0.002):
            await moved(proxy, amount)
    else:
        lasting = {
            "stall": proxy.stall,
            "half-open": lambda: proxy.half_open("down" if amount % 2 else "up"),
            "refuse": proxy.refuse,
            "silent": proxy.silent_accept,
        }[fault]
        with lasting():
            if fault in ("refuse", "silent"):
                proxy.cut()
            await asyncio.sleep(amount / 20_000)  # how long it lasts is the fault itself


async def moved(proxy: FaultyProxy, amount: int) -> None:
    goal = proxy.bytes_down + amount
    try:
        async with asyncio.timeout(0.5):  # a stream that has ended moves nothing more
            await proxy.until(lambda p: p.bytes_down >= goal)
    except TimeoutError:
        pass


async def play(schedule: list[tuple[str, int, int]], seed: int, order: Order) -> None:
    rng = random.Random(seed)
    seen: list[tuple[str | None, float]] = []
    gaps: list[events.Gap] = []
    async with Runtime(name="random", heartbeat_interval=0.15) as runtime:

        @runtime.agent("emit")
        async def emit(input: Any, job: JobContext) -> int:
            for n in range(EVENTS):
                await job.progress(n)
                if n % 5 == input:
                    await asyncio.sleep(0.001)
            return EVENTS

        async with runtime.serve() as server, FaultyProxy(server.url) as proxy:
            tamper = Tamper(WebSocketConnector(proxy.url))
            tamper.incoming = swapper = Swapper(rng)
            client = Client(
                tamper,
                order=order,
                reconnect=Reconnect(wait=wait_random(0.0, 0.01)),
                timeouts=Timeouts(connect=0.3, open=10.0, request=BOUND, close=1.0),
            )

            @client.on(events.Progress)
            async def handle(event: events.Progress) -> None:
                seen.append((event.job_id, event.current))
                if rng.random() < 0.05:
                    await asyncio.sleep(0)

            @client.on(events.Gap)
            async def gap(event: events.Gap) -> None:
                gaps.append(event)

            async def storm() -> None:
                for fault, events_first, amount in schedule:
                    goal = len(seen) + events_first
                    while len(seen) < min(goal, JOBS * EVENTS - 1):
                        await asyncio.sleep(0.001)
                    await strike(proxy, swapper, fault, amount)

            async with client:
                raging = asyncio.ensure_future(storm())
                jobs = [await client.submit("emit", k) for k in range(JOBS)]
                results = [(await job.result()).value for job in jobs]
                raging.cancel()
                await asyncio.gather(raging, return_exceptions=True)
    assert results == [EVENTS] * JOBS
    assert not gaps, gaps
    for job in jobs:
        assert [n for job_id, n in seen if job_id == job.id] == list(range(EVENTS))


def bounded(seeds: int) -> Any:
    return settings(
        max_examples=int(os.environ.get("FAULT_SEEDS", seeds)),
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a race does not shrink
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


async def _test(schedule: list[tuple[str, int, int]], seed: int, order: Order) -> None:
    async with asyncio.timeout(BOUND):
        await play(schedule, seed, order)


SEEDS = st.integers(0, 2**32)
ORDERS = st.sampled_from([Order.SESSION, Order.JOB])


@pytest.mark.timeout(120)
@bounded(25)
@given(schedule=schedules, seed=SEEDS, order=ORDERS)
async def test_random_faults(schedule: list[tuple[str, int, int]], seed: int, order: Order) -> None:
    await _test(schedule, seed, order)


@pytest.mark.slow
@pytest.mark.skipif("ARCP_SLOW" not in os.environ, reason="set ARCP_SLOW=1")
@pytest.mark.timeout(1200)
@bounded(300)
@given(schedule=schedules, seed=SEEDS, order=ORDERS)
async def test_three_hundred_random_faults(
    schedule: list[tuple[str, int, int]], seed: int, order: Order
) -> None:
    await _test(schedule, seed, order)
