"""Queues received lines for one receiver, and pauses the source while the queue is full."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from arcp_client.errors import LinkLost, RemoteProtocolError
from arcp_client.transports._ending import again

__all__ = ["Inbox"]

_HIGH = 1024 * 1024
_LOW = 256 * 1024
_OVERHEAD = 128  # so that many tiny frames count as well


class Inbox:
    """What has arrived and was not received yet.

    Args:
        pause: called when more is held than wanted; the source should stop.
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
        """Why the link has ended, if it has; what arrived before can still be received."""
        return self._lost

    def put(self, items: Iterable[bytes | RemoteProtocolError]) -> None:
        """Take what arrived. Ignored after the end."""
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
        """Nothing will arrive any more. The first reason stays.

        Args:
            error: what `get` raises once all that arrived was received.
            forget: drop what was not received yet.
        """
        if self._lost is None:
            self._lost = error
        if forget:
            self._items.clear()
            self._size = 0
        self._wake()

    async def get(self) -> bytes:
        """The next frame; a cancelled call loses none.

        Raises:
            RemoteProtocolError: one line was dropped; call again.
            LinkLost: the link has ended; again at every call.
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

    def _wake(self) -> None:
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)


def _weight(item: bytes | RemoteProtocolError) -> int:
    return _OVERHEAD + (len(item) if isinstance(item, bytes) else 0)
