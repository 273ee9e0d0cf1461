"""Sends server-sent events to a browser over aiohttp.

The reader of a stream is the browser. A stream writes as fast as its reader reads. It ends when its
``play`` function returns, when the reader disconnects or does not read for half a minute, or when
the application shuts down.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import weakref
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.web_request import BaseRequest

from arcp_client.web._feeds import frames

__all__ = ["EventStream", "OpenStreams"]

_log = logging.getLogger("arcp_client.web")

_KEEPALIVE = 15.0
_POLL_INTERVAL = 1.0
_WRITE_TIMEOUT = 30.0
_CLOSE_TIMEOUT = 1.0

_BY_APP: weakref.WeakKeyDictionary[web.Application, OpenStreams] = weakref.WeakKeyDictionary()


class OpenStreams:
    """The open streams of one application.

    Args:
        limit: the maximum number of open streams.

    Attributes:
        end_at_shutdown: whether the shutdown of the application ends the streams.
    """

    def __init__(self, *, limit: int = 512) -> None:
        self.limit = limit
        self.end_at_shutdown = False
        self._open: set[EventStream] = set()
        self._none = asyncio.Event()
        self._closed = False

    @classmethod
    def of(cls, app: web.Application) -> OpenStreams:
        """The open streams of this application."""
        found = _BY_APP.get(app)
        if found is None:
            found = _BY_APP[app] = cls()
        return found

    def __len__(self) -> int:
        return len(self._open)

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return len(self._open) >= self.limit

    def add(self, stream: EventStream) -> None:
        """Register a stream that starts."""
        self._open.add(stream)
        self._none.clear()
        if self._closed:
            stream.stop()

    def discard(self, stream: EventStream) -> None:
        """Remove a stream that has ended."""
        self._open.discard(stream)
        if not self._open:
            self._none.set()

    async def close(self) -> None:
        """End all streams, within about a second."""
        self._closed = True
        for stream in tuple(self._open):
            stream.stop()
        if self._open:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_TIMEOUT):
                    await self._none.wait()
        for stream in tuple(self._open):  # their readers do not read
            stream.abort()


class EventStream(web.StreamResponse):
    """A response of server-sent events, which a handler returns.

    Args:
        play: sends the events with `send` and `wait`; called with the stream and the request after
            the headers were sent.

    Attributes:
        allowed: returns whether the reader is still authorized.
        wake: set this when there may be something to send.
    """

    def __init__(self, play: Callable[[EventStream, web.Request], Awaitable[None]]) -> None:
        super().__init__(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",  # nginx would buffer the events
            }
        )
        self._play = play
        self._request: BaseRequest | None = None
        self._stopped = False
        self._played = False
        self._end: asyncio.TimerHandle | None = None
        self._sent = 0.0
        self.allowed: Callable[[], bool] = _always
        self.wake = asyncio.Event()

    @property
    def stopped(self) -> bool:
        """Whether the stream must end."""
        return self._stopped or not self.allowed()

    def stop(self) -> None:
        """End the stream as soon as `play` checks `stopped`."""
        self._stopped = True
        self.wake.set()

    def stop_after(self, seconds: float) -> None:
        """End the stream after this time; the browser reconnects and continues."""
        self._end = asyncio.get_running_loop().call_later(seconds, self.stop)

    def abort(self) -> None:
        """Close the connection at once, even while a write is blocked."""
        transport = self._request.transport if self._request is not None else None
        if transport is not None:
            transport.abort()

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        """Send the headers. aiohttp calls this."""
        self._request = request
        return await super().prepare(request)

    async def write_eof(self, data: bytes = b"") -> None:
        """Call `play`, then end the response. aiohttp calls this after the handler returned."""
        request = self._request
        if not self._played and isinstance(request, web.Request) and request.method != "HEAD":
            self._played = True
            streams = OpenStreams.of(request.app)
            streams.add(self)
            try:
                await self.send(frames.RETRY)
                await self._play(self, request)
            except ConnectionError:
                return
            finally:
                streams.discard(self)
                if self._end is not None:
                    self._end.cancel()
        await super().write_eof(data)
        self._abort_unless_read(0)

    def _unsent(self) -> int:
        transport = self._request.transport if self._request is not None else None
        return transport.get_write_buffer_size() if transport is not None else 0

    def _abort_unless_read(self, before: int) -> None:
        """After the end, abort the connection if its reader does not read for half a minute."""
        unsent = self._unsent()
        if unsent and unsent == before:
            self.abort()
        elif unsent:
            loop = asyncio.get_running_loop()
            loop.call_later(_WRITE_TIMEOUT, self._abort_unless_read, unsent)

    async def send(self, data: bytes) -> None:
        """Write; returns when the reader has read most of the data.

        Raises:
            ConnectionError: the reader has disconnected, or has read nothing for half a minute.
        """
        self._sent = time.monotonic()
        try:
            async with asyncio.timeout(_WRITE_TIMEOUT):
                await self.write(data)
        except TimeoutError:
            self.abort()
            raise ConnectionResetError("the reader does not read") from None

    async def wait(self) -> None:
        """Wait until there may be something to send, for a second at most.

        Raises:
            ConnectionError: the reader has disconnected.
        """
        if not self._stopped:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_INTERVAL):
                    await self.wake.wait()
        self.wake.clear()
        transport = self._request.transport if self._request is not None else None
        if transport is None or transport.is_closing():  # free the place at once
            raise ConnectionResetError("the reader has disconnected")
        if time.monotonic() - self._sent >= _KEEPALIVE:
            await self.send(frames.KEEPALIVE)


def _always() -> bool:
    return True
