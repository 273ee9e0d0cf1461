"""A client process that is made to be killed: writes down each event that its handler starts on."""

from __future__ import annotations

import asyncio
import os
import sys

from arcp_client import Client, SqliteStore, events


async def main(url: str, path: str, every: int, total: int) -> None:
    client = Client(url, store=SqliteStore(path, every=every))

    @client.on(events.Progress)
    async def handle(event: events.Progress) -> None:
        # One system call: it is in the pipe, whatever happens to this process next.
        os.write(1, f"{event.current:.0f} {event.redelivered:d}\n".encode())
        if int(event.current) % 20 == 0:
            await asyncio.sleep(0.001)  # not much faster than whoever counts and kills

    @client.on(events.Gap)
    async def gap(event: events.Gap) -> None:
        os.write(1, b"gap 0\n")

    async with client:
        jobs = client.open_jobs() or [await client.submit("emit", total, idempotency_key="one")]
        await jobs[0].result()
    os.write(1, b"end 0\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
