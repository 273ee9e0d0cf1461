"""Agents for the tests of tokens: one says them aloud, one starts a program that looks for them."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from arcp_client import JobContext, Runtime


def make(auth: Any = None) -> Runtime:
    runtime = Runtime(name="token-tests", auth=auth)

    @runtime.agent("leaks")
    async def leaks(input: Any, job: JobContext) -> Any:
        token = next(iter(auth or {}), "none")
        await job.log(f"I know {token}")
        await job.tool_call("curl", {"headers": {"Authorization": f"Bearer {token}"}})
        await job.emit("x-vendor.acme.login", {"password": "canary-password"})
        return {"api_key": "canary-key", "plain": "data"}

    @runtime.agent("environment")
    async def environment(input: Any, job: JobContext) -> str:
        """What a program that this agent starts is given."""
        program = "import os; print(dict(os.environ))"
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await child.communicate()
        return said.decode()

    @runtime.agent("waits")
    async def waits(input: Any, job: JobContext) -> None:
        await job.status("waiting")
        await job.cancelled.wait()

    return runtime
