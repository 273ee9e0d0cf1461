"""A runtime on a real loopback WebSocket, with agents that tests need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from arcp_client import JobContext, Runtime
from arcp_client.runtime import Server


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(name="e2e") as runtime:

        @runtime.agent("count", version="1.0.0")
        async def count(input: Any, job: JobContext) -> Any:
            """Emit n progress events, all at once or in steps."""
            for n in range(input["n"]):
                await job.progress(n, total=input["n"])
                if input.get("step") and n % input["step"] == 0:
                    await asyncio.sleep(0)
            return {"counted": input["n"]}

        @runtime.agent("say")
        async def say(input: Any, job: JobContext) -> Any:
            for line in input["lines"]:
                await job.log(line)
            return len(input["lines"])

        @runtime.agent("wait")
        async def wait(input: Any, job: JobContext) -> Any:
            await job.status("waiting")
            await job.cancelled.wait()

        @runtime.agent("chunks")
        async def chunks(input: Any, job: JobContext) -> Any:
            async def pieces() -> AsyncIterator[str]:
                for n in range(input["n"]):
                    yield f"{n};"

            return pieces()

        yield runtime


@pytest.fixture
async def server(runtime: Runtime) -> AsyncIterator[Server]:
    async with runtime.serve() as server:
        yield server
