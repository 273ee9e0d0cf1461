"""Answers that a runtime does not take: they are bounded in bytes, then the client reconnects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tenacity import wait_fixed

from arcp_client import Buffer, Client, Reconnect, Runtime
from arcp_client._wire.codec import encode
from arcp_client.errors import HeartbeatLost
from arcp_client.state import LinkState, Reconnecting
from arcp_client.testing import VirtualClock
from arcp_client.transports.base import Transport

INTERVAL = 30.0
PINGS = 2000
_NONCE = "n" * 1000


class Flooding:
    """A link that, from a moment on, only sends pings and takes no answer."""

    def __init__(self, link: Transport) -> None:
        self._link = link
        self.flooding = asyncio.Event()
        self.read = 0

    async def receive(self) -> bytes:
        if not self.flooding.is_set():
            receiving = asyncio.ensure_future(self._link.receive())
            turning = asyncio.ensure_future(self.flooding.wait())
            try:
                await asyncio.wait({receiving, turning}, return_when=asyncio.FIRST_COMPLETED)
                if receiving.done():
                    return receiving.result()
            finally:
                receiving.cancel()
                turning.cancel()
        if self.read < PINGS:
            self.read += 1
            return encode("session.ping", {"nonce": _NONCE}, id=f"p{self.read}")
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, frame: bytes) -> None:
        if self.flooding.is_set():
            await asyncio.Event().wait()
        await self._link.send(frame)

    async def close(self, *, timeout: float = 5.0) -> None:
        await self._link.close(timeout=timeout)


class FloodingConnector:
    """Its first link floods; the later ones lead to the runtime."""

    target = "test://flood"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.first: Flooding | None = None

    async def connect(self) -> Transport:
        link = await self._runtime.connect()
        if self.first is None:
            self.first = Flooding(link)
            return self.first
        return link


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(heartbeat_interval=INTERVAL) as runtime:
        yield runtime


async def flooded(clock: VirtualClock, runtime: Runtime) -> tuple[int, list[BaseException], float]:
    """How many pings were read, why the link ended, and after how many seconds."""
    line = FloodingConnector(runtime)
    client = Client(line, buffer=Buffer(bytes=10_000), reconnect=Reconnect(wait=wait_fixed(0.5)))
    causes: list[BaseException] = []

    def note(state: LinkState) -> None:
        if isinstance(state, Reconnecting):
            causes.append(state.cause)

    client.states.subscribe(note)
    async with client:
        assert line.first is not None
        line.first.flooding.set()
        start = clock.time()
        while not causes and clock.time() - start < 10 * INTERVAL:
            await clock.advance(1.0)
        took = clock.time() - start
        if causes:
            await client.connected()
    return line.first.read, causes, took


async def test_a_client_stops_reading_when_its_answers_are_not_taken(
    clock: VirtualClock, runtime: Runtime
) -> None:
    read, _, _ = await flooded(clock, runtime)
    assert 2 <= read <= 128


async def test_a_client_leaves_a_link_that_takes_no_answers_after_two_silent_intervals(
    clock: VirtualClock, runtime: Runtime
) -> None:
    _, causes, took = await flooded(clock, runtime)
    assert isinstance(causes[0], HeartbeatLost)
    assert 2 * INTERVAL <= took <= 2 * INTERVAL + 2
