"""An HTTP server of ACP by hand: it answers as told, and sends any bytes over its streams.

`kit2` is the same server in HTTP/2.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from arcp_client.acp import HttpConnector
from arcp_client.acp._http.transport import HttpTransport
from tests.unit.transports.raw import tcp_server

SECRET = "s3cr3t-of-the-test"
EVENTS = "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked"


@dataclass
class Request:
    """One request of the client."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any

    @property
    def session(self) -> str | None:
        return self.headers.get("acp-session-id")


@dataclass
class Stream:
    """One event stream, which has been asked for with these headers."""

    headers: dict[str, str]
    writer: asyncio.StreamWriter
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def held(self) -> bool:
        """Whether the client takes no more bytes now."""
        size: int = self.writer.transport.get_write_buffer_size()
        return size > 0

    async def raw(self, data: bytes) -> None:
        """Send bytes of the body."""
        if data:
            self.writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            await self.writer.drain()

    async def event(self, message: Any, *, id: str = "") -> None:
        await self.raw(event(message, id=id))

    async def end(self) -> None:
        """End the body as HTTP says."""
        self.writer.write(b"0\r\n\r\n")
        self.over.set()
        await self.writer.drain()

    def cut(self) -> None:
        """Close the connection in the middle of the body."""
        self.writer.close()


@dataclass
class _Answering:
    """How one request is answered in HTTP/1.1."""

    request: Request
    writer: asyncio.StreamWriter

    async def with_text(self, text: str) -> None:
        self.writer.write(text.encode())
        await self.writer.drain()

    async def with_stream(self, framing: str) -> Stream:
        await self.with_text(f"HTTP/1.1 200 OK\r\n{framing}\r\n\r\n")
        return Stream(self.request.headers, self.writer)


def event(message: Any, *, id: str = "") -> bytes:
    lines = [f"id: {id}"] if id else []
    return "\n".join([*lines, f"data: {json.dumps(message)}", "", ""]).encode()


@dataclass
class Agent:
    """The server. Unless told otherwise, it accepts everything and answers nothing."""

    port: int = 0
    scheme: str = "http"
    posts: asyncio.Queue[Request] = field(default_factory=asyncio.Queue)
    streams: asyncio.Queue[Stream] = field(default_factory=asyncio.Queue)
    deletes: list[Request] = field(default_factory=list)
    seen: list[Request] = field(default_factory=list)
    replies: dict[str, list[str]] = field(default_factory=dict)
    """Method of HTTP, or of a message, to the heads and bodies of the next answers."""
    framing: str = EVENTS
    peers: list[Any] = field(default_factory=list)
    """The connections of HTTP/2."""
    held: asyncio.Event = field(default_factory=asyncio.Event)
    hold: str = ""
    """The method of messages that are answered only once `held` is set."""

    @property
    def url(self) -> str:
        host = "127.0.0.1" if self.scheme == "http" else "localhost"
        return f"{self.scheme}://{host}:{self.port}/acp"

    def initialized(self, request: Request, version: int = 1) -> str:
        result = {"protocolVersion": version, "agentCapabilities": {"loadSession": True}}
        return answer(200, {"id": request.body["id"], "result": result}, "Acp-Connection-Id: c1")

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            pairs = (line.split(": ", 1) for line in lines)
            headers = {name.lower(): value for name, value in pairs}
            data = await reader.readexactly(int(headers.get("content-length", 0)))
            method, path, _ = first.split(" ")
            request = Request(method, path, headers, json.loads(data) if data else None)
            self.seen.append(request)
            await self.reply(request, _Answering(request, writer))

    async def reply(self, request: Request, answering: _Answering) -> None:
        name = request.method
        if isinstance(request.body, dict):
            name = request.body.get("method", "answer")
        if name == self.hold:
            await self.held.wait()
        prepared = self.replies.get(name)
        if prepared:
            await answering.with_text(prepared.pop(0))
        elif request.method == "GET":
            stream = await answering.with_stream(self.framing)
            self.streams.put_nowait(stream)
            await stream.over.wait()  # the test writes to it
        elif name == "initialize":
            await answering.with_text(self.initialized(request))
        else:
            await answering.with_text(answer(202))
        if request.method == "POST":
            self.posts.put_nowait(request)
        elif request.method == "DELETE":
            self.deletes.append(request)


def answer(status: int, body: Any = None, *headers: str) -> str:
    """An answer of HTTP; a body that is no text becomes JSON."""
    kind = "text/plain" if isinstance(body, str) else "application/json"
    text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(text)}", f"Content-Type: {kind}"]
    return "\r\n".join([*lines, *headers, "", text])


HTTP2 = ""
"""Whether the server speaks HTTP/2, and how it cuts a stream: ``cut`` or ``reset``."""


@contextlib.asynccontextmanager
async def serving(*, tls: ssl.SSLContext | None = None) -> AsyncIterator[Agent]:
    agent = Agent(scheme="http" if tls is None else "https")
    handle = agent.handle
    if HTTP2:
        from tests.unit.acp.http import kit2

        handle = partial(kit2.handle, agent, resets=HTTP2 == "reset")
    async with tcp_server(handle, tls=tls) as agent.port:
        yield agent


def request(method: str, session: str = "", *, id: int | None = None, **params: Any) -> bytes:
    """A request of the client, or a notification if there is no id."""
    if session:
        params["sessionId"] = session
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(message if id is None else {**message, "id": id}).encode()


INITIALIZE = request("initialize", id=0)


@contextlib.asynccontextmanager
async def linked(agent: Agent, **options: Any) -> AsyncIterator[tuple[HttpTransport, Stream]]:
    """A link after ``initialize``, and the stream of its connection."""
    link = await HttpConnector(agent.url, **options).connect()
    try:
        await link.send(INITIALIZE)
        assert json.loads(await link.receive())["result"]["protocolVersion"] == 1
        assert (await agent.posts.get()).body["method"] == "initialize"
        yield link, await agent.streams.get()
    finally:
        await link.close(timeout=1.0)


def chunk(number: object, session: str = "s1") -> dict[str, Any]:
    update = {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": str(number)},
    }
    params = {"sessionId": session, "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}
