"""The fixtures for users' own tests, in a suite of theirs, in both modes of pytest-asyncio."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
import pytest
from arcp_client import Client
from arcp_client.testing.scripted import Finish

pytest_plugins = ["arcp_client.testing.pytest_plugin"]


@pytest.mark.asyncio
async def test_client(arcp_runtime, arcp_client):
    @arcp_runtime.agent("echo")
    async def echo(input, job):
        return input

    assert (await (await arcp_client.submit("echo", 5)).result()).value == 5


@pytest.mark.asyncio
async def test_scripted(scripted_runtime):
    runtime = scripted_runtime("ruby", agents={"say": [Finish("hi")]})
    async with Client(runtime) as client:
        assert (await (await client.submit("say")).result()).value == "hi"
"""


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_a_suite_of_users(tmp_path: Path, mode: str) -> None:
    (tmp_path / "test_theirs.py").write_text(SUITE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    options = ["-o", f"asyncio_mode={mode}", "-o", "asyncio_default_fixture_loop_scope=function"]
    done = subprocess.run(
        [*command, *options, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr
