"""A close takes as long as its caller allows, whatever stands in its way (S9, S15)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from arcp_client import Client, Closed, MemoryStore, Runtime, events
from arcp_client._deadline import SLACK
from arcp_client.errors import ClientClosed, ConnectFailed
from arcp_client.testing import VirtualClock
from arcp_client.transports.base import Transport
from tests.unit.link.line import Line

Leave = Callable[[Client, float], Awaitable[None]]


async def closes(client: Client, seconds: float) -> None:
    await client.close(timeout=seconds)


async def detaches(client: Client, seconds: float) -> None:
    await client.detach(timeout=seconds)


class Obstacles:
    """Ways of a transport to hold up whoever ends it, all let go by one event."""

    def __init__(self) -> None:
        self.over = asyncio.Event()

    async def stubborn(self) -> None:
        """Waits on, however often it is cancelled."""
        while not self.over.is_set():
            try:
                await self.over.wait()
            except asyncio.CancelledError:
                continue

    def none(self, transport: Transport) -> None:
        pass

    def reads_nothing(self, transport: Transport) -> None:
        send, sent = transport.send, 0

        async def blocked(frame: bytes) -> None:
            nonlocal sent
            sent += 1
            if sent > 2:  # the hello and the submit
                await self.over.wait()
            await send(frame)

        transport.send = blocked  # type: ignore[method-assign]

    def never_closes(self, transport: Transport) -> None:
        really = transport.close

        async def close(*, timeout: float = 5.0) -> None:
            await self.over.wait()
            await really(timeout=0.0)

        transport.close = close  # type: ignore[method-assign]

    def closes_late(self, transport: Transport) -> None:
        """Takes all the time that it is given, and half a second."""
        really = transport.close

        async def close(*, timeout: float = 5.0) -> None:
            await asyncio.sleep(timeout + 0.5)
            await really(timeout=0.0)

        transport.close = close  # type: ignore[method-assign]

    def swallows_while_closing(self, transport: Transport) -> None:
        really = transport.close

        async def close(*, timeout: float = 5.0) -> None:
            await self.stubborn()
            await really(timeout=0.0)

        transport.close = close  # type: ignore[method-assign]

    def swallows_while_receiving(self, transport: Transport) -> None:
        receive, received = transport.receive, 0

        async def stuck() -> bytes:
            nonlocal received
            received += 1
            if received > 8:
                await self.stubborn()
            return await receive()

        transport.receive = stuck  # type: ignore[method-assign]
        transport.receive_many = None  # type: ignore[attr-defined]

    def everything(self, transport: Transport) -> None:
        self.reads_nothing(transport)
        self.swallows_while_receiving(transport)
        self.swallows_while_closing(transport)


OBSTACLES = [name for name in vars(Obstacles) if not name.startswith("_") and name != "stubborn"]


@pytest.mark.parametrize("leave", [closes, detaches])
@pytest.mark.parametrize("seconds", [0.0, 0.2, 5.0, 60.0])
@pytest.mark.parametrize("obstacle", OBSTACLES)
@pytest.mark.parametrize("durable", [False, True], ids=["", "store"])
async def test_a_close_is_over_at_its_deadline(
    clock: VirtualClock,
    runtime: Runtime,
    obstacle: str,
    seconds: float,
    leave: Leave,
    durable: bool,
) -> None:
    obstacles = Obstacles()
    line = Line(runtime, [getattr(obstacles, obstacle)])
    client = Client(line, store=MemoryStore() if durable else None)
    started = asyncio.Event()

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        started.set()
        await asyncio.Event().wait()

    await client.connect()
    submitting = asyncio.ensure_future(client.submit("say", ["one", "two", "three"]))
    await started.wait()
    before = clock.time()
    await leave(client, seconds)
    assert clock.time() - before <= seconds + SLACK
    assert client.state == Closed(None)
    obstacles.over.set()
    submitting.cancel()
    await clock.advance(10.0)


@pytest.mark.parametrize("leave", [closes, detaches])
@pytest.mark.parametrize("seconds", [0.0, 0.2, 5.0])
async def test_a_connector_that_swallows_cancellations_is_left_alone(
    clock: VirtualClock, seconds: float, leave: Leave
) -> None:
    obstacles = Obstacles()

    class Stuck:
        target = "test://stuck"

        async def connect(self) -> Transport:
            await obstacles.stubborn()
            raise ConnectFailed("too late")

    client = Client(Stuck())
    connecting = asyncio.ensure_future(client.connect())
    await clock.settle()
    before = clock.time()
    await leave(client, seconds)
    assert clock.time() - before <= seconds + SLACK
    obstacles.over.set()
    with pytest.raises(ClientClosed):
        await connecting
    await clock.settle()


async def test_a_store_that_answers_too_late_is_let_go_of_all_the_same(
    clock: VirtualClock, runtime: Runtime
) -> None:
    obstacles = Obstacles()

    class Slow(MemoryStore):
        async def acquire(self, target: str, key: str) -> Any:
            found = await super().acquire(target, key)
            await obstacles.stubborn()
            return found

    store, line = Slow(), Line(runtime)
    client = Client(line, store=store)
    connecting = asyncio.ensure_future(client.connect())
    await clock.settle()
    before = clock.time()
    await client.close(timeout=0.2)
    assert clock.time() - before <= 0.2 + SLACK
    obstacles.over.set()
    with pytest.raises(ClientClosed):
        await connecting
    await clock.settle()
    assert not line.attempts
    await MemoryStore.acquire(store, line.target, "default")  # nobody holds it any more


async def test_the_last_save_of_a_slow_store_is_waited_for_a_second(
    clock: VirtualClock, runtime: Runtime
) -> None:
    hangs = asyncio.Event()

    class Slow(MemoryStore):
        async def release(self, target: str, key: str) -> None:
            await hangs.wait()
            await super().release(target, key)

    client = Client(runtime, store=Slow())
    await client.connect()
    before = clock.time()
    await client.detach(timeout=0.2)
    assert clock.time() - before <= 0.2 + 1.0 + SLACK
    hangs.set()
    await clock.settle()


async def test_handlers_leave_time_for_the_goodbye(clock: VirtualClock, runtime: Runtime) -> None:
    sent: list[str] = []

    def recorded(transport: Transport) -> None:
        send = transport.send

        async def record(frame: bytes) -> None:
            await asyncio.sleep(0.01)
            sent.append(json.loads(frame)["type"])
            await send(frame)

        transport.send = record  # type: ignore[method-assign]

    client = Client(Line(runtime, [recorded]))
    started = asyncio.Event()

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        started.set()
        await asyncio.Event().wait()

    await client.connect()
    await client.submit("say", ["one"])
    await started.wait()
    await client.close(timeout=0.2)
    assert sent[-1] == "session.close"
