"""The conformance kits find what is wrong, and say which rule is violated."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from arcp_client import MemoryStore, SqliteStore
from arcp_client.models import Checkpoint
from arcp_client.runtime import MemoryEventLog, SqliteEventLog
from arcp_client.testing import check_event_log, check_store, check_transport
from arcp_client.testing.store_checks import KEY, TARGET
from arcp_client.transports import Transport, memory_pair

MIB = 1024 * 1024


class Unlocked(MemoryStore):
    async def acquire(self, target: str, key: str) -> Checkpoint | None:
        await self.release(target, key)
        return await super().acquire(target, key)


class Merging(MemoryStore):
    """Forgets to remove jobs that have ended before."""

    async def save(self, target: str, key: str, checkpoint: Checkpoint) -> None:
        self._ended = {**getattr(self, "_ended", {}), **{j.job_id: j for j in checkpoint.ended}}
        ended = tuple(self._ended.values())
        await super().save(target, key, dataclasses.replace(checkpoint, ended=ended))


class OneForAll(MemoryStore):
    """Ignores the target."""

    async def acquire(self, target: str, key: str) -> Checkpoint | None:
        return await super().acquire("any", key)

    async def save(self, target: str, key: str, checkpoint: Checkpoint) -> None:
        await super().save("any", key, checkpoint)

    async def release(self, target: str, key: str) -> None:
        await super().release("any", key)


@pytest.mark.parametrize(
    ("store", "rule"),
    [
        (Unlocked, "a second acquire raises StoreLocked"),
        (Merging, "a save replaces the open and the ended jobs"),
        (OneForAll, "another client"),
    ],
)
async def test_a_wrong_store_is_found(store: type[MemoryStore], rule: str) -> None:
    with pytest.raises(Exception, match=rule) as caught:
        await check_store(store)
    assert any("in the check" in note for note in caught.value.__notes__)


async def test_a_store_that_loses_its_data_over_a_restart_is_found(tmp_path: Path) -> None:
    stores: list[SqliteStore] = []

    def another(_store: Any = None) -> Any:
        stores.append(SqliteStore(tmp_path / f"{len(stores)}.db"))
        return stores[-1]

    with pytest.raises(AssertionError, match="another process cannot acquire"):
        await check_store(another, again=another)
    for store in stores:  # what the failed check has left locked
        await store.release(TARGET, KEY)


class Wrapped:
    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    async def send(self, frame: bytes) -> None:
        await self._inner.send(frame)

    async def receive(self) -> bytes:
        return await self._inner.receive()

    async def close(self, *, timeout: float = 5.0) -> None:
        await self._inner.close(timeout=timeout)


class Splitting(Wrapped):
    async def send(self, frame: bytes) -> None:
        for part in frame.replace("\u2028".encode(), b"\n").split(b"\n"):
            await self._inner.send(part)


class Losing(Wrapped):
    """Loses the frame of a receive that is cancelled."""

    async def receive(self) -> bytes:
        frame = await self._inner.receive()
        await asyncio.sleep(0)
        return frame


@pytest.mark.parametrize(
    ("wrapper", "rule"),
    [
        (Splitting, "is no end of a frame"),
        (Losing, "a cancelled receive loses no frame"),
    ],
)
async def test_a_wrong_transport_is_found(wrapper: type[Wrapped], rule: str) -> None:
    @asynccontextmanager
    async def connect() -> AsyncIterator[tuple[Transport, Transport]]:
        near, far = memory_pair(capacity=16)
        yield wrapper(near), far
        await near.close()
        await far.close()

    with pytest.raises(AssertionError, match=rule):
        await check_transport(connect)


async def test_a_transport_without_a_limit_passes_the_other_checks() -> None:
    @asynccontextmanager
    async def connect() -> AsyncIterator[tuple[Transport, Transport]]:
        near, far = memory_pair(capacity=16, max_frame=2 * MIB)
        yield near, far
        await near.close()
        await far.close()

    await check_transport(connect, limit=2 * MIB)
    await check_transport(connect)


class Amnesic(SqliteEventLog):
    """Does not write keys."""

    async def write(self, entries: Sequence[Any]) -> None:
        await super().write([each for each in entries if type(each).__name__ != "KeyState"])


async def test_a_wrong_event_log_is_found(tmp_path: Path) -> None:
    numbers = iter(range(100))
    paths: dict[int, Path] = {}

    def make() -> Any:
        log = Amnesic(path := tmp_path / f"{next(numbers)}.db")
        paths[id(log)] = path
        return log

    with pytest.raises(AssertionError, match="a key stands for its job after a restart"):
        await check_event_log(make, again=lambda log: Amnesic(paths[id(log)]))


async def test_a_durable_log_is_checked_over_a_restart(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give again="):
        await check_event_log(lambda: SqliteEventLog(tmp_path / "a.db"))
    await check_event_log(MemoryEventLog)
