"""A runtime with agents, a client of it, and MCP clients of the official SDK in both eras."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from pydantic import BaseModel

from arcp_client import Client, Runtime
from arcp_client.errors import JobFailed
from arcp_client.runtime import JobContext

mcp = pytest.importorskip("mcp")


class Report(BaseModel):
    title: str
    pages: int = 1


class Agents:
    """The agents' state, which tests look at."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.go = asyncio.Event()
        self.ended: list[str] = []


@pytest.fixture
def agents() -> Agents:
    return Agents()


@pytest.fixture
async def runtime(agents: Agents) -> AsyncIterator[Runtime]:
    async with Runtime() as runtime:

        @runtime.agent("echo")
        async def echo(input: Any, job: JobContext) -> Any:
            return input

        @runtime.agent("report", "2", input_schema=Report, description="Writes a report.")
        async def report(input: Report, job: JobContext) -> dict[str, Any]:
            await job.log("begun", "debug")
            await job.log("careful", "warn")
            await job.progress(1, total=3)
            await job.progress(1, total=3, units="pages")
            await job.status("printing", "page 2")
            await job.thought("nearly done")
            await job.progress(3, total=3, message="printed")
            return {"title": input.title, "pages": [input.pages]}

        @runtime.agent("stream")
        async def stream(input: Any, job: JobContext) -> AsyncIterator[Any]:
            for piece in input:
                yield piece if isinstance(piece, str) else bytes(piece)

        @runtime.agent("wait")
        async def wait(input: Any, job: JobContext) -> str:
            agents.started.set()
            try:
                await job.progress(2, total=5, units="files")
                await agents.go.wait()
            except asyncio.CancelledError:
                agents.ended.append("cancelled")
                raise
            agents.ended.append("done")
            return "late"

        @runtime.agent("asks")
        async def asks(input: Any, job: JobContext) -> Any:
            return await job.ask("Which colour?", schema=str)

        @runtime.agent("fails")
        async def fails(input: Any, job: JobContext) -> None:
            raise JobFailed("the disk is full", code="DISK_FULL", retryable=True)

        yield runtime


@pytest.fixture
async def client(runtime: Runtime) -> AsyncIterator[Client]:
    async with Client(runtime) as client:
        yield client


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    """The version of MCP: the newest one, and the one with a handshake."""
    return str(request.param)


@pytest.fixture
async def connect(client: Client, mode: str) -> AsyncIterator[Callable[..., Any]]:
    """Connects MCP clients to a bridge; both end with the test."""
    from arcp_client.mcp import server

    leave = asyncio.Event()
    connections: list[asyncio.Task[None]] = []

    async def live(tools: Any, entered: asyncio.Future[Any]) -> None:
        # Its scopes must be left by the task that entered them, which no fixture guarantees.
        async with tools:
            entered.set_result(tools)
            await leave.wait()

    async with AsyncExitStack() as stack:

        async def to(
            bridge: Any = None, *, of: Client | None = None, hook: Any = None, **options: Any
        ) -> Any:
            if bridge is None:
                bridge = server(of or client, **options)
                stack.push_async_callback(bridge.close)
            chosen = {"logging_callback": hook, "log_level": "debug"} if hook else {}
            entered = asyncio.get_running_loop().create_future()
            tools = mcp.Client(bridge, mode=mode, **chosen)
            connections.append(asyncio.create_task(live(tools, entered)))
            return await entered

        yield to
        leave.set()
        await asyncio.gather(*connections)
