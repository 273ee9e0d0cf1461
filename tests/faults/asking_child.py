"""A runtime process that is made to be killed: its agent writes down each answer that it gets."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from arcp_client import JobContext, Runtime, SqliteEventLog


async def main(port: int, path: str, answers: str, most: int) -> None:
    out = os.open(answers, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    runtime = Runtime(event_log=SqliteEventLog(path))

    @runtime.agent("asks")
    async def asks(input: Any, job: JobContext) -> int:
        for n in range(input["questions"]):
            if n == most:
                await asyncio.Event().wait()  # until the kill that is due
            answer = await job.ask(f"{n}?", timeout=input["timeout"], default="nobody")
            # One system call: it is in the file, whatever happens to this process next.
            os.write(out, f"{job.work_id} {n} {answer}\n".encode())
        return int(input["questions"])

    async with runtime, runtime.serve(port=port):
        os.write(1, b"ready\n")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
