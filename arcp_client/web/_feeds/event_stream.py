"""Sends server-sent events to a browser over aiohttp.

`arcp_client._feeds.stream` yields the frames. A stream writes them as fast as its reader reads. It
ends with the frames, when the reader disconnects or does not read for half a minute, and when the
application shuts down.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.web_request import BaseRequest

from arcp_client._feeds import frames
from arcp_client._feeds.stream import FrameStream

__all__ = ["EventStream", "OpenStreams"]

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

    def stop(self) -> None:
        """End the streams that are open now; their readers continue with their next request."""
        for stream in tuple(self._open):
            stream.stop()

    async def close(self) -> None:
        """End all streams, within about a second."""
        self._closed = True
        self.stop()
        if self._open:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_TIMEOUT):
                    await self._none.wait()
        for stream in tuple(self._open):  # their readers do not read
            stream.abort()


class EventStream(web.StreamResponse):
    """A response of server-sent events, which a handler returns.

    Args:
        play: yields the frames; called with the state of the stream and the request after the
            headers were sent.
    """

    def __init__(
        self, play: Callable[[FrameStream, web.Request], AsyncGenerator[bytes, None]]
    ) -> None:
        super().__init__(headers=frames.SSE_HEADERS)
        self._play = play
        self._request: BaseRequest | None = None
        self._played = False
        self._end: asyncio.TimerHandle | None = None
        self._stream = FrameStream(interval=_POLL_INTERVAL, connected=self._connected)

    def authorize(self, allowed: Callable[[], bool]) -> None:
        """End the stream as soon as this function returns False."""
        self._stream.allowed = allowed

    def stop(self) -> None:
        """End the stream after the frame that is being written."""
        self._stream.stop()

    def stop_after(self, seconds: float) -> None:
        """End the stream after this time; the browser reconnects and continues."""
        self._end = asyncio.get_running_loop().call_later(seconds, self.stop)

    def abort(self) -> None:
        """Close the connection at once, also while a write is blocked."""
        transport = self._request.transport if self._request is not None else None
        if transport is not None:
            transport.abort()

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        """Send the headers. aiohttp calls this."""
        self._request = request
        return await super().prepare(request)

    async def write_eof(self, data: bytes = b"") -> None:
        """Write the frames, then end the response. aiohttp calls this after the handler."""
        request = self._request
        if not self._played and isinstance(request, web.Request) and request.method != "HEAD":
            self._played = True
            streams = OpenStreams.of(request.app)
            streams.add(self)
            try:
                async with aclosing(self._play(self._stream, request)) as source:
                    async for frame in source:
                        await self._send(frame)
                if not self._connected():
                    return
            except ConnectionError:
                return
            finally:
                streams.discard(self)
                if self._end is not None:
                    self._end.cancel()
        await super().write_eof(data)
        self._abort_unless_read(0)

    def _connected(self) -> bool:
        transport = self._request.transport if self._request is not None else None
        return transport is not None and not transport.is_closing()

    def _unsent(self) -> int:
        transport = self._request.transport if self._request is not None else None
        return transport.get_write_buffer_size() if transport is not None else 0

    def _abort_unless_read(self, before: int) -> None:
        """After the end, abort the connection once its reader reads nothing for half a minute."""
        unsent = self._unsent()
        if unsent and unsent == before:
            self.abort()
        elif unsent:
            loop = asyncio.get_running_loop()
            loop.call_later(_WRITE_TIMEOUT, self._abort_unless_read, unsent)

    async def _send(self, frame: bytes) -> None:
        """Write; returns when the reader has read most of the data.

        Raises:
            ConnectionError: the reader has disconnected, or has read nothing for half a minute.
        """
        try:
            async with asyncio.timeout(_WRITE_TIMEOUT):
                await self.write(frame)
        except TimeoutError:
            self.abort()
            raise ConnectionResetError("the reader does not read") from None
