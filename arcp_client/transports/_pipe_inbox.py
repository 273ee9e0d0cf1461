"""Queues received lines for one receiver, and pauses the source while the queue is full."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from arcp_client.errors import LinkLost, RemoteProtocolError
from arcp_client.transports._ending import again
from arcp_client.transports.base import LARGE

__all__ = ["FrameInbox"]

_HIGH = 1024 * 1024
_LOW = 256 * 1024
_OVERHEAD = 128  # fixed cost of an item, so that many tiny frames count too


class FrameInbox:
    """Holds items that have arrived and have not been received yet.

    Args:
        pause: called when the inbox is full; the source should stop.
        resume: called when the receiver has caught up.
    """

    def __init__(self, *, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self._pause = pause
        self._resume = resume
        self._items: deque[bytes | RemoteProtocolError] = deque()
        self._size = 0
        self._receiver: asyncio.Future[None] | None = None
        self._lost: LinkLost | None = None
        self.paused = False

    @property
    def lost(self) -> LinkLost | None:
        """The reason why the link ended; ``None`` while it is open. Earlier items can still be
        received.
        """
        return self._lost

    def put(self, items: Iterable[bytes | RemoteProtocolError]) -> None:
        """Append items; ignored after the end."""
        if self._lost is not None:
            return
        for item in items:
            self._items.append(item)
            self._size += _weight(item)
        self._wake()
        if self._size > _HIGH and not self.paused:
            self.paused = True
            self._pause()

    def end(self, error: LinkLost, *, forget: bool = False) -> None:
        """End the stream of items; the first reason is kept.

        Args:
            error: raised by `get` once every item was received.
            forget: drop the items that were not received yet.
        """
        if self._lost is None:
            self._lost = error
        if forget:
            self._items.clear()
            self._size = 0
        self._wake()

    async def get(self) -> bytes:
        """Return the next frame; cancelling the call loses none.

        Raises:
            RemoteProtocolError: one line was dropped; call again.
            LinkLost: the link has ended; raised again by every later call.
        """
        while not self._items:
            if self._lost is not None:
                raise again(self._lost)
            if self._receiver is not None:
                raise RuntimeError("another task is already inside receive()")
            self._receiver = asyncio.get_running_loop().create_future()
            try:
                await self._receiver
            finally:
                self._receiver = None
        item = self._items.popleft()
        self._size -= _weight(item)
        if self.paused and self._size <= _LOW:
            self.paused = False
            self._resume()
        if isinstance(item, RemoteProtocolError):
            raise item
        return item

    async def get_many(self, limit: int) -> list[bytes]:
        """Return the next frame and those after it that have arrived, up to ``limit``.

        A frame larger than `LARGE` is the last one. Raises as `get`, instead of any frame.
        """
        frames = [await self.get()]
        while (
            self._items
            and isinstance(self._items[0], bytes)
            and len(frames) < limit
            and len(frames[-1]) <= LARGE
        ):
            frames.append(await self.get())
        return frames

    def _wake(self) -> None:
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)


def _weight(item: bytes | RemoteProtocolError) -> int:
    return _OVERHEAD + (len(item) if isinstance(item, bytes) else 0)
