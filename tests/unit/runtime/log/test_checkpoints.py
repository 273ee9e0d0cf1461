"""What was written is moved into the main file beside the writes, which do not wait for it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from arcp_client.errors import StoreLocked
from arcp_client.runtime import SqliteEventLog
from arcp_client.runtime._log import sqlite
from tests.unit.runtime.log.test_group_commit import event, read, session


async def written(log: SqliteEventLog, first: int, batches: int) -> None:
    """Write batches of some five pages each."""
    for index in range(first, first + batches):
        await log.write([event(index, size=16_000)])


async def checkpointed(log: SqliteEventLog) -> None:
    assert log._checkpoint is not None
    await log._checkpoint


async def test_the_main_file_grows_while_the_log_is_open_and_the_other_one_does_not(
    tmp_path: Path,
) -> None:
    log = SqliteEventLog(tmp_path / "runtime.db")
    await log.open()
    for part in range(5):
        await written(log, part * 250, 250)
        await checkpointed(log)
        assert log.path.stat().st_size > (part + 1) * 250 * 16_000
    assert log.path.with_name("runtime.db-wal").stat().st_size < 10_000_000
    await log.close()
    assert [file.name for file in tmp_path.iterdir()] == ["runtime.db"]
    assert len((await read(log.path)).appended) == 1250


async def test_the_other_file_is_bounded_when_checkpoints_never_catch_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_LARGEST_WAL", 500)
    log = SqliteEventLog(tmp_path / "runtime.db")
    await log.open()
    monkeypatch.setattr(log, "_move", lambda: None)
    await written(log, 0, 1000)
    assert log.path.with_name("runtime.db-wal").stat().st_size < 4_000_000
    await log.close()


async def test_writes_go_on_while_a_checkpoint_waits_for_the_disk_and_one_runs_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SqliteEventLog(tmp_path / "runtime.db")
    await log.open()
    disk, begun = threading.Event(), 0
    move = log._move

    def waiting() -> None:
        nonlocal begun
        begun += 1
        disk.wait(60)
        move()

    monkeypatch.setattr(log, "_move", waiting)
    await written(log, 0, 1000)
    assert begun == 1
    disk.set()
    await checkpointed(log)
    await written(log, 1000, 1)
    await checkpointed(log)
    assert begun == 2
    await log.close()


async def test_what_was_written_before_and_after_a_checkpoint_survives_a_kill(
    tmp_path: Path,
) -> None:
    log = SqliteEventLog(tmp_path / "runtime.db")
    await log.open()
    await log.write([session("sess_1")])
    await written(log, 0, 300)
    await checkpointed(log)
    await written(log, 300, 20)
    copy = tmp_path / "copy.db"
    for suffix in ("", "-wal"):  # what a killed process leaves
        Path(f"{copy}{suffix}").write_bytes(Path(f"{log.path}{suffix}").read_bytes())
    assert [entry.record.index for entry in (await read(copy)).appended] == list(range(320))
    await log.close()


async def test_a_checkpoint_that_fails_is_made_up_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SqliteEventLog(tmp_path / "runtime.db")
    await log.open()
    connect = sqlite3.connect

    def refused(*_arguments: object, **_options: object) -> sqlite3.Connection:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(sqlite3, "connect", refused)
    await written(log, 0, 300)
    await checkpointed(log)
    assert log.path.stat().st_size < 100_000
    monkeypatch.setattr(sqlite3, "connect", connect)
    await written(log, 300, 300)
    await checkpointed(log)
    assert log.path.stat().st_size > 8_000_000
    await log.close()


async def test_a_link_to_the_file_is_the_same_log(tmp_path: Path) -> None:
    log = SqliteEventLog(tmp_path / "runtime.db")
    await log.open()
    link = tmp_path / "other.db"
    link.symlink_to(log.path)
    with pytest.raises(StoreLocked):
        await SqliteEventLog(link).open()
    await log.write([event(0)])
    await log.close()
    assert len((await asyncio.wait_for(read(link), 10)).appended) == 1
