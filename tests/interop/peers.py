"""A runtime's name in, the runtime with the agents of `capabilities` out: live or scripted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from arcp_client import Connector, JobContext, Runtime, Transport, WebSocketConnector
from arcp_client.testing import ScriptedRuntime
from arcp_client.testing.scripted import Chunk, Emit, Fail, Finish, Script, Wait
from tests.interop.capabilities import AGENTS
from tests.interop.reference import ReferenceRuntime

__all__ = ["HeldConnector", "live", "scripted"]


class HeldConnector:
    """Connects only while it may, and can end what it connected."""

    def __init__(self, inner: Connector) -> None:
        self._inner = inner
        self._may = asyncio.Event()
        self._may.set()
        self._made: list[Transport] = []

    @property
    def target(self) -> str:
        return self._inner.target

    async def connect(self) -> Transport:
        await self._may.wait()
        made = await self._inner.connect()
        self._made.append(made)
        return made

    def hold(self) -> None:
        """Connect no more."""
        self._may.clear()

    def release(self) -> None:
        """Connect again."""
        self._may.set()

    async def cut(self) -> None:
        """End what is connected."""
        for transport in self._made:
            await transport.close(timeout=1.0)
        self._made.clear()


class _Peer:
    """A runtime, as probes see it."""

    def __init__(self, inner: Connector) -> None:
        self._inner = inner
        self.target = self.line()
        self.gates: dict[str, asyncio.Event] = {}

    def gate(self, name: str) -> asyncio.Event:
        return self.gates.setdefault(name, asyncio.Event())

    def open(self, gate: str) -> None:
        self.gate(gate).set()

    def line(self) -> HeldConnector:
        """Another way to the same runtime, which is cut by itself."""
        return HeldConnector(self._inner)

    async def noticed(self, up: int = 0) -> None:
        """Wait until the runtime knows that links have ended, all but so many."""

    async def settled(self, job_id: str) -> None:
        """Wait until a job has ended there."""


class _Scripted(_Peer):
    def __init__(self, runtime: ScriptedRuntime) -> None:
        super().__init__(runtime)
        self.runtime = runtime

    def gate(self, name: str) -> asyncio.Event:
        return self.runtime.gate(name)

    async def noticed(self, up: int = 0) -> None:
        await self.runtime.until_left(up)

    async def settled(self, job_id: str) -> None:
        task = self.runtime.jobs[job_id].task
        assert task is not None
        await asyncio.wait({task})


class _Reference(_Peer):
    def __init__(self, served: ReferenceRuntime) -> None:
        super().__init__(WebSocketConnector(served.url))
        self.served = served

    async def noticed(self, up: int = 0) -> None:
        await self.served.until_ended(len(self.served.connections) - up)

    async def settled(self, job_id: str) -> None:
        await self.served.until_over(job_id)


@contextlib.asynccontextmanager
async def scripted(name: str) -> AsyncIterator[_Scripted]:
    """A scripted runtime of that dialect."""
    async with ScriptedRuntime(name, agents=AGENTS, tokens=["tok-alice"]) as runtime:
        yield _Scripted(runtime)
        assert runtime.objections == []


@contextlib.asynccontextmanager
async def live(name: str) -> AsyncIterator[_Peer]:
    """This package's runtime, or the Python reference over a socket."""
    peer: _Peer
    if name == "arcp-client":
        async with Runtime(auth={"tok-alice": "alice"}) as runtime:
            peer = _Peer(runtime)
            for agent, script in AGENTS.items():
                runtime.agent(agent)(_ours(script, peer.gate))
            yield peer
        return
    async with ReferenceRuntime() as served:
        peer = _Reference(served)
        for agent, script in AGENTS.items():
            served.runtime.register_agent(agent, _theirs(script, peer.gate))
        yield peer


Gate = Callable[[str], asyncio.Event]


def _ours(script: Script, gate: Gate) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def agent(input: Any, job: JobContext) -> Any:
        for number, step in enumerate(script):
            match step:
                case Emit(_, body):
                    await job.progress(body["current"])
                case Chunk(data):
                    last = not any(isinstance(step, Chunk) for step in script[number + 1 :])
                    await job.chunk(data, more=not last)
                case Wait(name):
                    await gate(name).wait()
                case Fail(_, message):
                    raise ValueError(message)
                case Finish(value):
                    return value
        raise AssertionError("a script ends with Finish")

    return agent


def _theirs(script: Script, gate: Gate) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def agent(input: Any, ctx: Any) -> Any:
        if any(isinstance(step, Chunk) for step in script):
            async with ctx.stream_result() as stream:
                for step in script:
                    if isinstance(step, Chunk):
                        await stream.write(step.data)
                    elif isinstance(step, Wait):
                        await gate(step.gate).wait()
            return None
        for step in script:
            match step:
                case Emit(_, body):
                    await ctx.progress(body["current"])
                case Wait(name):
                    await gate(name).wait()
                case Fail(_, message):
                    raise ValueError(message)
                case Finish(value):
                    return value
        raise AssertionError("a script ends with Finish")

    return agent
