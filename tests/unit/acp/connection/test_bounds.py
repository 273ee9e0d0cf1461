"""Counters of the inbox and of the reader come down again, and answers keep their place."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arcp_client.acp import AcpLimits, updates
from arcp_client.acp._connection.backlog import Backlog
from arcp_client.acp._connection.lane import UpdateLane
from arcp_client.policy import Buffer
from tests.unit.acp.kit import chunk, connected, opened, settled, words


async def test_a_handlers_call_into_another_session_comes_after_that_sessions_updates() -> None:
    async with connected() as (agent, client):
        first, second = await opened(agent, client, "s1"), await opened(agent, client, "s2")
        seen: list[str] = []
        gate = asyncio.Event()

        @second.on(updates.AgentMessageChunk)
        async def slow(update: Any) -> None:
            await gate.wait()
            seen.append(words(update))

        @first.on(updates.AgentMessageChunk)
        async def calls(update: Any) -> None:
            await second.prompt("go")
            seen.append("answered")

        await agent.send(chunk("x", "s1"))
        call = await agent.next("session/prompt")
        await agent.send(
            chunk("a", "s2"), chunk("b", "s2"), agent.answer(call, {"stopReason": "end_turn"})
        )
        await settled()
        assert seen == []
        gate.set()
        await settled(60)
        assert seen == ["a", "b", "answered"]


@pytest.mark.parametrize("size", [1, 400])
async def test_memory_that_was_given_back_is_used_again(size: int) -> None:
    """Round after round within the bound: nothing goes to a file."""
    backlog = Backlog(Buffer(soft=1, hard=4, bytes=1000))
    handled: list[bytes] = []

    async def deliver(line: bytes) -> None:
        handled.append(line)

    lane = UpdateLane(backlog, deliver)
    for number in range(10):
        for _ in range(2):
            assert lane.line(b"x" * size)
            assert backlog.files.used == 0
        await settled()
        assert (backlog.held_lines, backlog.held_bytes) == (0, 0)
        assert len(handled) == 2 * (number + 1)
    assert lane.dispose() == 0


@pytest.mark.parametrize("method", ["x/none", "x/serve"])
async def test_an_agent_may_ask_for_ever_if_it_reads_the_answers(method: str) -> None:
    """Three times as many as may wait at once, and as many bytes as may be open at once."""
    async with connected(limits=AcpLimits(requests=2000, open_requests=8)) as (agent, client):
        client.on_request("x/serve")(served)
        for _ in range(3200):
            request = agent.request(method, text="x" * 100) | {"id": 7}
            await agent.send(request)
            await agent.reply_to(request)


async def served(params: Any) -> Any:
    return {}


async def test_requests_beyond_their_bytes_wait_and_all_are_answered() -> None:
    """Rule A4."""
    async with connected(limits=AcpLimits(requests=1000)) as (agent, client):
        gate = asyncio.Event()
        begun: list[int] = []

        @client.on_request("x/hold")
        async def hold(params: Any) -> Any:
            begun.append(params["n"])
            await gate.wait()
            return {}

        for _ in range(2):
            gate.clear()
            begun.clear()
            asking = [agent.request("x/hold", n=n, text="x" * 400) for n in range(20)]
            await agent.send(*asking)
            await settled(60)
            assert len(begun) == 3  # the third is the one that goes over the limit
            gate.set()
            for request in asking:
                assert (await agent.reply_to(request))["result"] == {}
            assert begun == list(range(20))
