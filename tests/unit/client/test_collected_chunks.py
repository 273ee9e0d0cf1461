"""Collecting the chunks of a result swallows nothing: no other event, and no broken chunk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from arcp_client import Client, Live, events
from arcp_client.errors import ResultIncomplete
from arcp_client.job import Job
from arcp_client.testing import ScriptedRuntime
from arcp_client.testing.scripted import Chunk, Emit

LOGS = [Emit("log", {"level": "info", "message": str(n)}) for n in range(3)]
SCRIPT = [LOGS[0], Chunk("a"), LOGS[1], Emit("x-vendor.note", {"n": 1}), Chunk("b"), LOGS[2]]


async def read(job: Job, _: Path) -> str:
    return b"".join([piece async for piece in job.chunks()]).decode()


async def save(job: Job, directory: Path) -> str:
    await job.save(directory / "result")
    return (directory / "result").read_text()


async def result(job: Job, _: Path) -> Any:
    return (await job.result()).value


@pytest.mark.parametrize("collected", [result, read, save], ids=lambda way: way.__name__)
async def test_events_between_chunks_reach_the_handler_whatever_collects_the_chunks(
    collected: Callable[[Job, Path], Awaitable[Any]], tmp_path: Path
) -> None:
    """Log events between chunks, and the chunks themselves, in the order of the wire."""
    handled: list[str] = []
    async with (
        ScriptedRuntime(agents={"mixed": SCRIPT}) as runtime,
        Client(runtime, token="t") as client,
    ):

        @client.on(events.Event)
        async def handle(event: events.Event) -> None:
            match event:
                case events.Log():
                    handled.append(event.message)
                case events.ResultChunk():
                    handled.append(event.data)
                case _:
                    handled.append(event.kind)

        job = await client.submit("mixed")
        assert await collected(job, tmp_path) == "ab"
        await client.drain()
    assert handled == ["0", "a", "1", "x-vendor.note", "b", "2", "result"]


def broken(number: object, *, more: bool) -> Emit:
    body = {"result_id": "res_1", "chunk_seq": number, "data": 5, "encoding": "utf8", "more": more}
    return Emit("result_chunk", body)


def chunk(number: int, data: str) -> Emit:
    body = {"result_id": "res_1", "chunk_seq": number, "encoding": "utf8", "more": True}
    return Emit("result_chunk", {**body, "data": data})


@pytest.mark.parametrize(
    "script",
    [
        [chunk(0, "a"), broken(1, more=True), chunk(2, "c")],
        [chunk(0, "a"), broken(1, more=False)],
        [chunk(0, "a"), broken("one", more=False)],
    ],
    ids=["in the middle", "at the end", "without a number"],
)
@pytest.mark.parametrize("collected", [result, read, save], ids=lambda way: way.__name__)
async def test_a_chunk_that_cannot_be_read_makes_the_result_incomplete_and_is_shown(
    collected: Callable[[Job, Path], Awaitable[Any]],
    script: list[Emit],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A malformed chunk is not passed over; the handler gets it raw."""
    raw: list[events.Unknown] = []
    async with (
        ScriptedRuntime(agents={"broken": script}) as runtime,
        Client(runtime, token="t") as client,
    ):
        client.subscribe(raw.append, events.Unknown)
        job = await client.submit("broken")
        with pytest.raises(ResultIncomplete) as caught:
            await collected(job, tmp_path)
        await client.drain()
    assert 1 in caught.value.missing
    assert [(event.kind, event.body["data"]) for event in raw] == [("result_chunk", 5)]
    assert not (tmp_path / "result").exists()
    assert "result_chunk" in caplog.text


async def test_an_agent_may_invent_currencies_and_only_so_many_are_kept() -> None:
    def left(unit: str, value: float) -> Emit:
        return Emit("metric", {"name": "cost.budget.remaining", "value": value, "unit": unit})

    script = [left("USD", 5.0), *(left(f"c{n}", 1.0) for n in range(500)), left("USD", 4.0)]
    async with (
        ScriptedRuntime(agents={"spends": script}) as runtime,
        Client(runtime, token="t") as client,
    ):
        job = await client.submit("spends")
        await job.result()
    assert len(job.budget) == 64
    assert job.budget["USD"] == 4


@pytest.mark.parametrize(("dialect", "short"), [("python", True), ("spec", False)])
async def test_a_result_without_its_last_chunk_is_not_taken_for_whole_after_a_loss(
    dialect: str, short: bool
) -> None:
    """A runtime that replays nothing may have lost its end; one that replays has not."""
    async with (
        ScriptedRuntime(dialect, agents={"open": [chunk(0, "a")]}) as runtime,
        Client(runtime, token="t") as client,
    ):
        job = await client.submit("open")
        assert (await job.result()).value == "a"
        resumed = asyncio.Event()
        client.on_state(lambda state: resumed.set() if isinstance(state, Live) else None)
        runtime.drop()
        await asyncio.wait_for(resumed.wait(), 10)
        job = await client.submit("open")
        if not short:
            assert (await job.result()).value == "a"
            return
        with pytest.raises(ResultIncomplete) as caught:
            await job.result()
        assert (caught.value.partial, caught.value.missing) == ("a", (1,))
