"""Passes the updates of one ACP session to its handlers and iterators, in the order of its queue.

The public interface of a session is `AcpSession`.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable
from types import CoroutineType
from typing import Any, Generic, TypeVar

from arcp_client._tasks import continue_in, in_context, pass_on
from arcp_client.acp import schema
from arcp_client.acp._base import Update
from arcp_client.acp._connection.calls import Outcome
from arcp_client.acp._connection.connection import AgentConnection
from arcp_client.acp._connection.lane import HERE, Inside, UpdateLane
from arcp_client.acp._decode import Misshapen, update_of
from arcp_client.acp._handlers import Handlers, UpdateRegistration
from arcp_client.acp._session.state import AcpState
from arcp_client.acp._session.streams import At, UpdateStreams
from arcp_client.acp._session.turns import Turns

S = TypeVar("S")

__all__ = ["SessionInbox"]

_PLAIN = frozenset({schema.AgentMessageChunk, schema.AgentThoughtChunk, schema.UserMessageChunk})


class SessionInbox(Generic[S]):
    """The internal side of one session.

    Args:
        connection: the connection.
        session_id: the agent's id for the session.

    Attributes:
        id: the agent's id for the session.
        session: the public `AcpSession`.
        lane: orders its updates, answers and requests.
        handlers: its handlers, which run after the client's.
        streams: its iterators.
        turns: its turns.
        state: its state after the updates so far.
        receive: queues the line of an update.
    """

    session: S
    receive: Callable[[bytes], bool]

    def __init__(self, connection: AgentConnection, session_id: str) -> None:
        self.id = session_id
        self.state = AcpState(connection.limits.state)
        version2 = connection.version2
        self._reader = None if version2 is None else version2.updates()
        self.lane = UpdateLane(
            connection.backlog, self._deliver if version2 is None else self._deliver_all
        )
        self.receive = self.lane.line if version2 is None else self._receive
        self.handlers = Handlers(connection.handlers, self.used)
        limits = connection.limits
        self.streams = UpdateStreams(
            limit=limits.buffer.soft,
            limit_bytes=limits.buffer.bytes,
            stall=limits.stall,
            history=limits.history,
            history_bytes=limits.history_bytes,
            check_loop=connection.check_loop,
        )
        self.turns = Turns(connection, session_id, self.lane)
        self._connection = connection
        self._limit = limits.handler
        self._timer: asyncio.TimerHandle | None = None

    @property
    def cancelling(self) -> bool:
        """Whether a turn is being cancelled: requested, but not answered yet."""
        return self.turns.cancelling

    # ------------------------------------------------------------------ updates

    def _receive(self, line: bytes) -> bool:
        """Queue an update of version 2, in which updates end the turns."""
        if not self.lane.line(line):
            return False
        if b'"state_update"' in line or b'"user_message"' in line:
            self.turns.seen(line)
        return True

    async def _deliver_all(self, line: bytes) -> None:
        """Deliver the updates of one line of version 2."""
        assert self._reader is not None
        for update in self._reader.read(line, self.turns.origin):
            await self._deliver(line, update)

    async def _deliver(self, line: bytes, read: Update | None = None) -> None:
        at: At
        if read is None:
            at = new = (line, self.turns.origin)
            update = update_of(new)
        else:
            update, at = read, read.__dict__["at"]
        kind = type(update)
        if kind not in _PLAIN:
            self.state.apply(update)
        handlers = self.handlers.of(kind)
        limit = self._limit
        if handlers:
            inside = Inside(self.lane)
            task = asyncio.current_task()
            try:
                for registration in handlers:
                    context = registration.context.copy()
                    context.run(HERE.set, inside)
                    try:
                        result = context.run(registration.handler, update)
                        if limit is None and type(result) is CoroutineType:
                            try:  # most handlers end at their first step
                                awaited = context.run(result.send, None)
                            except StopIteration:
                                continue
                            await continue_in(context, result, awaited)
                        elif inspect.isawaitable(result):
                            await asyncio.wait_for(in_context(context, result), limit)
                    except BaseException as error:  # noqa: BLE001  # re-raised where it must be
                        pass_on(error, task)
                        self._failed(registration, update, error)
            finally:
                inside.active = False
        if not self.streams.offer(update, at):
            await self.streams.wait_for_room()

    def _failed(
        self, registration: UpdateRegistration, update: Update, error: BaseException
    ) -> None:
        self._connection.failed(registration.name, error, update)

    def opened(self, result: Any, outcome: Outcome | None) -> None:
        """Apply the answer to a call that opens the session. Called in order with the updates."""
        if isinstance(outcome, bytes):
            with contextlib.suppress(Misshapen):  # the caller raises the error
                self.state.opened(self._connection.decode(result, outcome))

    def call(self, update: schema.ToolCallUpdate) -> schema.ToolCall:
        """Return a tool call, with this update and all earlier ones applied."""
        return self.state.call(update)

    # ------------------------------------------------------------------ its first use

    def hold(self, response: Any) -> None:
        """Handle nothing until the new session is used, or for `AcpLimits.hold` seconds."""
        self.lane.hold()
        self.state.opened(response)

    def returned(self) -> None:
        """Start the timer of `hold`, because the call that created the session has returned."""
        if self.lane.holding:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._connection.limits.hold, self.lane.release)

    def used(self) -> None:
        """Release the held updates on the session's first use.

        Raises:
            LocalProtocolError: the caller is in another event loop.
        """
        self._connection.check_loop()
        if self.lane.holding:
            # Deferred: the caller may register more handlers in the same step.
            asyncio.get_running_loop().call_soon(self.lane.release)

    # ------------------------------------------------------------------ the end

    def lost(self, error: Exception) -> None:
        """Fail the prompts that wait for an update, because the agent has exited."""
        self.turns.fail(error)

    def end(self, error: Exception | None) -> None:
        """End the iterators."""
        self.streams.end(error)
        self.handlers.leave()

    def leave(self) -> int:
        """Stop now; return the number of updates that were not handled."""
        if self._timer is not None:
            self._timer.cancel()
        self.turns.close_all()
        left = self.lane.dispose()
        self.end(self._connection.reason())
        return left
