"""Agents of protocol version 2 in other processes: of the npm SDK, and our own ``acp-serve``."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from arcp_client import Client, Runtime, events
from arcp_client.acp import AcpClient, host, updates
from tests.interop.acp.conftest import HERE, npm_program

pytestmark = pytest.mark.usefixtures("forked_sdk")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("versions", [(1, 2), (2, 1), (2,)])
async def test_an_agent_of_the_sdk_that_speaks_version_2_only(versions: tuple[int, ...]) -> None:
    asked: list[Any] = []

    def allow(request: Any) -> bool:
        asked.append((request.title, request.tool_call.title))
        return True

    program = npm_program("agent_npm2.mjs")
    async with AcpClient(**program, versions=versions, on_permission=allow) as agent:
        assert agent.protocol_version == 2
        assert agent.info is not None
        assert agent.info.name == "npm agent"
        session = await agent.new_session()
        said: list[str] = []
        session.subscribe(lambda u: said.append(u.content.text), updates.AgentMessageChunk)
        for number in range(20):
            turn = await session.prompt(f"prompt {number}")
            assert turn.stop_reason == "end_turn"
            assert said[-2:] == [f"prompt {number}", "selected"]
        assert asked == [("May I edit?", "Edit")] * 20
        told: list[str] = []
        session.subscribe(
            lambda u: told.append(u.content.text),
            updates.UserMessageChunk,
            updates.AgentMessageChunk,
        )
        await session.load()
        assert told == ["before", "said"]
        await session.close()


@pytest.mark.timeout(120)
async def test_an_agent_of_version_2_is_an_agent_of_a_runtime() -> None:
    program = npm_program("agent_npm2.mjs")
    runtime = Runtime()
    runtime.agent("acp")(host(program["argv"], env=program["env"]))
    async with Client(runtime) as client:
        job = await client.submit("acp", {"prompt": "hello"})
        seen = [event async for event in job]
        assert str((await job.result()).value).startswith("hello")
    calls = [event for event in seen if isinstance(event, events.ToolCall)]
    assert [call.tool for call in calls] == ["edit"]


@pytest.mark.timeout(180)
async def test_acp_serve_in_version_2_and_another_process_loads_the_session() -> None:
    runtime = Runtime()
    runtime.agent("acp")(host([sys.executable, str(HERE / "agent_py.py")]))
    async with runtime, runtime.serve("127.0.0.1", 0) as server:
        words = ["-m", "arcp_client.cli", "acp-serve", "acp", "--cwd", ".", "--url", server.url]
        command = [sys.executable, *words]
        async with AcpClient(command, versions=(2,)) as agent:
            assert agent.protocol_version == 2
            session = await agent.new_session()
            seen: list[Any] = []
            session.subscribe(seen.append, updates.AgentMessageChunk)
            assert (await session.prompt("five")).stop_reason == "end_turn"
            assert [update.content.text for update in seen] == ["0", "1", "2", "3", "4"]
        async with AcpClient(command, versions=(2,)) as agent:
            again = agent.session(session.id)
            told: list[str] = []
            again.subscribe(
                lambda u: told.append(u.content.text),
                updates.UserMessageChunk,
                updates.AgentMessageChunk,
            )
            await again.load()
            assert told == ["five", "0", "1", "2", "3", "4"]
            assert again.state.activity == "idle"
