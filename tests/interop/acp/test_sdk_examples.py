"""The official Python SDK's own examples: its agents hosted, its client before ``acp-serve``."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from arcp_client import Runtime
from arcp_client.acp import host
from tests.interop import sdist

pytestmark = [
    pytest.mark.timeout(180 + sdist.PATIENCE),  # the first run downloads
    pytest.mark.usefixtures("forked_sdk"),
]

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("agent.py", "Client sent: hello Client sent: again"),
        ("echo_agent.py", "hello again"),
    ],
)
async def test_its_client_talks_to_its_agent_through_a_runtime(
    agent: str, said: str, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    examples = sdist.examples(pytestconfig, tmp_path, sdist.ACP)
    runtime = Runtime()
    runtime.agent("example")(host([sys.executable, str(examples / agent)]))
    async with runtime, runtime.serve("127.0.0.1", 0) as server:
        words = ["-m", "arcp_client.cli", "acp-serve", "example", "--cwd", ".", "--url", server.url]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(examples / "client.py"), sys.executable, *words),
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate(b"hello\nagain\n")
    shown = [line.rpartition("| Agent: ")[2] for line in out.decode().splitlines()]
    assert " ".join(line for line in shown if line.strip("> ")) == said
    assert process.returncode == 0
