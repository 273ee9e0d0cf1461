"""The open links of a runtime, and the handler of the frames that they bring."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from arcp_client._deadline import Deadline
from arcp_client._tasks import TaskOwner
from arcp_client._wire import names
from arcp_client._wire.codec import ControlFrame
from arcp_client.errors import RequestError
from arcp_client.runtime._connection.connection import Arrival, Connection
from arcp_client.runtime._connection.handshake import ServerHandshake
from arcp_client.runtime._connection.requests import RequestHandler
from arcp_client.runtime._sessions.registry import SessionRegistry
from arcp_client.runtime._sessions.session import ServerSession
from arcp_client.runtime.limits import Limits
from arcp_client.transports.base import Transport

__all__ = ["Links"]

_LAST_WORDS = 1.0
_GOODBYES = 3.0


class Links:
    """Keeps the connections of a runtime; their `SessionHandler`.

    Args:
        handshake: opens and resumes sessions.
        requests: handles the requests of open sessions.
        sessions: the sessions.
        limits: all limits.
        heartbeat_interval: seconds, or ``None``.
        stored: waits until everything that waits to be stored is stored, or was refused.
        tasks: owns the tasks of the connections.

    Attributes:
        connections: those that have not ended completely.
    """

    def __init__(
        self,
        handshake: ServerHandshake,
        requests: RequestHandler,
        sessions: SessionRegistry,
        limits: Limits,
        heartbeat_interval: float | None,
        stored: Callable[[], Awaitable[None]],
        tasks: TaskOwner,
    ) -> None:
        self._handshake = handshake
        self._requests = requests
        self._sessions = sessions
        self._stored = stored
        self._tasks = tasks
        self.handshake_timeout = limits.handshake_timeout
        self.outbox_bytes = limits.outbox_bytes
        self.heartbeat_interval = heartbeat_interval
        self.connections: set[Connection] = set()

    def connection(self, transport: Transport, arrival: Arrival) -> Connection:
        """Make the connection for a link; the caller runs it."""
        connection = Connection(
            transport, self, self._tasks, arrival=arrival, on_end=self.connections.discard
        )
        self.connections.add(connection)
        return connection

    async def greet(self, connection: Connection, frame: ControlFrame) -> bool:
        """Open or resume a session; return False if it was refused and the client may retry."""
        return await self._handshake.greet(connection, frame)

    async def handle(
        self, connection: Connection, session: ServerSession, frame: ControlFrame
    ) -> None:
        """Handle a frame of an open session.

        Raises:
            RequestError: the request is refused.
        """
        if session.tokens.settle(connection.token):
            session.note()
        if frame.type == names.RESUME:
            self._tasks.spawn(self._resume(connection, session, frame), name="resume")
        else:
            await self._requests.handle(connection, session, frame)

    async def _resume(
        self, connection: Connection, session: ServerSession, frame: ControlFrame
    ) -> None:
        try:
            await self._handshake.resume_later(connection, session, frame)
        except RequestError as error:
            connection.refuse(frame, error)

    async def answered(self) -> None:
        """Wait until every request that was read has its answer queued."""
        await self._requests.settled()
        with contextlib.suppress(RequestError):  # a refused submit is answered too
            await self._stored()

    def left(self, connection: Connection, session: ServerSession) -> None:
        """Handle the end of a session's connection."""
        self._sessions.left(session)

    # ------------------------------------------------------------------------ closing

    def dismiss(self, text: str) -> None:
        """End all links with a retryable error, so that the clients connect elsewhere."""
        for connection in tuple(self.connections):
            connection.dismiss(text)

    async def finish(self) -> None:
        """Send what waits to be sent, for a limited time, then end all links."""
        deadline = Deadline(_LAST_WORDS)
        connections = tuple(self.connections)
        for connection in connections:
            await connection.drain(deadline.left)
        for connection in connections:
            connection.finish()

    async def ended(self) -> None:
        """Wait until all connections have ended completely, for a limited time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYES):
                for connection in tuple(self.connections):
                    await connection.ended()
