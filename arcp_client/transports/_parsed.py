"""Takes the messages that aiohttp has read from a socket and has not delivered, all at once.

``receive()`` of aiohttp delivers one message a call, at a cost above that of decoding the message.
Its queue of parsed messages has no public interface: `ParsedMessages.of` returns ``None`` if this
version of aiohttp has no such queue, and `WebSocketTransport` then receives one message at a time.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Any

import aiohttp
from aiohttp._websocket import reader_py

from arcp_client.transports.base import LARGE

__all__ = ["ParsedMessages"]

_TEXT = aiohttp.WSMsgType.TEXT
_OVERHEAD: int = getattr(reader_py, "MSG_SIZE_OVERHEAD", 0)
"""Bytes that aiohttp adds to the size of each message in its queue."""


class ParsedMessages:
    """The parsed messages of one WebSocket.

    Args:
        queue: aiohttp's ``WebSocketDataQueue``.
        buffer: its messages, each with its size.

    Attributes:
        buffer: the argument.
    """

    __slots__ = ("_queue", "buffer")

    def __init__(self, queue: Any, buffer: deque[tuple[Any, int]]) -> None:
        self._queue = queue
        self.buffer = buffer

    @classmethod
    def of(cls, ws: object) -> ParsedMessages | None:
        """The parsed messages of a WebSocket; ``None`` if they cannot be taken."""
        queue = getattr(ws, "_reader", None)
        buffer = getattr(queue, "_buffer", None)
        return cls(queue, buffer) if isinstance(buffer, deque) else None

    async def take(self, frames: list[bytes], limit: int) -> None:
        """Append the text messages before the first message of another type; never suspends.

        Args:
            frames: the messages so far.
            limit: the length of the list at which to stop. The method also stops after a message
                larger than `LARGE`.
        """
        buffer, first, size = self.buffer, len(frames), 0
        for message, length in islice(buffer, max(limit - first, 0)):
            if message.type is not _TEXT:
                break
            frames.append(message.data)
            size += length + _OVERHEAD
            if length > LARGE:
                break
        if len(frames) > first:
            for _ in range(len(frames) - first):
                last, _ = buffer.popleft()
            # aiohttp counts the bytes in its queue, and pauses and resumes the socket by them. It
            # counts one message with the size of all that were taken.
            buffer.appendleft((last, size - _OVERHEAD))
            await self._queue.read()
