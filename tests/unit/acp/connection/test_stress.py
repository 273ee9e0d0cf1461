"""Many sessions, many moments to cancel, many updates: order, and everything back at rest."""

from __future__ import annotations

import asyncio
import random
import sys
from typing import Any

import pytest

from arcp_client.acp import updates
from arcp_client.acp.client import AcpClient
from arcp_client.errors import LinkLost
from tests.unit.acp.kit import chunk, connected, opened, settled, words


async def test_interleaved_sessions_keep_their_text_whatever_handlers_take() -> None:
    dice = random.Random(7)
    async with connected() as (agent, client):
        texts: dict[str, str] = {}
        sessions = [await opened(agent, client, f"s{n}") for n in range(3)]
        for session in sessions:
            texts[session.id] = ""

            @session.on(updates.AgentMessageChunk)
            async def handle(update: Any) -> None:
                for _ in range(dice.randrange(4)):
                    await asyncio.sleep(0)
                texts[update.origin.session_id] += words(update)

        turns = [asyncio.ensure_future(session.prompt("go")) for session in sessions]
        calls = [await agent.next("session/prompt") for _ in sessions]
        expected = dict.fromkeys(texts, "")
        for number in range(200):
            session_id = dice.choice(list(expected))
            expected[session_id] += f"{number} "
            hint = {"seq": dice.randrange(1000)}  # a peer's idea of order is none of ours
            await agent.send(chunk(f"{number} ", session_id, _meta=hint))
        for call in calls:
            await agent.result(call, {"stopReason": "end_turn"})
        await asyncio.gather(*turns)
        assert texts == expected


@pytest.mark.parametrize("ticks", range(30))
async def test_a_cancellation_at_any_moment_leaves_the_session_at_rest(ticks: int) -> None:
    async with connected(on_permission=lambda _: None) as (agent, client):
        session = await opened(agent, client)
        done: list[str] = []

        @session.on(updates.AgentMessageChunk)
        async def handle(update: Any) -> None:
            await asyncio.sleep(0)
            done.append(words(update))

        async def serve() -> None:
            while True:
                call = await agent.next("session/prompt")
                asking = agent.request(
                    "session/request_permission",
                    sessionId="s1",
                    toolCall={"toolCallId": "t"},
                    options=[],
                )
                end = agent.answer(call, {"stopReason": "end_turn"})
                await agent.send(chunk("a"), asking, chunk("b"), end)

        serving = asyncio.ensure_future(serve())
        prompting = asyncio.ensure_future(session.prompt("go"))
        await settled(ticks)
        prompting.cancel()
        await asyncio.wait([prompting])
        turn = await session.prompt("again")
        assert turn.stop_reason == "end_turn"
        assert not session.busy
        assert done[-2:] == ["a", "b"]
        assert len(done) in (2, 4)
        serving.cancel()
        await asyncio.wait([serving])


async def test_what_nobody_listens_to_holds_nothing_up() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        prompting = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        await agent.send(*(chunk(n) for n in range(10_000)))
        asking = asyncio.ensure_future(client.request("x/y", {}))
        await agent.result(await agent.next("x/y"), 1)
        assert await asking == 1
        await agent.result(call, {"stopReason": "end_turn"})
        await prompting
        gap = await anext(session.updates())
        assert isinstance(gap, updates.Gap)
        assert gap.missed == 10_000 - 1024


async def test_an_agent_that_ends_takes_no_other_with_it() -> None:
    script = "import sys\nfor line in sys.stdin: sys.exit(0)"
    async with connected() as (agent, client):
        with pytest.raises(LinkLost, match="exited with code 0"):
            await AcpClient([sys.executable, "-c", script]).connect()
        await opened(agent, client)


async def test_sessions_come_and_go_without_a_trace() -> None:
    async with connected() as (agent, client):
        connection = client._connection
        assert connection is not None
        for number in range(50):
            session = await opened(agent, client, f"s{number}")
            session.subscribe(lambda _: None, updates.Update)
            await agent.send(chunk("a", session.id))
            closing = asyncio.ensure_future(session.close())
            await agent.result(await agent.next("session/close"), {})
            await closing
        assert not connection.sessions
        assert (connection.backlog.held_lines, connection.backlog.held_bytes) == (0, 0)
        assert not client._handlers._dependents
        await settled()
        assert len(connection.owner) == 1  # the reader
