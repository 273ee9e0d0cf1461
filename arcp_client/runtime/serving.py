"""Serves a runtime over WebSockets: with its own server, in an aiohttp or in an ASGI application.

This module checks HTTP requests and limits connections. `Connection` serves each link.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from ssl import SSLContext
from types import TracebackType
from typing import Protocol

from aiohttp import hdrs, web

from arcp_client._asgi import AsgiPeer, Receive, Scope, Send, header_values, serve_lifespan
from arcp_client._connection_limits import ConnectionLimits, ConnectionTable, limited
from arcp_client._listener import Listener
from arcp_client._security import (
    AllowedHosts,
    WrongTokens,
    client_address,
    host_name,
    is_address,
    on_loopback,
)
from arcp_client._shutdown import ShutdownWatch
from arcp_client.errors import ArcpError
from arcp_client.runtime._connection.connection import Arrival
from arcp_client.runtime.limits import Limits
from arcp_client.runtime.probes import Counts, add_probes
from arcp_client.transports.asgi import AsgiTransport
from arcp_client.transports.base import Transport
from arcp_client.transports.websocket import WebSocketTransport
from arcp_client.transports.websocket_server import server_websocket

__all__ = ["AsgiRuntime", "Server", "WebSockets"]

_log = logging.getLogger("arcp_client.runtime")
_http_log = logging.getLogger("arcp_client.runtime.http")

_GOODBYE = 3.0


class _Refused(Exception):
    """A request is answered with an HTTP status in place of a WebSocket."""

    def __init__(self, status: int, text: str, *, later: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = _LATER if later else {}


class _Link(Protocol):
    async def run(self) -> None: ...

    def finish(self) -> None: ...


class WebSockets:
    """Serves each WebSocket of a route.

    Args:
        serve: makes the `Connection` for a link.
        limits: the runtime's limits.
        max_frame: bytes; larger frames close the link with code 1009.
        allowed_hosts: the host names of the runtime.
        any_origin: also accept connections from pages of other sites. Only safe with
            authentication, because browsers let every page connect to ``localhost``.
        wrong_tokens: counts wrong tokens by address.
    """

    def __init__(
        self,
        serve: Callable[[Transport, Arrival], Awaitable[_Link]],
        *,
        limits: Limits,
        max_frame: int,
        allowed_hosts: AllowedHosts,
        any_origin: bool,
        wrong_tokens: WrongTokens,
    ) -> None:
        self._serve = serve
        self._max_frame = max_frame
        self._hosts = allowed_hosts
        self._any_origin = any_origin
        self._wrong_tokens = wrong_tokens
        self._links: set[_Link] = set()
        self._empty = asyncio.Event()
        self._empty.set()
        self.table = ConnectionTable(_connection_limits(limits))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Handle a request on the route."""
        hosts, origins = (request.headers.getall(name, []) for name in (hdrs.HOST, hdrs.ORIGIN))
        ws = server_websocket(max_frame=self._max_frame)
        try:
            self._check_host(hosts, origins, request.transport)
            if not ws.can_prepare(request).ok:
                raise _Refused(400, "connect with a WebSocket client")
            address = self._check_tokens(request.transport)
            protocol = limited(request.transport, self.table)
            if not protocol.upgrade():
                raise _full()
        except _Refused as refused:
            return web.Response(status=refused.status, text=refused.text, headers=refused.headers)
        await ws.prepare(request)
        peer = request.remote or "a client"
        transport = WebSocketTransport(
            ws, peer=peer, max_frame=self._max_frame, stream=request.transport
        )
        await self._run(transport, peer, Arrival(request.secure, address, protocol.settle))
        return ws

    async def handle_asgi(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a WebSocket of an ASGI server."""
        await receive()  # websocket.connect
        connection = AsgiPeer(scope)
        peer = str(scope["client"][0]) if scope.get("client") else "a client"
        transport = AsgiTransport(
            receive,
            send,
            peer=peer,
            max_frame=self._max_frame,
            room=self.table.limits.opening_bytes,
        )
        now = asyncio.get_running_loop().time()
        try:
            self._check_host(
                header_values(scope, b"host"), header_values(scope, b"origin"), connection
            )
            address = self._check_tokens(connection)
            slot = self.table.admit(address, transport.drop, now=now)
            if slot is None:
                raise _full()
        except _Refused as refused:
            await _deny(scope, send, refused)
            return

        def settle() -> None:
            transport.settle()
            self.table.settled(slot)

        secure = connection.get_extra_info("sslcontext") is not None
        try:
            await send({"type": "websocket.accept"})
            await self._run(transport, peer, Arrival(secure, address, settle))
        finally:
            self.table.ended(slot)
            await transport.close(timeout=_GOODBYE)

    async def _run(self, transport: Transport, peer: str, arrival: Arrival) -> None:
        try:
            link = await self._serve(transport, arrival)
        except ArcpError as error:  # the runtime is closed, but its server is not
            _log.info("%s was refused: %s", peer, error)
            await transport.close(timeout=_GOODBYE)
            return
        self._links.add(link)
        self._empty.clear()
        try:
            await link.run()
        finally:
            self._links.discard(link)
            if not self._links:
                self._empty.set()

    def _check_tokens(self, connection: asyncio.BaseTransport | None) -> str:
        address = client_address(connection)
        if self._wrong_tokens.full(address):
            raise _Refused(429, "too many wrong tokens from this address", later=True)
        return address

    def _check_host(
        self, hosts: list[str], origins: list[str], connection: asyncio.BaseTransport | None
    ) -> None:
        """Refuse requests that a page of another site may have sent (§14).

        A request to a loopback address must name a loopback host or an allowed one. Otherwise a
        page whose DNS name points to this machine could run agents. A request to another address
        may also name an IP address, and any host if no names are configured.
        """
        name = host_name(hosts)
        if name is None:
            raise _Refused(400, "the request has no valid Host")
        if name not in self._hosts and (
            on_loopback(connection) or (self._hosts and not is_address(name))
        ):
            _log.warning("a client was refused: the host %.80s is not allowed", name)
            raise _Refused(
                403,
                "the runtime is not served under this host name; its operator can allow it"
                " with --allow-host, in a program with allowed_hosts=",
            )
        if not self._any_origin and not self._hosts.own(origins, hosts[0]):
            raise _Refused(
                403,
                "a page of another site cannot connect to a runtime without auth=; if a proxy"
                " changes Host, allow the name that browsers see with allowed_hosts=",
            )

    def finish(self) -> None:
        """Let the links end; clients connect again."""
        for link in tuple(self._links):
            link.finish()

    async def close(self, _app: web.Application | None = None) -> None:
        """Close the links and wait briefly for their end; sessions and jobs continue."""
        self.finish()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), _GOODBYE)


_LATER = {"Retry-After": "5"}


def _full() -> _Refused:
    return _Refused(503, "too many connections", later=True)


async def _deny(scope: Scope, send: Send, refused: _Refused) -> None:
    """Refuse a WebSocket with a status; a server without that extension answers 403."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 1008, "reason": refused.text[:120]})
        return
    await _answer(send, "websocket.http.response", refused)


async def _answer(send: Send, kind: str, refused: _Refused) -> None:
    body = refused.text.encode()
    headers = {
        "content-type": "text/plain; charset=utf-8",
        "content-length": str(len(body)),
        **{name.lower(): value for name, value in refused.headers.items()},
    }
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": f"{kind}.start", "status": refused.status, "headers": encoded})
    await send({"type": f"{kind}.body", "body": body, "more_body": False})


class AsgiRuntime:
    """The WebSocket endpoint of a runtime as an ASGI 3 application; see `Runtime.asgi`.

    Args:
        sockets: serves the WebSockets.
        on_start: starts the runtime.
    """

    def __init__(self, sockets: WebSockets, *, on_start: Callable[[], Awaitable[None]]) -> None:
        self._sockets = sockets
        self._on_start = on_start
        self._shutdown = ShutdownWatch(sockets.finish)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope; the ASGI server calls this."""
        if scope["type"] == "websocket":
            self._shutdown.enter()
            try:
                await self._sockets.handle_asgi(scope, receive, send)
            finally:
                self._shutdown.leave()
        elif scope["type"] == "http":
            await _answer(send, "http.response", _Refused(426, "connect with a WebSocket client"))
        elif scope["type"] == "lifespan":
            await serve_lifespan(receive, send, start=self._on_start, stop=self.close)
        else:
            raise ValueError(f"an ASGI scope of an unknown type: {scope['type']!r:.60}")

    async def close(self) -> None:
        """Close the connections; sessions and jobs continue. Idempotent."""
        await self._sockets.close()


def _connection_limits(limits: Limits) -> ConnectionLimits:
    return ConnectionLimits(
        total=limits.connections,
        per_address=limits.connections_per_address,
        opening=limits.handshakes,
        opening_per_address=limits.handshakes_per_address,
        opening_bytes=limits.handshake_bytes,
        request_timeout=limits.handshake_timeout,
    ).within_descriptors()


class Server:
    """A WebSocket server of one runtime, as an async context manager.

    Attributes:
        url: the URL for clients; set when the block is entered.
        port: the port it listens on; set when the block is entered.
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
        counts: Callable[[], Counts] | None = None,
    ) -> None:
        self._host = host
        self._wanted_port = port
        self._path = path
        self._scheme = "ws" if ssl is None else "wss"
        self._on_enter = on_enter
        app = web.Application()
        app.router.add_get(path, sockets.handle)
        if counts is not None:
            add_probes(app, counts)
        # Links are closed, not awaited: a client may stay connected for days.
        app.on_shutdown.append(sockets.close)
        app.on_response_prepare.append(_only_websockets_stay)
        self._listener = Listener(app, sockets.table, logger=_http_log, ssl=ssl, shutdown=0.5)
        self.url = ""
        self.port = 0

    async def __aenter__(self) -> Server:
        await self._on_enter()
        await self._listener.start(self._host, self._wanted_port)
        self.port = self._listener.port
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"{self._scheme}://{host}:{self.port}{self._path}"
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
        """Stop listening and close this server's links; sessions and jobs continue. Idempotent."""
        await self._listener.close()


async def _only_websockets_stay(_: web.Request, response: web.StreamResponse) -> None:
    """Close each connection after its HTTP response, unless it became a WebSocket."""
    if not isinstance(response, web.WebSocketResponse):
        response.force_close()
        response.headers[hdrs.CONNECTION] = "close"
