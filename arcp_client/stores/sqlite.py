"""Checkpoints in a SQLite file: they outlive the process, a crash and a reboot.

See rule S10 in docs/explanation/rules.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from pathlib import Path
from typing import TypeVar

import msgspec

from arcp_client import _arguments as check
from arcp_client._file_lock import FileLock
from arcp_client._storage import storage_errors
from arcp_client.errors import StoreLocked
from arcp_client.models import Checkpoint, EndedJob

__all__ = ["SqliteStore"]

T = TypeVar("T")

_WHAT = "checkpoint store"

_SCHEMA = (
    """
CREATE TABLE IF NOT EXISTS checkpoints (
    target TEXT NOT NULL,
    key TEXT NOT NULL,
    session_id TEXT NOT NULL,
    resume_token TEXT NOT NULL,
    mark INTEGER NOT NULL,
    processed TEXT NOT NULL,
    reserved INTEGER NOT NULL,
    jobs TEXT NOT NULL,
    saved_at REAL NOT NULL,
    PRIMARY KEY (target, key)
) WITHOUT ROWID
""",
    """
CREATE TABLE IF NOT EXISTS ended (
    target TEXT NOT NULL,
    key TEXT NOT NULL,
    job_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    payload_hash TEXT NOT NULL,
    outcome TEXT NOT NULL,
    UNIQUE (target, key, job_id)
)
""",
)

_KEPT_FOR = 30 * 24 * 3600.0
"""Seconds after which an unused checkpoint is deleted."""


class SqliteStore:
    """A `CheckpointStore` in one file.

    Only the owner can read the file and the files that SQLite adds, because they contain resume
    tokens (never bearer tokens). One thread writes. When `save` returns, the write is in the
    write-ahead log, where it survives a kill of the process.

    Handle events in handlers that are registered before ``connect()``. An iterator over a job
    begins with events that arrived before the iterator was made, and these count as processed.

    Args:
        path: the file; created if missing. Its directory must exist.
        every: events between two checkpoints. With 1 and a single handler, that handler gets at
            most one event again after a crash.
        interval: seconds between two checkpoints.
    """

    durable = True

    def __init__(
        self, path: str | PathLike[str], *, every: int = 256, interval: float = 0.25
    ) -> None:
        check.a_number("every", every, least=1)
        check.seconds("interval", interval, above=True)
        check.a_path("path", path)
        self.path = Path(path)
        self.every = every
        self.interval = interval
        self._thread: ThreadPoolExecutor | None = None
        self._database: sqlite3.Connection | None = None
        self._locks: dict[tuple[str, str], FileLock] = {}

    async def acquire(self, target: str, key: str) -> Checkpoint | None:
        """Lock a checkpoint and return it; ``None`` if there is none yet.

        Raises:
            StoreLocked: another client, in this or another process, holds it.
            StorageError: the file is damaged, or cannot be read or written. The checkpoint is then
                not locked.
        """
        lock = FileLock(self._beside(target, key, "lock"))
        if (target, key) in self._locks or not lock.take():
            raise StoreLocked(f"another client holds the checkpoint {key!r} of {target}")
        self._locks[target, key] = lock
        try:
            return await self._run(lambda db: _load(db, target, key))
        except BaseException:
            await self.release(target, key)
            raise

    async def save(self, target: str, key: str, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint atomically.

        Raises:
            StorageError: the checkpoint could not be saved.
        """
        await self._run(lambda db: _save(db, target, key, checkpoint))

    async def delete(self, target: str, key: str) -> None:
        """Delete the checkpoint and its stored results. Idempotent."""
        spool = self._beside(target, key, "results")

        def forget(db: sqlite3.Connection) -> None:
            with db:
                for table in ("checkpoints", "ended"):
                    db.execute(f"DELETE FROM {table} WHERE target = ? AND key = ?", (target, key))
            shutil.rmtree(spool, ignore_errors=True)

        await self._run(forget)

    async def release(self, target: str, key: str) -> None:
        """Unlock the checkpoint. The last release closes the file. Idempotent."""
        lock = self._locks.pop((target, key), None)
        if lock is None:
            return
        if not self._locks and self._thread is not None:
            thread, self._thread = self._thread, None
            try:
                # In the thread: after any operation that a cancelled caller left running there.
                await asyncio.get_running_loop().run_in_executor(thread, self._close)
            finally:
                thread.shutdown(wait=False)
                lock.free()
        else:
            lock.free()

    def spool(self, target: str, key: str) -> Path | None:
        """Return the directory for chunked results, next to the file."""
        return self._beside(target, key, "results")

    def _beside(self, target: str, key: str, what: str) -> Path:
        name = hashlib.sha256(json.dumps([target, key]).encode()).hexdigest()[:16]
        return self.path.with_name(f"{self.path.name}.{name}.{what}")

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="arcp_client.stores")
        loop = asyncio.get_running_loop()
        # A cancelled caller must not interrupt a transaction: the thread finishes it, and the next
        # call queues behind it.
        return await loop.run_in_executor(self._thread, lambda: self._work(work))

    def _work(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with storage_errors(self.path, _WHAT):
            return work(self._open())

    def _close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            with contextlib.suppress(sqlite3.Error):  # a damaged file is closed too
                database.close()

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            self.path.chmod(0o600)
            database = sqlite3.connect(self.path, check_same_thread=False, timeout=10.0)
            try:
                _prepare(database)
            except BaseException:
                database.close()
                raise
            self._database = database
        return self._database


def _prepare(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    with database:
        for table in _SCHEMA:
            database.execute(table)
        database.execute("DELETE FROM checkpoints WHERE saved_at < ?", (time.time() - _KEPT_FOR,))
        database.execute(
            "DELETE FROM ended WHERE NOT EXISTS (SELECT 1 FROM checkpoints AS of"
            " WHERE of.target = ended.target AND of.key = ended.key)"
        )


def _load(db: sqlite3.Connection, target: str, key: str) -> Checkpoint | None:
    row = db.execute(
        "SELECT session_id, resume_token, mark, processed, reserved, jobs"
        " FROM checkpoints WHERE target = ? AND key = ?",
        (target, key),
    ).fetchone()
    if row is None:
        return None
    session_id, resume_token, mark, processed, reserved, jobs = row
    ended = db.execute(
        "SELECT job_id, agent, idempotency_key, payload_hash, outcome"
        " FROM ended WHERE target = ? AND key = ? ORDER BY rowid",
        (target, key),
    ).fetchall()
    names = EndedJob.__dataclass_fields__
    kept = {
        "session_id": session_id,
        "resume_token": resume_token,
        "mark": mark,
        "processed": json.loads(processed),
        "reserved": reserved,
        "jobs": json.loads(jobs),
        "ended": [dict(zip(names, values, strict=True)) for values in ended],
    }
    return msgspec.convert(kept, Checkpoint)  # SQLite columns hold values of any type


def _save(db: sqlite3.Connection, target: str, key: str, checkpoint: Checkpoint) -> None:
    jobs = [
        {
            "job_id": job.job_id,
            "agent": job.agent,
            "idempotency_key": job.idempotency_key,
            "payload_hash": job.payload_hash,
            **({"seen": job.seen} if job.seen else {}),
            **({"traceparent": job.traceparent} if job.traceparent else {}),
        }
        for job in checkpoint.jobs
    ]
    with db:
        db.execute(
            "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                target,
                key,
                checkpoint.session_id,
                checkpoint.resume_token,
                checkpoint.mark,
                json.dumps(checkpoint.processed),
                checkpoint.reserved,
                json.dumps(jobs),
                time.time(),
            ),
        )
        _save_ended(db, target, key, checkpoint.ended)


def _save_ended(db: sqlite3.Connection, target: str, key: str, ended: tuple[EndedJob, ...]) -> None:
    """Insert new outcomes and delete removed ones. Kept ones never change."""
    rows = db.execute("SELECT job_id FROM ended WHERE target = ? AND key = ?", (target, key))
    there = {job_id for (job_id,) in rows}
    kept = {job.job_id for job in ended}
    db.executemany(
        "DELETE FROM ended WHERE target = ? AND key = ? AND job_id = ?",
        [(target, key, job_id) for job_id in there - kept],
    )
    db.executemany(
        "INSERT INTO ended VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (
                target,
                key,
                job.job_id,
                job.agent,
                job.idempotency_key,
                job.payload_hash,
                job.outcome,
            )
            for job in ended
            if job.job_id not in there
        ],
    )
