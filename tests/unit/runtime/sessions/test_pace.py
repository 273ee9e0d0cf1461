"""Agents wait while events are unsent: they are woken rarely and held for a bounded time (§6.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from arcp_client._wire.stamp import Record
from arcp_client.runtime import JobContext, Runtime
from arcp_client.runtime._log.replay_buffers import SessionLog
from arcp_client.runtime._sessions.session import ServerSession
from arcp_client.testing import VirtualClock
from tests.unit.runtime.peer import Peer, seqs

HIGH, LOW = 512, 256


class Outlet:
    """A connection that sends nothing by itself."""

    def __init__(self) -> None:
        self.cursor = 0

    def wake(self) -> None: ...

    def control(self, frame: bytes) -> None: ...

    def displace(self) -> None: ...

    def overrun(self) -> None: ...


def virtual(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    # Nothing here waits for files or threads, so time need not wait for those of other tests.
    VirtualClock(grace=0.0).run(scenario())


def attached() -> tuple[ServerSession, Outlet]:
    session = ServerSession("sess_1", "alice", SessionLog(100_000, 100_000_000), lag_events=5000)
    outlet = Outlet()
    session.attach(outlet)
    return session, outlet


def emit(session: ServerSession, count: int) -> None:
    for _ in range(count):
        session.append(Record(b"m", b"job.event", b"", b"{}", size=10))


def timers(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    loop = asyncio.get_running_loop()
    made: list[float] = []
    call_later = loop.call_later

    def counted(delay: float, *arguments: Any, **options: Any) -> asyncio.TimerHandle:
        made.append(delay)
        return call_later(delay, *arguments, **options)

    monkeypatch.setattr(loop, "call_later", counted)
    return made


def test_agents_wait_above_512_unsent_events_and_go_on_at_256(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        session, outlet = attached()
        emit(session, HIGH)
        assert not session.behind
        emit(session, 1)
        assert session.behind
        made = timers(monkeypatch)
        waiting = asyncio.ensure_future(session.moved(60.0))
        await asyncio.sleep(0)
        while session.unsent > LOW + 1:
            outlet.cursor += 1
            session.progress()
            await asyncio.sleep(0)
            assert not waiting.done()
        outlet.cursor += 1
        session.progress()
        began = asyncio.get_running_loop().time()
        await waiting
        assert asyncio.get_running_loop().time() == began
        assert made == [60.0]

    virtual(scenario)


def test_a_client_that_acknowledges_late_holds_agents_until_it_did() -> None:
    async def scenario() -> None:
        session, outlet = attached()
        session.features = frozenset({"ack"})
        emit(session, 6000)
        for cursor in range(100, 6001, 100):
            outlet.cursor = session.sent = cursor
        assert not session.behind  # it never acknowledged anything, and may never do so
        assert session.acknowledge(1)
        assert session.behind
        waiting = asyncio.ensure_future(session.moved(60.0))
        await asyncio.sleep(0)
        session.progress()
        await asyncio.sleep(0)
        assert not waiting.done()
        assert session.acknowledge(1000)
        await waiting

    virtual(scenario)


@pytest.mark.parametrize("end", ["time", "detach"])
def test_a_wait_ends_after_its_time_and_with_the_connection(end: str) -> None:
    async def scenario() -> None:
        session, outlet = attached()
        emit(session, HIGH + 1)
        loop = asyncio.get_running_loop()
        began = loop.time()
        waiting = asyncio.ensure_future(session.moved(0.25))
        await asyncio.sleep(0.1)
        if end == "detach":
            session.detach(outlet)
        await waiting
        assert loop.time() - began == pytest.approx(0.1 if end == "detach" else 0.25)

    virtual(scenario)


class Slow:
    """Takes a frame in a hundredth of a millisecond and gives every request to the runtime."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def send(self, frame: bytes) -> None:
        await asyncio.sleep(0.00001)
        await self._inner.send(frame)

    async def receive(self) -> bytes:
        frame: bytes = await self._inner.receive()
        return frame

    async def close(self, *, timeout: float = 5.0) -> None:
        await self._inner.close(timeout=timeout)


def test_an_agent_that_outruns_its_client_is_woken_once_for_hundreds_of_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = 0
    moved = ServerSession.moved

    async def counted(self: ServerSession, timeout: float) -> None:
        nonlocal waits
        waits += 1
        await moved(self, timeout)

    monkeypatch.setattr(ServerSession, "moved", counted)

    async def scenario() -> None:
        runtime = Runtime(heartbeat_interval=None)
        connection = runtime._core.links.connection

        def slowed(transport: Any, arrival: Any) -> Any:
            return connection(Slow(transport), arrival)

        monkeypatch.setattr(runtime._core.links, "connection", slowed)
        count = 20_000

        @runtime.agent("flood")
        async def flood(input: Any, job: JobContext) -> None:
            for _ in range(count):
                await job.log("x")

        async with runtime:
            peer = await Peer.to(runtime)
            await peer.hello(features=())
            _, frames = await peer.run("flood")
            assert seqs(frames) == list(range(1, count + 2))
        assert 10 < waits <= count // (HIGH - LOW) + 1

    virtual(scenario)
