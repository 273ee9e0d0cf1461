"""Checkpoints are given back as they were saved, to one holder at a time, in every store."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from arcp_client import MemoryStore, SqliteStore
from arcp_client.errors import StoreLocked
from arcp_client.events import ResultChunk
from arcp_client.stores import CheckpointStore
from arcp_client.stores.spool import ChunkLog
from arcp_client.testing import STORE_CHECKS, StoreCase, VirtualClock
from arcp_client.testing.store_checks import CHECKPOINT, StoreCheck

WHERE = ("ws://127.0.0.1:7777/arcp", "default")


class Stores:
    """Makes stores of one kind, and opens the file of one once more."""

    def __init__(self, kind: str, directory: Path) -> None:
        self._directory = directory
        self._files: dict[int, Path] = {}
        self.case = StoreCase(self._memory)
        if kind == "sqlite":
            self.case = StoreCase(self._sqlite, self._again)

    def _memory(self) -> CheckpointStore:
        return MemoryStore()

    def _sqlite(self) -> CheckpointStore:
        path = self._directory / f"kept-{len(self._files)}.db"
        store = SqliteStore(path)
        self._files[id(store)] = path
        return store

    def _again(self, store: CheckpointStore) -> CheckpointStore:
        return SqliteStore(self._files[id(store)])


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
async def test_every_store_passes_the_conformance_kit(
    kind: str, check: StoreCheck, tmp_path: Path
) -> None:
    await check(Stores(kind, tmp_path).case)


async def test_a_file_of_an_earlier_version_is_gone_on_with(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "kept.db")
    await store.acquire(*WHERE)
    await store.save(*WHERE, CHECKPOINT)
    await store.release(*WHERE)
    with contextlib.closing(sqlite3.connect(tmp_path / "kept.db")) as db:
        db.execute("DROP TABLE ended")
    assert await store.acquire(*WHERE) == dataclasses.replace(CHECKPOINT, ended=())
    await store.save(*WHERE, CHECKPOINT)
    await store.release(*WHERE)


async def test_results_beside_a_memory_store_go_with_it() -> None:
    store = MemoryStore()
    spool = store.spool(*WHERE)
    assert spool == store.spool(*WHERE)
    assert not spool.exists()
    log = ChunkLog(spool, "job_1")
    log.append(ResultChunk(result_id="r", chunk_seq=0, data="x"))
    log.close()
    assert stat.S_IMODE(spool.stat().st_mode) == 0o700
    await store.delete(*WHERE)
    assert not spool.exists()
    again = ChunkLog(store.spool(*WHERE), "job_1")
    again.append(ResultChunk(result_id="r", chunk_seq=0, data="x"))
    again.close()
    del store
    gc.collect()
    assert not again.path.parent.exists()


@pytest.mark.parametrize("bad", [{"every": 0}, {"interval": 0}])
def test_bounds_that_make_no_sense_are_refused(bad: dict[str, int], tmp_path: Path) -> None:
    (name,) = bad
    with pytest.raises(ValueError, match=f"{name} must be"):
        MemoryStore(**bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"{name} must be"):
        SqliteStore(tmp_path / "x.db", **bad)  # type: ignore[arg-type]


# -- of the file


async def test_the_files_are_their_owners_only_and_no_lock_is_left(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "kept.db")
    await store.acquire(*WHERE)
    await store.save(*WHERE, CHECKPOINT)
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
    await store.release(*WHERE)
    assert [path.name for path in tmp_path.iterdir()] == ["kept.db"]


async def test_rows_that_nobody_asked_for_in_a_month_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    store = SqliteStore(tmp_path / "kept.db")
    await store.acquire(*WHERE)
    await store.save(*WHERE, CHECKPOINT)
    await store.release(*WHERE)
    clock.jump_wall(31 * 24 * 3600.0)
    with clock.installed():
        assert await store.acquire(*WHERE) is None
        await store.release(*WHERE)
    with sqlite3.connect(tmp_path / "kept.db") as database:
        assert database.execute("SELECT count(*) FROM checkpoints").fetchone() == (0,)
    database.close()


async def test_a_directory_that_is_missing_is_an_error_and_holds_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "no" / "kept.db")
    with pytest.raises(OSError, match="no"):
        await store.acquire(*WHERE)
    (tmp_path / "no").mkdir()
    assert await store.acquire(*WHERE) is None
    await store.release(*WHERE)


async def test_a_cancelled_acquire_holds_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "kept.db")
    for ticks in range(6):
        acquiring = asyncio.ensure_future(store.acquire(*WHERE))
        for _ in range(ticks):
            await asyncio.sleep(0)
        acquiring.cancel()
        result = (await asyncio.gather(acquiring, return_exceptions=True))[0]
        if not isinstance(result, asyncio.CancelledError):
            await store.release(*WHERE)
        assert await store.acquire(*WHERE) is None
        await store.release(*WHERE)
    assert not list(tmp_path.glob("*.lock"))


HOLD = """
import asyncio, sys
from arcp_client import SqliteStore
async def main():
    await SqliteStore(sys.argv[1]).acquire(sys.argv[2], sys.argv[3])
    print("held", flush=True)
    sys.stdin.read()
asyncio.run(main())
"""


async def test_the_lock_reaches_across_processes_and_dies_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), *WHERE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        store = SqliteStore(path)
        with pytest.raises(StoreLocked):
            await store.acquire(*WHERE)
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        assert await store.acquire(*WHERE) is None
        await store.release(*WHERE)
    finally:
        holder.kill()
        holder.communicate()
