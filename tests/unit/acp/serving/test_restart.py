"""The runtime is stopped: a session of its durable log is loaded, and continued by a new job."""

from __future__ import annotations

import asyncio
from pathlib import Path

from arcp_client import Runtime, SqliteEventLog
from arcp_client.acp import host
from tests.unit.acp.kit import chunk
from tests.unit.acp.serving.kit import Talker, Talkers, editor


async def turn(agent: Talker, words: str) -> str:
    await agent.send(chunk(f"you said {words}. "))
    return "end_turn"


async def test_a_session_survives_the_runtime(tmp_path: Path) -> None:
    agents = Talkers(turn)
    async with Runtime(event_log=SqliteEventLog(tmp_path / "log.db")) as runtime:
        runtime.agent("acp")(host(agents, cwd="/"))
        async with editor(runtime) as first:
            session = await first.new()
            await session.prompt("a")
    async with Runtime(event_log=SqliteEventLog(tmp_path / "log.db")) as runtime:
        runtime.agent("acp")(host(agents, cwd="/"))
        async with editor(runtime) as second:
            again = await second.load(session.id)
            assert second.text.startswith("[a]you said a. ")
            await again.prompt("b")
            assert second.text.endswith("you said b. ")
            assert "session/load" in agents.made[-1].calls
        async with editor(runtime) as third:
            await third.load(session.id)
            assert third.text == second.text.replace("you said b", "[b]you said b")
    for task in agents.tasks:
        task.cancel()
    await asyncio.gather(*agents.tasks, return_exceptions=True)
