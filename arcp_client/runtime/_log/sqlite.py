"""A durable event log in a SQLite file (§6.3)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from arcp_client import _arguments as check
from arcp_client._file_lock import FileLock
from arcp_client._storage import storage_errors
from arcp_client._wire.stamp import ENVELOPE, Record
from arcp_client.errors import StorageError, StoreLocked
from arcp_client.runtime._log.entries import (
    Appended,
    CredentialState,
    Entry,
    Forgotten,
    Freed,
    Gone,
    KeyState,
    LoggedJobState,
    Numbered,
    QuestionState,
    SessionState,
    Stored,
    Trimmed,
    Watch,
    WebhookCall,
    WebhookDone,
)
from arcp_client.runtime._log.runs import event_runs, number_runs

__all__ = ["SqliteEventLog"]

T = TypeVar("T")

MIB = 1024 * 1024
_VERSION = 4
_WHAT = "event log"
_CHECKPOINT = 1000
"""Pages that are written before a checkpoint moves them into the main file."""
_LARGEST_WAL = 16_384
"""Pages after which a write does so itself: checkpoints beside writes may never catch up."""
_VARIABLES = 900
_UPGRADED = 256
_HELD = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})

_SCHEMA = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, floor INTEGER NOT NULL, state BLOB NOT NULL);
CREATE TABLE jobs (id TEXT PRIMARY KEY, number INTEGER NOT NULL, state BLOB NOT NULL,
    gone INTEGER NOT NULL DEFAULT 0);
CREATE TABLE watches (
    session_id TEXT NOT NULL, job_id TEXT NOT NULL, next INTEGER NOT NULL,
    first INTEGER NOT NULL, PRIMARY KEY (session_id, job_id)
) WITHOUT ROWID;
CREATE TABLE keys (
    principal TEXT NOT NULL, key TEXT NOT NULL, parameters BLOB NOT NULL,
    accepted BLOB NOT NULL, at TEXT NOT NULL, PRIMARY KEY (principal, key)
) WITHOUT ROWID;
CREATE TABLE credentials (
    job_id TEXT NOT NULL, credential_id TEXT NOT NULL, PRIMARY KEY (job_id, credential_id)
) WITHOUT ROWID;
"""

_QUESTIONS = """
CREATE TABLE questions (id TEXT PRIMARY KEY, number INTEGER NOT NULL, state BLOB NOT NULL);
"""

_CALLS = """
CREATE TABLE calls (
    number INTEGER PRIMARY KEY, endpoint TEXT NOT NULL, id TEXT NOT NULL, job_id TEXT NOT NULL,
    at TEXT NOT NULL, body BLOB NOT NULL, UNIQUE (endpoint, id)
);
"""

# A row holds a run: consecutive events of one job from index ``idx`` on; each column has the values
# of all of them. ``seq`` has their numbers in the submitting session, negative for events that it
# does not receive, and ``last`` the highest. ``numbers`` has the runs of other sessions.
_EVENTS = """
CREATE TABLE events (
    job_id TEXT NOT NULL, idx INTEGER NOT NULL, count INTEGER NOT NULL, session_id TEXT NOT NULL,
    last INTEGER NOT NULL, seq BLOB NOT NULL, id BLOB NOT NULL, type BLOB NOT NULL,
    payload BLOB NOT NULL, needs BLOB NOT NULL, PRIMARY KEY (job_id, idx)
) WITHOUT ROWID;
CREATE TABLE numbers (
    session_id TEXT NOT NULL, seq INTEGER NOT NULL, job_id TEXT NOT NULL, idx INTEGER NOT NULL,
    count INTEGER NOT NULL, PRIMARY KEY (session_id, seq)
) WITHOUT ROWID;
CREATE INDEX numbers_of_job ON numbers (job_id, idx);
"""

_UNUSED = (
    "NOT EXISTS (SELECT 1 FROM sessions"
    " WHERE sessions.id = events.session_id AND sessions.floor < events.last)"
    " AND NOT EXISTS (SELECT 1 FROM numbers WHERE numbers.job_id = events.job_id"
    " AND numbers.idx < events.idx + events.count AND numbers.idx + numbers.count > events.idx)"
)


class SqliteEventLog:
    """Keeps sessions, jobs and events in a file, so that they survive the runtime's process.

    An event is stored before it is sent. After a restart, clients resume their sessions with their
    tokens; jobs that were running have ended with INTERNAL_ERROR, retryable. The events in memory
    have the bounds of `MemoryEventLog`.

    While the file cannot be written, for example because the disk is full, new sessions, jobs and
    subscriptions are refused with INTERNAL_ERROR, retryable; emitting agents wait, and writes are
    retried. A damaged file is abandoned: running work continues in memory, new work is refused, and
    a CRITICAL record is logged (R9).

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
            if version > _VERSION:
                raise StorageError(
                    f"the event log {self.path} was written by a newer version of this package",
                    path=str(self.path),
                    permanent=True,
                )
            return self._load(database)

    def _prepare(self, database: sqlite3.Connection) -> int:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"PRAGMA wal_autocheckpoint = {_LARGEST_WAL}")
        database.execute(f"PRAGMA synchronous = {'FULL' if self._full_sync else 'NORMAL'}")
        database.execute("BEGIN IMMEDIATE")
        ((version,),) = database.execute("PRAGMA user_version").fetchall()
        if version == 0:
            _execute(database, _SCHEMA + _EVENTS + _QUESTIONS + _CALLS)
        elif version == 1:
            _upgrade(database)
        if version in (1, 2):
            _execute(database, _QUESTIONS)
        if version in (1, 2, 3):
            _execute(database, _CALLS)
        if version < _VERSION:
            database.execute(f"PRAGMA user_version = {_VERSION}")
        database.execute("COMMIT")
        return int(version)

    def _load(self, database: sqlite3.Connection) -> Stored:
        database.execute(
            f"DELETE FROM events WHERE job_id IN (SELECT id FROM jobs WHERE gone) AND {_UNUSED}"
        )
        database.execute(
            "DELETE FROM jobs WHERE gone AND id NOT IN (SELECT DISTINCT job_id FROM events)"
        )

        def rows(statement: str) -> list[Any]:
            # Fetch all rows: a statement that is not exhausted keeps the file open.
            return database.execute(statement).fetchall()

        appended = [
            entry
            for row in rows(f"SELECT {_RUN} FROM events ORDER BY job_id, idx")
            for entry in _entries(row)
        ]
        numbered = [
            Numbered(entry.session_id, entry.seq, entry.record.job_id, entry.record.index)
            for entry in appended
            if entry.session_id is not None
        ]
        for row in rows("SELECT session_id, seq, job_id, idx, count FROM numbers"):
            session_id, seq, job_id, index, count = msgspec.convert(row, _Range)
            if not 1 <= count <= len(appended):
                raise ValueError("a run of numbers is longer than the stored events")
            numbered += [Numbered(session_id, seq + n, job_id, index + n) for n in range(count)]
        numbered.sort(key=lambda number: (number.session_id, number.seq))
        return Stored(
            sessions=[
                msgspec.structs.replace(_decode_session(state), floor=_number(floor))
                for floor, state in rows("SELECT floor, state FROM sessions")
            ],
            jobs=_job_states(rows("SELECT state FROM jobs WHERE NOT gone ORDER BY number")),
            forgotten=_job_states(rows("SELECT state FROM jobs WHERE gone")),
            appended=appended,
            numbered=numbered,
            watches=_typed(Watch, rows("SELECT session_id, job_id, next, first FROM watches")),
            keys=_typed(
                KeyState, rows("SELECT principal, key, parameters, accepted, at FROM keys")
            ),
            credentials=_typed(
                CredentialState,
                [(*row, True) for row in rows("SELECT job_id, credential_id FROM credentials")],
            ),
            questions=[
                _decode_question(state)
                for (state,) in rows("SELECT state FROM questions ORDER BY number")
            ],
            calls=_typed(
                WebhookCall,
                rows("SELECT endpoint, id, job_id, at, body FROM calls ORDER BY number"),
            ),
        )

    def _write(self, entries: Sequence[Entry]) -> None:
        with storage_errors(self.path, _WHAT):
            self._store(entries)

    def _store(self, entries: Sequence[Entry]) -> None:
        database = self._database
        assert database is not None
        # Within one batch, order matters only among entries of the same kind.
        kinds: dict[type, list[Any]] = defaultdict(list)
        for entry in entries:
            kinds[type(entry)].append(entry)
        database.execute("BEGIN")
        try:
            for kind, apply in _APPLY:
                if kind in kinds:
                    apply(database, kinds[kind])
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:  # SQLite ends the transaction itself when the disk is full
                database.execute("ROLLBACK")
            raise

    def _close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            with contextlib.suppress(sqlite3.Error):  # a damaged file is closed too
                database.close()
        self._lock.free()


_encode = msgspec.msgpack.encode
_decode_session = msgspec.msgpack.Decoder(SessionState).decode
_decode_question = msgspec.msgpack.Decoder(QuestionState).decode
_decode_job = msgspec.msgpack.Decoder(LoggedJobState).decode


def _number(value: object) -> int:
    return msgspec.convert(value, int)


S = TypeVar("S", Watch, KeyState, CredentialState, WebhookCall)


def _typed(kind: type[S], rows: list[Any]) -> list[S]:
    """Convert rows to values with checked types, since SQLite columns hold any type."""
    names = kind.__struct_fields__
    return [msgspec.convert(dict(zip(names, row, strict=True)), kind) for row in rows]


def _job_states(rows: Iterable[tuple[bytes]]) -> list[LoggedJobState]:
    return [_decode_job(state) for (state,) in rows]


def _sessions(database: sqlite3.Connection, entries: list[SessionState]) -> None:
    database.executemany(
        "INSERT INTO sessions VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE"
        " SET state = excluded.state, floor = max(floor, excluded.floor)",
        [(e.id, e.floor, _encode(e)) for e in entries],
    )


def _jobs(database: sqlite3.Connection, entries: list[LoggedJobState]) -> None:
    database.executemany(
        "INSERT OR REPLACE INTO jobs (id, number, state) VALUES (?, ?, ?)",
        [(e.id, e.number, _encode(e)) for e in entries],
    )


def _appended(database: sqlite3.Connection, entries: list[Appended]) -> None:
    _insert(database, "events", [_run(run) for run in event_runs(entries)])


_RUN = "job_id, idx, session_id, seq, id, type, payload, needs"
_Range = tuple[str, int, str, int, int]
_decode_numbers = msgspec.msgpack.Decoder(list[int]).decode
_decode_blobs = msgspec.msgpack.Decoder(list[bytes]).decode
_decode_needs = msgspec.msgpack.Decoder(list[str | None]).decode


def _run(run: list[Appended]) -> tuple[Any, ...]:
    """Make the row of a run."""
    first = run[0].record
    numbers = [entry.seq if entry.session_id else -entry.seq for entry in run]
    return (
        first.job_id,
        first.index,
        len(run),
        next((entry.session_id for entry in run if entry.session_id), ""),
        max(0, *numbers),
        _encode(numbers),
        _encode([entry.record.id for entry in run]),
        _encode([entry.record.type for entry in run]),
        _encode([entry.record.payload for entry in run]),
        _encode([entry.record.needs for entry in run]),
    )


def _entries(row: tuple[Any, ...]) -> Iterator[Appended]:
    """Yield the events of a row."""
    job_id, index, session_id, numbers, *columns = row
    job_id, index, session_id = msgspec.convert((job_id, index, session_id), tuple[str, int, str])
    ids, types, payloads, needs = columns
    for number, id, type, payload, need in zip(
        _decode_numbers(numbers),
        _decode_blobs(ids),
        _decode_blobs(types),
        _decode_blobs(payloads),
        _decode_needs(needs),
        strict=True,
    ):
        size = len(payload) + ENVELOPE
        record = Record(id, type, b"", payload, 0.0, need, job_id, index, size)
        yield Appended(record, abs(number), session_id if number > 0 else None)
        index += 1


def _numbered(database: sqlite3.Connection, entries: list[Numbered]) -> None:
    _ranges(database, entries)
    latest = {(e.session_id, e.job_id): e.index + 1 for e in entries}
    database.executemany(
        # A later request for earlier history numbers events below `next`.
        "UPDATE watches SET next = max(next, ?) WHERE session_id = ? AND job_id = ?",
        [(following, *watch) for watch, following in latest.items()],
    )


def _ranges(database: sqlite3.Connection, entries: list[Numbered]) -> None:
    _insert(
        database,
        "numbers",
        [
            (r[0].session_id, r[0].seq, r[0].job_id, r[0].index, len(r))
            for r in number_runs(entries)
        ],
    )


def _insert(database: sqlite3.Connection, table: str, rows: list[tuple[Any, ...]]) -> None:
    """Insert rows, many by one statement.

    Each statement releases the interpreter lock, and reacquiring it may take long.
    """
    most = _VARIABLES // len(rows[0])
    for start in range(0, len(rows), most):
        some = rows[start : start + most]
        row = f"({', '.join('?' * len(rows[0]))})"
        database.execute(
            f"INSERT OR REPLACE INTO {table} VALUES {', '.join([row] * len(some))}",
            [value for each in some for value in each],
        )


def _execute(database: sqlite3.Connection, script: str) -> None:
    """Execute statements within the open transaction."""
    for statement in script.split(";"):
        database.execute(statement)


def _upgrade(database: sqlite3.Connection) -> None:
    """Upgrade a file of version 1, which had a row for each event and for each number."""
    events = database.execute(
        "SELECT id, type, payload, needs, job_id, idx, seq FROM events ORDER BY job_id, idx"
    ).fetchall()
    numbers = database.execute(
        "SELECT session_id, seq, job_id, idx FROM numbers ORDER BY session_id, seq"
    ).fetchall()
    _execute(database, "DROP TABLE events; DROP TABLE numbers;" + _EVENTS)
    entries: list[Appended] = []
    size = 0
    for id, type, payload, needs, job_id, index, seq in events:
        if len(entries) == _UPGRADED or size >= MIB:
            _appended(database, entries)
            entries, size = [], 0
        record = Record(id, type, b"", payload, 0.0, needs, job_id, index)
        entries.append(Appended(record, seq, None))
        size += len(payload)
    if entries:
        _appended(database, entries)
    if numbers:
        _ranges(database, [Numbered(*number) for number in numbers])


def _watches(database: sqlite3.Connection, entries: list[Watch]) -> None:
    for e in entries:
        if e.next is None:
            database.execute(
                "DELETE FROM watches WHERE session_id = ? AND job_id = ?", (e.session_id, e.job_id)
            )
        else:
            database.execute(
                "INSERT OR REPLACE INTO watches VALUES (?, ?, ?, ?)",
                (e.session_id, e.job_id, e.next, e.first),
            )


def _keys(database: sqlite3.Connection, entries: list[KeyState]) -> None:
    for e in entries:
        if e.accepted is None:
            database.execute(
                "DELETE FROM keys WHERE principal = ? AND key = ?", (e.principal, e.key)
            )
        else:
            database.execute(
                "INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?)",
                (e.principal, e.key, e.parameters, e.accepted, e.at),
            )


def _credentials(database: sqlite3.Connection, entries: list[CredentialState]) -> None:
    for e in entries:
        database.execute(
            "INSERT OR REPLACE INTO credentials VALUES (?, ?)"
            if e.live
            else "DELETE FROM credentials WHERE job_id = ? AND credential_id = ?",
            (e.job_id, e.credential_id),
        )


def _questions(database: sqlite3.Connection, entries: list[QuestionState]) -> None:
    latest = {e.id: e for e in entries}
    database.executemany(
        "INSERT OR REPLACE INTO questions VALUES (?, ?, ?)",
        [(e.id, e.number, _encode(e)) for e in latest.values()],
    )


def _forgotten(database: sqlite3.Connection, entries: list[Forgotten]) -> None:
    database.executemany("DELETE FROM questions WHERE id = ?", [(e.id,) for e in entries])


def _calls(database: sqlite3.Connection, entries: list[WebhookCall]) -> None:
    database.executemany(
        "INSERT OR IGNORE INTO calls (endpoint, id, job_id, at, body) VALUES (?, ?, ?, ?, ?)",
        [(e.endpoint, e.id, e.job_id, e.at, e.body) for e in entries],
    )


def _calls_done(database: sqlite3.Connection, entries: list[WebhookDone]) -> None:
    database.executemany(
        "DELETE FROM calls WHERE endpoint = ? AND id = ?", [(e.endpoint, e.id) for e in entries]
    )


def _freed(database: sqlite3.Connection, entries: list[Freed]) -> None:
    latest = {e.session_id: e.floor for e in entries}
    for session_id, floor in latest.items():
        database.execute("UPDATE sessions SET floor = ? WHERE id = ?", (floor, session_id))
        database.execute(
            "DELETE FROM numbers WHERE session_id = ? AND seq + count <= ?",
            (session_id, floor + 1),
        )


def _trimmed(database: sqlite3.Connection, entries: list[Trimmed]) -> None:
    latest = {e.job_id: e.floor for e in entries}
    for job_id, floor in latest.items():
        database.execute(
            f"DELETE FROM events WHERE job_id = ? AND idx + count <= ? AND {_UNUSED}",
            (job_id, floor),
        )


def _gone(database: sqlite3.Connection, entries: list[Gone]) -> None:
    for e in entries:
        if e.job_id is not None:
            database.execute("UPDATE jobs SET gone = 1 WHERE id = ?", (e.job_id,))
            database.execute("DELETE FROM watches WHERE job_id = ?", (e.job_id,))
            database.execute(f"DELETE FROM events WHERE job_id = ? AND {_UNUSED}", (e.job_id,))
        if e.session_id is not None:
            database.execute("DELETE FROM sessions WHERE id = ?", (e.session_id,))
            database.execute("DELETE FROM watches WHERE session_id = ?", (e.session_id,))
            database.execute("DELETE FROM numbers WHERE session_id = ?", (e.session_id,))


_APPLY: tuple[tuple[type, Callable[[sqlite3.Connection, Any], None]], ...] = (
    (SessionState, _sessions),
    (LoggedJobState, _jobs),
    (Watch, _watches),
    (Appended, _appended),
    (Numbered, _numbered),
    (KeyState, _keys),
    (CredentialState, _credentials),
    (QuestionState, _questions),
    (Forgotten, _forgotten),
    (WebhookCall, _calls),
    (WebhookDone, _calls_done),
    (Freed, _freed),
    (Trimmed, _trimmed),
    (Gone, _gone),
)
