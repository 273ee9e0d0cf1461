"""Each event has exactly one row in PostgreSQL, although a client stops in the middle of one.

The first client ends with the traceback of its handler, which stands for a crash.
"""

import asyncio
import sys
from typing import Any

import asyncpg

from arcp_client import Client, JobContext, Runtime, errors, events
from arcp_client.stores import PostgresStore

runtime = Runtime(name="shop")
TABLE = """
DROP TABLE IF EXISTS charges;  -- of an earlier run of this example
CREATE TABLE charges (job text, step integer, amount numeric)
"""


@runtime.agent("orders")
async def orders(input: int, job: JobContext) -> int:
    for step in range(input):
        await job.progress(step, input)
    return input


async def one_life(dsn: str, pool: Any, *, fails_at: int | None) -> None:
    client = Client(runtime, store=PostgresStore(dsn), key="billing")

    @client.on(events.Progress, tx=pool, on_error="stop")
    async def charge(event: events.Progress, connection: Any) -> None:
        step = int(event.current)
        await connection.execute("INSERT INTO charges VALUES ($1, $2, 10)", event.job_id, step)
        if step == fails_at:
            raise RuntimeError("the process ends here")

    async with client:
        jobs = client.open_jobs() or [await client.submit("orders", 5)]
        await jobs[0].result()


async def main(dsn: str) -> None:
    async with asyncpg.create_pool(dsn, min_size=0) as pool:
        await pool.execute(TABLE)
        try:
            await one_life(dsn, pool, fails_at=2)
        except errors.HandlerFailed:
            rows = await pool.fetch("SELECT step FROM charges")
            print("the first client has charged steps", [row["step"] for row in rows])
        await one_life(dsn, pool, fails_at=None)
        rows = await pool.fetch("SELECT step FROM charges ORDER BY step")
        print("both together:", [row["step"] for row in rows])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
