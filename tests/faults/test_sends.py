"""Messages through cuts: each one is consumed once, in order, or returned (X17, X18).

1,000 messages and 20 cuts by default; 10,000 and 100 with ``ARCP_SLOW=1``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from typing import Any

import pytest

from arcp_client import Client, JobContext, Limits, Runtime, errors, events
from arcp_client.testing import FaultyProxy

SLOW = "ARCP_SLOW" in os.environ
MESSAGES, CUTS = (10_000, 100) if SLOW else (1_000, 20)
TOGETHER = 8


@pytest.mark.timeout(600)
async def test_messages_through_cuts_are_consumed_once_in_order_or_returned() -> None:
    rng = random.Random(17)
    runtime = Runtime(limits=Limits(inbox_messages=1 << 20, lag_events=1 << 20))
    taken: list[Any] = []

    @runtime.agent("listens")
    async def listens(input: Any, job: JobContext) -> int:
        async for message in job.inbox():
            taken.append((message.message_id, message.mode))
            if message.value == "stop":
                break
        return len(taken)

    seen: dict[str, list[str]] = {"Sent": [], "Consumed": [], "Returned": []}
    async with (
        runtime,
        runtime.serve() as server,
        FaultyProxy(server.url) as proxy,
        Client(proxy.url) as client,
    ):

        @client.on(events.Sent, events.Consumed, events.Returned)
        async def note(event: events.Sent | events.Consumed | events.Returned) -> None:
            seen[type(event).__name__].append(event.message_id)

        job = await client.submit("listens")
        numbers = iter(range(MESSAGES))
        cut_at = set(rng.sample(range(MESSAGES - 50), CUTS))

        async def sender() -> None:
            for n in numbers:
                mode: Any = rng.choice(["steer", "queue"])
                value = "stop" if n == MESSAGES - 20 else n
                with contextlib.suppress(errors.JobEnded):
                    await job.send(value, mode=mode, message_id=f"m{n}", timeout=60)
                if n in cut_at:
                    proxy.cut()

        await asyncio.gather(*(sender() for _ in range(TOGETHER)))
        await job.result()
        cuts = proxy.cuts

    assert cuts >= CUTS // 2
    assert len(seen["Sent"]) == len(set(seen["Sent"]))
    assert [message_id for message_id, _ in taken] == seen["Consumed"]
    assert seen["Consumed"] + seen["Returned"] == seen["Sent"]
    assert {mode for _, mode in taken} == {"steer", "queue"}
    assert len(seen["Consumed"]) > MESSAGES // 2
    print(
        f"{len(seen['Sent'])} messages, {cuts} cuts: {len(seen['Consumed'])} consumed in order,"
        f" {len(seen['Returned'])} returned, 0 lost, 0 twice"
    )
