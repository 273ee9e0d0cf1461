"""Counts the updates that wait for handlers, in memory and in files, over all sessions."""

from __future__ import annotations

import asyncio

from arcp_client._budget import ByteBudget
from arcp_client.policy import Buffer

__all__ = ["Backlog"]


class Backlog:
    """Counts the updates that wait in the lanes of all sessions, and has their limits.

    Args:
        buffer: the bounds.

    Attributes:
        held_lines: updates in memory.
        held_bytes: the bytes of these updates.
        files: counts the bytes in the lanes' files (`SpillFile`).
        full: whether the reader waits in `room`.
    """

    def __init__(self, buffer: Buffer) -> None:
        self._hard = buffer.hard
        self._bytes = buffer.bytes
        self.held_lines = 0
        self.held_bytes = 0
        self.files = ByteBudget(buffer.spill)
        self.full = False
        self._room: asyncio.Event | None = None

    def fits(self, size: int) -> bool:
        """Whether memory has room for one more update. An empty backlog always has room."""
        lines = self.held_lines
        return not lines or (lines < self._hard and self.held_bytes + size <= self._bytes)

    def freed(self) -> None:
        """Count an update that was taken from a lane."""
        if self.full:
            self.full = False
            if self._room is not None:
                self._room.set()

    async def room(self) -> None:
        """Wait until an update is taken from a lane."""
        self.full = True
        self._room = asyncio.Event()
        await self._room.wait()
