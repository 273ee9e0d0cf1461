"""Connections in, those that there is room for out: a server that idle ones cannot wear out.

aiohttp takes any number of connections and waits for ever for the first request of each. Whoever
reaches the port could so use up the files that the process may open, and with them the link to the
runtime.
"""

from __future__ import annotations

import asyncio
import logging

from aiohttp import web
from aiohttp.http import HttpProcessingError

__all__ = ["Door", "logger"]

_LIMIT = 1024
_FIRST = 30.0
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)


class _Failures(logging.Filter):
    """What a browser sent wrong is not our failure; and its headers may hold a token."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, HttpProcessingError)


logger = logging.getLogger("arcp_client.web.http")
"""What aiohttp's own protocol has to say."""
logger.addFilter(_Failures())


class Door:
    """Makes the protocols of a server's connections; for ``loop.create_server``.

    Args:
        server: the server.
        limit: connections at a time; others are answered that there are too many.
        first: seconds within which the first request of one has to be there.
    """

    def __init__(self, server: web.Server, *, limit: int = _LIMIT, first: float = _FIRST) -> None:
        self._server = server
        self._limit = limit
        self._first = first
        self._silent: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    def __call__(self) -> asyncio.Protocol:
        """The protocol of a connection that comes in."""
        if len(self._server.connections) >= self._limit:
            return _Full()
        protocol = self._server()
        loop = asyncio.get_running_loop()
        self._silent[protocol] = loop.call_later(self._first, self._hang_up, protocol)
        return protocol

    def heard(self, protocol: web.RequestHandler) -> None:
        """A request came over this connection."""
        timer = self._silent.pop(protocol, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Leave no timer behind."""
        for timer in self._silent.values():
            timer.cancel()
        self._silent.clear()

    def _hang_up(self, protocol: web.RequestHandler) -> None:
        self._silent.pop(protocol, None)
        protocol.force_close()


class _Full(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(_FULL)
        transport.close()
