"""The tables of the event log in SQLite: how entries become rows, and rows become entries."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from arcp_client._wire.stamp import ENVELOPE, Record
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

__all__ = ["insert_events", "insert_numbers", "load", "store"]

_VARIABLES = 900
"""Values in one statement, at most."""

_encode = msgspec.msgpack.encode
_decode_session = msgspec.msgpack.Decoder(SessionState).decode
_decode_question = msgspec.msgpack.Decoder(QuestionState).decode
_decode_job = msgspec.msgpack.Decoder(LoggedJobState).decode

_UNUSED = (
    "NOT EXISTS (SELECT 1 FROM sessions"
    " WHERE sessions.id = events.session_id AND sessions.floor < events.last)"
    " AND NOT EXISTS (SELECT 1 FROM numbers WHERE numbers.job_id = events.job_id"
    " AND numbers.idx < events.idx + events.count AND numbers.idx + numbers.count > events.idx)"
)


def load(database: sqlite3.Connection) -> Stored:
    """Read all entries; remove what has no use after a restart."""
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
        keys=_typed(KeyState, rows("SELECT principal, key, parameters, accepted, at FROM keys")),
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


def store(database: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    """Write entries in one transaction."""
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


def insert_events(database: sqlite3.Connection, entries: list[Appended]) -> None:
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
    insert_numbers(database, entries)
    latest = {(e.session_id, e.job_id): e.index + 1 for e in entries}
    database.executemany(
        # A later request for earlier history numbers events below `next`.
        "UPDATE watches SET next = max(next, ?) WHERE session_id = ? AND job_id = ?",
        [(following, *watch) for watch, following in latest.items()],
    )


def insert_numbers(database: sqlite3.Connection, entries: list[Numbered]) -> None:
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
    (Appended, insert_events),
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
