"""The schema of the event log in SQLite, and the upgrades of older files."""

from __future__ import annotations

import sqlite3

from arcp_client._wire.stamp import Record
from arcp_client.runtime._log.entries import Appended, Numbered
from arcp_client.runtime._log.sqlite_tables import insert_events, insert_numbers

__all__ = ["VERSION", "prepare", "upgrade_runs"]

VERSION = 4
_UPGRADED = 256
_UPGRADED_BYTES = 1024 * 1024

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


def prepare(database: sqlite3.Connection) -> int:
    """Create the tables of a file, or upgrade it; return the version it had."""
    database.execute("BEGIN IMMEDIATE")
    ((version,),) = database.execute("PRAGMA user_version").fetchall()
    if version == 0:
        _execute(database, _SCHEMA + _EVENTS + _QUESTIONS + _CALLS)
    elif version == 1:
        upgrade_runs(database)
    if version in (1, 2):
        _execute(database, _QUESTIONS)
    if version in (1, 2, 3):
        _execute(database, _CALLS)
    if version < VERSION:
        database.execute(f"PRAGMA user_version = {VERSION}")
    database.execute("COMMIT")
    return int(version)


def _execute(database: sqlite3.Connection, script: str) -> None:
    """Execute statements within the open transaction."""
    for statement in script.split(";"):
        database.execute(statement)


def upgrade_runs(database: sqlite3.Connection) -> None:
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
        if len(entries) == _UPGRADED or size >= _UPGRADED_BYTES:
            insert_events(database, entries)
            entries, size = [], 0
        record = Record(id, type, b"", payload, 0.0, needs, job_id, index)
        entries.append(Appended(record, seq, None))
        size += len(payload)
    if entries:
        insert_events(database, entries)
    if numbers:
        insert_numbers(database, [Numbered(*number) for number in numbers])
