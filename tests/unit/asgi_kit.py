"""An ASGI server in memory: one request or one WebSocket, with what a real server would do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

SOON = 40.0


def scope(kind: str, path: str, **more: Any) -> dict[str, Any]:
    """A scope as a server on 127.0.0.1:8000 makes it, for a client of this machine."""
    target, _, query = path.partition("?")
    made: dict[str, Any] = {
        "type": kind,
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "ws" if kind == "websocket" else "http",
        "path": target,
        "raw_path": target.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1:8000")],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8000),
        "extensions": {"websocket.http.response": {}},
    }
    if kind == "websocket":
        del made["method"]
    return made | more


@dataclass
class Answer:
    """A response, as far as it has arrived."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    complete: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, text: bytes) -> None:
        """Wait until the body has a text."""
        async with asyncio.timeout(SOON):
            while text not in self.body:
                self.news.clear()
                await self.news.wait()


class Request:
    """One request to an application; the test may let the client disconnect or stop reading."""

    def __init__(self, app: Any, scope: dict[str, Any], *body: bytes) -> None:
        self.answer = Answer()
        self.reading = asyncio.Event()
        self.reading.set()
        self.gone = asyncio.Event()
        self._body = list(body) or [b""]
        self._scope = scope
        self._app = app

    async def run(self) -> Answer:
        async with asyncio.timeout(SOON):
            await self._app(self._scope, self._receive, self._send)
        return self.answer

    async def _receive(self) -> dict[str, Any]:
        if self._body:
            body = self._body.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(self._body)}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if self.gone.is_set():
            raise OSError("the client has disconnected")
        await self.reading.wait()
        answer = self.answer
        if message["type"] == "http.response.start":
            assert not answer.status
            answer.status = message["status"]
            for name, value in message["headers"]:
                assert name == name.lower()
                answer.headers[name.decode()] = value.decode()
        else:
            assert answer.status
            assert not answer.complete
            answer.body += message.get("body", b"")
            answer.complete = not message.get("more_body", False)
        answer.news.set()


async def get(app: Any, path: str, **more: Any) -> Answer:
    """GET a path; returns the complete response."""
    return await Request(app, scope("http", path, **more)).run()


def headers(**more: str) -> list[tuple[bytes, bytes]]:
    """The headers of a browser, and those given."""
    given = {
        name.replace("_", "-").lower().encode(): value.encode() for name, value in more.items()
    }
    return list(({b"host": b"127.0.0.1:8000"} | given).items())


class Socket:
    """The client's side of a WebSocket."""

    def __init__(self) -> None:
        self.to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.from_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.to_app.put_nowait({"type": "websocket.connect"})
        self.ended = asyncio.Event()

    async def send(self, text: str) -> None:
        await self.to_app.put({"type": "websocket.receive", "text": text})

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(SOON):
            return await self.from_app.get()

    def leave(self) -> None:
        self.to_app.put_nowait({"type": "websocket.disconnect", "code": 1001})


@asynccontextmanager
async def websocket(app: Any, path: str = "/", **more: Any) -> AsyncIterator[Socket]:
    """Open a WebSocket to an application; at the end the client leaves."""
    socket = Socket()

    async def call() -> None:
        await app(scope("websocket", path, **more), socket.to_app.get, socket.from_app.put)
        socket.ended.set()

    running = asyncio.create_task(call())
    try:
        yield socket
    finally:
        socket.leave()
        async with asyncio.timeout(SOON):
            await running


@asynccontextmanager
async def lifespan(app: Any) -> AsyncIterator[None]:
    """The lifespan of a server around an application."""
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    running = asyncio.create_task(app({"type": "lifespan"}, told.get, said.put))
    async with asyncio.timeout(SOON):
        await told.put({"type": "lifespan.startup"})
        assert (await said.get())["type"] == "lifespan.startup.complete"
    yield
    async with asyncio.timeout(SOON):
        await told.put({"type": "lifespan.shutdown"})
        assert (await said.get())["type"] == "lifespan.shutdown.complete"
        await running
