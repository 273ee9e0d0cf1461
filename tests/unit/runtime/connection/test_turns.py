"""Connections take turns: a session that is sent much holds up no other one."""

from __future__ import annotations

import asyncio
import json

from hypothesis import given
from hypothesis import strategies as st

from arcp_client._tasks import TaskOwner
from arcp_client._wire.codec import ControlFrame
from arcp_client._wire.stamp import Record
from arcp_client.runtime._connection.connection import Arrival, Connection
from arcp_client.runtime._log.entries import Appended
from arcp_client.runtime._log.event_log import MemoryEventLog
from arcp_client.runtime._log.journal import Journal
from arcp_client.runtime._log.replay_buffers import SessionLog
from arcp_client.runtime._sessions.session import ServerSession
from arcp_client.testing import VirtualClock

MANY = 100_000


class Link:
    """Takes everything at once, and notes in which turn."""

    def __init__(self, clock: Turns) -> None:
        self._clock = clock
        self.frames = 0
        self.turns: list[int] = []
        self.sent: list[bytes] = []

    async def send(self, frame: bytes) -> None:
        self.sent.append(frame)
        self.frames += 1
        self.turns.append(self._clock.now)

    async def receive(self) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    async def close(self, *, timeout: float = 5.0) -> None: ...


class Turns:
    """Counts the turns of the loop."""

    def __init__(self) -> None:
        self.now = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.now += 1


class Handler:
    handshake_timeout = 10.0
    outbox_bytes = 1_000_000
    heartbeat_interval = None

    async def greet(self, connection: Connection, frame: ControlFrame) -> bool: ...

    async def handle(
        self, connection: Connection, session: ServerSession, frame: ControlFrame
    ) -> None: ...

    async def answered(self) -> None: ...

    def left(self, connection: Connection, session: ServerSession) -> None: ...


def record(index: int = 0) -> Record:
    return Record(b"m", b"job.event", b"", b"{}", job_id="job_1", index=index, size=10)


def connected(
    id: str, link: Link, tasks: TaskOwner, journal: Journal | None = None
) -> tuple[ServerSession, Connection]:
    session = ServerSession(id, "alice", SessionLog(2 * MANY, 10**9), journal=journal)
    arrival = Arrival(secure=True)
    return session, Connection(link, Handler(), tasks, arrival=arrival, on_end=lambda _: None)


def test_a_live_event_goes_out_within_two_turns_while_another_session_is_sent_100_000() -> None:
    async def scenario() -> None:
        tasks, turns = TaskOwner("turns"), Turns()
        busy, live = Link(turns), Link(turns)
        replaying, first = connected("sess_1", busy, tasks)
        for index in range(MANY):
            replaying.append(record(index))
        watching, second = connected("sess_2", live, tasks)
        second.enter(watching, 0, b"welcome")
        counting = asyncio.create_task(turns.run())
        await asyncio.sleep(0)
        first.enter(replaying, 0, b"welcome")
        for number in range(20):
            for _ in range(10):
                await asyncio.sleep(0)
            emitted = turns.now
            watching.append(record(number))
            while live.frames < number + 2:  # the welcome came first
                await asyncio.sleep(0)
            assert live.turns[-1] - emitted <= 2
        assert 1000 < busy.frames < MANY // 2
        for turn in set(busy.turns):
            assert busy.turns.count(turn) <= 256
        counting.cancel()
        await tasks.close()

    VirtualClock().run(scenario())


class Gated(MemoryEventLog):
    """A durable log whose writes wait for a gate."""

    durable = True

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def write(self, entries: object) -> None:
        await self.gate.wait()


def test_no_writer_runs_for_events_that_are_not_stored_and_one_does_for_those_that_are() -> None:
    async def scenario() -> None:
        tasks, writers = TaskOwner("journal"), TaskOwner("writers")
        log, link = Gated(), Link(Turns())
        journal = Journal(log, tasks, 1_000_000)
        session, connection = connected("sess_1", link, writers, journal)
        connection.enter(session, 0, b"welcome")
        while len(writers):
            await asyncio.sleep(0)
        for index in range(100):
            event = record(index)
            journal.append(Appended(event, session.number(event), session.id), session)
            connection.in_turn(b"pong")
            assert not len(writers)
            await asyncio.sleep(0)
        assert link.frames == 1
        log.gate.set()
        await journal.flushed()
        assert len(writers) == 1
        while len(writers):
            await asyncio.sleep(0)
        assert link.frames == 201
        await tasks.close()

    VirtualClock().run(scenario())


def test_overdue_pongs_keep_their_order() -> None:
    async def scenario() -> None:
        tasks, writers = TaskOwner("journal"), TaskOwner("writers")
        log, link = Gated(), Link(Turns())
        journal = Journal(log, tasks, 1_000_000)
        session, connection = connected("sess_1", link, writers, journal)
        connection.enter(session, 0, b"welcome")
        event = record()
        journal.append(Appended(event, session.number(event), session.id), session)
        pongs = [b"pong %d" % number for number in range(5)]
        for pong in pongs:
            connection.in_turn(pong)
        await asyncio.sleep(2.0)  # the log does not write for longer than a pong waits for it
        assert link.sent == [b"welcome", *pongs]
        await tasks.close()

    VirtualClock().run(scenario())


def test_a_writer_goes_on_while_events_come_and_ends_when_none_do() -> None:
    async def scenario() -> None:
        tasks, link = TaskOwner("writer"), Link(Turns())
        session, connection = connected("sess_1", link, tasks)
        connection.enter(session, 0, b"welcome")
        await asyncio.sleep(0)
        writer = connection._writer
        assert writer is not None
        for index in range(100):
            session.append(record(index))
            await asyncio.sleep(0)
            assert connection._writer is writer
        while len(tasks):
            await asyncio.sleep(0)
        assert link.frames == 101
        assert connection._writer is None

    VirtualClock().run(scenario())


class Immediate(Link):
    """Sends at once, unless it is congested, and notes whether a frame waited for the writer."""

    def __init__(self, clock: Turns) -> None:
        super().__init__(clock)
        self.congested = False
        self.at_once: list[bytes] = []

    def send_now(self, frame: bytes) -> bool:
        if self.congested:
            return False
        self.at_once.append(frame)
        self.sent.append(frame)
        return True


def numbers(frames: list[bytes]) -> list[int]:
    """The numbers of the events among these frames."""
    return [json.loads(frame)["event_seq"] for frame in frames if frame.startswith(b"{")]


def immediate() -> tuple[TaskOwner, Immediate, ServerSession, Connection]:
    tasks, link = TaskOwner("writer"), Immediate(Turns())
    session, connection = connected("sess_1", link, tasks)
    connection.enter(session, 0, b"welcome")
    return tasks, link, session, connection


def test_a_lone_event_is_sent_in_the_step_that_emits_it() -> None:
    async def scenario() -> None:
        tasks, link, session, _ = immediate()
        for index in range(3):
            await asyncio.sleep(0.01)
            session.append(record(index))
            assert numbers(link.at_once) == list(range(1, index + 2))
            assert not len(tasks)

    VirtualClock().run(scenario())


def test_of_events_in_quick_succession_the_writer_sends_all_but_the_first() -> None:
    async def scenario() -> None:
        tasks, link, session, _ = immediate()
        await asyncio.sleep(0.01)
        for index in range(100):
            session.append(record(index))
        while len(tasks):
            await asyncio.sleep(0)
        assert numbers(link.at_once) == [1]
        assert numbers(link.sent) == list(range(1, 101))

    VirtualClock().run(scenario())


def test_a_lone_event_that_the_link_does_not_take_is_sent_by_the_writer() -> None:
    async def scenario() -> None:
        tasks, link, session, _ = immediate()
        await asyncio.sleep(0.01)
        link.congested = True
        session.append(record(0))
        session.append(record(1))
        while len(tasks):
            await asyncio.sleep(0)
        assert numbers(link.at_once) == []
        assert numbers(link.sent) == [1, 2]

    VirtualClock().run(scenario())


def test_events_that_are_stored_together_are_sent_together() -> None:
    async def scenario() -> None:
        tasks, writers, link = TaskOwner("journal"), TaskOwner("writer"), Immediate(Turns())
        journal = Journal(Gated(), tasks, 1_000_000)
        session, connection = connected("sess_1", link, writers, journal)
        connection.enter(session, 0, b"welcome")
        await asyncio.sleep(0.01)
        for index in range(3):
            event = record(index)
            journal.append(Appended(event, session.number(event), session.id), session)
        assert numbers(link.sent) == []
        session.settle(1)
        assert numbers(link.at_once) == [1]
        await asyncio.sleep(0.01)
        session.settle(3)
        while len(writers):
            await asyncio.sleep(0)
        assert numbers(link.at_once) == [1]
        assert numbers(link.sent) == [1, 2, 3]
        await tasks.close()

    VirtualClock().run(scenario())


STEPS = st.sampled_from(["event", "event", "reply", "pong", "turn", "pause", "congested", "free"])


@given(st.lists(STEPS, max_size=40))
def test_events_keep_their_order_and_pongs_their_place_with_and_without_the_writer(
    steps: list[str],
) -> None:
    async def scenario() -> None:
        tasks, link, session, connection = immediate()
        emitted, pongs = 0, []
        for number, step in enumerate(steps):
            if step == "event":
                session.append(record(emitted))
                emitted += 1
            elif step == "reply":
                connection.control(b"reply %d" % number)
            elif step == "pong":
                pongs.append((b"pong %d" % number, emitted))
                connection.in_turn(pongs[-1][0])
            elif step == "turn":
                await asyncio.sleep(0)
            elif step == "pause":
                await asyncio.sleep(0.01)
            else:
                link.congested = step == "congested"
        while len(tasks):
            await asyncio.sleep(0)
        assert numbers(link.sent) == list(range(1, emitted + 1))
        assert len(link.sent) == 1 + emitted + len(pongs) + steps.count("reply")
        for pong, before in pongs:
            assert len(numbers(link.sent[: link.sent.index(pong)])) >= before
        replies = [frame for frame in link.sent if frame.startswith(b"reply")]
        assert replies == sorted(replies, key=lambda frame: int(frame.split()[1]))

    VirtualClock().run(scenario())
