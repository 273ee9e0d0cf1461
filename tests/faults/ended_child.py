"""A client process that is killed after its job's end was handled, before it has the result."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from arcp_client import Client, SqliteStore
from arcp_client.errors import ArcpError
from arcp_client.models import Checkpoint


class Telling(SqliteStore):
    """Says of each checkpoint how many jobs are open in it, and how many have ended."""

    async def save(self, target: str, key: str, checkpoint: Checkpoint) -> None:
        await super().save(target, key, checkpoint)
        say("saved", len(checkpoint.jobs), len(checkpoint.ended))


def say(*words: object) -> None:
    os.write(1, f"{json.dumps(words)}\n".encode())


async def main(url: str, path: str, agent: str, life: str) -> None:
    client = Client(url, store=Telling(path, interval=0.01))
    async with client:
        say("open", len(client.open_jobs()))
        job = await client.submit(agent, idempotency_key="one")
        if life == "first":
            async for _ in job:
                pass
        else:
            say("seen", *[event.kind async for event in job])
            try:
                say("result", (await job.result()).value)
            except ArcpError as error:
                say("error", type(error).__name__, str(error))
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
