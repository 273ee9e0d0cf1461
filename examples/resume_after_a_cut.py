"""A proxy cuts the connection twice in mid-stream; the session resumes, and nothing is missing."""

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


async def main() -> None:
    async with (
        runtime,
        runtime.serve("127.0.0.1", 0) as server,
        FaultyProxy(server.url) as proxy,
    ):
        client = Client(proxy.url)
        numbers: list[float] = []
        links: list[Live] = []

        @client.on_state
        def count_links(state: LinkState) -> None:
            if isinstance(state, Live):
                links.append(state)

        @client.on(events.Progress)
        async def note(event: events.Progress) -> None:
            numbers.append(event.current)
            if event.current in {10, 20}:
                proxy.cut()

        async with client:
            job = await client.submit("counter")
            print((await job.result()).value)

        print("in order, none missing, none twice:", numbers == list(range(1, 31)))
        print("links:", len(links), "resumed:", [state.resumed for state in links[1:]])


asyncio.run(main())
