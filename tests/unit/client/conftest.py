"""A client connected to an embedded runtime, in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from arcp_client import Client, JobContext, Runtime


class Gates:
    """Events that agents wait for, by name, so that a test decides when they go on."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def __getitem__(self, name: str) -> asyncio.Event:
        return self._events.setdefault(name, asyncio.Event())


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture
async def runtime(gates: Gates) -> AsyncIterator[Runtime]:
    async with Runtime(name="unit") as runtime:

        @runtime.agent("echo", version="1.0.0")
        async def echo(input: Any, job: JobContext) -> Any:
            return input

        @runtime.agent("say")
        async def say(input: Any, job: JobContext) -> Any:
            for line in input:
                await job.log(line)
            return len(input)

        @runtime.agent("gated")
        async def gated(input: Any, job: JobContext) -> Any:
            """Says "before", waits for its gate, says "after"."""
            await job.log("before")
            await gates[input].wait()
            await job.log("after")
            return input

        @runtime.agent("stuck")
        async def stuck(input: Any, job: JobContext) -> Any:
            await job.status("stuck")
            await job.cancelled.wait()

        @runtime.agent("fail")
        async def fail(input: Any, job: JobContext) -> Any:
            raise RuntimeError("boom")

        @runtime.agent("text")
        async def text(input: Any, job: JobContext) -> Any:
            async def pieces() -> AsyncIterator[str]:
                for piece in input:
                    yield piece

            return pieces()

        @runtime.agent("binary")
        async def binary(input: Any, job: JobContext) -> Any:
            async def pieces() -> AsyncIterator[bytes]:
                for n in range(input):
                    yield bytes([n]) * 1000

            return pieces()

        yield runtime


@pytest.fixture
async def client(runtime: Runtime) -> AsyncIterator[Client]:
    async with Client(runtime) as client:
        yield client
