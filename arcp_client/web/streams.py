"""What a viewer is to be told in, an HTTP response that lasts out: server-sent events over aiohttp.

A stream writes as fast as its reader reads, and no faster. It ends when what it plays has ended,
when its reader has gone or takes nothing for too long, or when the application is shut down.
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

from arcp_client.web import frames

__all__ = ["EventStream", "Streams"]

_log = logging.getLogger("arcp_client.web")

_BEAT = 15.0
_LOOK = 1.0
_STALL = 30.0
_GOODBYE = 1.0

_ALL: weakref.WeakKeyDictionary[web.Application, Streams] = weakref.WeakKeyDictionary()


class Streams:
    """The streams of one application that are open.

    Args:
        limit: how many there may be.

    Attributes:
        ends: the application's shutdown ends them.
    """

    def __init__(self, *, limit: int = 512) -> None:
        self.limit = limit
        self.ends = False
        self._open: set[EventStream] = set()
        self._none = asyncio.Event()
        self._closed = False

    @classmethod
    def of(cls, app: web.Application) -> Streams:
        """Those of this application."""
        found = _ALL.get(app)
        if found is None:
            found = _ALL[app] = cls()
        return found

    def __len__(self) -> int:
        return len(self._open)

    @property
    def full(self) -> bool:
        """Whether there may be no more."""
        return len(self._open) >= self.limit

    def add(self, stream: EventStream) -> None:
        """It is open."""
        self._open.add(stream)
        self._none.clear()
        if self._closed:
            stream.stop()

    def discard(self, stream: EventStream) -> None:
        """It has ended."""
        self._open.discard(stream)
        if not self._open:
            self._none.set()

    async def close(self) -> None:
        """End all of them, within a second or so."""
        self._closed = True
        for stream in tuple(self._open):
            stream.stop()
        if self._open:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GOODBYE):
                    await self._none.wait()
        for stream in tuple(self._open):  # whoever does not read is not waited for
            stream.abort()


class EventStream(web.StreamResponse):
    """A response of server-sent events, for as long as there is something to tell.

    Return it from a handler. While it plays, its function calls `send` and `rest`.

    Args:
        play: what to tell; called with the stream and the request once the headers are sent.

    Attributes:
        allowed: whether its reader may still be told anything.
        wake: set when there may be something to tell.
    """

    def __init__(self, play: Callable[[EventStream, web.Request], Awaitable[None]]) -> None:
        super().__init__(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",  # nginx would wait for more
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
        """Whether it is to end."""
        return self._stopped or not self.allowed()

    def stop(self) -> None:
        """Let it end as soon as it is woken up."""
        self._stopped = True
        self.wake.set()

    def stop_after(self, seconds: float) -> None:
        """Let it end after this time; its reader comes again and goes on where it was."""
        self._end = asyncio.get_running_loop().call_later(seconds, self.stop)

    def abort(self) -> None:
        """End it, whether or not its reader takes anything."""
        transport = self._request.transport if self._request is not None else None
        if transport is not None:
            transport.abort()

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        """Send the headers. aiohttp calls it."""
        self._request = request
        return await super().prepare(request)

    async def write_eof(self, data: bytes = b"") -> None:
        """Play, then end the response. aiohttp calls it once the handler has returned."""
        request = self._request
        if not self._played and isinstance(request, web.Request) and request.method != "HEAD":
            self._played = True
            streams = Streams.of(request.app)
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

    async def send(self, data: bytes) -> None:
        """Write; returns when the reader has taken most of it.

        Raises:
            ConnectionError: the reader has gone, or has taken nothing for half a minute.
        """
        self._sent = time.monotonic()
        try:
            async with asyncio.timeout(_STALL):
                await self.write(data)
        except TimeoutError:
            self.abort()
            raise ConnectionResetError("the reader takes nothing") from None

    async def rest(self) -> None:
        """Wait until there may be something to tell, a second at most.

        Raises:
            ConnectionError: the reader has gone.
        """
        if not self._stopped:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await self.wake.wait()
        self.wake.clear()
        transport = self._request.transport if self._request is not None else None
        if transport is None or transport.is_closing():  # its place is free at once
            raise ConnectionResetError("the reader has gone")
        if time.monotonic() - self._sent >= _BEAT:
            await self.send(frames.BEAT)


def _always() -> bool:
    return True
