"""Routes messages between one agent and its sessions and services.

All sessions of an agent share one connection. Normally the answer to a call returns in the order of
the session's lane (`UpdateLane`), after earlier updates. If the lane waits for the handler that
made the call, the connection returns the answer directly. `jsonrpc` is the layer below; the modules
of `_session` are the layer above.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
import os
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from arcp_client._budget import ByteBudget
from arcp_client._deadline import Deadline
from arcp_client._tasks import TaskOwner, is_elsewhere
from arcp_client.acp import schema
from arcp_client.acp._base import Base
from arcp_client.acp._connection.agent_requests import AgentRequests, Route
from arcp_client.acp._connection.backlog import Backlog
from arcp_client.acp._connection.calls import Outcome, Settle
from arcp_client.acp._connection.early_updates import EarlyUpdates
from arcp_client.acp._connection.hooks import ClientHooks
from arcp_client.acp._connection.jsonrpc import JsonRpcPeer
from arcp_client.acp._connection.lane import HERE, AttachedSession, Inside, UpdateLane
from arcp_client.acp._connection.messages import Id
from arcp_client.acp._decode import Misshapen, as_value, decode
from arcp_client.acp._handlers import Handlers
from arcp_client.acp.limits import AcpLimits
from arcp_client.errors import (
    ClientClosed,
    FeatureNotNegotiated,
    HandlerError,
    LinkLost,
    LocalProtocolError,
    RemoteProtocolError,
)
from arcp_client.transports import Transport

if TYPE_CHECKING:
    from arcp_client.acp._version2 import AgentVersion2

__all__ = ["AgentConnection", "running"]

T = TypeVar("T", bound=Base)

_log = logging.getLogger("arcp_client.acp")
_DEFAULT = object()


def running() -> Inside | None:
    """Return the handler that the current task belongs to."""
    inside = HERE.get()
    return inside if inside is not None and inside.active else None


class AgentConnection:
    """One connection to an agent, with the state that its sessions share.

    Args:
        transport: the link to the agent.
        limits: the limits.
        handlers: the client's handlers, for all sessions.
        routes: the served methods of the agent's requests.
        hooks: the client's hooks.
        name: the agent's program, for messages.
        cwd: the base of relative directories.

    Attributes:
        version2: translates, if the agent speaks version 2 of the protocol; otherwise None.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        limits: AcpLimits,
        handlers: Handlers,
        routes: dict[str, Route],
        hooks: ClientHooks,
        name: str,
        cwd: str,
    ) -> None:
        self._cwd = cwd
        self.limits = limits
        self.handlers = handlers
        self.hooks = hooks
        self.name = name
        self.owner = TaskOwner("arcp_client.acp")
        self.backlog = Backlog(limits.buffer)
        self.sessions: dict[str, AttachedSession] = {}
        self.inboxes: dict[str, Callable[[bytes], bool]] = {}
        self.agent = schema.InitializeResponse(protocol_version=1)
        self.version2: AgentVersion2 | None = None
        self.closed: asyncio.Future[LinkLost | None] = asyncio.get_running_loop().create_future()
        self.gone = asyncio.Event()  # the agent has exited; handlers may still be running
        self._end_of_agent: LinkLost | None = None
        self._early = EarlyUpdates(
            limits.unknown_sessions, limits.unknown_updates, limits.unknown_bytes
        )
        self._transport = transport
        self._ended = False
        self._closing: asyncio.Future[None] | None = None
        self._held = ByteBudget(limits.requests)
        answers = ByteBudget(limits.answers)
        self.peer = JsonRpcPeer(transport, self, self.owner, answers)
        self.requests = AgentRequests(
            routes,
            post=self.peer.post,
            session=self.sessions.get,
            limit=limits.open_requests,
            held=self._held,
            answers=answers,
            failed=self.failed,
        )

    # ------------------------------------------------------------------ calls

    async def call(self, method: str, params: Any, result: type[T], **options: Any) -> T:
        """Like `raw`, with the result decoded as ``result``.

        Raises:
            RemoteProtocolError: the result has another shape.
        """
        if self.version2 is not None:
            method, params = self.version2.request(method, params)
        raw = await self.raw(method, params, **options)
        try:
            return self.decode(result, raw)
        except Misshapen as error:
            raise RemoteProtocolError(
                f"the result of {method} is invalid: {error}", size=len(raw)
            ) from error

    def decode(self, type_: type[T], data: bytes) -> T:
        """Decode the result of a call, in the version of the agent.

        Raises:
            Misshapen: a required part is missing or invalid.
        """
        if self.version2 is not None:
            return self.version2.result(type_, data)
        return decode(type_, data)

    async def raw(
        self,
        method: str,
        params: Any,
        *,
        timeout: Any = _DEFAULT,
        lane: UpdateLane | None = None,
        arrived: Callable[[Outcome], None] | None = None,
        defer: Callable[[Outcome, Settle], None] | None = None,
        abandon: bool = True,
    ) -> bytes:
        """Send a request; its answer returns in the order of ``lane``, if given.

        Args:
            method: the method.
            params: the params.
            timeout: seconds; None waits without limit; by default as in the limits.
            lane: the lane that orders the answer. If the lane waits, directly or indirectly, for
                the handler that makes the call, the answer returns at once.
            arrived: called by the reader with the answer, before it reads the next message.
            defer: called by the reader with the answer and with a function that completes the call,
                now or later. By default the answer completes the call.
            abandon: if the wait is cancelled, notify the agent and ignore a later answer.
        """
        self.check_loop()
        if self._ended:
            raise ClientClosed(f"the connection to {self.name} was closed here")
        inside = running()
        own = None if inside is None else inside.lane
        bypass = own.enter(lane) if own is not None else False

        def complete(outcome: Outcome, settle: Settle) -> None:
            if arrived is not None:
                arrived(outcome)
            if lane is None or bypass or isinstance(outcome, LinkLost):
                settle(outcome)
            else:
                lane.do(partial(settle, outcome))

        def arrive(outcome: Outcome, settle: Settle) -> None:
            if defer is None:
                complete(outcome, settle)
            else:
                defer(outcome, lambda end: complete(end, settle))

        try:
            return await self.peer.call(
                method,
                params,
                timeout=self.limits.request if timeout is _DEFAULT else timeout,
                arrive=arrive if lane is not None or arrived is not None else None,
                nested=own is not None,
                serving=inside is not None,
                abandon=abandon,
            )
        except LinkLost as error:
            if self._ended:
                raise ClientClosed(f"the connection to {self.name} was closed here") from error
            raise
        finally:
            if own is not None:
                own.leave(lane, bypassed=bypass)

    def check_loop(self) -> None:
        """Check that the caller runs in the event loop of the connection.

        Raises:
            ClientClosed: the event loop of the connection has ended.
            LocalProtocolError: the caller is in another event loop than the connection.
        """
        if self._ended:
            return
        home = self.closed.get_loop()
        if home.is_closed():
            raise ClientClosed(
                f"the event loop of the connection to {self.name} has ended, and the connection"
                " with it: use an AcpClient within one asyncio.run; make a new one"
            )
        if is_elsewhere(home):
            raise LocalProtocolError(
                f"the connection to {self.name} belongs to another event loop: use it there (from"
                " another thread, with asyncio.run_coroutine_threadsafe)"
            )

    def needs(self, what: object, feature: str) -> None:
        """Raise FeatureNotNegotiated unless the agent has a capability."""
        if not what:
            raise FeatureNotNegotiated(f"{self.name} does not offer {feature}")

    def directory(self, path: str | os.PathLike[str]) -> str:
        """Return an absolute directory, as the protocol requires."""
        return os.path.normpath(os.path.join(self._cwd, path))  # noqa: PTH118  # no symlink is read

    # ------------------------------------------------------------------ sessions

    def add(self, session: AttachedSession) -> None:
        """Attach a session; its early updates go to its lane."""
        self.sessions[session.id] = session
        self.inboxes[session.id] = session.receive
        for line in self._early.claim(session.id):
            session.receive(line)

    def remove(self, session: AttachedSession) -> None:
        """Detach a session."""
        if self.sessions.get(session.id) is session:
            del self.sessions[session.id]
            del self.inboxes[session.id]

    # ------------------------------------------------------------------ what the reader hands on

    def early_update(self, session_id: str, line: bytes) -> None:
        """Buffer an update of a session that is not attached."""
        self._early.keep(session_id, line)

    async def room(self) -> None:
        """Wait until an update has been consumed."""
        await self.backlog.room()

    def request(self, id_: Id, method: str, params: bytes) -> None:
        """Handle a request of the agent."""
        self.requests.take(id_, method, params)

    @property
    def crowded(self) -> bool:
        """Whether the open requests exceed their limit in bytes."""
        return self._held.over

    async def served(self) -> None:
        """Wait until the open requests are within their limit."""
        await self._held.room()

    def notification(self, method: str, params: bytes) -> None:
        """Handle a notification other than ``session/update``."""
        try:
            value = as_value(params or b"{}")
        except Misshapen as error:
            self.strange(RemoteProtocolError(f"the params of {method} cannot be read ({error})"))
            return
        if method == "$/cancel_request":
            self.requests.cancel(value.get("requestId") if isinstance(value, dict) else None)
            return
        if method == "session/update":
            self.strange(RemoteProtocolError("a session/update without a session"))
            return
        hook = self.hooks.notification.get(method)
        if hook is None:
            _log.debug("no hook is registered for the notification %.64r", method)
        else:
            self.hooks.tell([hook], value)

    def strange(self, error: RemoteProtocolError) -> None:
        """Report a line that could not be parsed and was skipped."""
        _log.warning("skipped a line from %s: %s %s", self.name, error, error.head)
        self.hooks.tell(self.hooks.strange, error)

    def lost(self, error: LinkLost) -> None:
        """Handle the agent's exit: deliver its earlier updates, then run the `on_closed` hooks."""
        self.requests.forget()
        self._end_of_agent = None if self._ended else error
        self.gone.set()
        sessions = list(self.sessions.values())
        for session in sessions:
            session.lost(error)
            session.lane.do(partial(session.end, self.reason()))
            session.lane.complete()
        if sessions:
            self.owner.spawn(self._tell_later(sessions), name="end")
        else:
            self._tell_end()

    async def _tell_later(self, sessions: list[AttachedSession]) -> None:
        for session in sessions:
            await session.lane.drained()
        self._tell_end()

    def _tell_end(self) -> None:
        if not self.closed.done():
            self.closed.set_result(self._end_of_agent)
            self.hooks.tell(self.hooks.closed, self._end_of_agent)

    async def end_of_agent(self) -> LinkLost | None:
        """Wait for the agent's exit and for the handlers of its earlier updates.

        Inside a handler it returns at the agent's exit, because waiting for handlers would
        deadlock.
        """
        inside = running()
        if inside is None or inside.lane is None:
            return await asyncio.shield(self.closed)
        await self.gone.wait()
        return self._end_of_agent

    def reason(self) -> Exception:
        """Return the reason why no more updates follow."""
        if self._ended or self.peer.why is None:
            return ClientClosed(f"the connection to {self.name} was closed here")
        return copy.copy(self.peer.why)

    # ------------------------------------------------------------------ errors

    def failed(self, name: str, error: BaseException, event: Any = None) -> None:
        """Report an exception of a handler or a service."""
        failure = HandlerError(f"{name} failed: {error!r}", event=event, handler=name)
        failure.__cause__ = error
        if not self.hooks.error:
            _log.error("%s failed", name, exc_info=error)
        self.hooks.tell(self.hooks.error, failure)

    # ------------------------------------------------------------------ the end

    @property
    def state(self) -> str:
        """The state for a repr: ``connected``, or why it is not."""
        if self._closing is not None:
            return "closed" if self._closing.done() else "closing"
        if self.closed.get_loop().is_closed():
            return "event loop ended"
        return "connected" if self.peer.why is None else "agent ended"

    def abandon(self, end: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
        """Kill the agent of an unreferenced client, and call ``end``. From any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self.closed.get_loop().call_soon_threadsafe(self._abandon, end)

    def _abandon(self, end: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
        self.kill("the client was dropped without close(): keep a reference to it")
        if end is not None:
            self.owner.spawn(end(), name="terminals")

    def kill(self, why: str) -> None:
        """Kill the agent; every pending call fails with ``why``."""
        self.peer.fail(LinkLost(why))
        self.owner.spawn(self._transport.close(timeout=0), name="kill")

    async def close(self, *, drain: float, deadline: Deadline) -> None:
        """Close the connection. Received updates are handled before, for at most ``drain`` seconds.

        By the deadline everything has ended, except user code that ignores its cancellation.
        """
        if self._closing is not None:
            await asyncio.wait({self._closing}, timeout=deadline.share())
            return
        self._closing = asyncio.get_running_loop().create_future()
        inside = running()
        own = None if inside is None else inside.lane
        sessions = list(self.sessions.values())
        for session in sessions:
            session.lane.complete()
        waits = [self._drained(s) for s in sessions if s.lane is not own]
        try:
            if waits and drain > 0:
                tasks = {self.owner.spawn(wait, name="drain") for wait in waits}
                await asyncio.wait(tasks, timeout=deadline.share(drain))
            else:
                for wait in waits:
                    wait.close()
        finally:
            try:
                await self._end(sessions, deadline)
            finally:
                self._closing.set_result(None)

    async def _drained(self, session: AttachedSession) -> None:
        await session.lane.drained()

    async def _end(self, sessions: list[AttachedSession], deadline: Deadline) -> None:
        self._ended = True
        left = sum(session.leave() for session in sessions)
        if left:
            _log.warning("%d updates of %s were not handled before the end", left, self.name)
        self.sessions.clear()
        self.inboxes.clear()
        self._early.close()
        closing = self.owner.spawn(
            self._transport.close(timeout=deadline.share(self.limits.close)), name="transport"
        )
        try:
            stopped = await self.requests.close(deadline)
            await asyncio.wait({closing}, timeout=deadline.left)
        finally:
            self.peer.fail(LinkLost("closed here"))
            self._tell_end()
            ended = await self.owner.close(deadline=deadline)
        if not (stopped and ended):
            _log.warning(
                "%s was closed, but functions that ignored their cancellation are still running",
                self.name,
            )
