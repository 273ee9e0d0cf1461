"""A proxy cuts the connection twice during a job; the session resumes, and nothing is missing."""

import argparse
import asyncio
from typing import Any

from arcp_client import Client, JobContext, LinkState, Live, Runtime, events
from arcp_client.testing import FaultyProxy

runtime = Runtime()


@runtime.agent("counter")
async def counter(input: Any, job: JobContext) -> str:
    for n in range(1, 31):
        await job.progress(n, total=30)
        await asyncio.sleep(0.01)
    return "counted to 30"


async def main(url: str | None) -> None:
    async with runtime, runtime.serve() as server, FaultyProxy(url or server.url) as proxy:
        client = Client(proxy.url)
        links: asyncio.Queue[Live] = asyncio.Queue()
        numbers: list[float] = []

        @client.on_state
        def note_link(state: LinkState) -> None:
            if isinstance(state, Live):
                links.put_nowait(state)

        @client.on(events.Progress)
        async def note(event: events.Progress) -> None:
            numbers.append(event.current)
            if event.current in {10, 20}:
                proxy.cut()
                print("cut at", event.current, "→", await links.get())

        async with client:
            print("connected →", await links.get())
            job = await client.submit("counter")
            print((await job.result()).value)

        print("in order, none missing, none twice:", numbers == list(range(1, 31)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url")
    asyncio.run(main(parser.parse_args().url))
