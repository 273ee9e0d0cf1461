"""One session's stream: what lets those go on that wait for its client (§6.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from arcp_client._wire.stamp import Record
from arcp_client.runtime._log.replay_buffers import SessionLog
from arcp_client.runtime._sessions.session import ServerSession
from arcp_client.testing import VirtualClock


class Outlet:
    """A connection that sends nothing by itself."""

    cursor = 0

    def wake(self) -> None: ...

    def control(self, frame: bytes) -> None: ...

    def displace(self) -> None: ...

    def overrun(self) -> None: ...


@pytest.fixture
def session() -> ServerSession:
    """A session whose client was sent five events."""
    made = ServerSession("sess_1", "alice", SessionLog(100, 10_000))
    outlet = Outlet()
    made.attach(outlet)
    for number in range(5):
        seq = made.append(Record(b"m", b"job.event", b"", b"{}", size=10))
        assert seq == number + 1
        outlet.cursor = seq
        made.sending(seq, made.log[seq])
    return made


def leave(session: ServerSession) -> None:
    assert session.outlet is not None
    assert session.detach(session.outlet)


@pytest.mark.parametrize(
    "moves",
    [lambda session: session.acknowledge(3), leave, lambda session: session.progress()],
    ids=["an acknowledgement", "a lost connection", "a sent event"],
)
async def test_what_moves_a_session_releases_who_waits_at_once(
    session: ServerSession, clock: VirtualClock, moves: Callable[[ServerSession], object]
) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    waits = [asyncio.ensure_future(session.moved(60.0)) for _ in range(2)]
    await asyncio.sleep(0)
    assert not waits[0].done()
    moves(session)
    await asyncio.gather(*waits)
    assert loop.time() == began


@pytest.mark.parametrize("moves", [1, 6], ids=["again", "never sent"])
async def test_an_acknowledgement_that_says_nothing_new_releases_nobody(
    session: ServerSession, clock: VirtualClock, moves: int
) -> None:
    assert session.acknowledge(1)
    loop = asyncio.get_running_loop()
    began = loop.time()
    waits = asyncio.ensure_future(session.moved(60.0))
    await asyncio.sleep(0)
    assert session.acknowledge(moves) is (moves == 1)
    await waits
    assert loop.time() - began == pytest.approx(60.0)


async def test_events_that_a_client_acknowledges_without_a_replay_take_no_room() -> None:
    session = ServerSession("sess_1", "alice", SessionLog(100, 100_000_000))
    session.attach(Outlet())
    for _ in range(5):
        record = Record(b"m", b"job.event", b"", b"{}", size=1_000_000)
        seq = session.append(record)
        session.sending(seq, record)
    again = Outlet()
    session.attach(again)  # the client resumed with a number below what it had received
    assert not session.room
    assert session.acknowledge(5)
    assert again.cursor == 5
    assert session.room
