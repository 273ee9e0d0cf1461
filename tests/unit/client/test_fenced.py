"""A store that belongs to another client by now ends this one with StoreLocked (S10)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from tenacity import wait_fixed

from arcp_client import Client, Closed, MemoryStore, Reconnect, Runtime, events
from arcp_client.errors import ConnectFailed, StoreLocked
from arcp_client.models import Checkpoint
from arcp_client.state import Reconnecting
from arcp_client.testing import VirtualClock
from tests.unit.link.line import Line


class Fenced(MemoryStore):
    """A store in which another client takes the place of this one, from some save on."""

    def __init__(self, when: Callable[[Checkpoint], bool], **options: Any) -> None:
        super().__init__(**options)
        self.when = when
        self.refused = 0
        self.deleted = 0
        self.released = 0
        self.marks: list[int] = []

    async def save(self, target: str, key: str, checkpoint: Checkpoint) -> None:
        if self.refused or self.when(checkpoint):
            self.refused += 1
            raise StoreLocked("another process took the checkpoint over")
        self.marks.append(checkpoint.mark)
        await super().save(target, key, checkpoint)

    async def delete(self, target: str, key: str) -> None:
        self.deleted += 1
        await super().delete(target, key)

    async def release(self, target: str, key: str) -> None:
        self.released += 1
        await super().release(target, key)


async def until_closed(client: Client) -> None:
    closed = asyncio.Event()
    client.states.subscribe(on_completed=closed.set)
    await closed.wait()


PLACES: dict[str, Callable[[Checkpoint], bool]] = {
    "the token of the welcome": lambda checkpoint: True,
    "a reservation": lambda checkpoint: checkpoint.reserved > 4,
    "a mark": lambda checkpoint: checkpoint.mark > 2,
    "an open job": lambda checkpoint: bool(checkpoint.jobs),
    "an outcome": lambda checkpoint: bool(checkpoint.ended),
}


@pytest.mark.parametrize("place", PLACES)
async def test_s10_a_fenced_store_closes_the_client_wherever_it_says_so(
    clock: VirtualClock, runtime: Runtime, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = Fenced(PLACES[place], every=4, interval=0.1)
    client = Client(runtime, store=store)
    handled: list[str] = []

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        handled.append(event.message)

    with caplog.at_level(logging.WARNING, logger="arcp_client"):
        with pytest.raises(StoreLocked, match="took the checkpoint over"):
            await client.connect()
            job = await client.submit("say", [str(n) for n in range(20)])
            await job.result()
            await until_closed(client)
            await client.connect()
        await clock.advance(60.0)
    assert isinstance(client.state, Closed)
    assert isinstance(client.state.cause, StoreLocked)
    assert store.refused == 1  # it is not tried again, neither each second nor at the end
    assert store.released == 1
    await client.close()
    await client.detach()
    assert (store.refused, store.deleted) == (1, 0)
    assert handled == [str(n) for n in range(len(handled))]


async def test_s10_a_client_that_pauses_between_attempts_lets_go_at_once(
    clock: VirtualClock, runtime: Runtime
) -> None:
    down = ConnectFailed("down")
    line = Line(runtime, [None, *[down] * 100])
    taken = False
    store = Fenced(lambda checkpoint: taken, every=4, interval=1.0)
    client = Client(line, store=store, reconnect=Reconnect(wait=wait_fixed(1000.0)))
    await client.connect()
    gate = asyncio.Event()

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        await gate.wait()

    await client.submit("say", ["one", "two"])
    await clock.settle()
    await line.cut()
    await clock.advance(5.0)
    assert isinstance(client.state, Reconnecting)
    taken = True
    gate.set()
    before = clock.time()
    await until_closed(client)
    await clock.settle()
    assert isinstance(client.state, Closed)
    assert isinstance(client.state.cause, StoreLocked)
    assert store.released == 1
    assert clock.time() - before <= 2.0


async def test_s10_waiters_are_told_of_the_fence(clock: VirtualClock, runtime: Runtime) -> None:
    taken = False
    store = Fenced(lambda checkpoint: taken, every=4, interval=0.1)
    client = Client(runtime, store=store)
    await client.connect()
    job = await client.submit("stuck")
    waiting = asyncio.ensure_future(job.result())
    iterating = asyncio.ensure_future(anext(client.events()))
    await clock.settle()
    taken = True
    await client.submit("say", ["one"])
    with pytest.raises(StoreLocked):
        await waiting
    await asyncio.wait({iterating})
    await client.close()
