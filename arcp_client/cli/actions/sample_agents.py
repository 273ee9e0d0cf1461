"""Defines the sample agents that ``serve`` offers without ``--agents``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from arcp_client import JobContext, Runtime
from arcp_client.errors import JobFailed
from arcp_client.runtime import EventLog, Webhook

__all__ = ["NAMES", "sample_runtime"]

NAMES = ("echo", "count", "report")

_SECTIONS = ("Question", "Sources", "Findings", "Next steps")


def _option(input: Any, name: str, default: float, most: float) -> float:
    """Return a number of the input, within bounds."""
    value = input.get(name, default) if isinstance(input, dict) else default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise JobFailed(f"{name} must be a number from 0 to {most:g}", code="INVALID_REQUEST")
    return value


def sample_runtime(
    auth: dict[str, str] | None, event_log: EventLog | None, webhooks: Sequence[Webhook]
) -> Runtime:
    """Make a runtime with the sample agents."""
    runtime = Runtime(name="samples", auth=auth, event_log=event_log, webhooks=webhooks)

    @runtime.agent("echo", version="1.0.0")
    async def echo(input: Any, job: JobContext) -> Any:
        """Returns its input."""
        await job.log("echoing")
        return input

    @runtime.agent("count", version="1.0.0")
    async def count(input: Any, job: JobContext) -> dict[str, int]:
        """Counts to ``to`` (10), with ``delay`` (0.2) seconds between steps."""
        to = int(_option(input, "to", 10, 1_000_000))
        delay = _option(input, "delay", 0.2, 3600)
        for n in range(1, to + 1):
            await job.progress(n, total=to)
            await asyncio.sleep(delay)
        return {"counted": to}

    @runtime.agent("report", version="1.0.0")
    async def report(input: Any, job: JobContext) -> AsyncIterator[str]:
        """Calls a tool for each section, and streams a text."""
        delay = _option(input, "delay", 0.2, 3600)
        return _sections(job, delay)

    return runtime


async def _sections(job: JobContext, delay: float) -> AsyncIterator[str]:
    yield "# Report\n"
    for n, title in enumerate(_SECTIONS, 1):
        async with job.tool("search", {"topic": title.lower()}) as call:
            await asyncio.sleep(delay)
            call.result = {"hits": 3 * n}
        await job.metric("sources", 3 * n)
        await job.progress(n, total=len(_SECTIONS), units="sections")
        yield f"\n## {title}\n\n{3 * n} sources agree.\n"
