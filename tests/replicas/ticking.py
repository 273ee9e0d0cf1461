"""The agents of replicas that are killed: ``serve --agents tests.replicas.ticking:make``."""

from __future__ import annotations

import asyncio
from typing import Any

from arcp_client.runtime import JobContext, Runtime


def make(auth: Any = None, event_log: Any = None) -> Runtime:
    """A runtime with the agent ``ticks``, which emits events with a pause after each."""
    runtime = Runtime(auth=auth, event_log=event_log)

    @runtime.agent("ticks")
    async def ticks(input: Any, job: JobContext) -> Any:
        for n in range(input["count"]):
            await job.progress(n + 1, input["count"])
            await asyncio.sleep(input["pause"])
        return input["count"]

    return runtime
