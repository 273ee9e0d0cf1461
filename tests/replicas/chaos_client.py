"""A client that is made to be killed: ``python -m tests.replicas.chaos_client JSON``.

It submits its jobs one after the other, and watches those that its standard input names. It appends
what its handlers and iterators get to a file, one line each; a process that continues it appends to
the same file.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

from arcp_client import Client, LinkState, SqliteStore, events
from arcp_client.errors import ArcpError, JobError, StoreLocked
from arcp_client.stores import PostgresStore


class Worker:
    """One client process."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.out = os.open(given["out"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        self.views: list[asyncio.Task[None]] = []
        self.client = self.made()

    def made(self) -> Client:
        """A client, which is not connected yet."""
        given, path = self.given, self.given["store"]
        store: PostgresStore | SqliteStore = (
            PostgresStore(path, lease=given["lease"]) if "://" in path else SqliteStore(path)
        )
        client = Client(given["url"], key=given["name"], store=store)
        client.subscribe(self.handle, events.Progress, events.Gap, *TERMINAL)
        client.on_state(self.moved)
        return client

    def note(self, kind: str, **fields: Any) -> None:
        """One system call: it is in the file, whatever happens to this process next."""
        os.write(self.out, json.dumps({"kind": kind, "at": time.time(), **fields}).encode() + b"\n")

    def moved(self, state: LinkState) -> None:
        self.note(
            "link", state=type(state).__name__, cause=str(getattr(state, "cause", None))[:200]
        )

    def handle(self, event: events.Event) -> None:
        self.note("event", observer="session", **seen(event))

    async def work(self) -> None:
        await self.connect()
        self.note("connected", resumed=self.client.resumed)
        reading = asyncio.ensure_future(self.told())
        for number in self.given["jobs"]:
            job = await self.submitted(number)
            self.note("accepted", job=job.id)
            print(json.dumps({"job": number, "id": job.id}), flush=True)
            try:
                await job.result()
                self.note("completed", job=job.id)
            except JobError as error:
                self.note("failed", job=job.id, code=error.code, retryable=error.retryable)
        print(json.dumps({"done": True}), flush=True)
        await reading
        await asyncio.gather(*self.views)
        await self.client.drain()
        await self.client.close()
        self.note("end")

    async def connect(self) -> None:
        while True:
            try:
                return await self.client.connect()
            except StoreLocked:  # the killed process still has its lease
                await asyncio.sleep(0.2)
                self.client = self.made()

    async def submitted(self, number: int) -> Any:
        while True:
            try:
                return await self.client.submit(
                    "ticks", self.given["input"], idempotency_key=f"job-{number}"
                )
            except ArcpError as error:
                if not getattr(error, "retryable", False):
                    raise
                self.note("refused", number=number, why=str(error)[:200])
                await asyncio.sleep(0.2)

    async def told(self) -> None:
        """Watch jobs, until standard input ends."""
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            self.views.append(asyncio.ensure_future(self.watch(line.strip())))

    async def watch(self, job_id: str) -> None:
        while True:
            try:
                view = await self.client.watch(job_id, history=True)
                break
            except ArcpError as error:
                if not getattr(error, "retryable", False):
                    raise
                await asyncio.sleep(0.2)
        observer = f"watch {os.getpid()}"
        async for event in view.events(events.Progress, events.Gap, *TERMINAL):
            self.note("event", observer=observer, **seen(event))


TERMINAL = (events.Completed, events.Failed)


def seen(event: events.Event) -> dict[str, Any]:
    """What is noted of an event."""
    return {
        "type": type(event).__name__,
        "job": event.job_id,
        "n": int(event.current) if isinstance(event, events.Progress) else 0,
        "again": event.redelivered,
        "reason": event.reason if isinstance(event, events.Gap) else "",
    }


if __name__ == "__main__":
    asyncio.run(Worker(json.loads(sys.argv[1])).work())
