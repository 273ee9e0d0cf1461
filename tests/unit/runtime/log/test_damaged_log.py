"""An event log that is damaged, or cannot be written: one error that names the file (R9)."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcp_client.errors import ArcpError, StorageError
from arcp_client.runtime import JobContext, Limits, Runtime, SqliteEventLog
from arcp_client.runtime._log.entries import Entry, KeyState
from tests.unit.runtime.log.test_sqlite import connected, quick, resumed
from tests.unit.runtime.peer import Peer, seqs


async def written(path: Path) -> Path:
    """A log in which something happened."""
    async with Runtime(event_log=SqliteEventLog(path)) as runtime:
        quick(runtime)
        peer = await connected(runtime)
        lease = {"cost.budget": ["USD:1"], "tool.call": ["*"]}
        for n in range(20):
            await peer.run("quick", n, lease_request=lease, idempotency_key=f"key {n}")
        observer = await connected(runtime)
        listed = (await observer.ask("session.list_jobs"))["payload"]["jobs"]
        await observer.ask("job.subscribe", {"job_id": listed[0]["job_id"], "history": True})
    return path


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "runtime.db"
    return asyncio.run(written(path))


async def opened(path: Path) -> StorageError | None:
    """Open a runtime on a file, or say why that failed; the file must be free afterwards."""
    runtime = Runtime(event_log=SqliteEventLog(path))
    error = await _open(runtime)
    await runtime.close()
    if error is not None:
        # Not a word of "another runtime has it open": what failed holds nothing.
        again = await _open(Runtime(event_log=SqliteEventLog(path)))
        assert str(again) == str(error)
        assert error.path == str(path)
        assert str(path) in str(error)
        assert error.remedy
    return error


async def _open(runtime: Runtime) -> StorageError | None:
    try:
        async with runtime:
            return None
    except StorageError as error:
        return error


def changed(*statements: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with sqlite3.connect(path) as database:
            for statement in statements:
                database.execute(statement)
        database.close()

    return change


def truncated(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def no_database(path: Path) -> None:
    path.write_bytes(b"no database at all" * 100)


def zeroed(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4096] + bytes(len(data) - 4096))


DAMAGE: dict[str, Callable[[Path], None]] = {
    "no database": no_database,
    "truncated": truncated,
    "zeroed": zeroed,
    "a newer version": changed("PRAGMA user_version = 99"),
    "another schema": changed("DROP TABLE events", "CREATE TABLE events (a, b)"),
    "a table is missing": changed("DROP TABLE watches"),
    "a session that is no session": changed("UPDATE sessions SET state = x'00'"),
    "a session without a number": changed("UPDATE sessions SET floor = 'many'"),
    "a job that is no job": changed("UPDATE jobs SET state = x'81a161'"),
    "a job that is a text": changed("UPDATE jobs SET state = 'x'"),
    "an event's id is a number": changed("UPDATE events SET id = 5"),
    "an event's number is a text": changed("UPDATE events SET seq = 'x'"),
    "an event's payload is a text": changed("UPDATE events SET payload = 'x'"),
    "no UTF-8": changed("UPDATE keys SET principal = CAST(x'ff' AS TEXT)"),
    "an acceptance that is no JSON": changed("UPDATE keys SET accepted = x'7b'"),
    "a run of numbers that is longer than all events": changed("UPDATE numbers SET count = 10000"),
    "a run of no numbers": changed("UPDATE numbers SET count = 0"),
    "a watch of nothing": changed("INSERT INTO watches VALUES ('s', 'j', x'00', 0)"),
}


@pytest.mark.parametrize("what", DAMAGE)
async def test_a_damaged_log_is_one_error_that_names_the_file_and_what_to_do(
    good: Path, tmp_path: Path, what: str
) -> None:
    path = tmp_path / "runtime.db"
    shutil.copy(good, path)
    DAMAGE[what](path)
    error = await opened(path)
    assert error is not None
    assert error.permanent


async def test_a_log_that_may_not_be_written_is_that_error_too(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runtime.db"
    shutil.copy(good, path)
    connect = sqlite3.connect

    def read_only(_: object, **options: Any) -> sqlite3.Connection:
        return connect(
            f"file:{path}?mode=ro", **{**options, "uri": True}
        )  # root may write any file

    monkeypatch.setattr(sqlite3, "connect", read_only)
    error = await opened(path)
    assert error is not None
    assert "cannot be used" in str(error)
    assert not error.permanent


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32), flips=st.integers(1, 40), cut=st.booleans())
def test_whatever_happened_to_the_file_nothing_else_leaves(
    good: Path, tmp_path: Path, seed: int, flips: int, cut: bool
) -> None:
    path = tmp_path / f"{seed}-{flips}-{cut}.db"
    data = bytearray(good.read_bytes())
    chance = random.Random(seed)
    for _ in range(flips):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    if cut:
        del data[chance.randrange(len(data)) :]
    path.write_bytes(data)

    async def scenario() -> None:
        """Open it and, if that is possible, work with it."""
        runtime = Runtime(event_log=SqliteEventLog(path))
        quick(runtime)
        with contextlib.suppress(StorageError):
            async with runtime:
                peer = await connected(runtime)
                if peer.session_id:
                    await peer.ask("session.list_jobs")
                    await peer.ask("job.submit", {"agent": "quick"})

    asyncio.run(scenario())
    for file in tmp_path.glob(f"{path.name}*"):
        file.unlink()


# --------------------------------------------------------------------- while it is open


class Broken(SqliteEventLog):
    """A log that opens, and whose writes fail with an error of the test's choice."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.error: Exception | None = None
        self.writes = 0
        self.failed = asyncio.Event()

    async def write(self, entries: Sequence[Entry]) -> None:
        self.writes += 1
        if self.error is not None:
            self.failed.set()
            raise self.error
        await super().write(entries)


FULL = StorageError("the event log x cannot be used: database or disk is full", path="x")
MALFORMED = StorageError("the event log x is damaged", path="x", permanent=True)
FAULTS = pytest.mark.parametrize("fault", [FULL, MALFORMED, OSError("no"), RuntimeError("own log")])


@pytest.fixture
def impatient() -> Iterator[pytest.MonkeyPatch]:
    """A runtime that hardly waits for a log that cannot be written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("arcp_client.runtime._log.journal._PATIENCE", 0.05)
        yield patch


@FAULTS
@pytest.mark.usefixtures("impatient")
async def test_jobs_are_refused_while_the_log_cannot_be_written(
    tmp_path: Path, fault: Exception
) -> None:
    log = Broken(tmp_path / "runtime.db")
    async with Runtime(event_log=log) as runtime:
        runs = quick(runtime)
        peer = await connected(runtime)
        log.error = fault
        request = {"agent": "quick", "input": 1, "idempotency_key": "k"}
        for _ in range(2):  # the first one waits a while for the log, the second one does not
            refused = await peer.ask("job.submit", request)
            assert refused["type"] == "session.error"
            assert refused["payload"]["code"] == "INTERNAL_ERROR"
            assert refused["payload"]["retryable"] is True
            assert "event log" in refused["payload"]["message"]
            assert str(tmp_path) not in refused["payload"]["message"]
        assert runs == []
        newcomer = await Peer.to(runtime)
        assert (await newcomer.hello())["payload"]["code"] == "INTERNAL_ERROR"
        await peer.send("session.ping", {"nonce": "n"})
        assert (await peer.read())["type"] == "session.pong"
        log.error = None
        if fault is MALFORMED:
            return
        while True:  # as soon as it can be written again, the same key runs its job
            answer = await peer.ask("job.submit", request)
            if answer["type"] == "job.accepted":
                break
            await asyncio.sleep(0.01)
        await peer.follow(answer["payload"]["job_id"])
        assert runs == [1]


async def test_a_key_whose_job_was_refused_stands_for_nothing_after_a_restart(
    tmp_path: Path, impatient: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runtime.db"
    log = Broken(path)
    async with Runtime(event_log=log) as runtime:
        quick(runtime)
        peer = await connected(runtime)
        log.error = FULL
        request = {"agent": "quick", "input": 1, "idempotency_key": "k"}
        assert (await peer.ask("job.submit", request))["type"] == "session.error"
        log.error = None
    impatient.undo()
    async with Runtime(event_log=SqliteEventLog(path)) as runtime:
        runs = quick(runtime)
        peer = await connected(runtime)
        accepted = await peer.submit("quick", 1, idempotency_key="k")
        await peer.follow(accepted["payload"]["job_id"])
        assert runs == [1]


async def test_a_damaged_log_is_given_up_and_what_runs_is_told_to_its_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = Broken(tmp_path / "runtime.db")
    go = asyncio.Event()
    async with Runtime(event_log=log) as runtime:

        @runtime.agent("a")
        async def a(input: Any, job: JobContext) -> str:
            await go.wait()
            await job.log("one")
            await job.log("two")
            return "done"

        peer = await connected(runtime)
        job_id = (await peer.submit("a"))["payload"]["job_id"]
        log.error = MALFORMED
        go.set()
        frames = await peer.follow(job_id)
        assert seqs(frames) == [1, 2, 3]
        assert frames[-1]["payload"]["result"] == "done"
        writes = log.writes
        fresh = await resumed(runtime, peer, 1)  # while it runs it can still be resumed
        assert seqs(await fresh.follow(job_id)) == [2, 3]
        assert log.writes == writes  # nothing more is tried
    assert caplog.text.count("It is given up") == 1
    assert "Move a damaged file away" in caplog.text


async def test_agents_wait_while_more_is_to_be_written_than_may_be(tmp_path: Path) -> None:
    log = Broken(tmp_path / "runtime.db")
    limits = Limits(journal_bytes=100_000)
    emitted = 0
    async with Runtime(event_log=log, limits=limits) as runtime:

        @runtime.agent("flood")
        async def flood(input: Any, job: JobContext) -> None:
            nonlocal emitted
            log.error = FULL
            for _ in range(100):
                emitted += 1
                await job.log("x" * 10_000)

        peer = await connected(runtime)
        job_id = (await peer.submit("flood"))["payload"]["job_id"]
        await log.failed.wait()
        for _ in range(200):  # whatever could go on without the log has gone on
            await asyncio.sleep(0)
        assert emitted == 10  # the bound, and the one that went over it
        assert (await peer.ask("job.subscribe", {"job_id": job_id}))["type"] == "session.error"
        log.error = None
        frames = await peer.follow(job_id)
        assert seqs(frames) == list(range(1, 102))


async def test_a_job_that_waits_for_the_log_can_be_cancelled(tmp_path: Path) -> None:
    log = Broken(tmp_path / "runtime.db")
    async with Runtime(event_log=log, limits=Limits(journal_bytes=1)) as runtime:
        waiting = asyncio.Event()

        @runtime.agent("a")
        async def a(input: Any, job: JobContext) -> None:
            log.error = FULL
            waiting.set()
            await job.log("more than one byte")
            raise AssertionError

        peer = await connected(runtime)
        job_id = (await peer.submit("a"))["payload"]["job_id"]
        await waiting.wait()
        answer = await peer.ask("job.cancel", {"job_id": job_id})
        assert answer["type"] == "job.cancelled"
        log.error = None
        frames = await peer.follow(job_id)
        assert frames[-1]["payload"]["code"] == "CANCELLED"


async def test_errors_of_a_log_are_errors_of_this_package(tmp_path: Path) -> None:
    assert issubclass(StorageError, ArcpError)
    log = SqliteEventLog(tmp_path / "runtime.db")
    await log.open()
    database = log._database
    assert database is not None
    await log._call(lambda: database.execute("PRAGMA max_page_count = 1"))
    with pytest.raises(StorageError, match="full") as caught:
        await log.write([*[_entry(n) for n in range(2000)]])
    assert not caught.value.permanent
    await log.close()


def _entry(n: int) -> Entry:
    return KeyState("p", f"k{n}", b"x" * 100, b"{}", "2026-01-01T00:00:00Z")
