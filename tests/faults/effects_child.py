"""A client process that is made to be killed: inserts a row for each event into PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import asyncpg

from arcp_client import Client, events
from arcp_client.errors import StorageError, StoreLocked
from arcp_client.stores import PostgresStore

LEASE = 0.4


async def main(url: str, dsn: str, batch: bool) -> None:
    pool = await asyncpg.create_pool(dsn, min_size=0, max_size=2)
    began = False
    while True:
        client = Client(url, store=PostgresStore(dsn, lease=LEASE, every=64))

        async def record(given: Any, connection: Any) -> None:
            nonlocal began
            for event in given if batch else [given]:
                await connection.execute(
                    "INSERT INTO effects (n, life) VALUES ($1, $2)", int(event.current), os.getpid()
                )
                if not began:
                    began = True
                    os.write(1, b"row\n")

        client.subscribe(record, events.Progress, tx=pool, batch=batch, on_error="stop")
        try:
            async with client:
                os.write(1, b"live\n")
                # Also in a session of its own: the key leads to the same job.
                job = await client.submit("emit", idempotency_key="one")
                await job.result()
                await client.drain()
                os.write(1, b"end\n")
                return
        except StoreLocked:  # the lease of the process that was killed
            await asyncio.sleep(LEASE / 4)
        except StorageError as error:  # a server that is busy
            if error.permanent:
                raise
            await asyncio.sleep(LEASE / 4)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3] == "batch"))
