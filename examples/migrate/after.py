"""With this package: the same, and the session survives a lost connection."""

import asyncio
import sys

from arcp_client import Client, errors, events


async def main(url: str) -> None:
    async with Client(url, token="secret") as client:
        try:
            job = await client.submit("count", {"to": 3}, max_runtime=60)
            async for event in job:
                if isinstance(event, events.Progress):
                    print(event.current, "of", event.total)
            print((await job.result()).value)
        except errors.JobFailed as error:
            print("failed:", error.code)


asyncio.run(main(sys.argv[1]))
