"""The stock client of AG-UI, `@ag-ui/client` of npm, as a process that tests drive."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
MODULES = HERE.parents[2] / "build" / "npm" / "node_modules"
SOON = 120.0


class Browser:
    """A program with front ends that are made of the stock `HttpAgent`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def do(self, step: str, **given: Any) -> dict[str, Any]:
        """Do one step of ``drive.mjs``."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": step, **given}).encode() + b"\n")
        async with asyncio.timeout(SOON):
            line = await self._process.stdout.readline()
        said = json.loads(line)
        assert "failed" not in said, said
        return dict(said)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("the client of AG-UI needs node, which is not installed")
    if not (MODULES / "@ag-ui" / "client").exists():
        pytest.skip(f"the client of AG-UI is not in {MODULES}: `make npm` puts it there")
    process = await asyncio.create_subprocess_exec(
        node,
        str(HERE / "drive.mjs"),
        env={**os.environ, "AGUI_NODE_MODULES": str(MODULES)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=64 << 20,
    )
    yield Browser(process)
    assert process.stdin is not None
    process.stdin.close()
    async with asyncio.timeout(SOON):
        await process.wait()
