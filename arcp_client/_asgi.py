"""Reads the scopes of ASGI servers, for the runtime's WebSockets and for the dashboard.

ASGI 3 needs no package: an application is a coroutine function of a scope, `receive` and `send`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

__all__ = ["AsgiPeer", "Message", "Receive", "Scope", "Send", "header_values", "serve_lifespan"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class AsgiPeer(asyncio.BaseTransport):
    """The connection of a scope, with the information that a transport has on both ends.

    Args:
        scope: the scope of an HTTP request or a WebSocket.
    """

    def __init__(self, scope: Scope) -> None:
        client, server = scope.get("client"), scope.get("server")
        self._info: dict[str, Any] = {
            "peername": tuple(client) if client else None,
            "sockname": _address(server) if server else None,
            "sslcontext": scope.get("scheme") in ("https", "wss") or None,
        }

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The address of the client or of the server, or whether the connection is encrypted."""
        found = self._info.get(name)
        return default if found is None else found


def _address(server: Any) -> Any:
    host, port = server
    return host if port is None else (host, port)  # a Unix socket has a path only


def header_values(scope: Scope, name: bytes) -> list[str]:
    """The values of a header; ``name`` is in lower case, as servers send them."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


async def serve_lifespan(
    receive: Receive,
    send: Send,
    *,
    start: Callable[[], Awaitable[None]],
    stop: Callable[[], Awaitable[None]],
) -> None:
    """Follow the lifespan of a server: call ``start`` when it begins, ``stop`` when it ends."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            try:
                await start()
            except Exception as error:
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                raise
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await stop()
            await send({"type": "lifespan.shutdown.complete"})
            return
