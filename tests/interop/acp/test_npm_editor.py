"""The client of the official npm SDK as an editor before ``acp-serve``, in versions 1 and 2."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from arcp_client import Runtime
from arcp_client.acp import host
from tests.interop.acp.conftest import HERE, npm_program

pytestmark = pytest.mark.usefixtures("forked_sdk")

COMMAND = [sys.executable, "-m", "arcp_client.cli", "acp-serve", "acp", "--cwd", "."]


async def edit(version: int, session: str, url: str) -> list[dict[str, Any]]:
    """What an editor prints."""
    program = npm_program("editor_npm.mjs")
    words = [*program["argv"], str(version), session, *COMMAND, "--url", url]
    process = await asyncio.create_subprocess_exec(
        *words, env=program["env"], stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("version", [1, 2])
async def test_it_runs_a_prompt_and_another_process_loads_the_session(version: int) -> None:
    runtime = Runtime()
    runtime.agent("acp")(host([sys.executable, str(HERE / "agent_py.py")]))
    async with runtime, runtime.serve("127.0.0.1", 0) as server:
        # The prompt is one of agent_py.py, which does nothing but end the turn for other words.
        first = await edit(version, "new", server.url)
        session = first[0]["session"]
        assert first[-1] == {"stopReason": "end_turn"}
        again = await edit(version, session, server.url)
    shown = [line["update"] for line in again]
    prompt = shown[0]
    if version == 1:
        assert prompt == {
            "sessionUpdate": "user_message_chunk",
            "content": {"type": "text", "text": "go"},
        }
    else:
        assert prompt["sessionUpdate"] == "user_message"
        assert [update["state"] for update in shown[1:]] == ["running", "idle", "idle"]
        assert shown[:-1] == [line["update"] for line in first if "update" in line]
