"""The reference runtime as a child process: frames on its standard input and output, one a line."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import arcp
from arcp.runtime import ARCPRuntime, JobContext, StaticBearerVerifier


async def length(value: Any, ctx: JobContext) -> int:
    return len(value)


async def main() -> None:
    runtime = ARCPRuntime(
        runtime=arcp.RuntimeInfo(name="reference", version="1.1.3"),
        bearer=StaticBearerVerifier({"tok-alice": "alice"}),
        heartbeat_interval_sec=30,
    )
    runtime.register_agent("length", length)
    transport = await arcp.StdioTransport.from_std_streams()
    with contextlib.suppress(NotImplementedError):  # its own close() of standard output raises that
        await runtime.accept(transport)


asyncio.run(main())
