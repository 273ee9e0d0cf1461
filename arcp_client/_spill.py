"""Queues frames in an unlinked temporary file when memory has no room for them.

The client's link and the sessions of an ACP agent use such files. Files with the same `ByteBudget`
share its limit on disk.

See rule D6 in docs/explanation/rules.md.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterator

from arcp_client._budget import ByteBudget

__all__ = ["SpillFile"]

_HEAD = struct.Struct("!I")
_READ_AHEAD = 256 * 1024


class SpillFile:
    """A queue of frames on disk.

    The first frame creates the file, which has no name and mode 0600. It is used as a ring and
    never grows beyond the limit of its budget. Its whole length counts in the budget until the
    queue is empty; then the file is truncated.

    Args:
        budget: counts the bytes of all files that share it.
    """

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self._limit = budget.limit
        self._length = 0  # of the file, as counted in the budget
        self._file: int | None = None
        self._first = 0  # position of the oldest frame, before the wrap around the ring
        self._end = 0
        self._count = 0
        self._ahead = b""
        self._ahead_at = 0

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        """Bytes in use."""
        return self._end - self._first

    def append(self, frame: bytes) -> bool:
        """Append a frame. False if the budget or the disk has no room for it."""
        record = _HEAD.pack(len(frame)) + frame
        longer = max(min(self._end + len(record), self._limit) - self._length, 0)
        if self.size + len(record) > self._limit or self._budget.used + longer > self._limit:
            return False
        try:
            if self._file is None:
                with tempfile.TemporaryFile(buffering=0) as file:
                    self._file = os.dup(file.fileno())
            self._write(self._end, record)
        except OSError:
            return False
        self._budget.add(longer)
        self._length += longer
        self._end += len(record)
        self._count += 1
        return True

    def pop(self) -> bytes:
        """Remove and return the oldest frame.

        Raises:
            IndexError: the queue is empty.
        """
        if not self._count:
            raise IndexError("the spill file is empty")
        (size,) = _HEAD.unpack(self._take(_HEAD.size))
        frame = self._take(size)
        self._count -= 1
        if not self._count:
            self.clear()
        return frame

    def clear(self) -> None:
        """Drop every frame and truncate the file."""
        self._forget()
        if self._file is not None:
            os.ftruncate(self._file, 0)

    def close(self) -> None:
        """Close the file and drop its frames."""
        self._forget()
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __iter__(self) -> Iterator[bytes]:
        while self._count:
            yield self.pop()

    def __del__(self) -> None:
        self.close()

    def _forget(self) -> None:
        self._first = self._end = self._count = 0
        self._ahead = b""
        self._budget.release(self._length)
        self._length = 0

    # -- the ring

    def _take(self, size: int) -> bytes:
        start = self._first - self._ahead_at
        if start < 0 or start + size > len(self._ahead):
            wanted = min(max(size, _READ_AHEAD), self._end - self._first)
            self._ahead = self._read(self._first, wanted)
            self._ahead_at, start = self._first, 0
        self._first += size
        return self._ahead[start : start + size]

    def _write(self, at: int, data: bytes) -> None:
        assert self._file is not None
        while data:
            place = at % self._limit
            written = os.pwrite(self._file, data[: self._limit - place], place)
            at, data = at + written, data[written:]

    def _read(self, at: int, size: int) -> bytes:
        assert self._file is not None
        pieces = []
        while size:
            place = at % self._limit
            piece = os.pread(self._file, min(size, self._limit - place), place)
            if not piece:
                raise OSError("the spill file is shorter than the data written to it")
            pieces.append(piece)
            at, size = at + len(piece), size - len(piece)
        return b"".join(pieces)
