"""With the reference SDK: submit a job, follow its events, print its result."""

import asyncio
import sys

from arcp import ARCPError, ClientInfo, WebSocketTransport
from arcp.client import ARCPClient


async def main(url: str) -> None:
    client = ARCPClient(
        client=ClientInfo(name="example", version="1"), token="secret", auto_ack=True
    )
    await client.connect(await WebSocketTransport.connect(url))
    try:
        handle = await client.submit(agent="count", input={"to": 3}, max_runtime_sec=60)
        async for event in handle.events():
            if event["kind"] == "progress":
                print(event["body"]["current"], "of", event["body"]["total"])
        print((await handle.done).result)
    except ARCPError as error:
        print("failed:", error.code)
    finally:
        await client.close()


asyncio.run(main(sys.argv[1]))
