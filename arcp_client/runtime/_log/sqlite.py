"""A durable event log in a SQLite file (§6.3)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from arcp_client import _arguments as check
from arcp_client._file_lock import FileLock
from arcp_client._storage import storage_errors
from arcp_client.errors import StorageError, StoreLocked
from arcp_client.runtime._log.entries import Entry, Stored
from arcp_client.runtime._log.sqlite_schema import VERSION, prepare
from arcp_client.runtime._log.sqlite_tables import load, store

__all__ = ["SqliteEventLog"]

T = TypeVar("T")

MIB = 1024 * 1024
_WHAT = "event log"
_CHECKPOINT = 1000
"""Pages that are written before a checkpoint moves them into the main file."""
_LARGEST_WAL = 16_384
"""Pages after which a write makes the checkpoint itself, because a checkpoint that runs beside
writes may never catch up.
"""
_HELD = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class SqliteEventLog:
    """Keeps sessions, jobs and events in a file, so that they survive the runtime's process.

    An event is stored before it is sent. After a restart, clients resume their sessions with their
    tokens; jobs that were running have ended with INTERNAL_ERROR, retryable. The events in memory
    have the bounds of `MemoryEventLog`.

    While the file cannot be written, for example because the disk is full, new sessions, jobs and
    subscriptions are refused with INTERNAL_ERROR, retryable; emitting agents wait, and writes are
    retried. A damaged file is abandoned: running work continues in memory, new work is refused, and
    a CRITICAL record is logged (rule R9).

    One runtime at a time can open the file, which is locked while it is open; the end of the
    process, even by a kill, releases the lock. The file must be on a local disk. While it is open,
    there are further files beside it, whose names end in ``-wal``, ``-shm`` and ``-lock``.

    Args:
        path: the file; created with access for its owner only.
        max_events: events kept for one session.
        max_bytes: bytes of events kept for one session.
        full_sync: events also survive a loss of power; this costs some milliseconds for each batch.
    """

    durable = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_events: int = 100_000,
        max_bytes: int = 64 * MIB,
        full_sync: bool = False,
    ) -> None:
        check.a_number("max_events", max_events, least=1)
        check.a_number("max_bytes", max_bytes, least=1)
        self.max_events = max_events
        self.max_bytes = max_bytes
        check.a_path("path", path)
        check.a_flag("full_sync", full_sync)
        self.path = Path(path)
        self._full_sync = full_sync
        self._thread: ThreadPoolExecutor | None = None
        self._database: sqlite3.Connection | None = None
        self._lock = FileLock(Path(f"{os.path.realpath(path)}-lock"))
        self._checkpoints: ThreadPoolExecutor | None = None
        self._checkpoint: asyncio.Future[None] | None = None
        self._checkpointing: sqlite3.Connection | None = None
        self._pages = 0

    def __repr__(self) -> str:
        return f"<SqliteEventLog {self.path}>"

    async def open(self) -> Stored:
        """Open the file, creating it if missing; return its content.

        Raises:
            StoreLocked: another runtime has the file open.
            StorageError: the file is not an event log, has a newer version, is damaged, or cannot
                be read or written. The log is closed again and can be opened later.
        """
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="arcp event log")
        try:
            return await self._call(self._open)
        except BaseException:
            await self.close()
            raise

    async def write(self, entries: Sequence[Entry]) -> None:
        """Store entries atomically.

        Raises:
            StorageError: the entries could not be stored; ``permanent`` if the file is damaged.
        """
        await self._call(lambda: self._write(entries))
        self._pages += 4 + len(entries) // 16  # about
        if self._pages >= _CHECKPOINT and (self._checkpoint is None or self._checkpoint.done()):
            self._pages = 0
            if self._checkpoints is None:
                self._checkpoints = ThreadPoolExecutor(1, thread_name_prefix="arcp checkpoints")
            loop = asyncio.get_running_loop()
            self._checkpoint = loop.run_in_executor(self._checkpoints, self._move)

    async def close(self) -> None:
        """Close the file. Idempotent."""
        checkpoints, self._checkpoints = self._checkpoints, None
        thread, self._thread = self._thread, None
        loop = asyncio.get_running_loop()
        if checkpoints is not None:
            await loop.run_in_executor(checkpoints, self._end_checkpoints)
            checkpoints.shutdown(wait=False)
        if thread is not None:
            await loop.run_in_executor(thread, self._close)
            thread.shutdown(wait=False)

    async def _call(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            raise RuntimeError("the event log is not open")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # ------------------------------------------------------- in the thread of checkpoints

    def _move(self) -> None:
        """Move written pages into the main file. This waits for the disk, but delays no write."""
        with contextlib.suppress(sqlite3.Error):  # a write meets the same fault, and reports it
            if self._checkpointing is None:
                self._checkpointing = sqlite3.connect(self.path, isolation_level=None, timeout=0)
            self._checkpointing.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def _end_checkpoints(self) -> None:
        database, self._checkpointing = self._checkpointing, None
        if database is not None:
            with contextlib.suppress(sqlite3.Error):
                database.close()

    # ------------------------------------------------------------- in the log's own thread

    def _open(self) -> Stored:
        with storage_errors(self.path, _WHAT):
            if not self._lock.take():
                raise StoreLocked(f"another runtime has {self.path} open")
            self.path.touch(mode=0o600)
            database = sqlite3.connect(self.path, isolation_level=None, timeout=0)
            self._database = database
            try:
                version = self._prepare(database)
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF in _HELD:
                    raise StoreLocked(f"another runtime has {self.path} open") from None
                raise
            if version > VERSION:
                raise StorageError(
                    f"the event log {self.path} was written by a newer version of this package",
                    path=str(self.path),
                    permanent=True,
                )
            return load(database)

    def _prepare(self, database: sqlite3.Connection) -> int:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"PRAGMA wal_autocheckpoint = {_LARGEST_WAL}")
        database.execute(f"PRAGMA synchronous = {'FULL' if self._full_sync else 'NORMAL'}")
        return prepare(database)

    def _write(self, entries: Sequence[Entry]) -> None:
        assert self._database is not None
        with storage_errors(self.path, _WHAT):
            store(self._database, entries)

    def _close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            with contextlib.suppress(sqlite3.Error):  # a damaged file is closed too
                database.close()
        self._lock.free()
