"""A runtime behind one of its three transports, and agents that do what a test tells them."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import AsyncExitStack
from typing import Any

from arcp_client.errors import LinkLost
from arcp_client.runtime import JobContext, Runtime
from arcp_client.transports import Transport, WebSocketConnector
from tests.unit.runtime.peer import Peer

__all__ = ["TRANSPORTS", "Run", "World"]

TRANSPORTS = ("memory", "websocket", "stdio")

_LINE = 64 * 1024 * 1024


class Pipes:
    """The parent's end of the two pipes of a runtime that serves stdio."""

    def __init__(self, reader: asyncio.StreamReader, writer: Any, output: Any) -> None:
        self._reader = reader
        self._writer = writer
        self._output = output

    async def send(self, frame: bytes) -> None:
        if self._writer.is_closing():
            raise LinkLost("closed")
        self._writer.write(frame + b"\n")

    async def receive(self) -> bytes:
        line = await self._reader.readline()
        if not line:
            raise LinkLost("the runtime closed its output")
        return line

    async def close(self, *, timeout: float = 5.0) -> None:
        self._writer.close()
        if timeout == 0:
            self._output.close()
            return
        while await self._reader.read(65536):
            pass
        self._output.close()


class World:
    """One runtime, reached over one kind of transport.

    Args:
        kind: one of `TRANSPORTS`.
        options: of the runtime.
    """

    def __init__(self, kind: str, **options: Any) -> None:
        self.kind = kind
        self.runtime = Runtime(**options)
        self._runs: asyncio.Queue[Run] = asyncio.Queue()
        self._stack = AsyncExitStack()
        self._url = ""
        self._pipes: list[asyncio.Task[None]] = []
        for name, version in (("agent", "1.0.0"), ("agent", "2.0.0"), ("plain", None)):
            self.runtime.agent(name, version, default=version == "2.0.0")(self._agent)

    async def _agent(self, input: Any, job: JobContext) -> Any:
        run = Run(job)
        self._runs.put_nowait(run)
        return await run.over

    async def run(self) -> Run:
        """The next job that an agent was started for."""
        return await self._runs.get()

    async def begin(self) -> None:
        """Start to serve."""
        if self.kind == "websocket":
            self._url = (await self._stack.enter_async_context(self.runtime.serve())).url

    async def end(self) -> None:
        """Close every peer, then the runtime."""
        await self._stack.aclose()
        await self.runtime.close()
        if self._pipes:
            await asyncio.wait(self._pipes)

    async def link(self) -> Transport:
        """A new link to the runtime."""
        if self.kind == "memory":
            return await self.runtime.connect()
        if self.kind == "websocket":
            return await WebSocketConnector(self._url).connect()
        return await self._piped()

    async def _piped(self) -> Transport:
        loop = asyncio.get_running_loop()
        (child_in, parent_out), (parent_in, child_out) = os.pipe(), os.pipe()
        reader = asyncio.StreamReader(_LINE)
        output, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(parent_in, "rb", 0)
        )
        writer, _ = await loop.connect_write_pipe(
            asyncio.BaseProtocol, os.fdopen(parent_out, "wb", 0)
        )
        self._pipes.append(loop.create_task(self._serve(child_in, child_out)))
        return Pipes(reader, writer, output)

    async def _serve(self, stdin: int, stdout: int) -> None:
        try:
            await self.runtime.serve_stdio(stdin=stdin, stdout=stdout)
        finally:
            os.close(stdin)
            os.close(stdout)

    async def stranger(self) -> Peer:
        """A peer that has not said hello."""
        peer = Peer(await self.link())
        self._stack.push_async_callback(peer.close)
        return peer

    async def peer(self, **hello: Any) -> Peer:
        """A peer in a session of its own, or in the one that it resumes."""
        peer = await self.stranger()
        reply = await peer.hello(**hello)
        assert reply["type"] == "session.welcome", reply
        return peer

    async def job(self, peer: Peer, **submit: Any) -> Run:
        """A job that a peer submitted and that runs."""
        submit.setdefault("agent", "agent")
        await peer.submit(submit.pop("agent"), **submit)
        return await self.run()


class Run:
    """One job in the test's hands."""

    def __init__(self, job: JobContext) -> None:
        self.job = job
        self.id = job.id
        self.over: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def emit(self, count: int = 1) -> None:
        """Emit log events."""
        for n in range(count):
            await self.job.log(str(n))

    def finish(self, value: Any = None) -> None:
        """Let the agent return."""
        self.over.set_result(value)

    def fail(self, error: BaseException) -> None:
        """Let the agent raise."""
        self.over.set_exception(error)


def raw(frame: Any) -> bytes:
    """A frame as bytes."""
    return json.dumps(frame).encode()
