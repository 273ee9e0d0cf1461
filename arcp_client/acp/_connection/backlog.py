"""Lines that memory has no room for in, the same lines out in order: an unlinked temporary file.

`Store` keeps the account over all sessions of a connection, so that the bounds hold for them
together; each lane has a `Spool` of its own, since lanes empty at their own pace.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from typing import IO

from arcp_client.policy import Buffer

__all__ = ["Spool", "Store"]

_BLOCK = 64 * 1024
_LENGTH = 4


class Store:
    """How much waits for handlers, in memory and in files, over all sessions of one connection."""

    def __init__(self, buffer: Buffer) -> None:
        self.hard = buffer.hard
        self.bytes = buffer.bytes
        self.spill = buffer.spill
        self.held_lines = 0
        self.held_bytes = 0
        self.spilled_bytes = 0
        self.full = False
        self._room: asyncio.Event | None = None

    def freed(self) -> None:
        """Something has been consumed."""
        if self.full:
            self.full = False
            if self._room is not None:
                self._room.set()

    async def room(self) -> None:
        """Wait until something has been consumed."""
        self.full = True
        self._room = asyncio.Event()
        await self._room.wait()


class Spool:
    """A queue of lines in a file that nobody else can open; made with the first line."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._file: IO[bytes] | None = None
        self._end = 0
        self._at = 0
        self._block = b""
        self._block_at = 0

    def append(self, line: bytes) -> bool:
        """Write one line behind the others; False if the bound or the disk has no room."""
        record = len(line).to_bytes(_LENGTH, "big") + line
        store = self._store
        if store.spilled_bytes + len(record) > store.spill:
            return False
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # lives as long as self
            view, at = memoryview(record), self._end
            while view:
                written = os.pwrite(self._file.fileno(), view, at)
                view, at = view[written:], at + written
        except OSError:
            return False
        self._end += len(record)
        store.spilled_bytes += len(record)
        return True

    def next(self) -> bytes:
        """The oldest line."""
        length = int.from_bytes(self._read(_LENGTH), "big")
        line = self._read(length)
        if self._at == self._end:
            self._reset()
        return line

    def close(self) -> None:
        """Forget everything."""
        self._reset()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, size: int) -> bytes:
        start = self._at - self._block_at
        piece = self._block[start : start + size]
        if len(piece) < size:
            assert self._file is not None
            wanted = min(max(size, _BLOCK), self._end - self._at)
            self._block, self._block_at = self._whole(self._at, wanted), self._at
            piece = self._block[:size]
        self._at += size
        return piece

    def _whole(self, at: int, size: int) -> bytes:
        assert self._file is not None
        pieces = []
        while size:
            piece = os.pread(self._file.fileno(), size, at)
            if not piece:
                raise OSError("the temporary file is shorter than what was written to it")
            pieces.append(piece)
            at, size = at + len(piece), size - len(piece)
        return b"".join(pieces)

    def _reset(self) -> None:
        # The file counts with its whole length, read or not, so it is cut as soon as it is empty.
        self._store.spilled_bytes -= self._end
        self._end = self._at = self._block_at = 0
        self._block = b""
        if self._file is not None:
            self._file.truncate(0)
