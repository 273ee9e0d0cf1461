"""Locks a file for one holder at a time, in this or another process."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["FileLock"]


class FileLock:
    """A lock of the operating system on a separate file. The end of a process releases it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def take(self) -> bool:
        """Lock the file; return False if another holder has it."""
        while True:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            if not _lock(fd):
                os.close(fd)
                return False
            try:
                same = os.path.samestat(os.fstat(fd), self._path.stat())
            except FileNotFoundError:
                same = False
            if same:
                self._fd = fd
                return True
            os.close(fd)  # the holder removed the file in between: lock the new one

    def free(self) -> None:
        """Unlock the file and remove it."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            self._path.unlink(missing_ok=True)
            os.close(fd)


if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _lock(fd: int) -> bool:
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
