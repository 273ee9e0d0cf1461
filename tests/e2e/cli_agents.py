"""Agents for the tests of commands, served by ``arcp-client serve --agents``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from arcp_client import JobContext, Runtime
from arcp_client.errors import JobFailed
from arcp_client.runtime import EventLog


class Author(BaseModel):
    name: str


class Report(BaseModel):
    title: str = Field(min_length=3, description="The first line.")
    pages: int = Field(default=1, ge=1)
    kind: Literal["draft", "final"] | None = None
    authors: list[Author] = []


def make(auth: Any = None, event_log: EventLog | None = None) -> Runtime:
    runtime = Runtime(name="cli-tests", auth=auth, event_log=event_log)

    @runtime.agent("echo")
    async def echo(input: Any, job: JobContext) -> Any:
        await job.log("echoing")
        return input

    @runtime.agent("report", "2", input_schema=Report, description="Writes a report.")
    async def report(input: Report, job: JobContext) -> str:
        return f"{input.title}: {input.pages} pages"

    @runtime.agent("slow")
    async def slow(input: float, job: JobContext) -> float:
        await job.progress(0, total=2)
        await job.progress(1, total=2)
        await asyncio.sleep(input)
        return input

    @runtime.agent("fails")
    async def fails(input: Any, job: JobContext) -> None:
        raise JobFailed("the disk is full", code="INTERNAL_ERROR")

    tries: dict[str, int] = {}

    @runtime.agent("flaky")
    async def flaky(input: int, job: JobContext) -> str:
        """Fails as often as its input says, in each work."""
        tries[job.work_id] = tries.get(job.work_id, 0) + 1
        await job.log(f"try {tries[job.work_id]}")
        if tries[job.work_id] <= input:
            raise JobFailed("the disk is busy", code="UNAVAILABLE", retryable=True)
        return f"done in try {tries[job.work_id]}"

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

    @runtime.agent("asks")
    async def asks(input: Any, job: JobContext) -> Any:
        await job.log("about to ask")
        return await job.ask("Deploy?", options=[("go", "Deploy now"), ("wait", "Not yet")])

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

    @runtime.agent("busy", version="1.0.0")
    async def busy(input: Any, job: JobContext) -> None:
        """Does a bit of everything, and then waits for its end."""
        await job.status("reading", "the sources")
        await job.thought("it is quiet here")
        await job.delegate("helper", lease={"tool.call": ["*"]})
        await job.progress(3, total=4, units="files")
        async with job.tool("grep", {"for": "x"}) as found:
            found.result = {"hits": 7}
        await job.metric("cost.model", 1.5, unit="USD")
        await job.chunk("the end of \x1b[2Jthe text")
        await job.tool_call("sleep", {"for": "ever"})
        await job.cancelled.wait()

    @runtime.agent("helper")
    async def helper(input: Any, job: JobContext) -> None:
        await job.log("I help")
        await job.progress(1, total=2, units="pages")
        await job.cancelled.wait()

    @runtime.agent("steps")
    async def steps(input: Any, job: JobContext) -> dict[str, int]:
        """Says a number at a time; with a file named ``until`` it waits for that half way."""
        for n in range(1, input["to"] + 1):
            await job.log(f"step {n:04}")
            await asyncio.sleep(input.get("delay", 0))
            while n == input["to"] // 2 and not Path(input.get("until", "/")).exists():
                await asyncio.sleep(0.02)
        return {"steps": input["to"]}

    return runtime


runtime = make()
number = 7


def bad() -> Runtime:
    raise ValueError("no configuration")
