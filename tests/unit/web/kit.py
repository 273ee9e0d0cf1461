"""A dashboard on real sockets, and a browser that reads its streams."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from arcp_client import Client, JobContext, Runtime
from arcp_client.web import add_routes

SOON = 40.0
"""Seconds after which a test gives up waiting; nothing is expected to take that long."""
JSON = {"Content-Type": "application/json"}


class Frame(NamedTuple):
    """One event of a stream, as a browser gives it to the page."""

    kind: str
    data: Any
    id: str


@dataclass
class Parser:
    """Bytes in, events out: the algorithm of the HTML standard, 9.2.6, as far as it is used."""

    last: str = ""
    decode: Callable[[str], Any] = json.loads
    _rest: bytes = b""
    _kind: str = ""
    _data: list[str] = field(default_factory=list)
    _id: str = ""

    def feed(self, data: bytes) -> list[Frame]:
        frames = []
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            name, _, value = line.decode().partition(":")
            value = value.removeprefix(" ")
            if not line:
                self.last = self._id
                if self._data:
                    data = self.decode("\n".join(self._data))
                    frames.append(Frame(self._kind, data, self.last))
                self._kind, self._data = "", []
            elif name == "event":
                self._kind = value
            elif name == "data":
                self._data.append(value)
            elif name == "id":
                self._id = value
            else:
                assert name in ("", "retry"), line
        return frames

    def cut(self) -> None:
        """The connection is lost: what was not complete is dropped."""
        self._rest, self._kind, self._data, self._id = b"", "", [], self.last


@dataclass
class Timeline:
    """What a page of the dashboard holds of a job: it does as it is told."""

    numbers: list[int] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    resets: list[str] = field(default_factory=list)
    details: list[dict[str, Any]] = field(default_factory=list)
    links: list[dict[str, Any]] = field(default_factory=list)
    end: str | None = None

    def take(self, frame: Frame) -> None:
        match frame.kind:
            case "reset":
                self.resets.append(frame.data["reason"])
                self.numbers.clear()
                self.events.clear()
            case "events":
                self.numbers += [entry["n"] for entry in frame.data]
                self.events += [entry["event"] for entry in frame.data]
                assert frame.id.endswith(f"-{self.numbers[-1]}")
            case "job":
                self.details.append(frame.data)
            case "link":
                self.links.append(frame.data)
            case "end":
                self.end = frame.data["status"]


@dataclass
class Tab:
    """A browser's tab that follows one stream; `follow` may be called again, as after a cut."""

    http: aiohttp.ClientSession
    url: URL
    parser: Parser = field(default_factory=Parser)
    timeline: Timeline = field(default_factory=Timeline)

    async def follow(
        self, until: Callable[[Timeline], object] | None = None, *, at_most: int | None = None
    ) -> Timeline:
        """Read up to the end, until a condition holds, or for so many bytes; then hang up."""
        headers = {"Last-Event-ID": self.parser.last} if self.parser.last else {}
        self.parser.cut()
        self.timeline.end = None
        until = until or (lambda timeline: timeline.end)
        async with asyncio.timeout(SOON), self.http.get(self.url, headers=headers) as response:
            assert response.status == 200, await response.text()
            assert response.content_type == "text/event-stream"
            while True:
                piece = await response.content.readany()
                if at_most is not None:
                    piece, at_most = piece[:at_most], at_most - len(piece)
                for frame in self.parser.feed(piece):
                    self.timeline.take(frame)
                if not piece or until(self.timeline) or (at_most is not None and at_most <= 0):
                    return self.timeline


@dataclass
class Site:
    """A dashboard that is served, and a browser that has no cookies yet."""

    server: TestServer
    http: aiohttp.ClientSession
    client: Client

    def url(self, path: str) -> URL:
        return self.server.make_url(f"/{path}")

    def tab(self, job_id: str) -> Tab:
        return Tab(self.http, self.url(f"api/jobs/{job_id}/stream"))

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.http.get(self.url(path), headers=headers) as response:
            return response.status, await response.json()

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
        url = self.url(path)
        async with self.http.post(url, data=data, headers={**JSON, **headers}) as response:
            text = await response.text()
            return response.status, json.loads(text) if text else None

    def frames(self, path: str) -> AsyncIterator[Frame]:
        """What a stream tells, for as long as somebody asks."""
        return self._frames(path, Parser())

    def frames_raw(self, path: str) -> AsyncIterator[Frame]:
        """The same, with the data as text."""
        return self._frames(path, Parser(decode=str))

    async def _frames(self, path: str, parser: Parser) -> AsyncIterator[Frame]:
        async with asyncio.timeout(SOON), self.http.get(self.url(path)) as response:
            assert response.status == 200, await response.text()
            while piece := await response.content.readany():
                for frame in parser.feed(piece):
                    yield frame


@asynccontextmanager
async def site(client: Client, **options: Any) -> AsyncIterator[Site]:
    """A dashboard on a socket of its own."""
    app = web.Application()
    add_routes(app, client, **options)
    server = TestServer(app)
    # Cookies of addresses count as well: browsers keep them.
    jar = aiohttp.CookieJar(unsafe=True)
    async with server, aiohttp.ClientSession(cookie_jar=jar) as http:
        yield Site(server, http, client)


class Gates:
    """Events that agents wait for, by name, so that a test decides when they go on."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def __getitem__(self, name: str) -> asyncio.Event:
        return self._events.setdefault(name, asyncio.Event())


def agents(runtime: Runtime, gates: Gates) -> None:
    """What the jobs of these tests do."""

    @runtime.agent("echo", version="1.0.0")
    async def echo(input: Any, job: JobContext) -> Any:
        return input

    @runtime.agent("say")
    async def say(input: Any, job: JobContext) -> Any:
        """Says so many lines of such a size, "half" of them before its gate opens."""
        lines, size = input["lines"], input.get("size", 10)
        for n in range(lines):
            if "gate" in input and n == lines // 2:
                await gates[input["gate"]].wait()
            await job.log(f"{n}".ljust(size, "."))
        return lines

    @runtime.agent("gated")
    async def gated(input: Any, job: JobContext) -> Any:
        await job.status("waiting")
        await gates[input].wait()
        return input

    @runtime.agent("asks")
    async def asks(input: Any, job: JobContext) -> Any:
        await job.status("asking")
        return await job.ask("How many?", schema=int)

    @runtime.agent("fail")
    async def fail(input: Any, job: JobContext) -> Any:
        raise RuntimeError("boom")

    @runtime.agent("emit")
    async def emit(input: Any, job: JobContext) -> Any:
        """Emits any events: kind and body."""
        for kind, body in input:
            await job.emit(kind, body)
        return None

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
