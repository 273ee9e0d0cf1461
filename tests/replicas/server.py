"""A replica in a process of its own: ``python -m tests.replicas.server DSN SCHEMA LEASE``.

It prints its URL, and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from arcp_client.runtime import JobContext, Runtime
from arcp_client.runtime._log.postgres import PostgresEventLog


async def main() -> None:
    dsn, schema, lease = sys.argv[1], sys.argv[2], float(sys.argv[3])
    runtime = Runtime(event_log=PostgresEventLog(dsn, schema=schema, lease=lease))

    @runtime.agent("ticks")
    async def ticks(input: Any, job: JobContext) -> Any:
        for n in range(input["count"]):
            await job.progress(n + 1, input["count"])
            await asyncio.sleep(input["pause"])
        return input["count"]

    @runtime.agent("works")
    async def works(input: Any, job: JobContext) -> Any:
        """As ``ticks``; returns the name of its work."""
        await job.log(job.work_id)
        await ticks(input, job)
        return {"job_id": job.id, "work_id": job.work_id}

    async with runtime, runtime.serve() as server:
        print(server.url, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
