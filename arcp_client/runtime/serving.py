"""HTTP requests in, served links out: a runtime's WebSocket side, alone or in an application."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from ssl import SSLContext
from types import TracebackType
from typing import Protocol
from urllib.parse import urlsplit

from aiohttp import web

from arcp_client.errors import ArcpError
from arcp_client.transports.base import Transport
from arcp_client.transports.websocket import WebSocketTransport
from arcp_client.transports.websocket_server import server_websocket

__all__ = ["Server", "WebSockets"]

_log = logging.getLogger("arcp_client.runtime")

_GOODBYE = 3.0


class _Link(Protocol):
    async def run(self) -> None: ...

    def finish(self) -> None: ...


class WebSockets:
    """Serves each WebSocket that reaches a route.

    Args:
        serve: makes the connection that serves a link, told whether that is TLS.
        max_frame: bytes; larger frames close the link with code 1009.
        any_origin: also take connections from pages of other sites. Only with authentication: a
            browser lets every page connect to ``localhost``.
    """

    def __init__(
        self,
        serve: Callable[[Transport, bool], Awaitable[_Link]],
        *,
        max_frame: int,
        any_origin: bool,
    ) -> None:
        self._serve = serve
        self._max_frame = max_frame
        self._any_origin = any_origin
        self._links: set[_Link] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """The handler of the route."""
        if not self._any_origin and _foreign(request):
            raise web.HTTPForbidden(text="cross-origin connections need a runtime with auth=")
        ws = server_websocket(max_frame=self._max_frame)
        if not ws.can_prepare(request).ok:
            raise web.HTTPBadRequest(text="connect with a WebSocket client")
        await ws.prepare(request)
        peer = request.remote or "a client"
        transport = WebSocketTransport(
            ws, peer=peer, max_frame=self._max_frame, stream=request.transport
        )
        try:
            link = await self._serve(transport, request.secure)
        except ArcpError as error:  # the runtime was closed, and its server was not
            _log.info("%s was turned away: %s", peer, error)
            await transport.close(timeout=_GOODBYE)
            return ws
        self._links.add(link)
        self._empty.clear()
        try:
            await link.run()
        finally:
            self._links.discard(link)
            if not self._links:
                self._empty.set()
        return ws

    async def close(self, _app: web.Application | None = None) -> None:
        """End the links and wait a little until they have ended; sessions and jobs live on."""
        for link in tuple(self._links):
            link.finish()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), _GOODBYE)


def _foreign(request: web.Request) -> bool:
    origin = request.headers.get("Origin")
    if origin is None:  # no browser
        return False
    return urlsplit(origin).netloc.lower() != request.host.lower()


class Server:
    """A WebSocket server of one runtime, as an async context manager.

    Attributes:
        url: where clients connect to, once it is entered.
        port: the port it listens on, once it is entered.
    """

    def __init__(
        self,
        sockets: WebSockets,
        *,
        host: str,
        port: int,
        path: str,
        ssl: SSLContext | None,
        on_enter: Callable[[], Awaitable[None]],
    ) -> None:
        self._sockets = sockets
        self._host = host
        self._wanted_port = port
        self._path = path
        self._ssl = ssl
        self._on_enter = on_enter
        self._runner: web.AppRunner | None = None
        self.url = ""
        self.port = 0

    async def __aenter__(self) -> Server:
        await self._on_enter()
        app = web.Application()
        app.router.add_get(self._path, self._sockets.handle)
        # Links are ended, not waited for: a client may stay for days.
        app.on_shutdown.append(self._sockets.close)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        site = web.TCPSite(runner, self._host, self._wanted_port, ssl_context=self._ssl)
        try:
            await site.start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        self.port = runner.addresses[0][1]
        scheme = "ws" if self._ssl is None else "wss"
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"{scheme}://{host}:{self.port}{self._path}"
        _log.info("listening on %s", self.url)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop listening and end this server's links; sessions and jobs live on. Idempotent."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
