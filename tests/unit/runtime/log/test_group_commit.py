"""What is written together: batches of all sessions, bounded, all or none (R9)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from arcp_client._tasks import TaskOwner
from arcp_client._wire.stamp import ENVELOPE, Record
from arcp_client.errors import StorageError
from arcp_client.runtime import SqliteEventLog
from arcp_client.runtime._log.entries import (
    Appended,
    Entry,
    Freed,
    Gone,
    Numbered,
    SessionState,
    Stored,
    Trimmed,
    Watch,
)
from arcp_client.runtime._log.event_log import MemoryEventLog
from arcp_client.runtime._log.journal import Journal
from arcp_client.runtime._log.sqlite_schema import upgrade_runs
from arcp_client.testing import VirtualClock

MIB = 1024 * 1024


def event(index: int, *, job: str = "job_1", seq: int | None = None, size: int = 100) -> Appended:
    """An event of the session ``sess_1``."""
    record = Record(
        id=f"{job} {index}".encode(),
        type=b"job.event",
        job=b"",
        payload=b"x" * size,
        job_id=job,
        index=index,
        size=size + ENVELOPE,
    )
    return Appended(record, index + 1 if seq is None else seq, "sess_1")


class Log(MemoryEventLog):
    """Durable in name. A write takes a time for each call and for each byte of its events."""

    durable = True

    def __init__(self, *, call: float = 0.0, byte: float = 0.0) -> None:
        super().__init__()
        self.call = call
        self.byte = byte
        self.errors: list[Exception] = []
        self.writes: list[list[Entry]] = []
        self.took: list[float] = []

    async def write(self, entries: Sequence[Entry]) -> None:
        took = self.call + self.byte * sum(_size(entry) for entry in entries)
        await asyncio.sleep(took)
        if self.errors:
            raise self.errors.pop()
        self.writes.append(list(entries))
        self.took.append(took)


def _size(entry: Entry) -> int:
    return entry.record.size if isinstance(entry, Appended) else 0


class Session:
    """Notes what was stored when it was settled."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.settled: list[tuple[int, int]] = []

    def settle(self, seq: int) -> None:
        self.settled.append((seq, len(self._log.writes)))


def virtual(scenario: Callable[[TaskOwner], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        tasks = TaskOwner("group commit")
        await scenario(tasks)
        await tasks.close()

    VirtualClock().run(run())


def test_events_of_all_sessions_that_come_during_a_write_are_stored_by_the_next_one() -> None:
    async def scenario(tasks: TaskOwner) -> None:
        log = Log(call=1.0)
        journal = Journal(log, tasks, MIB)
        sessions = [Session(log) for _ in range(50)]
        journal.append(event(0, job="first"), sessions[0])
        await asyncio.sleep(0.5)
        for number, session in enumerate(sessions):
            journal.append(event(0, job=f"job_{number}", seq=7), session)
        await journal.flushed()
        assert [len(entries) for entries in log.writes] == [1, 50]
        assert sessions[0].settled == [(1, 1), (7, 2)]
        assert all(session.settled == [(7, 2)] for session in sessions[1:])

    virtual(scenario)


def test_what_piled_up_is_stored_in_bounded_batches_each_settled_as_it_is_stored() -> None:
    async def scenario(tasks: TaskOwner) -> None:
        log = Log(call=1.0)  # so slow that batches become as small as they ever are
        journal = Journal(log, tasks, 100 * MIB)
        session = Session(log)
        for index in range(20_000):
            journal.append(event(index), session)
            if index == 0:
                await asyncio.sleep(0)
        await journal.flushed()
        entries = [entry for batch in log.writes for entry in batch]
        assert [entry.record.index for entry in entries if isinstance(entry, Appended)] == list(
            range(20_000)
        )
        assert max(sum(map(_size, batch)) for batch in log.writes) <= MIB // 4 + 350
        stored = 0
        for (seq, writes), batch in zip(session.settled, log.writes, strict=True):
            stored += len(batch)
            assert seq == stored  # no event before the batch that holds it
            assert log.writes[writes - 1] is batch

    virtual(scenario)


def test_batches_shrink_until_one_is_written_in_ten_milliseconds_and_grow_again() -> None:
    async def scenario(tasks: TaskOwner) -> None:
        log = Log(byte=0.01 / (100 * 1024))  # 100 KiB in ten milliseconds
        journal = Journal(log, tasks, 100 * MIB)
        session = Session(log)

        async def flood() -> None:
            for index in range(20_000):
                journal.append(event(index), session)
                if index % 50 == 0:
                    await asyncio.sleep(0.001)
            await journal.flushed()

        await flood()
        assert max(log.took[-10:]) <= 0.0101
        assert len(log.writes[-5]) > 150  # and not smaller than it has to be
        log.byte, log.writes = 0.0, []
        for _ in range(10):
            for index in range(4000):
                journal.append(event(index), session)
            await journal.flushed()
        assert max(map(len, log.writes)) > 2500

    virtual(scenario)


def test_a_log_that_is_slow_at_any_size_still_gets_batches_of_64_kib() -> None:
    async def scenario(tasks: TaskOwner) -> None:
        log = Log(call=0.05)  # as a disk that is asked to write through
        journal = Journal(log, tasks, 100 * MIB)
        session = Session(log)
        for index in range(10_000):
            journal.append(event(index), session)
            if index % 100 == 0:
                await asyncio.sleep(0.001)
        await journal.flushed()
        assert min(map(len, log.writes[1:-1])) >= 64 * 1024 // 350

    virtual(scenario)


def test_a_batch_that_fails_is_tried_again_whole_and_nothing_goes_before_it() -> None:
    async def scenario(tasks: TaskOwner) -> None:
        log = Log()
        log.errors = [OSError("full"), OSError("full")]
        journal = Journal(log, tasks, 100 * MIB)
        session = Session(log)
        for index in range(10):
            journal.append(event(index), session)
        await asyncio.sleep(0.01)
        for index in range(10, 20):
            journal.append(event(index), session)
        assert session.settled == []
        await journal.flushed()
        assert [len(entries) for entries in log.writes] == [10, 10]
        assert session.settled == [(10, 1), (20, 2)]

    virtual(scenario)


def test_of_a_log_that_is_given_up_every_batch_is_settled_and_none_is_counted_any_more() -> None:
    async def scenario(tasks: TaskOwner) -> None:
        log = Log()
        log.errors = [StorageError("damaged", permanent=True)]
        journal = Journal(log, tasks, 2 * MIB)
        session = Session(log)
        for index in range(10_000):
            journal.append(event(index), session)
        assert journal.full
        await journal.flushed()
        journal.append(event(10_000), session)
        await asyncio.sleep(0.1)
        assert session.settled[-1] == (10_001, 0)
        assert not journal.full

    virtual(scenario)


def test_a_lone_event_is_written_at_once_and_those_that_follow_it_five_milliseconds_later() -> None:
    async def scenario(tasks: TaskOwner) -> None:
        log = Log()
        journal = Journal(log, tasks, 100 * MIB)
        session = Session(log)
        loop = asyncio.get_running_loop()
        written: list[float] = []
        write = log.write

        async def timed(entries: Sequence[Entry]) -> None:
            written.append(loop.time())
            await write(entries)

        log.write = timed  # type: ignore[method-assign]
        began = loop.time()
        for index in range(100):
            journal.append(event(index), session)
            await asyncio.sleep(0.0001)
        await asyncio.sleep(1.0)
        journal.append(event(100), session)
        await asyncio.sleep(0.01)
        moments = [moment - began for moment in written]
        assert moments == pytest.approx([0.0, 0.005, 0.01, 1.01], abs=0.0002)

    virtual(scenario)


def test_nothing_is_gathered_before_an_answer_or_into_a_large_batch() -> None:
    async def scenario(tasks: TaskOwner) -> None:
        log = Log()
        journal = Journal(log, tasks, 100 * MIB)
        session = Session(log)
        loop = asyncio.get_running_loop()
        journal.append(event(0), session)
        await asyncio.sleep(0.001)
        began = loop.time()
        journal.append(event(1), session)
        await asyncio.sleep(0)
        await journal.flushed()
        assert loop.time() == began
        index = 2
        while not log.writes[2:]:
            for _ in range(10):
                journal.append(event(index), session)
                index += 1
            await asyncio.sleep(0)
        assert loop.time() == began
        assert 192 * 1024 <= sum(map(_size, log.writes[2])) < 224 * 1024

    virtual(scenario)


# ------------------------------------------------------------------------------- in the file


async def read(path: Path) -> Stored:
    log = SqliteEventLog(path)
    stored = await log.open()
    await log.close()
    return stored


def session(id: str, floor: int = 0) -> SessionState:
    return SessionState(id, "alice", (), (), floor)


async def test_events_come_back_as_they_were_written_whatever_they_were_written_with(
    tmp_path: Path,
) -> None:
    log = SqliteEventLog(tmp_path / "runtime.db")
    await log.open()
    mixed: list[Appended] = []
    numbered: list[Numbered] = []
    for index in range(300):
        for job in ("job_1", "job_2"):
            mixed.append(event(index, job=job, seq=len(mixed) + 1, size=index))
            if index % 3:
                numbered.append(Numbered("sess_2", len(numbered) + 1, job, index))
    hidden = Appended(event(300).record, 600, None)  # it needs what the session did not negotiate
    entries: list[Entry] = [session("sess_1"), session("sess_2"), *mixed, *numbered, hidden]
    for start in range(0, len(entries), 97):
        await log.write(entries[start : start + 97])
    await log.close()
    stored = await read(log.path)
    expected = sorted([*mixed, hidden], key=lambda e: (e.record.job_id, e.record.index))
    assert stored.appended == expected
    own = [Numbered("sess_1", e.seq, e.record.job_id, e.record.index) for e in mixed]
    assert stored.numbered == [*own, *numbered]


async def test_a_write_that_fails_half_way_leaves_nothing_and_succeeds_when_repeated(
    tmp_path: Path,
) -> None:
    log = SqliteEventLog(tmp_path / "runtime.db")
    await log.open()
    await log.write([session("sess_1"), event(0)])
    batch = [event(1), event(0, job="job_2", seq=3), Numbered("sess_2", 1, "job_1", 1), Gone("s")]
    refuse = "CREATE TEMP TRIGGER no BEFORE INSERT ON numbers BEGIN SELECT RAISE(ABORT, 'no'); END"
    await log._call(lambda: log._database and log._database.execute(refuse))
    for _ in range(2):
        with pytest.raises(StorageError):
            await log.write(batch)
        assert await log._call(lambda: _count(log)) == 1
    await log._call(lambda: log._database and log._database.execute("DROP TRIGGER no"))
    for _ in range(2):  # a commit whose success was not seen is repeated as well
        await log.write(batch)
    await log.close()
    stored = await read(log.path)
    assert [(e.record.job_id, e.record.index) for e in stored.appended] == [
        ("job_1", 0),
        ("job_1", 1),
        ("job_2", 0),
    ]
    assert [(n.session_id, n.seq) for n in stored.numbered] == [
        ("sess_1", 1),
        ("sess_1", 2),
        ("sess_1", 3),
        ("sess_2", 1),
    ]


def _count(log: SqliteEventLog) -> int:
    assert log._database is not None
    ((count,),) = log._database.execute("SELECT count(*) FROM events").fetchall()
    return int(count)


@pytest.mark.parametrize("jobs", [1, 80])
async def test_a_batch_is_one_insert_however_many_jobs_and_events_it_has(
    tmp_path: Path, jobs: int
) -> None:
    log = SqliteEventLog(tmp_path / "runtime.db")
    await log.open()
    statements: list[str] = []
    await log._call(lambda: log._database and log._database.set_trace_callback(statements.append))
    await log.write([event(n, job=f"job_{job}") for n in range(50) for job in range(jobs)])
    assert [text.split()[0] for text in statements] == ["BEGIN", "INSERT", "COMMIT"]
    await log.close()


async def test_a_run_of_events_is_kept_as_long_as_one_of_them_is_needed(tmp_path: Path) -> None:
    log = SqliteEventLog(tmp_path / "runtime.db")
    await log.open()
    run = [event(n) for n in range(10)]
    copies = [Numbered("sess_2", n + 1, "job_1", n) for n in range(10)]
    await log.write([session("sess_1"), session("sess_2"), *run, *copies])

    async def kept(*entries: Entry) -> int:
        await log.write(entries)
        return await log._call(lambda: _count(log))

    assert await kept(Trimmed("job_1", 10)) == 1
    assert await kept(Freed("sess_1", 10), Trimmed("job_1", 10)) == 1
    assert await kept(Freed("sess_2", 9), Trimmed("job_1", 10)) == 1
    assert await kept(Freed("sess_2", 10), Trimmed("job_1", 9)) == 1
    assert await kept(Trimmed("job_1", 10)) == 0
    await log.close()


VERSION_1 = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, floor INTEGER NOT NULL, state BLOB NOT NULL);
CREATE TABLE jobs (id TEXT PRIMARY KEY, number INTEGER NOT NULL, state BLOB NOT NULL,
    gone INTEGER NOT NULL DEFAULT 0);
CREATE TABLE events (
    job_id TEXT NOT NULL, idx INTEGER NOT NULL, seq INTEGER NOT NULL, id BLOB NOT NULL,
    type BLOB NOT NULL, payload BLOB NOT NULL, needs TEXT, PRIMARY KEY (job_id, idx)
) WITHOUT ROWID;
CREATE TABLE numbers (
    session_id TEXT NOT NULL, seq INTEGER NOT NULL, job_id TEXT NOT NULL, idx INTEGER NOT NULL,
    PRIMARY KEY (session_id, seq)
) WITHOUT ROWID;
CREATE INDEX numbers_of_job ON numbers (job_id, idx);
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
PRAGMA user_version = 1;
"""


async def test_a_file_of_the_first_version_is_read_and_written_on(tmp_path: Path) -> None:
    path = tmp_path / "runtime.db"
    indexes = [*range(3), *range(1000, 1600)]  # the history was trimmed, a session holds some
    with sqlite3.connect(path) as database:
        database.executescript(VERSION_1)
        database.executemany(
            "INSERT INTO events VALUES ('job_1', ?, ?, x'41', x'42', ?, NULL)",
            [(index, index + 1, b"%d" % index) for index in indexes],
        )
        database.executemany(
            "INSERT INTO numbers VALUES ('sess_2', ?, 'job_1', ?)",
            [(number + 1, index) for number, index in enumerate(indexes)],
        )
        database.execute("INSERT INTO watches VALUES ('sess_2', 'job_1', 2000, 0)")
    database.close()
    for _ in range(2):  # upgraded, and read again
        stored = await read(path)
        assert [(e.record.index, e.record.payload, e.seq) for e in stored.appended] == [
            (index, b"%d" % index, index + 1) for index in indexes
        ]
        assert stored.numbered == [
            Numbered("sess_2", number + 1, "job_1", index) for number, index in enumerate(indexes)
        ]
        assert stored.watches == [Watch("sess_2", "job_1", 2000, 0)]
    log = SqliteEventLog(path)
    await log.open()
    await log.write([event(1600)])
    await log.close()
    assert (await read(path)).appended[-1].record.index == 1600


async def test_large_events_of_the_first_version_are_spread_over_rows(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "runtime.db", isolation_level=None)
    database.executescript(VERSION_1)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 3 * MIB)  # the default is a thousand million
    database.executemany(
        "INSERT INTO events VALUES ('job_1', ?, ?, x'41', x'42', zeroblob(?), NULL)",
        [(index, index + 1, MIB) for index in range(5)],
    )
    database.execute("BEGIN")
    upgrade_runs(database)
    database.execute("COMMIT")
    assert database.execute("SELECT sum(count) FROM events").fetchall() == [(5,)]
    database.close()
