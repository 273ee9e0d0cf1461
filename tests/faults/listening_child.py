"""A runtime process that is made to be killed: its agent takes a number of messages and waits."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from arcp_client import JobContext, Runtime, SqliteEventLog


async def main(port: int, path: str) -> None:
    runtime = Runtime(event_log=SqliteEventLog(path))

    @runtime.agent("listens")
    async def listens(input: Any, job: JobContext) -> list[Any]:
        taken = [(await job.inbox.take()).value for _ in range(input["take"])]
        if input["wait"]:
            await asyncio.Event().wait()
        return taken

    async with runtime, runtime.serve(port=port):
        os.write(1, b"ready\n")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
