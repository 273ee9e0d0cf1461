"""Handlers run one at a time and in order, although the first ones take longest."""

import asyncio
from typing import Any

from arcp_client import Client, JobContext, Runtime, events

runtime = Runtime()


@runtime.agent("counter")
async def counter(input: Any, job: JobContext) -> str:
    for n in range(5):
        await job.progress(n, total=5)
    return "counted"


client = Client(runtime)


@client.on(events.Progress)
async def slow_at_first(event: events.Progress) -> None:
    print("start", event.current)
    await asyncio.sleep(0.15 - 0.03 * event.current)  # 150, 120, 90, 60, 30 ms
    print("done ", event.current)


async def main() -> None:
    async with client:
        job = await client.submit("counter")
        print((await job.result()).value)  # waits for the handlers of the job's earlier events


asyncio.run(main())
