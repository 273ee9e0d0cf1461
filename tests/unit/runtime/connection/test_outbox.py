"""Answers that a client does not take are bounded in bytes; then the connection ends (§14)."""

from __future__ import annotations

import asyncio

from arcp_client._tasks import TaskOwner
from arcp_client._wire.codec import ControlFrame
from arcp_client.errors import LinkLost
from arcp_client.runtime._connection.connection import Arrival, Connection
from arcp_client.runtime._log.replay_buffers import SessionLog
from arcp_client.runtime._sessions.session import ServerSession
from arcp_client.testing import VirtualClock

PING = b'{"arcp":"1.1","id":"p","type":"session.ping","payload":{"nonce":"n"}}'
ANSWER = b"x" * 100
BOUND = 1000


class SlowLink:
    """A link with many requests to read. What is sent takes many turns of the loop, or never ends.

    Attributes:
        most: bytes of answers that were outstanding at most when a request was read.
    """

    def __init__(self, requests: int, *, takes: bool = True) -> None:
        self.requests = requests
        self.takes = takes
        self.asked = self.sent = self.most = 0
        self.closed = asyncio.Event()

    async def receive(self) -> bytes:
        if self.asked < self.requests:
            self.most = max(self.most, self.asked * len(ANSWER) - self.sent)
            self.asked += 1
            return PING
        if self.takes and self.sent >= self.asked * len(ANSWER):
            raise LinkLost("all was read")
        await self.closed.wait()
        raise LinkLost("closed")

    async def send(self, frame: bytes) -> None:
        if not self.takes:
            await self.closed.wait()
            raise LinkLost("closed")
        for _ in range(20):
            await asyncio.sleep(0)
        self.sent += len(frame)
        if self.sent >= self.requests * len(ANSWER):
            self.closed.set()

    async def close(self, *, timeout: float = 5.0) -> None:
        self.closed.set()


class Answering:
    """Opens a session for the first frame and answers each other frame with `ANSWER`."""

    handshake_timeout = 10.0
    outbox_bytes = BOUND
    heartbeat_interval = None

    async def greet(self, connection: Connection, frame: ControlFrame) -> bool:
        session = ServerSession("sess_1", "alice", SessionLog(100, 10_000))
        connection.enter(session, 0, ANSWER)
        return True

    async def handle(
        self, connection: Connection, session: ServerSession, frame: ControlFrame
    ) -> None:
        connection.control(ANSWER)

    async def answered(self) -> None: ...

    def left(self, connection: Connection, session: ServerSession) -> None: ...


def connected(link: SlowLink, tasks: TaskOwner) -> Connection:
    return Connection(link, Answering(), tasks, arrival=Arrival(secure=True), on_end=lambda _: None)


async def test_nothing_more_is_read_while_answers_over_the_bound_wait() -> None:
    link = SlowLink(requests=200)
    tasks = TaskOwner("test")
    async with asyncio.timeout(60):
        await connected(link, tasks).run()
    await tasks.close()
    assert link.asked == 200
    assert link.sent == 200 * len(ANSWER)
    assert link.most <= BOUND + 2 * len(ANSWER)


def test_a_connection_ends_when_twice_the_bound_waits_and_nothing_is_taken() -> None:
    async def scenario() -> None:
        link = SlowLink(requests=1, takes=False)
        tasks = TaskOwner("test")
        connection = connected(link, tasks)
        running = asyncio.create_task(connection.run())
        while connection.session is None:
            await asyncio.sleep(0)
        session = connection.session
        unasked = 1
        while session.outlet is connection:  # such as acceptances of delegated jobs
            connection.control(ANSWER)
            unasked += 1
            assert unasked < 100
        assert 2 * BOUND < unasked * len(ANSWER) <= 2 * BOUND + 2 * len(ANSWER)
        await running
        assert link.closed.is_set()
        await tasks.close()

    VirtualClock().run(scenario())
