import asyncio

from arcp_client import Client, events


async def main():
    async with Client("ws://127.0.0.1:7777/arcp") as client:
        job = await client.submit("count", {"to": 5})
        async for event in job:
            if isinstance(event, events.Progress):
                print(event.current, "/", event.total)
        print((await job.result()).value)


asyncio.run(main())
