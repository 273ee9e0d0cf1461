"""Agents for `arcp-client serve --agents my_agents:runtime`, which passes token and event log."""

import asyncio
from collections.abc import Mapping
from typing import Any

from arcp_client import JobContext, Limits, Runtime
from arcp_client.runtime import EventLog


def runtime(auth: Mapping[str, str] | None = None, event_log: EventLog | None = None) -> Runtime:
    runtime = Runtime(
        name="my-agents", auth=auth, event_log=event_log, limits=Limits(max_concurrent_jobs=50)
    )

    @runtime.agent("count", version="1.0.0", description="Counts to a number.")
    async def count(input: dict[str, int], job: JobContext) -> dict[str, Any]:
        for n in range(1, input["to"] + 1):
            await job.progress(n, total=input["to"])
            await asyncio.sleep(0.01)
        return {"counted": input["to"]}

    return runtime
