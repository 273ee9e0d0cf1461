"""Serves a runtime over WebSockets, with its own server or in an aiohttp application.

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

from arcp_client._connection_limits import ConnectionLimits, ConnectionTable, Listener, limited
from arcp_client._security import (
    AllowedHosts,
    WrongTokens,
    client_address,
    host_name,
    is_address,
    on_loopback,
)
from arcp_client.errors import ArcpError
from arcp_client.runtime._connection.connection import Arrival
from arcp_client.runtime.limits import Limits
from arcp_client.transports.base import Transport
from arcp_client.transports.websocket import WebSocketTransport
from arcp_client.transports.websocket_server import server_websocket

__all__ = ["Server", "WebSockets"]

_log = logging.getLogger("arcp_client.runtime")
_http_log = logging.getLogger("arcp_client.runtime.http")

_GOODBYE = 3.0


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
        self._check_host(request)
        ws = server_websocket(max_frame=self._max_frame)
        if not ws.can_prepare(request).ok:
            raise web.HTTPBadRequest(text="connect with a WebSocket client")
        address = client_address(request.transport)
        if self._wrong_tokens.full(address):
            raise web.HTTPTooManyRequests(
                text="too many wrong tokens from this address", headers=_LATER
            )
        protocol = limited(request.transport, self.table)
        if not protocol.upgrade():
            raise web.HTTPServiceUnavailable(text="too many connections", headers=_LATER)
        await ws.prepare(request)
        peer = request.remote or "a client"
        transport = WebSocketTransport(
            ws, peer=peer, max_frame=self._max_frame, stream=request.transport
        )
        try:
            link = await self._serve(transport, Arrival(request.secure, address, protocol.settle))
        except ArcpError as error:  # the runtime is closed, but its server is not
            _log.info("%s was refused: %s", peer, error)
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

    def _check_host(self, request: web.Request) -> None:
        """Refuse requests that a page of another site may have sent (§14).

        A request to a loopback address must name a loopback host or an allowed one. Otherwise a
        page whose DNS name points to this machine could run agents. A request to another address
        may also name an IP address, and any host if no names are configured.
        """
        hosts = request.headers.getall(hdrs.HOST, [])
        name = host_name(hosts)
        if name is None:
            raise web.HTTPBadRequest(text="the request has no valid Host")
        if name not in self._hosts and (
            on_loopback(request.transport) or (self._hosts and not is_address(name))
        ):
            _log.warning("a client was refused: the host %.80s is not allowed", name)
            raise web.HTTPForbidden(
                text="the runtime is not served under this host name; its operator can allow it"
                " with --allow-host, in a program with allowed_hosts="
            )
        origins = request.headers.getall(hdrs.ORIGIN, [])
        if not self._any_origin and not self._hosts.own(origins, hosts[0]):
            raise web.HTTPForbidden(
                text="a page of another site cannot connect to a runtime without auth=; if a proxy"
                " changes Host, allow the name that browsers see with allowed_hosts="
            )

    async def close(self, _app: web.Application | None = None) -> None:
        """Close the links and wait briefly for their end; sessions and jobs continue."""
        for link in tuple(self._links):
            link.finish()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._empty.wait(), _GOODBYE)


_LATER = {"Retry-After": "5"}


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
    ) -> None:
        self._host = host
        self._wanted_port = port
        self._path = path
        self._scheme = "ws" if ssl is None else "wss"
        self._on_enter = on_enter
        app = web.Application()
        app.router.add_get(path, sockets.handle)
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
