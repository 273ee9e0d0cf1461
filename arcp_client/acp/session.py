"""The public interface of an ACP session (Agent Client Protocol): prompts, updates, options."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar, overload

from arcp_client import _arguments as check
from arcp_client.acp import schema
from arcp_client.acp._base import Update
from arcp_client.acp._connection.calls import Outcome
from arcp_client.acp._connection.connection import AgentConnection, running
from arcp_client.acp._decode import Misshapen
from arcp_client.acp._handlers import Listening, check_kinds
from arcp_client.acp._session.content import Prompt, prompt_blocks, servers
from arcp_client.acp._session.inbox import SessionInbox
from arcp_client.acp._session.state import AcpState
from arcp_client.acp._session.streams import Updates
from arcp_client.acp.turn import Turn

__all__ = ["AcpSession", "Prompt", "make_session", "open_session"]

U = TypeVar("U", bound=Update)


class AcpSession(Listening):
    """One session of an agent, made for example by `AcpClient.new_session`.

    The session's updates, the agent's requests, and the answers to calls such as ``prompt`` and
    ``load`` have one order, that of their arrival. The handlers of updates run one after another in
    that order. The handler of a request (a permission, a file, a terminal) starts once the handlers
    of all earlier updates have ended, and then runs concurrently with later handlers. A call
    returns once the handlers of all updates before its answer have ended. There is one exception: a
    call by the handler of an update (any method, even `prompt`) returns as soon as its answer
    arrives. The updates before the answer are handled when that handler has ended.

    Updates may also arrive while no prompt runs. They belong to the session, not to a prompt.
    """

    def __init__(
        self, connection: AgentConnection, inbox: SessionInbox[AcpSession], *, cwd: str = ""
    ) -> None:
        super().__init__(inbox.handlers)
        self.cwd = cwd
        self._connection = connection
        self._inbox = inbox
        self._id = inbox.id
        self._turns = inbox.turns
        inbox.session = self

    def __repr__(self) -> str:
        return f"<AcpSession {self._id}>"

    @property
    def id(self) -> str:
        """The agent's id for the session."""
        return self._id

    @property
    def cancelling(self) -> bool:
        """Whether a turn is being cancelled: requested, but not answered yet."""
        return self._turns.cancelling

    @property
    def busy(self) -> bool:
        """Whether a prompt is being answered."""
        return self._turns.busy

    @property
    def state(self) -> AcpState:
        """The state after the updates so far: tool calls, plan, modes, options, title, usage."""
        self._inbox.used()
        return self._inbox.state

    @property
    def last_turn(self) -> Turn | None:
        """The result of the last answered prompt, even if its caller was cancelled."""
        return self._turns.last

    # ------------------------------------------------------------------ updates

    @overload
    def updates(self, *, history: bool = True) -> Updates[Update]: ...

    @overload
    def updates(self, *kinds: type[U], history: bool = True) -> Updates[U]: ...

    def updates(self, *kinds: type[Any], history: bool = True) -> Updates[Any]:
        """Return an independent iterator over updates; it gets every update.

        It begins with the earlier updates that are still kept (the last 1,024, or 1 MiB), unless
        ``history`` is False; if some are no longer kept, the first item is a ``Gap``. An update is
        yielded after its handlers have ended. While an iterator is full, the session waits for it.
        If it is not advanced for `AcpLimits.stall` seconds, its queued updates are replaced by a
        ``Gap``.

        It ends when the session is closed.

        Raises:
            LinkLost: from the iteration, after the last update: the agent has exited.
            ClientClosed: from the iteration, after the last update: this client closed the
                connection.
        """
        check.a_flag("history", history)
        check_kinds(kinds)
        self._inbox.used()
        return self._inbox.streams.new(kinds, history=history)

    # ------------------------------------------------------------------ prompts

    async def prompt(self, content: Prompt, *, meta: dict[str, Any] | None = None) -> Turn:
        """Send a prompt; return when the turn has ended and its updates have been handled.

        If an earlier prompt of this session is not answered yet, the call waits for its answer
        first, except inside a handler.

        If the waiting task is cancelled, the client sends ``session/cancel`` and answers open
        permission requests with ``cancelled``. The agent has `AcpLimits.cancel` seconds to end the
        turn before the cancellation propagates. A second cancellation propagates at once, and the
        agent is killed if it does not end the turn within `AcpLimits.kill` seconds.

        Args:
            content: text, a content block, or several of either.
            meta: the ``_meta`` of the request.

        Raises:
            AgentRefused: the agent answered with an error; its updates have been handled.
            FeatureNotNegotiated: the agent does not support such content.
            LinkLost: the agent has exited; raised at once, while updates may still be handled.
            ClientClosed: this client closed the connection.
        """
        check.a_mapping("meta", meta, none=True)
        blocks = prompt_blocks(self._connection, content)
        self._inbox.used()
        if running() is None:
            await self._turns.idle()
        turn = self._turns.begin()
        request = schema.PromptRequest(session_id=self._id, prompt=blocks, meta=meta)
        try:
            response = await self._connection.call(
                "session/prompt",
                request,
                schema.PromptResponse,
                timeout=None,
                lane=self._inbox.lane,
                arrived=partial(self._turns.answered, turn),
                defer=self._turns.deferral(turn),
                abandon=False,
            )
        except asyncio.CancelledError:
            await self._turns.cut_short(turn)
            raise
        except Exception:
            self._turns.close(turn)
            raise
        return self._turns.result(turn, response)

    # ------------------------------------------------------------------ cancellation

    async def cancel(self) -> None:
        """Request the agent to end the turn; `prompt` returns when the turn has ended.

        Present and further permission requests of this turn are answered ``cancelled``, and a
        running async permission policy is cancelled. If `cancel` is called again while the turn
        continues, the agent is killed unless it ends the turn within `AcpLimits.kill` seconds.

        Raises:
            LinkLost: the agent has ended.
        """
        self._connection.check_loop()
        self._connection.peer.check()
        self._turns.request_cancel()
        await self._connection.peer.notify(
            "session/cancel", schema.CancelNotification(session_id=self._id)
        )

    # ------------------------------------------------------------------ history and options

    async def load(
        self,
        cwd: str | os.PathLike[str] | None = None,
        *,
        mcp_servers: Sequence[schema.McpServer] = (),
        additional_directories: Sequence[str] = (),
        meta: dict[str, Any] | None = None,
    ) -> None:
        """Load the session's history (``session/load``).

        The updates of the history are marked as ``replay`` and go to the registered handlers. When
        the call returns, the handlers have handled them.

        Raises:
            FeatureNotNegotiated: the agent cannot load sessions.
            AgentRefused: the agent does not know the session, or refuses to load it.
            LinkLost: the agent has ended.
        """
        check.a_path("cwd", cwd, none=True)
        check.a_mapping("meta", meta, none=True)
        offers = self._connection.agent.agent_capabilities
        self._connection.needs(offers and offers.load_session, "session/load")
        request = schema.LoadSessionRequest(
            session_id=self._id,
            cwd=self._directory(cwd),
            mcp_servers=servers(mcp_servers),
            additional_directories=self._directories(additional_directories),
            meta=meta,
        )
        await self._reopen("session/load", request, schema.LoadSessionResponse, timeout=None)

    async def resume(
        self,
        cwd: str | os.PathLike[str] | None = None,
        *,
        mcp_servers: Sequence[schema.McpServer] = (),
        additional_directories: Sequence[str] = (),
        meta: dict[str, Any] | None = None,
    ) -> None:
        """Continue the session without its history (``session/resume``); else like `load`."""
        check.a_path("cwd", cwd, none=True)
        check.a_mapping("meta", meta, none=True)
        offers = self._connection.agent.agent_capabilities
        sessions = offers and offers.session_capabilities
        self._connection.needs(sessions and sessions.resume is not None, "session/resume")
        request = schema.ResumeSessionRequest(
            session_id=self._id,
            cwd=self._directory(cwd),
            mcp_servers=servers(mcp_servers),
            additional_directories=self._directories(additional_directories),
            meta=meta,
        )
        await self._reopen("session/resume", request, schema.ResumeSessionResponse)

    async def _reopen(self, method: str, request: Any, result: Any, **options: Any) -> None:
        self._inbox.used()
        self._inbox.lane.do(partial(self._turns.replay, 1))
        ended = False

        def arrived(outcome: Outcome | None) -> None:
            nonlocal ended
            if not ended:
                ended = True
                self._inbox.lane.do(partial(self._turns.replay, -1))
                self._inbox.lane.do(partial(self._inbox.opened, result, outcome))

        try:
            await self._connection.call(
                method, request, result, lane=self._inbox.lane, arrived=arrived, **options
            )
        except BaseException:
            arrived(None)
            raise

    def _directories(self, more: Sequence[str]) -> list[str]:
        return [
            self._connection.directory(each) for each in check.texts("additional_directories", more)
        ]

    def _directory(self, cwd: str | os.PathLike[str] | None) -> str:
        self.cwd = self._connection.directory(self.cwd or "." if cwd is None else cwd)
        return self.cwd

    async def set_mode(self, mode: str) -> None:
        """Switch the session's mode (``session/set_mode``)."""
        check.a_text("mode", mode)
        request = schema.SetSessionModeRequest(session_id=self._id, mode_id=mode)
        await self._connection.call("session/set_mode", request, schema.SetSessionModeResponse)

    async def set_config_option(self, option: str, value: str | bool) -> None:
        """Set a configuration option (``session/set_config_option``); see ``state.options``."""
        check.a_text("option", option)
        check.an_instance("value", value, (str, bool), "a text, True or False")
        request = schema.SetSessionConfigOptionRequest(
            session_id=self._id,
            config_id=option,
            value=value,
            type="boolean" if isinstance(value, bool) else None,
        )
        result, inbox = schema.SetSessionConfigOptionResponse, self._inbox
        await self._connection.call(
            "session/set_config_option",
            request,
            result,
            arrived=lambda outcome: inbox.lane.do(partial(inbox.opened, result, outcome)),
        )

    async def close(self) -> None:
        """Close the session, at the agent too if possible. Received updates are still handled."""
        self._connection.check_loop()
        offers = self._connection.agent.agent_capabilities
        sessions = offers and offers.session_capabilities
        if sessions and sessions.close is not None:
            request = schema.CloseSessionRequest(session_id=self._id)
            await self._connection.call(
                "session/close", request, schema.CloseSessionResponse, lane=self._inbox.lane
            )
        self._connection.remove(self._inbox)
        self._inbox.lane.do(partial(self._inbox.end, None))
        self._inbox.lane.complete()
        inside = running()
        if inside is None or inside.lane is not self._inbox.lane:
            await asyncio.wait(
                {self._connection.owner.spawn(self._inbox.lane.drained(), name="drain")},
                timeout=self._connection.limits.drain,
            )
        self._inbox.leave()


def open_session(
    connection: AgentConnection, session_id: str, *, cwd: str = ""
) -> SessionInbox[AcpSession]:
    """Create a session that is not attached to the connection yet."""
    inbox: SessionInbox[AcpSession] = SessionInbox(connection, session_id)
    AcpSession(connection, inbox, cwd=cwd)
    return inbox


async def make_session(
    connection: AgentConnection,
    method: str,
    request: Any,
    result: type[Any],
    *,
    source: AcpSession | None = None,
) -> AcpSession:
    """Request a new session from the agent (``session/new``, ``session/fork``).

    Args:
        connection: the connection.
        method: the method to call.
        request: the params; ``cwd`` is the session's directory.
        result: the type of the result, which has a ``session_id``.
        source: the session whose lane orders the answer, if any.
    """
    made: list[SessionInbox[AcpSession]] = []
    gone = False

    def arrived(outcome: Outcome) -> None:
        # In the reader: later messages of the same write must find the session.
        if isinstance(outcome, bytes) and not gone:
            try:
                response = connection.decode(result, outcome)
            except Misshapen:
                return  # the caller raises the error
            inbox = connection.sessions.get(response.session_id)
            if not isinstance(inbox, SessionInbox):
                inbox = open_session(connection, response.session_id, cwd=request.cwd)
                inbox.hold(response)
                connection.add(inbox)
            made.append(inbox)

    beside = None if source is None else connection.sessions.get(source.id)
    lane = None if beside is None else beside.lane
    try:
        await connection.call(method, request, result, lane=lane, arrived=arrived)
    except BaseException:
        gone = True
        for inbox in made:
            connection.remove(inbox)
            inbox.leave()
        raise
    made[0].returned()
    return made[0].session
