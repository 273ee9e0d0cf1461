"""A process that follows a job is killed with SIGKILL; the next one continues with that job."""

import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from arcp_client import Client, JobContext, Runtime, SqliteStore, events


async def follow(url: str, file: str, killed_at: int) -> None:
    """The program: the first process submits the job, each later one finds it in the store."""
    client = Client(url, token="demo", store=SqliteStore(file, every=1))

    @client.on(events.Progress)
    async def handle(event: events.Progress) -> None:
        print(f"handled {event.current}{' again' if event.redelivered else ''}", flush=True)
        if event.current == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    async with client:
        if client.open_jobs():
            (job,) = client.open_jobs()
        else:
            job = await client.submit("counter", idempotency_key="count-1")
        print((await job.result()).value, flush=True)


async def main() -> None:
    runtime = Runtime(auth={"demo": "me"})

    @runtime.agent("counter")
    async def counter(input: Any, job: JobContext) -> str:
        for n in range(1, 7):
            await job.progress(n, total=6)
        return "counted to 6"

    with tempfile.TemporaryDirectory() as folder:
        async with runtime.serve("127.0.0.1", 0) as server:
            for killed_at in ("3", "0"):
                program = [
                    sys.executable,
                    __file__,
                    server.url,
                    str(Path(folder, "jobs.db")),
                    killed_at,
                ]
                process = await asyncio.create_subprocess_exec(*program)
                print(f"--- the process ended with {await process.wait()}", flush=True)


if len(sys.argv) == 4:
    asyncio.run(follow(sys.argv[1], sys.argv[2], int(sys.argv[3])))
else:
    asyncio.run(main())
