"""The reference runtime (`agentruntimecontrolprotocol`), served over its own WebSocket.

Its agents are made up. What they wait for, they wait for a test to give: nothing here sleeps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import arcp
from arcp.runtime import ARCPRuntime, JobContext, StaticBearerVerifier

__all__ = ["Puppet", "Recorder", "ReferenceRuntime"]

TOKENS = {"tok-alice": "alice", "tok-bob": "bob"}

Step = Callable[[JobContext], Awaitable[Any]]


class Recorder:
    """A transport of the reference runtime that keeps what went over it.

    Attributes:
        heard: every frame from the client, oldest first.
        said: every frame to the client, oldest first.
    """

    def __init__(self, inner: arcp.WebSocketTransport) -> None:
        self._inner = inner
        self._news = asyncio.Event()
        self.heard: list[dict[str, Any]] = []
        self.said: list[dict[str, Any]] = []

    async def recv(self) -> dict[str, Any]:
        frame = await self._inner.recv()
        self.heard.append(frame)
        self._news.set()
        return frame

    async def send(self, frame: dict[str, Any]) -> None:
        await self._inner.send(frame)
        self.said.append(frame)
        self._news.set()

    async def close(self) -> None:
        await self._inner.close()

    @property
    def is_closed(self) -> bool:
        return self._inner.is_closed

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The client's frames of one type."""
        return [frame for frame in self.heard if frame.get("type") == kind]

    async def until(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until so many frames of one type went over it, either way."""
        while len(found := [f for f in (*self.heard, *self.said) if f.get("type") == kind]) < count:
            self._news.clear()
            await self._news.wait()
        return found


class Puppet:
    """One run of the agent ``puppet``: it does what a test tells it, step by step."""

    def __init__(self) -> None:
        self.started: asyncio.Future[JobContext] = asyncio.get_running_loop().create_future()
        self._steps: asyncio.Queue[tuple[Step | None, Any, asyncio.Future[None]]] = asyncio.Queue()

    async def do(self, step: Step) -> None:
        """Let the agent do something, and wait until it did."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._steps.put_nowait((step, None, done))
        await done

    def tell(self, step: Step) -> None:
        """Let the agent do something that it may not survive."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._steps.put_nowait((step, None, done))

    async def progress(self, *numbers: int) -> None:
        """Let it report progress."""
        for number in numbers:
            await self.do(lambda ctx, n=number: ctx.progress(n))  # type: ignore[misc]

    def finish(self, value: Any = None) -> None:
        """Let it return."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._steps.put_nowait((None, value, done))

    async def run(self, ctx: JobContext) -> Any:
        self.started.set_result(ctx)
        while True:
            step, value, done = await self._steps.get()
            if step is None:
                return value
            await step(ctx)
            done.set_result(None)


class ReferenceRuntime:
    """The runtime, its server, and what its connections heard.

    Attributes:
        url: where it listens.
        connections: one recorder a connection, oldest first.
    """

    def __init__(self, **options: Any) -> None:
        options.setdefault("heartbeat_interval_sec", 30)
        self.runtime = ARCPRuntime(
            runtime=arcp.RuntimeInfo(name="reference", version="1.1.3"),
            bearer=StaticBearerVerifier(TOKENS),
            **options,
        )
        self.url = ""
        self.connections: list[Recorder] = []
        self._puppets: dict[str, Puppet] = {}
        self._stack = AsyncExitStack()
        self._changed = asyncio.Condition()
        self.ended = 0
        for name, agent in _AGENTS.items():
            self.runtime.register_agent(name, agent)
        self.runtime.register_agent("puppet", self._puppet)
        for version in ("1.0.0", "2.0.0"):
            self.runtime.register_agent_version("versioned", version, _versioned)

    def puppet(self, name: str = "p") -> Puppet:
        """The puppet that a submit of ``puppet`` with this input moves."""
        return self._puppets.setdefault(name, Puppet())

    async def _puppet(self, name: Any, ctx: JobContext) -> Any:
        return await self.puppet(str(name)).run(ctx)

    async def _accept(self, transport: arcp.WebSocketTransport) -> None:
        recorder = Recorder(transport)
        async with self._changed:
            self.connections.append(recorder)
            self._changed.notify_all()
        try:
            await self.runtime.accept(recorder)
        finally:
            async with self._changed:
                self.ended += 1
                self._changed.notify_all()

    async def until_ended(self, count: int) -> None:
        """Wait until so many connections have ended on the runtime's side."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.ended >= count)

    async def connection(self, number: int) -> Recorder:
        """The connection of that number, counted from 1; waits for it."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.connections) >= number)
        return self.connections[number - 1]

    async def until_over(self, job_id: str) -> None:
        """Wait until a job's task has ended."""
        task = self.runtime._job_tasks.get(job_id)
        if task is not None:
            await asyncio.wait({task})

    async def __aenter__(self) -> ReferenceRuntime:
        server = await arcp.serve_websocket(self._accept, host="127.0.0.1", port=0)
        self._stack.push_async_callback(self.runtime.close)
        self._stack.push_async_callback(server.wait_closed)
        self._stack.callback(server.close)
        port = next(iter(server.sockets)).getsockname()[1]
        self.url = f"ws://127.0.0.1:{port}/arcp"
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()


async def _echo(value: Any, ctx: JobContext) -> Any:
    await ctx.status("running", "made up")
    await ctx.log("info", "echo started", {"k": 1})
    await ctx.thought("thinking")
    await ctx.tool_call({"tool": "search.web", "args": {"q": "x"}, "call_id": "c1"})
    await ctx.tool_result({"call_id": "c1", "result": {"hits": 0}})
    await ctx.progress(1, total=2, units="steps")
    await ctx.metric({"name": "latency", "value": 12, "unit": "ms"})
    return {"echoed": value}


async def _chunks(value: Any, ctx: JobContext) -> Any:
    """Streams the texts it is given, or bytes where an entry is ``{"hex": …}``."""
    async with ctx.stream_result() as stream:
        for piece in value:
            await stream.write(bytes.fromhex(piece["hex"]) if isinstance(piece, dict) else piece)


async def _crash(value: Any, ctx: JobContext) -> Any:
    raise ValueError(str(value))


async def _forever(value: Any, ctx: JobContext) -> Any:
    await ctx.progress(0)
    await asyncio.get_running_loop().create_future()


async def _steps(value: Any, ctx: JobContext) -> Any:
    """Works for a while: ``n`` steps of ``pause`` seconds, as progress or as chunks."""
    pieces = [f"{value['name']}-{n};" for n in range(value["n"])]
    if value.get("chunked"):
        async with ctx.stream_result() as stream:
            for piece in pieces:
                await stream.write(piece)
                await asyncio.sleep(value["pause"])
        return None
    for n in range(value["n"]):
        await ctx.progress(n, total=value["n"])
        await asyncio.sleep(value["pause"])
    return "".join(pieces)


async def _versioned(value: Any, ctx: JobContext) -> Any:
    return ctx.agent_ref


_AGENTS: dict[str, Any] = {
    "echo": _echo,
    "chunks": _chunks,
    "crash": _crash,
    "forever": _forever,
    "steps": _steps,
}
