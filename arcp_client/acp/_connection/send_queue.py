"""Queues messages without a waiting caller (answers, cancellations) and sends them in order.

The queue passes one message at a time to the transport. While the agent does not read, messages
wait in the queue, where their bytes are counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from arcp_client._budget import ByteBudget
from arcp_client._tasks import TaskOwner

__all__ = ["SendQueue"]

_LINES = 1024  # lines without a reservation, such as refusals


class SendQueue:
    """The unsent lines of one peer.

    Args:
        send: sends one line; must not raise.
        owner: owns the sender.
        budget: counts the lines' bytes.
    """

    def __init__(
        self, send: Callable[[bytes], Awaitable[None]], owner: TaskOwner, budget: ByteBudget
    ) -> None:
        self._send = send
        self._owner = owner
        self._budget = budget
        self._lines: deque[tuple[bytes, bool]] = deque()
        self._free = self._free_bytes = 0
        self._sender: asyncio.Task[None] | None = None
        self._room = asyncio.Event()

    def put(self, line: bytes, *, reserved: int | None = None) -> None:
        """Append a line.

        Args:
            line: the message.
            reserved: bytes that were reserved for it; its actual size replaces them. None if there
                is no reservation.
        """
        free = reserved is None
        self._budget.add(len(line))
        if reserved:
            self._budget.release(reserved)
        if free:
            self._free += 1
            self._free_bytes += len(line)
        self._lines.append((line, free))
        if self._sender is None:
            self._sender = self._owner.spawn(self._run(), name="outbox")

    @property
    def full(self) -> bool:
        """Whether unreserved lines exceed their limit, so that no more requests may be read."""
        return self._free >= _LINES or self._free_bytes > self._budget.limit

    async def room(self) -> None:
        """Wait until the queue is not `full`."""
        while self.full:
            self._room.clear()
            await self._room.wait()

    def clear(self) -> None:
        """Drop everything, because the link has ended."""
        while self._lines:
            self._sent(*self._lines.popleft())

    async def _run(self) -> None:
        try:
            while self._lines:
                line, free = self._lines.popleft()
                try:
                    await self._send(line)
                finally:
                    self._sent(line, free)
                    del line  # release it: it may be large, and the next one may take long
        finally:
            self._sender = None

    def _sent(self, line: bytes, free: bool) -> None:
        self._budget.release(len(line))
        if free:
            self._free -= 1
            self._free_bytes -= len(line)
            self._room.set()
