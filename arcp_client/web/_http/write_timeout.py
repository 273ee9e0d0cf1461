"""Closes connections whose clients stop reading a response.

aiohttp waits without a limit until a client has read a response, and keeps the unread rest in
memory. `AccessControl` passes the connection of each response of the dashboard to `WriteTimeout`.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import cast

from aiohttp import web

__all__ = ["WRITE_TIMEOUT", "WriteTimeout"]

WRITE_TIMEOUT = 30.0
"""Seconds after which a connection is closed if its client reads nothing of the unsent data."""
_CHECK_INTERVAL = 5.0

_BY_APP: weakref.WeakKeyDictionary[web.Application, WriteTimeout] = weakref.WeakKeyDictionary()


class WriteTimeout:
    """Aborts each watched connection whose unsent data stays the same for `WRITE_TIMEOUT`.

    A slow client is not affected, because each byte that it reads starts the time anew. A
    connection is watched only until the data of the response is sent, so other responses of the
    application have no time limit. One timer checks all connections.
    """

    def __init__(self) -> None:
        self._watched: dict[asyncio.Transport, tuple[int, float]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def of(cls, app: web.Application) -> WriteTimeout:
        """The `WriteTimeout` of this application."""
        found = _BY_APP.get(app)
        if found is None:
            found = _BY_APP[app] = cls()
        return found

    def __len__(self) -> int:
        return len(self._watched)

    def watch(self, transport: asyncio.BaseTransport | None) -> None:
        """Watch a connection. Call this immediately before each write of a response."""
        if transport is None:  # the client has disconnected
            return
        # No isinstance: the transports of uvloop are no subclasses of asyncio's.
        stream = cast(asyncio.Transport, transport)
        loop = asyncio.get_running_loop()
        self._watched[stream] = (stream.get_write_buffer_size(), loop.time())
        if self._timer is None:
            self._timer = loop.call_later(_CHECK_INTERVAL, self._check)

    def close(self) -> None:
        """Abort the connections that still have unsent data, and stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for transport in self._watched:
            if transport.get_write_buffer_size():
                transport.abort()
        self._watched.clear()

    def _check(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for transport, (before, since) in tuple(self._watched.items()):
            unsent = transport.get_write_buffer_size()
            if unsent != before:
                self._watched[transport] = (unsent, now)
            elif unsent and now - since >= WRITE_TIMEOUT:
                transport.abort()
                del self._watched[transport]
            elif not unsent and now - since >= _CHECK_INTERVAL:  # the response is written by now
                del self._watched[transport]
        if self._watched:
            self._timer = loop.call_later(_CHECK_INTERVAL, self._check)
