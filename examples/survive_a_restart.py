"""A client ends half way through a job; the next one continues where its handler stopped."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from arcp_client import Client, JobContext, Runtime, SqliteStore, events

runtime = Runtime()
second_half = asyncio.Event()


@runtime.agent("counter")
async def counter(input: Any, job: JobContext) -> str:
    for n in range(1, 7):
        await job.progress(n, total=6)
        if n == 3:
            await second_half.wait()
    return "counted to 6"


def new_client(store: SqliteStore) -> tuple[Client, asyncio.Event]:
    client = Client(runtime, store=store)
    half_done = asyncio.Event()

    @client.on(events.Progress)
    async def handle(event: events.Progress) -> None:
        print("handled", event.current)
        if event.current == 3:
            half_done.set()

    return client, half_done


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "counter.db"

        client, half_done = new_client(SqliteStore(file))
        async with client:
            await client.submit("counter")
            await half_done.wait()
            await client.detach()  # a crash would keep the session as well
        print("--- the first client is gone")

        second_half.set()
        client, _ = new_client(SqliteStore(file))
        async with client:
            (job,) = client.open_jobs()
            print((await job.result()).value)


asyncio.run(main())
