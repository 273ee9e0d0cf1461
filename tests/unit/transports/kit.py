"""Pairs of connected transports, one for each kind, for the tests that all kinds must pass."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from aiohttp import web

from arcp_client._asgi import Receive, Scope, Send
from arcp_client.transports import (
    StdioConnector,
    StdioServerTransport,
    Transport,
    WebSocketConnector,
    WebSocketTransport,
    memory_pair,
    server_websocket,
)
from arcp_client.transports.asgi import AsgiTransport
from tests.loops import LOOP

LIMIT = 2_000_000

# Stands for an agent: what comes on stdin goes to a socket of the test, and the other way round.
RELAY = """
import os, socket, sys, threading
link = socket.socket(socket.AF_UNIX); link.connect(sys.argv[1])
def back():
    while data := link.recv(65536):
        view = memoryview(data)
        while view: view = view[os.write(1, view):]
    os._exit(0)
threading.Thread(target=back, daemon=True).start()
try:
    while data := os.read(0, 65536): link.sendall(data)
except OSError: pass
os._exit(0)
"""


@dataclass
class Pair:
    """Two ends of one link."""

    near: Transport
    far: Transport


Maker = Callable[[Path], AbstractAsyncContextManager[Pair]]


@asynccontextmanager
async def memory(_directory: Path) -> AsyncIterator[Pair]:
    near, far = memory_pair(capacity=16, max_frame=LIMIT)
    yield Pair(near, far)
    await near.close()
    await far.close()


@asynccontextmanager
async def websocket(_directory: Path) -> AsyncIterator[Pair]:
    async with websocket_server(max_frame=LIMIT) as server:
        near = await WebSocketConnector(server.url, max_frame=LIMIT).connect()
        far = await server.accepted()
        try:
            yield Pair(near, far)
        finally:
            await asyncio.gather(near.close(timeout=0.5), far.close(timeout=0.5))


@asynccontextmanager
async def stdio(directory: Path) -> AsyncIterator[Pair]:
    address = str(directory / "relay")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.setblocking(False)
        listening.bind(address)
        listening.listen()
        argv = [sys.executable, "-S", "-E", "-c", RELAY, address]
        near = await StdioConnector(argv, max_line=LIMIT).connect()
        link, _ = await asyncio.get_running_loop().sock_accept(listening)
    far = _SocketEnd(link, max_line=LIMIT)
    try:
        yield Pair(near, far)
    finally:
        await asyncio.gather(near.close(timeout=1.0), far.close(timeout=0.5))


class _SocketEnd(StdioServerTransport):
    """The client side of a stdio runtime, over a socket, which ends with it."""

    def __init__(self, link: socket.socket, *, max_line: int) -> None:
        self._link = link
        super().__init__(stdin=link.fileno(), stdout=link.fileno(), max_line=max_line)

    async def close(self, *, timeout: float = 5.0) -> None:
        try:
            await super().close(timeout=timeout)
        finally:
            with contextlib.suppress(OSError):
                self._link.shutdown(socket.SHUT_RDWR)
            self._link.close()


@asynccontextmanager
async def asgi(_directory: Path) -> AsyncIterator[Pair]:
    """The far end is an ASGI application, served by uvicorn."""
    accepted: asyncio.Queue[AsgiTransport] = asyncio.Queue()
    over = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        transport = AsgiTransport(receive, send, peer="the client", max_frame=LIMIT)
        accepted.put_nowait(transport)
        try:
            await over.wait()
        finally:
            await transport.close(timeout=0.5)

    async with on_uvicorn(app, lifespan="off", ws_max_size=LIMIT + 1) as url:
        near = await WebSocketConnector(url.replace("http", "ws"), max_frame=LIMIT).connect()
        far = await accepted.get()
        try:
            yield Pair(near, far)
        finally:
            over.set()
            await asyncio.gather(near.close(timeout=0.5), far.close(timeout=0.5))


KINDS: dict[str, Maker] = {"memory": memory, "websocket": websocket, "stdio": stdio}
if find_spec("uvicorn") and find_spec("websockets"):  # by which uvicorn serves WebSockets
    from tests.e2e.browsers.servers import on_uvicorn

    KINDS["asgi"] = asgi


class Server:
    """A WebSocket server whose connections are handed to the test as transports."""

    def __init__(self, max_frame: int) -> None:
        self._max_frame = max_frame
        self._accepted: asyncio.Queue[WebSocketTransport] = asyncio.Queue()
        self._over = asyncio.Event()
        self.url = ""

    async def accepted(self) -> WebSocketTransport:
        return await self._accepted.get()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        ws = server_websocket(max_frame=self._max_frame)
        await ws.prepare(request)
        transport = WebSocketTransport(ws, peer="the client", max_frame=self._max_frame)
        self._accepted.put_nowait(transport)
        try:
            await self._over.wait()  # aiohttp ends the connection when the handler returns
        finally:
            await transport.close(timeout=0.5)
        return ws

    def stop(self) -> None:
        self._over.set()


@asynccontextmanager
async def websocket_server(*, max_frame: int = LIMIT) -> AsyncIterator[Server]:
    server = Server(max_frame)
    app = web.Application()
    app.router.add_get("/arcp", server.handle)
    async with serving(app) as port:
        server.url = f"ws://127.0.0.1:{port}/arcp"
        try:
            yield server
        finally:
            server.stop()


@asynccontextmanager
async def serving(app: web.Application, **site: object) -> AsyncIterator[int]:
    """Serve an aiohttp application on a free port of the loopback interface."""
    runner = web.AppRunner(app, shutdown_timeout=0.5)
    await runner.setup()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        await web.SockSite(runner, listening, **site).start()  # type: ignore[arg-type]
        try:
            yield listening.getsockname()[1]
        finally:
            await runner.cleanup()


def _open_files() -> set[tuple[str, str]]:
    found = set()
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.add((file.name, str(file.readlink())))
    return found


@contextmanager
def nothing_left() -> Iterator[None]:
    """Fail if files, sockets, threads or child processes are left behind."""
    files, threads = _open_files(), set(threading.enumerate())
    children = set(_children())  # such as the interpreter that commands are forked from
    yield
    gc.collect()
    for thread in set(threading.enumerate()) - threads:
        if thread.name.startswith(("asyncio_", "uvloop_")):
            continue  # the event loop's own, for name lookups
        thread.join(5.0)  # one that has been told to end needs a moment to
        assert not thread.is_alive(), thread
    now = _open_files()
    if LOOP == "uvloop":
        # Each run of the loop opens its two wake-up sockets anew, and a loop that listens keeps
        # a descriptor in reserve.
        kept = [file for file in now if file[1] != os.devnull]
        assert len(kept) <= len(files), now - files
    else:
        assert now <= files, now - files
    left = set(_children()) - children
    assert not left, left


def _children() -> list[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return []
