"""Handlers run one at a time and in order, although the first ones take longest."""

import argparse
import asyncio
from typing import Any

from arcp_client import Client, JobContext, Runtime, events

runtime = Runtime()


@runtime.agent("counter")
async def counter(input: Any, job: JobContext) -> str:
    for n in range(5):
        await job.progress(n, total=5)
    return "counted"


async def slow_at_first(event: events.Progress) -> None:
    print("start", event.current)
    await asyncio.sleep(0.15 - 0.03 * event.current)  # 150, 120, 90, 60, 30 ms
    print("done ", event.current)


async def main(target: Runtime | str) -> None:
    client = Client(target)
    client.on(events.Progress)(slow_at_first)  # or as a decorator: @client.on(events.Progress)
    async with client:
        job = await client.submit("counter")
        print((await job.result()).value)  # waits for the handlers of the job's earlier events


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default=runtime)
    asyncio.run(main(parser.parse_args().url))
