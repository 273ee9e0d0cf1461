"""Real agents, offline: the handshake and a new session. `make test-agents` runs this."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from arcp_client.acp import AcpClient, AcpLimits, AgentRefused, updates

BIN = Path(__file__).parents[3] / "build" / "agents" / "node_modules" / ".bin"
AGENTS = {"claude-agent-acp": [], "opencode": ["acp"]}

pytestmark = [
    pytest.mark.agents,
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        "ARCP_TEST_AGENTS" not in os.environ,
        reason="hundreds of megabytes: `make test-agents` installs and runs them",
    ),
]


@pytest.fixture(params=AGENTS, ids=list(AGENTS))
def command(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Arguments of `AcpClient` for a real agent with an empty home."""
    program = BIN / request.param
    if not program.exists():
        pytest.fail(f"{program} is not there; npm could not install it")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "dumb"}
    return {"argv": [program, *AGENTS[request.param]], "env": env, "cwd": tmp_path}


async def test_a_session_is_opened_offline(command: dict[str, Any]) -> None:
    odd: list[Any] = []
    client = AcpClient(**command, limits=AcpLimits(close=10))
    client.on_strange(odd.append)
    async with client as agent:
        assert agent.capabilities.load_session
        session = await agent.new_session()
        assert session.id
        async for update in session.updates(updates.AvailableCommandsUpdate):
            assert session.state.commands == tuple(update.available_commands)
            break
        assert session.state.options
        sessions = [one async for one in agent.list_sessions()]
        assert all(one.session_id for one in sessions)
        await session.close()
    assert not odd


async def test_a_prompt_without_an_account_is_refused_and_late_updates_arrive(
    command: dict[str, Any],
) -> None:
    if "opencode" in str(command["argv"][0]):
        pytest.skip("opencode never answers a prompt offline")
    async with AcpClient(**command) as agent:
        session = await agent.new_session()
        with pytest.raises(AgentRefused, match="Authentication required"):
            await session.prompt("hello")
        async for update in session.updates(updates.UsageUpdate):
            assert update.size >= 0  # it comes behind the error
            break
