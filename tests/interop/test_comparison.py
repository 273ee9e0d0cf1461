"""What the README says of this client and of the reference client, on the same runtime."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import arcp
import pytest
from arcp.client import ARCPClient

from arcp_client import Client, JobContext, Runtime, events
from arcp_client.testing import FaultyProxy

EVENTS, BEFORE = 20, 5
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


class World:
    """A runtime behind a proxy; its agent pauses after the first five of twenty events."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.runtime = Runtime(auth={"secret": "ada"})
        self.runtime.agent("counter")(self.count)

    async def count(self, input: Any, job: JobContext) -> str:
        for n in range(1, EVENTS + 1):
            await job.progress(n, total=EVENTS)
            if n == BEFORE:
                await self.go_on.wait()
        return "counted"


@pytest.fixture
async def world() -> AsyncIterator[tuple[World, FaultyProxy]]:
    world = World()
    async with world.runtime, world.runtime.serve() as server, FaultyProxy(server.url) as proxy:
        yield world, proxy


async def reference(url: str) -> ARCPClient:
    client = ARCPClient(client=arcp.ClientInfo(name="reference", version="1.1.3"), token="secret")
    await client.connect(await arcp.WebSocketTransport.connect(url))
    return client


def row(beginning: str) -> list[str]:
    """The cells of a line of the README's table."""
    (line,) = re.findall(rf"^\| {beginning}.*$", README, re.MULTILINE)
    return [cell.strip() for cell in line.strip("|").split("|")][1:3]


async def test_a_cut_connection_ends_the_reference_client_and_not_this_one(
    world: tuple[World, FaultyProxy],
) -> None:
    ours, theirs = row("a connection is cut after 5 of 20 events")
    assert ours == "20 of 20, in order"
    assert theirs == "5, then the caller has to resume"
    state, proxy = world

    client = await reference(proxy.url)
    handle = await client.submit(agent="counter")
    seen = []
    async for event in handle.events():
        seen.append(event["body"]["current"])
        if len(seen) == BEFORE:
            proxy.cut()
    assert seen == list(range(1, BEFORE + 1))
    with pytest.raises(arcp.TransportClosed):
        await handle.done
    await client.close()

    async with Client(proxy.url, token="secret") as own:
        job = await own.submit("counter")
        numbers = []
        async for event in job:
            if isinstance(event, events.Progress):
                numbers.append(event.current)
                if event.current == BEFORE:
                    proxy.cut()
                    state.go_on.set()
        assert numbers == list(range(1, EVENTS + 1))


async def test_two_iterators_share_the_events_of_the_reference_client_and_not_of_this_one(
    world: tuple[World, FaultyProxy],
) -> None:
    ours, theirs = row("two iterators over a job with 20 events")
    assert ours == "20 and 20"
    assert theirs == "they share the 20"
    state, proxy = world
    state.go_on.set()

    async def theirs_of(handle: Any, into: list[float]) -> None:
        async for event in handle.events():
            into.append(event["body"]["current"])  # noqa: PERF401  one of the two is cancelled

    client = await reference(proxy.url)
    handle = await client.submit(agent="counter")
    first, second = list[float](), list[float]()
    readers = [asyncio.create_task(theirs_of(handle, into)) for into in (first, second)]
    await handle.done
    done, waiting = await asyncio.wait(readers, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:  # only one of them is told the end
        task.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    assert len(done) == 1
    assert row("a slow handler")[1] == "an unbounded queue"
    assert handle._events.maxsize == 0
    assert sorted(first + second) == list(range(1, EVENTS + 1))
    await client.close()

    async def ours_of(job: Any) -> list[float]:
        return [event.current async for event in job.events(events.Progress)]

    async with Client(proxy.url, token="secret") as own:
        job = await own.submit("counter")
        whole = list(range(1, EVENTS + 1))
        assert await asyncio.gather(ours_of(job), ours_of(job)) == [whole, whole]
