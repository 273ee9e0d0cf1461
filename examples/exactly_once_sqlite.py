"""Each event has exactly one row in SQLite, although a client stops right after it wrote one."""

import argparse
import asyncio
import contextlib
import sqlite3
import tempfile
from pathlib import Path

from arcp_client import Client, JobContext, Runtime, SqliteStore, errors, events

runtime = Runtime()
TABLES = """
CREATE TABLE IF NOT EXISTS handled (job TEXT, event TEXT, PRIMARY KEY (job, event));
CREATE TABLE IF NOT EXISTS charges (job TEXT, step INTEGER);
"""


@runtime.agent("orders")
async def orders(input: int, job: JobContext) -> None:
    for step in range(input):
        await job.progress(step, total=input)


async def one_life(target: Runtime | str, folder: Path, *, stops_at: int | None) -> None:
    database = sqlite3.connect(folder / "charges.db")
    database.executescript(TABLES)
    client = Client(target, store=SqliteStore(folder / "client.db"))

    @client.on(events.Progress, on_error="stop")
    async def charge(event: events.Progress) -> None:
        with database:  # one transaction: the record of the event, and its effect
            record = "INSERT OR IGNORE INTO handled VALUES (?, ?)"
            new = database.execute(record, (event.job_id, event.id)).rowcount
            if new:
                database.execute("INSERT INTO charges VALUES (?, ?)", (event.job_id, event.current))
        print("step", event.current, "is charged" if new else "was charged before")
        if event.current == stops_at:
            await client.detach()  # before the event counts as processed, as in a crash

    async with client:
        jobs = client.open_jobs() or [await client.submit("orders", 4)]
        with contextlib.suppress(errors.ClientClosed):
            await jobs[0].result()
    print(*database.execute("SELECT count(*) FROM charges").fetchone(), "charges")
    database.close()


async def main(target: Runtime | str) -> None:
    with tempfile.TemporaryDirectory() as name:
        await one_life(target, Path(name), stops_at=1)
        print("--- the next client")
        await one_life(target, Path(name), stops_at=None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default=runtime)
    asyncio.run(main(parser.parse_args().url))
