"""A checkpoint store whose file is damaged: one error that names it, and nothing is held (R9)."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arcp_client.errors import StorageError
from arcp_client.models import Checkpoint, EndedJob, OpenJob
from arcp_client.stores import SqliteStore

WHERE = ("ws://h/arcp", "default")
KEPT = Checkpoint(
    session_id="sess_1",
    resume_token="token",
    mark=5,
    processed=((7, 9),),
    reserved=16,
    jobs=(OpenJob("job_1", "a", "k", "h"),),
    ended=(EndedJob("job_0", "a", "k0", "h", "{}"),),
)


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "kept.db"

    async def write() -> None:
        store = SqliteStore(path)
        await store.acquire(*WHERE)
        for key in range(40):
            await store.save(WHERE[0], f"other {key}", KEPT)
        await store.save(*WHERE, KEPT)
        await store.release(*WHERE)

    asyncio.run(write())
    return path


def changed(statement: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with sqlite3.connect(path) as database:
            database.execute(statement)
        database.close()

    return change


DAMAGE: dict[str, Callable[[Path], None]] = {
    "no database": lambda path: path.write_bytes(b"no database at all" * 100) and None,
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:6000]) and None,
    "another schema": changed("ALTER TABLE checkpoints DROP COLUMN mark"),
    "ranges that are no JSON": changed("UPDATE checkpoints SET processed = '[['"),
    "ranges that are none": changed("UPDATE checkpoints SET processed = '[1]'"),
    "jobs that are none": changed("UPDATE checkpoints SET jobs = '[{}]'"),
    "a mark that is a text": changed("UPDATE checkpoints SET mark = 'x'"),
    "a token that is no UTF-8": changed(
        "UPDATE checkpoints SET resume_token = CAST(x'ff' AS TEXT)"
    ),
    "an outcome that is a number": changed("UPDATE ended SET outcome = x'00'"),
}


async def test_a_checkpoint_comes_back_as_it_was(good: Path) -> None:
    store = SqliteStore(good)
    assert await store.acquire(*WHERE) == KEPT
    await store.release(*WHERE)


@pytest.mark.parametrize("what", DAMAGE)
async def test_a_damaged_store_is_one_error_that_names_the_file(
    good: Path, tmp_path: Path, what: str
) -> None:
    path = tmp_path / "kept.db"
    shutil.copy(good, path)
    DAMAGE[what](path)
    for _ in range(2):  # the second time nobody is said to hold it
        with pytest.raises(StorageError) as caught:
            await SqliteStore(path).acquire(*WHERE)
        assert caught.value.path == str(path)
        assert str(path) in str(caught.value)
        assert caught.value.permanent


async def test_a_save_to_a_full_disk_is_that_error_and_can_be_tried_again(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "kept.db")
    await store.acquire(*WHERE)
    await store._run(lambda db: db.execute("PRAGMA max_page_count = 1"))
    large = EndedJob("job_0", "a", "k0", "h", "x" * 100_000)
    with pytest.raises(StorageError, match="full") as caught:
        await store.save(*WHERE, Checkpoint("s", "t", ended=(large,)))
    assert not caught.value.permanent
    await store._run(lambda db: db.execute("PRAGMA max_page_count = 1000000"))
    await store.save(*WHERE, Checkpoint("s", "t", ended=(large,)))
    await store.release(*WHERE)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
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
        for _ in range(2):
            store = SqliteStore(path)
            with contextlib.suppress(StorageError):
                await store.acquire(*WHERE)
                await store.save(*WHERE, KEPT)
                await store.delete(*WHERE)
            await store.release(*WHERE)

    asyncio.run(scenario())
    for file in tmp_path.glob(f"{path.name}*"):
        file.unlink()
