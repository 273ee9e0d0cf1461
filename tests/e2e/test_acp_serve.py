"""`arcp-client acp-serve` as an editor starts it: stdout has only the protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from arcp_client import Runtime
from arcp_client.acp import AcpClient, updates
from tests.e2e.shell import COMMAND

pytestmark = pytest.mark.usefixtures("forked")


@pytest.fixture
async def url() -> AsyncIterator[str]:
    runtime = Runtime()

    @runtime.agent("echo")
    async def echo(input: Any, job: Any) -> None:
        await job.chunk(f"you said {input}")

    async with runtime, runtime.serve("127.0.0.1", 0) as server:
        yield server.url


async def test_a_prompt_is_a_job(url: str) -> None:
    async with AcpClient([*COMMAND, "acp-serve", "echo", "--url", url]) as agent:
        session = await agent.new_session("/")
        said: list[str] = []
        session.subscribe(lambda u: said.append(u.content.text), updates.AgentMessageChunk)
        assert (await session.prompt("hello")).stop_reason == "end_turn"
        assert said == ["you said hello"]


@pytest.mark.parametrize(
    ("agent", "there", "code", "why"),
    [
        ("nope", True, 5, "the runtime has no agent 'nope'; it has echo"),
        ("echo", False, 3, "cannot connect to ws://127.0.0.1:1/arcp"),
    ],
)
async def test_a_problem_is_the_answer_and_one_sentence_on_stderr(
    url: str, agent: str, there: bool, code: int, why: str
) -> None:
    where = url if there else "ws://127.0.0.1:1/arcp"
    words = ["acp-serve", agent, "--url", where, "--connect-timeout", "0.2"]
    process = await asyncio.create_subprocess_exec(*COMMAND, *words, stdin=-1, stdout=-1, stderr=-1)
    assert process.stdin is not None
    request = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}
    out, err = await process.communicate(json.dumps(request).encode() + b"\n")
    (line,) = out.decode().splitlines()
    answer = json.loads(line)
    assert answer["id"] == 0
    assert why in answer["error"]["message"]
    assert why in err.decode().replace("\n", " ")
    assert "Traceback" not in err.decode()
    assert process.returncode == code
