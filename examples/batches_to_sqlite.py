"""A handler that stores many events in one transaction."""

import argparse
import asyncio
import sqlite3
from typing import Any

from arcp_client import Batch, Client, JobContext, Runtime, events

runtime = Runtime()


@runtime.agent("talker")
async def talker(input: Any, job: JobContext) -> str:
    for n in range(1000):
        await job.log(f"line {n}")
    return "said"


database = sqlite3.connect(":memory:")
database.execute("CREATE TABLE log (job TEXT, id TEXT, message TEXT, PRIMARY KEY (job, id))")


async def store(batch: list[events.Log]) -> None:
    rows = [(event.job_id, event.id, event.message) for event in batch]
    with database:  # one transaction
        database.executemany("INSERT OR IGNORE INTO log VALUES (?, ?, ?)", rows)


async def main(target: Runtime | str) -> None:
    client = Client(target)
    client.on(events.Log, batch=Batch(count=500, seconds=0.5))(store)
    async with client:
        job = await client.submit("talker")
        print((await job.result()).value)  # waits for the batch with the last line
    print(*database.execute("SELECT count(*) FROM log").fetchone(), "lines")
    database.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default=runtime)
    asyncio.run(main(parser.parse_args().url))
