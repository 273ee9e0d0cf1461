"""Agents for the tests of commands, served by ``arcp-client serve --agents``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from arcp_client import JobContext, Runtime
from arcp_client.errors import JobFailed


def make(auth: Any = None) -> Runtime:
    runtime = Runtime(name="cli-tests", auth=auth)

    @runtime.agent("echo")
    async def echo(input: Any, job: JobContext) -> Any:
        await job.log("echoing")
        return input

    @runtime.agent("fails")
    async def fails(input: Any, job: JobContext) -> None:
        raise JobFailed("the disk is full", code="INTERNAL_ERROR")

    @runtime.agent("breaks")
    async def breaks(input: Any, job: JobContext) -> None:
        raise RuntimeError("a secret of the agent's")

    @runtime.agent("denied")
    async def denied(input: Any, job: JobContext) -> None:
        job.authorize("fs.write", "/etc/passwd")

    @runtime.agent("spends")
    async def spends(input: Any, job: JobContext) -> None:
        await job.metric("cost.model", 2, unit="USD")
        job.authorize("tool.call", "search")

    @runtime.agent("waits")
    async def waits(input: Any, job: JobContext) -> None:
        await job.status("waiting")
        await job.cancelled.wait()

    @runtime.agent("ticks")
    async def ticks(input: Any, job: JobContext) -> None:
        while True:
            await job.log("tick")
            await asyncio.sleep(0.1)

    @runtime.agent("stubborn")
    async def stubborn(input: Any, job: JobContext) -> None:
        while True:
            try:
                await job.log("I stay")
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue

    @runtime.agent("blocks")
    async def blocks(input: Any, job: JobContext) -> None:
        with Path(input).open("w") as fifo:  # waits for the test to open it, too
            fifo.write("I block")
        time.sleep(3600)

    @runtime.agent("bytes")
    async def some_bytes(input: Any, job: JobContext) -> AsyncIterator[bytes]:
        async def pieces() -> AsyncIterator[bytes]:
            for n in range(3):
                yield bytes([0, 255, n])

        return pieces()

    @runtime.agent("hostile")
    async def hostile(input: Any, job: JobContext) -> str:
        await job.log("\x1b]0;owned\x07\x1b[2Jgone")
        return "\x1b[2Jresult"

    return runtime


runtime = make()
number = 7


def bad() -> Runtime:
    raise ValueError("no configuration")
