"""A cancellation at each of the first fifty turns of the loop, in every phase of a client's life.

Nothing hangs, nothing connects afterwards, and no task, link or lock is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from tenacity import wait_fixed

from arcp_client import Client, Closed, Live, MemoryStore, Reconnect, Runtime, Timeouts
from arcp_client.errors import ClientClosed, ConnectFailed
from arcp_client.testing import Delay, FaultyConnector, VirtualClock
from tests.unit.link.line import Line

TICKS = range(51)
POLICY = Reconnect(wait=wait_fixed(5.0))
FOREVER = Timeouts(open=1e6)


async def cancelled_after(
    ticks: int, running: asyncio.Task[Any] | Coroutine[Any, Any, Any]
) -> bool:
    """Let it run for so many turns of the loop, then cancel it; True if it was cancelled."""
    task = asyncio.ensure_future(running)
    for _ in range(ticks):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=60.0)  # virtual seconds
    assert done, f"hangs when cancelled after {ticks} turns"
    return task.cancelled()


class Watched(MemoryStore):
    """A store that takes a few turns, and knows who holds it."""

    async def acquire(self, target: str, key: str) -> Any:
        found = await super().acquire(target, key)
        try:
            for _ in range(3):
                await asyncio.sleep(0)
        except BaseException:
            await self.release(target, key)
            raise
        return found

    async def save(self, target: str, key: str, checkpoint: Any) -> None:
        await asyncio.sleep(0)
        await super().save(target, key, checkpoint)

    @property
    def held(self) -> int:
        return len(self._held)


async def nothing_is_left(client: Client, line: Line, store: Watched, clock: VirtualClock) -> None:
    await asyncio.wait_for(client.close(), 60.0)
    assert isinstance(client.state, Closed)
    attempts = len(line.attempts)
    await clock.advance(3600.0)
    assert len(line.attempts) == attempts, "it connected afterwards"
    assert not store.held, "the lock is left"
    with pytest.raises((ClientClosed, ConnectFailed)):
        await client.connect()
    tasks = [task.get_name() for task in asyncio.all_tasks() if "arcp_client" in task.get_name()]
    assert not [name for name in tasks if not name.startswith("arcp_client.runtime")], tasks


Phase = Callable[[Runtime, Watched, int, VirtualClock], Awaitable[tuple[Client, Line]]]


async def connecting(
    runtime: Runtime, store: Watched, ticks: int, clock: VirtualClock
) -> tuple[Client, Line]:
    line = Line(runtime)
    client = Client(line, store=store, timeouts=FOREVER)
    if await cancelled_after(ticks, client.connect()) and ticks:
        assert isinstance(client.state, Closed)
    return client, line


async def dialling(
    runtime: Runtime, store: Watched, ticks: int, clock: VirtualClock
) -> tuple[Client, Line]:
    """The connector takes its time."""
    line = Line(runtime, [lambda _transport: asyncio.sleep(1.0)])
    client = Client(line, store=store, timeouts=FOREVER)
    task = asyncio.ensure_future(client.connect())
    await clock.advance(0.5)
    await cancelled_after(ticks, task)
    return client, line


async def handshaking(
    runtime: Runtime, store: Watched, ticks: int, clock: VirtualClock
) -> tuple[Client, Line]:
    """The welcome takes its time."""
    line = Line(runtime)
    slow = FaultyConnector(line, plan=[Delay(0, seconds=1.0)])
    client = Client(slow, store=store, timeouts=FOREVER)
    task = asyncio.ensure_future(client.connect())
    await clock.advance(0.5)
    await cancelled_after(ticks, task)
    return client, line


async def backing_off(
    runtime: Runtime, store: Watched, ticks: int, clock: VirtualClock
) -> tuple[Client, Line]:
    line = Line(runtime, [ConnectFailed("down") for _ in range(1000)])
    client = Client(line, store=store, reconnect=POLICY, timeouts=FOREVER)
    task = asyncio.ensure_future(client.connect())
    await clock.advance(7.0)
    assert len(line.attempts) == 2
    assert await cancelled_after(ticks, task)
    assert isinstance(client.state, Closed)
    return client, line


async def resuming(
    runtime: Runtime, store: Watched, ticks: int, clock: VirtualClock
) -> tuple[Client, Line]:
    """The block of the client is left by a cancellation in the middle of a resume."""
    line = Line(runtime)
    client = Client(line, store=store, reconnect=Reconnect(wait=wait_fixed(0.0)))
    inside = asyncio.Event()

    async def block() -> None:
        async with client:
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(block())
    await inside.wait()
    await line.cut()
    assert await cancelled_after(ticks, task)
    return client, line


async def waiting_for_the_resume(
    runtime: Runtime, store: Watched, ticks: int, clock: VirtualClock
) -> tuple[Client, Line]:
    """Who waits for the link is cancelled; the link comes back all the same."""
    line = Line(runtime)
    client = Client(line, store=store, reconnect=Reconnect(wait=wait_fixed(0.0)))
    await client.connect()
    await line.cut()
    await cancelled_after(ticks, client.connected())
    await clock.settle()  # until now it may not have noticed
    await client.connected()
    assert client.state == Live(resumed=True)
    return client, line


async def closing(
    runtime: Runtime, store: Watched, ticks: int, clock: VirtualClock
) -> tuple[Client, Line]:
    line = Line(runtime)
    client = Client(line, store=store)
    await client.connect()
    await cancelled_after(ticks, client.close())
    return client, line


async def detaching(
    runtime: Runtime, store: Watched, ticks: int, clock: VirtualClock
) -> tuple[Client, Line]:
    line = Line(runtime)
    client = Client(line, store=store)
    await client.connect()
    await cancelled_after(ticks, client.detach())
    return client, line


PHASES: list[Phase] = [
    connecting,
    dialling,
    handshaking,
    backing_off,
    resuming,
    waiting_for_the_resume,
    closing,
    detaching,
]


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
async def test_cancelled_at_any_turn_of_the_loop(clock: VirtualClock, phase: Phase) -> None:
    async with Runtime() as runtime:
        for ticks in TICKS:
            store = Watched()
            client, line = await phase(runtime, store, ticks, clock)
            await nothing_is_left(client, line, store, clock)


async def test_one_of_two_that_wait_for_the_first_link_may_be_cancelled(
    clock: VirtualClock,
) -> None:
    async with Runtime() as runtime:
        line = Line(runtime, [lambda _transport: asyncio.sleep(1.0)])
        client = Client(line)
        first = asyncio.ensure_future(client.connect())
        second = asyncio.ensure_future(client.connect())
        await clock.advance(0.5)
        first.cancel()
        await second
        assert isinstance(client.state, Live)
        await client.close()


async def test_closing_in_every_phase_and_from_many_tasks(clock: VirtualClock) -> None:
    async with Runtime() as runtime:
        for ticks in TICKS:
            line = Line(runtime, [lambda _transport: asyncio.sleep(0)] * 5)
            store = Watched()
            client = Client(line, store=store, reconnect=Reconnect(wait=wait_fixed(0.0)))
            connecting = asyncio.ensure_future(client.connect())
            for _ in range(ticks):
                await asyncio.sleep(0)
            leaving = [client.close(), client.detach(), client.close(timeout=0.0)]
            await asyncio.wait_for(asyncio.gather(*leaving), 60.0)
            await asyncio.gather(connecting, return_exceptions=True)
            await nothing_is_left(client, line, store, clock)
