"""``acp-serve`` between pipes, killed after a number of bytes; and an editor that talks to it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from arcp_client import Client, Runtime
from arcp_client.acp import serve
from arcp_client.acp.serving.server import PROMPT_ID
from arcp_client.transports.stdio import StdioServerTransport

Updates = list[dict[str, Any]]
Permission = Callable[[], str | None]


class Process:
    """The server of one editor. What it wrote beyond the limit is lost, as by SIGKILL."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.left: int | None = None
        self.dead = asyncio.Event()

    def kill_after(self, size: int) -> None:
        self.left = size

    def take(self, data: bytes) -> None:
        if self.dead.is_set():
            return
        if self.left is not None:
            data, self.left = data[: self.left], max(self.left - len(data), 0)
        self.reader.feed_data(data)
        if self.left == 0:
            self.dead.set()


@contextlib.asynccontextmanager
async def process(runtime: Runtime, agent: str) -> AsyncIterator[Process]:
    """A server, which is killed at the end of the block."""
    loop = asyncio.get_running_loop()
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    raw = asyncio.StreamReader()
    reading, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(raw), os.fdopen(ours_in, "rb", 0)
    )
    writing, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(ours_out, "wb", 0)
    )
    writer = asyncio.StreamWriter(writing, protocol, None, loop)
    it = Process(asyncio.StreamReader(limit=2**24), writer)

    async def forward() -> None:
        while data := await raw.read(65536):
            it.take(data)

    async def run() -> None:
        transport = StdioServerTransport(stdin=theirs_in, stdout=theirs_out)
        try:
            async with Client(runtime) as client:
                await serve(client, agent, transport=transport, cwd="/")
        finally:
            await transport.close(timeout=0)

    tasks = [loop.create_task(run()), loop.create_task(forward())]
    try:
        yield it
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        it.reader.feed_eof()
        writing.abort()
        reading.close()
        os.close(theirs_in)
        os.close(theirs_out)


class Editor(Protocol):
    """An editor, and the updates that it shows."""

    shown: Updates
    asked: int

    async def start(self) -> None: ...
    async def new(self) -> str: ...
    async def load(self, session: str) -> None: ...
    async def prompt(self, session: str, words: str) -> str: ...
    async def close(self) -> None: ...


class Scripted:
    """An editor by hand: every line that it writes and reads is here."""

    def __init__(self, it: Process, permission: Permission) -> None:
        self.shown: Updates = []
        self.asked = 0
        self._it = it
        self._permission = permission
        self._ids = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        while (line := await self._it.reader.readline()).endswith(b"\n"):
            message = json.loads(line)
            match message.get("method"):
                case "session/update":
                    self.shown.append(message["params"]["update"])
                case "session/request_permission":
                    self.asked += 1
                    chosen = self._permission()
                    if chosen is not None:
                        outcome = {"outcome": "selected", "optionId": chosen}
                        self._write({"id": message["id"], "result": {"outcome": outcome}})
                case None:
                    self._waiting.pop(message["id"]).set_result(message)
        for waiting in self._waiting.values():
            waiting.cancel()

    def _write(self, message: dict[str, Any]) -> None:
        self._it.writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def _call(self, method: str, **params: Any) -> Any:
        number = next(self._ids)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self._write({"id": number, "method": method, "params": params})
        answer = await self._waiting[number]
        assert "error" not in answer, answer
        return answer["result"]

    async def start(self) -> None:
        result = await self._call("initialize", protocolVersion=1, clientCapabilities={})
        assert result["agentCapabilities"]["loadSession"] is True

    async def new(self) -> str:
        return str((await self._call("session/new", cwd="/", mcpServers=[]))["sessionId"])

    async def load(self, session: str) -> None:
        await self._call("session/load", sessionId=session, cwd="/", mcpServers=[])

    async def prompt(self, session: str, words: str) -> str:
        blocks, meta = [{"type": "text", "text": words}], {PROMPT_ID: words}
        result = await self._call("session/prompt", sessionId=session, prompt=blocks, _meta=meta)
        return str(result["stopReason"])

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
