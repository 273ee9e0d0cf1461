"""More than memory has room for: order is kept, memory is bounded, and nothing deadlocks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client.acp import AcpLimits, updates
from arcp_client.acp._connection.backlog import Backlog
from arcp_client.acp._connection.lane import UpdateLane
from arcp_client.errors import BufferFull
from arcp_client.policy import Buffer
from tests.unit.acp.kit import chunk, connected, opened, settled, words

LINE, ACTION, TURN = "line", "action", "turn"


@given(steps=st.lists(st.sampled_from([LINE, LINE, LINE, ACTION, TURN]), max_size=60))
async def test_positions_keep_their_order_through_files(steps: list[str]) -> None:
    backlog = Backlog(Buffer(soft=1, hard=2))
    seen: list[int] = []

    async def deliver(line: bytes) -> None:
        await asyncio.sleep(0)
        seen.append(int(line))

    lane = UpdateLane(backlog, deliver)
    for number, step in enumerate(steps):
        if step == LINE:
            assert lane.line(str(number).encode())
        elif step == ACTION:
            lane.do(lambda number=number: seen.append(number))  # type: ignore[misc]
        else:
            await asyncio.sleep(0)
    lane.complete()
    await lane.drained()
    assert seen == [number for number, step in enumerate(steps) if step != TURN]
    assert (backlog.held_lines, backlog.held_bytes, backlog.files.used) == (0, 0, 0)
    assert lane.dispose() == 0  # what went through a file is counted back too


async def test_a_stopped_lane_gives_back_its_room_and_settles_what_waits() -> None:
    backlog = Backlog(Buffer(soft=1, hard=2))
    lane = UpdateLane(backlog, lambda _: asyncio.Event().wait())  # type: ignore[arg-type]
    settled_: list[str] = []
    for number in range(6):
        lane.line(b"%d" % number)
    lane.do(lambda: settled_.append("answer"))
    await asyncio.sleep(0)
    assert lane.dispose() == 5
    assert settled_ == ["answer"]
    assert (backlog.held_lines, backlog.held_bytes, backlog.files.used) == (0, 0, 0)
    lane.do(lambda: settled_.append("late"))
    assert settled_ == ["answer", "late"]
    assert lane.line(b"9")  # ignored
    assert backlog.held_lines == 0


async def test_a_flood_goes_through_a_file_in_order_and_ahead_of_its_answer() -> None:
    buffer = Buffer(soft=8, hard=16)
    async with connected(limits=AcpLimits(buffer=buffer)) as (agent, client):
        session = await opened(agent, client)
        gate = asyncio.Event()
        got: list[str] = []

        @session.on(updates.AgentMessageChunk)
        async def handle(update: Any) -> None:
            await gate.wait()
            got.append(words(update))

        prompting = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        await agent.send(*map(chunk, range(500)), agent.answer(call, {"stopReason": "end_turn"}))
        await settled(200)
        backlog = client._connection.backlog  # type: ignore[union-attr]
        assert backlog.held_lines <= 16
        assert backlog.files.used > 0
        assert not prompting.done()
        gate.set()
        await prompting
        assert got == [str(n) for n in range(500)]
        assert backlog.files.used == 0


async def test_when_the_file_is_full_the_agent_is_held_and_calls_of_handlers_say_so() -> None:
    buffer = Buffer(soft=1, hard=2, spill=2000)
    async with connected(limits=AcpLimits(buffer=buffer)) as (agent, client):
        session = await opened(agent, client)
        errors: list[Exception] = []
        got: list[str] = []

        @session.on(updates.AgentMessageChunk)
        async def handle(update: Any) -> None:
            if words(update) == "0":
                try:
                    await session.set_mode("plan")
                except BufferFull as error:
                    errors.append(error)
            got.append(words(update))

        prompting = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        await agent.send(*map(chunk, range(100)), agent.answer(call, {"stopReason": "end_turn"}))
        await prompting
        assert got == [str(n) for n in range(100)]
        assert len(errors) == 1
        assert "session/set_mode inside a handler" in str(errors[0])


async def test_a_handler_that_calls_when_the_file_is_full_already_does_not_wait_for_ever() -> None:
    buffer = Buffer(soft=1, hard=2, spill=2000)
    async with connected(limits=AcpLimits(buffer=buffer)) as (agent, client):
        session = await opened(agent, client)
        full = asyncio.Event()
        errors: list[Exception] = []

        @session.on(updates.AgentMessageChunk)
        async def handle(update: Any) -> None:
            await full.wait()
            if words(update) in ("0", "99"):
                try:
                    await session.prompt("nested")
                except BufferFull as error:
                    errors.append(error)

        prompting = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        await agent.send(*map(chunk, range(100)), agent.answer(call, {"stopReason": "end_turn"}))
        await settled()
        assert client._connection.backlog.full  # type: ignore[union-attr]
        full.set()
        nested = await agent.next("session/prompt")  # that of 99, when there is room again
        await agent.result(nested, {"stopReason": "end_turn"})
        await prompting
        assert len(errors) == 1
        assert not session.busy


async def test_a_disk_that_takes_nothing_holds_the_agent_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("arcp_client._spill.SpillFile.append", lambda *_: False)
    buffer = Buffer(soft=1, hard=2)
    async with connected(limits=AcpLimits(buffer=buffer)) as (agent, client):
        session = await opened(agent, client)
        got: list[str] = []

        @session.on(updates.AgentMessageChunk)
        async def handle(update: Any) -> None:
            await asyncio.sleep(0)
            got.append(words(update))

        prompting = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        await agent.send(*map(chunk, range(50)), agent.answer(call, {"stopReason": "end_turn"}))
        await prompting
        assert got == [str(n) for n in range(50)]
