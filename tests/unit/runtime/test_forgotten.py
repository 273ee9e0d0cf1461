"""Runtimes that are dropped without having been closed, and what their repr shows (D20)."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest

from arcp_client import Client, JobContext, Runtime, SqliteEventLog


def made(**options: Any) -> tuple[Runtime, asyncio.Event, asyncio.Event]:
    runtime = Runtime(name="dropped", **options)
    began, ended = asyncio.Event(), asyncio.Event()

    @runtime.agent("stuck")
    async def stuck(_: Any, job: JobContext) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    return runtime, began, ended


def drop(held: list[Runtime]) -> None:
    held.clear()
    gc.collect()


async def test_d20_a_runtime_that_is_dropped_with_an_open_job_is_reported_and_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runtime, began, ended = made()
    held = [runtime]
    async with Client(runtime) as client:
        await client.submit("stuck")
        await began.wait()
        assert repr(runtime) == "<Runtime dropped open, 1 job>"
    del runtime, client
    with pytest.warns(ResourceWarning, match=r"<Runtime dropped open, 1 job> was dropped without"):
        drop(held)
    await asyncio.wait_for(ended.wait(), 10)
    assert "was dropped without close()" in caplog.text


async def test_d20_a_runtime_that_is_dropped_frees_its_event_log(tmp_path: Path) -> None:
    runtime, _, _ = made(event_log=SqliteEventLog(tmp_path / "events.db"))
    await (await runtime.connect()).close()
    held = [runtime]
    del runtime
    with pytest.warns(ResourceWarning, match="was dropped without"):
        drop(held)
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        while any(task.get_name().endswith("dropped:close") for task in asyncio.all_tasks()):
            await asyncio.sleep(0)
    async with Runtime(event_log=SqliteEventLog(tmp_path / "events.db")):
        pass


async def test_d20_a_runtime_that_holds_nothing_is_dropped_silently(
    recwarn: pytest.WarningsRecorder,
) -> None:
    made()
    runtime, _, _ = made()
    async with Client(runtime) as client:
        await client.ping()
    closed, _, _ = made()
    async with closed:
        assert repr(closed) == "<Runtime dropped open, 0 jobs>"
    assert repr(closed) == "<Runtime dropped closed>"
    del runtime, client, closed
    with pytest.raises(TypeError):
        Runtime(name=3)  # type: ignore[arg-type]
    gc.collect()
    assert not [found for found in recwarn if found.category is ResourceWarning]


def test_the_repr_of_a_runtime_shows_no_token() -> None:
    assert repr(Runtime(name="r", auth={"secret": "alice"})) == "<Runtime r new>"
