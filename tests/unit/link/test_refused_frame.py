"""A frame that is too long for the peer fails the request that it was of, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

from tenacity import wait_fixed

from arcp_client import Client, JobContext, Limits, Reconnect, Runtime
from arcp_client.errors import LocalProtocolError


async def test_a_submit_over_the_runtimes_limit_fails_after_one_link() -> None:
    runtime = Runtime(limits=Limits(frame_bytes=100_000, event_bytes=100_000))

    @runtime.agent("length")
    async def length(input: Any, job: JobContext) -> int:
        return len(input)

    async with (
        runtime,
        runtime.serve("127.0.0.1", 0) as server,
        Client(server.url, reconnect=Reconnect(wait=wait_fixed(0))) as client,
    ):
        sizes = [10, 5_000_000, 90_000]
        jobs = await asyncio.gather(
            *(client.submit("length", "x" * size) for size in sizes), return_exceptions=True
        )
        first, long, last = jobs
        assert isinstance(long, LocalProtocolError)
        assert "5000" in str(long)
        for job, size in ((first, 10), (last, 90_000)):
            assert not isinstance(job, BaseException)
            assert (await job.result()).value == size
        assert client.stats().reconnects == 1
