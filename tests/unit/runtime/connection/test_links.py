"""The open links of a runtime. Time is virtual."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arcp_client.runtime import JobContext
from tests.unit.runtime.jobs.test_cancel import opened, virtual


def test_a_close_waits_as_long_for_many_clients_that_do_not_read_as_for_one() -> None:
    async def scenario(runtime: Any) -> None:
        held = asyncio.Event()

        @runtime.agent("flood")
        async def flood(input: Any, job: JobContext) -> None:
            for n in range(5_000):  # more than a link in memory holds
                await job.status(str(n))
                if n == 1_500:
                    held.set()

        peers = []
        for _ in range(5):
            peers.append(await opened(runtime))
            await peers[-1].submit("flood")
            await held.wait()
            held.clear()
        before = asyncio.get_running_loop().time()
        await runtime.close()
        assert asyncio.get_running_loop().time() - before == pytest.approx(2)

    virtual(scenario)
