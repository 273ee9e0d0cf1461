"""Agents built with the official SDKs, as command lines."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
NPM_SDK = HERE.parents[2] / "build" / "npm" / "node_modules" / "@agentclientprotocol" / "sdk"


def npm_program(name: str) -> dict[str, Any]:
    """The command line and the environment of a program that uses the npm SDK."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("programs of the npm SDK need node, which is not installed")
    if not NPM_SDK.exists():
        pytest.skip(f"the npm SDK is not in {NPM_SDK}: `make npm` puts it there")
    env = {**os.environ, "ACP_NPM_SDK": str(NPM_SDK)}
    return {"argv": [node, str(HERE / name)], "env": env}


@pytest.fixture(scope="module")
def forked_sdk(forked: None) -> None:
    """As ``forked``, for programs with the Python SDK of ACP: it takes a second to import."""
    if sys.platform == "linux":
        from tests.forks import prepare  # POSIX only

        prepare("acp")


@pytest.fixture(params=["python", "npm"])
def sdk_agent(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Arguments of `AcpClient` for an agent of an official SDK."""
    if request.param == "npm":
        return npm_program("agent_npm.mjs")
    return {"argv": [sys.executable, str(HERE / "agent_py.py")]}
