"""The client of the Agent Client Protocol (ACP): starts an agent and opens sessions with it.

The client also serves the agent's requests. `AcpClient` uses `session` and `services`. `host` uses
`AcpClient` to serve agents from a `Runtime`.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar, cast

from pydantic import SecretStr

from arcp_client import _arguments as check
from arcp_client._deadline import SLACK, Deadline
from arcp_client._tasks import TaskOwner, in_context
from arcp_client.acp import schema
from arcp_client.acp._connection.agent_requests import Route
from arcp_client.acp._connection.connection import AgentConnection
from arcp_client.acp._connection.hooks import ClientHooks, Hook
from arcp_client.acp._connection.lane import HERE
from arcp_client.acp._connector import asks_once, connector_for, name_of
from arcp_client.acp._decode import Misshapen, as_value
from arcp_client.acp._handlers import Handlers, Listening
from arcp_client.acp._handshake import VERSIONS, AskedTwice, negotiate, usable_versions
from arcp_client.acp._session.content import usable_directories, usable_servers
from arcp_client.acp._session.inbox import SessionInbox
from arcp_client.acp._session.listing import pages
from arcp_client.acp.limits import AcpLimits
from arcp_client.acp.services.files import FileSystem
from arcp_client.acp.services.permissions import Policy, deny
from arcp_client.acp.services.routes import Elicit, Services, capabilities
from arcp_client.acp.services.terminals import Terminals
from arcp_client.acp.session import AcpSession, make_session, open_session
from arcp_client.errors import (
    HandshakeTimeout,
    LinkLost,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
)
from arcp_client.transports.base import Connector, Transport, stderr_of
from arcp_client.version import __version__

__all__ = ["AcpClient"]

F = TypeVar("F", bound=Callable[..., Any])

_log = logging.getLogger("arcp_client.acp")


class AcpClient(Listening):
    """A client of one agent. ``async with`` starts the agent, and ends it on exit.

    ::

        async with AcpClient(["opencode", "acp"], on_permission=ask, fs=LocalFiles(".")) as agent:
            session = await agent.new_session()

    Malformed output of an agent cannot end or block the connection. A line that is not strict JSON
    is repaired if possible: for example, invalid UTF-8 becomes U+FFFD. Other malformed lines are
    skipped, and reported to the functions that are registered with `on_strange`. If the id of a
    skipped request can be read, the client answers the request with an error. If the id of a
    skipped answer can be read, the call raises RemoteProtocolError. If the agent exits, every
    pending call raises LinkLost at once, with the exit code and the end of the agent's standard
    error.

    The agent leads a process group. Closing ends all processes in the group; a process that has
    left the group (``setsid``, a daemon, a container) keeps running. Without process groups,
    closing ends only the agent itself. A client that is dropped without having been closed is
    reported with a ResourceWarning, and its agent is killed (rule D20).

    Args:
        argv: the program and its arguments, a URL of a WebSocket (``ws://``, ``wss://``) or of the
            streamable HTTP transport (``http://``, ``https://``), or a connector that opens a link
            to an agent, such as a `WebSocketConnector` or `HttpConnector` with headers or a proxy.
            A message has at most ``limits.max_line`` bytes.
        cwd: its working directory, and the base of relative session directories. An agent behind a
            URL looks for the session directories on its own machine: give absolute paths there.
        env: its whole environment; None inherits this process's. Only for programs.
        on_permission: decides on permission requests; see `arcp_client.acp.services.permissions`.
            By default all are rejected. If the turn is cancelled while an async policy runs, the
            agent is answered ``cancelled``, and the policy is cancelled.
        fs: serves files; its capabilities are declared to the agent. By default none.
        terminal: runs commands. By default none. It is closed with the client.
        on_elicitation: asks the user a question of the agent. It returns a dict or True to accept,
            False to decline, None to cancel. By default elicitation is not offered to the agent.
        limits: limits in bytes, numbers and seconds.
        capabilities: additional capabilities to declare, for example unstable ones.
        info: name and version of this client.
        versions: the versions of the protocol to speak; the first one is preferred. An agent that
            does not speak it gets the next one. Version 2 is a draft.
        token: sent as ``Authorization: Bearer``, with the upgrade or with every request. Only for
            URLs. Error messages and the repr do not contain it.
    """

    def __init__(
        self,
        argv: str | Sequence[str | os.PathLike[str]] | Connector,
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        on_permission: Policy | None = None,
        fs: FileSystem | None = None,
        terminal: Terminals | None = None,
        on_elicitation: Elicit | None = None,
        limits: AcpLimits | None = None,
        capabilities: schema.ClientCapabilities | None = None,
        info: schema.Implementation | None = None,
        versions: Sequence[int] = VERSIONS,
        token: str | SecretStr | None = None,
    ) -> None:
        check.a_path("cwd", cwd, none=True)
        check.a_function("on_permission", on_permission, none=True)
        check.an_instance("fs", fs, FileSystem, "a FileSystem", none=True)
        check.an_instance("terminal", terminal, Terminals, "Terminals", none=True)
        check.a_function("on_elicitation", on_elicitation, none=True)
        check.an_instance("limits", limits, AcpLimits, "AcpLimits", none=True)
        check.an_instance(
            "capabilities", capabilities, schema.ClientCapabilities, "ClientCapabilities", none=True
        )
        check.an_instance("info", info, schema.Implementation, "an Implementation", none=True)
        self._versions = usable_versions(versions)
        self._limits = limits or AcpLimits()
        self._cwd = os.path.abspath(cwd or ".")  # noqa: PTH100  # resolve() would read symlinks
        self._connector, self._command = connector_for(
            argv, cwd=cwd, env=env, token=token, limits=self._limits
        )
        self._name = name_of(argv, self._connector)
        self._terminal = terminal
        self._info = info or schema.Implementation(name="arcp-client", version=__version__)
        self._extra = capabilities
        super().__init__(Handlers())
        self._hooks = ClientHooks()
        self._connection: AgentConnection | None = None
        self._services = Services(
            policy=on_permission or deny,
            fs=fs,
            terminal=terminal,
            elicit=on_elicitation,
        )
        self._routes = self._services.routes()

    def __repr__(self) -> str:
        state = "not connected" if self._connection is None else self._connection.state
        return f"<AcpClient {self._name} {state}>"

    def __del__(
        self,
        _warn: Callable[..., None] = warnings.warn,
        _log: logging.Logger = _log,
    ) -> None:
        connection = getattr(self, "_connection", None)  # the arguments may have been refused
        if connection is not None and connection.state == "connected":
            _warn(f"{self!r} was dropped without close()", ResourceWarning, source=self)
            _log.warning("%r was dropped without close(), which ends its agent", self)
            connection.abandon(None if self._terminal is None else self._terminal.close)

    # ------------------------------------------------------------------ beginning and end

    async def __aenter__(self) -> AcpClient:
        await self.connect()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close(drain=0 if exc_type is not None else None)

    async def connect(self) -> None:
        """Start the agent, or open the link to it, and negotiate version and capabilities.

        Raises:
            ConnectFailed: the program cannot be started, or the link cannot be opened;
                ``permanent`` says whether another try can help.
            HandshakeTimeout: the agent did not answer ``initialize`` in time.
            LinkLost: the agent exited, or the link ended, before it answered.
            AgentRefused: the agent answered with an error.
            RemoteProtocolError: the agent speaks none of the versions of the protocol.
        """
        if self._connection is not None:
            raise LocalProtocolError("this client was already connected; create a new one")
        try:
            await self._open(self._versions, once=asks_once(self._connector))
        except AskedTwice:
            await self._open(self._versions[::-1], once=False)

    async def _open(self, versions: Sequence[int], *, once: bool) -> None:
        transport = await self._connector.connect()
        connection = self._connection = AgentConnection(
            transport,
            limits=self._limits,
            handlers=self._handlers,
            routes=self._routes,
            hooks=self._hooks,
            name=self._name,
            cwd=self._cwd,
        )
        self._services.connection = connection
        connection.peer.start()
        try:
            await self._initialize(connection, transport, versions, once=once)
        except AskedTwice:
            connection.hooks = ClientHooks()  # the end of this link is not the end of the agent
            await connection.close(drain=0, deadline=Deadline(self._limits.close + SLACK))
            raise
        except BaseException:
            await self.close(drain=0)
            raise

    async def _initialize(
        self,
        connection: AgentConnection,
        transport: Transport,
        versions: Sequence[int],
        *,
        once: bool,
    ) -> None:
        request = schema.InitializeRequest(
            protocol_version=1,
            client_capabilities=capabilities(self._routes, self._extra),
            client_info=self._info,
        )
        try:
            await negotiate(connection, request, self._info, versions, once=once)
        except RequestTimeout as error:
            raise HandshakeTimeout(
                f"{self._command!r} did not answer initialize within {self._limits.start:g} s",
                stderr=stderr_of(transport),
            ) from error
        if connection.version2 is not None:
            self._services.speak_version2(self._routes)

    async def close(self, *, drain: float | None = None, timeout: float | None = None) -> None:
        """End the agent and every process in its process group.

        Idempotent. It may be called from any task; inside a handler it does not wait for that
        handler. A handler or service that ignores its cancellation is abandoned at the deadline,
        with a WARNING.

        Args:
            drain: seconds for the handlers of received updates; `AcpLimits.drain` by default. The
                number of updates that are not handled by then is logged.
            timeout: seconds for the whole call; the sum of ``drain`` and `AcpLimits.close` by
                default. A quarter of it, at most one second, is reserved for ending the agent.
        """
        check.seconds("drain", drain, none=True)
        check.seconds("timeout", timeout, none=True)
        drain = self._limits.drain if drain is None else drain
        if timeout is None:
            timeout = drain + self._limits.close
        else:
            drain = min(drain, timeout - min(timeout / 4, 1.0))
        deadline = Deadline(timeout + SLACK)
        if self._connection is not None:
            self._connection.check_loop()
            await self._connection.close(drain=drain, deadline=deadline)
        if self._terminal is not None:
            await self._close_terminals(self._terminal, deadline)

    async def _close_terminals(self, terminals: Terminals, deadline: Deadline) -> None:
        owner = TaskOwner("arcp_client.acp.close", on_failure=lambda _: None)  # raised below
        closing = owner.spawn(terminals.close(), name="terminals")
        try:
            await asyncio.wait({closing}, timeout=deadline.left)
        finally:
            if not await owner.close(deadline=deadline):
                _log.warning("the terminals of %s did not close in time", self._name)
        if closing.done() and not closing.cancelled():
            closing.result()

    async def wait_closed(self) -> LinkLost | None:
        """Wait for the agent's exit; return the reason, or None if this client ended it.

        The call returns once the handlers of all earlier updates have ended. Inside a handler it
        returns at the agent's exit, because waiting for the remaining handlers would deadlock.
        """
        return await self._at().end_of_agent()

    # ------------------------------------------------------------------ the agent

    @property
    def info(self) -> schema.Implementation | None:
        """Name and version of the agent."""
        return self._at().agent.agent_info

    @property
    def protocol_version(self) -> int:
        """The version of the protocol that was negotiated: 1 or 2."""
        return 1 if self._at().version2 is None else 2

    @property
    def capabilities(self) -> schema.AgentCapabilities:
        """The capabilities of the agent, in the terms of version 1."""
        return self._at().agent.agent_capabilities or schema.AgentCapabilities()

    @property
    def auth_methods(self) -> Sequence[schema.AuthMethod]:
        """The authentication methods that the agent offers."""
        return tuple(self._at().agent.auth_methods)

    # ------------------------------------------------------------------ hooks

    def on_error(self, hook: F) -> F:
        """Call a function with a HandlerError for each exception of a handler or a service."""
        check.a_function("the hook of on_error", hook, sync=True)
        self._hooks.error.append(Hook(hook))
        return hook

    def on_strange(self, hook: F) -> F:
        """Call a function with a RemoteProtocolError for each skipped line."""
        check.a_function("the hook of on_strange", hook, sync=True)
        self._hooks.strange.append(Hook(hook))
        return hook

    def on_closed(self, hook: F) -> F:
        """Call a function at the agent's exit with LinkLost, or None if this client ended it.

        The function is called once the handlers of all earlier updates have ended. Pending calls
        fail before that, at the agent's exit.
        """
        check.a_function("the hook of on_closed", hook, sync=True)
        self._hooks.closed.append(Hook(hook))
        return hook

    def on_request(self, method: str) -> Callable[[F], F]:
        """Serve a request method that this client does not serve, such as ``_vendor/ask``.

        The async function takes the params and returns a JSON value, or raises `Refusal`.
        """
        check.a_text("method", method)
        if method in self._routes or method in schema.STABLE_METHODS:
            raise ValueError(f"this client already serves {method}; use on_request for others")

        def register(function: F) -> F:
            check.a_function("the handler of a request", function)
            served = cast(Callable[[Any], Awaitable[Any]], function)
            registered = contextvars.copy_context()

            async def serve(params: Any, _: str | None) -> Any:
                context = registered.copy()
                context.run(HERE.set, HERE.get())
                return await in_context(context, context.run(served, params))

            self._routes[method] = Route(serve)
            return function

        return register

    def on_notification(self, method: str) -> Callable[[F], F]:
        """Call a function with the params of a notification, such as ``elicitation/complete``."""
        check.a_text("method", method)

        def register(function: F) -> F:
            check.a_function("the handler of a notification", function, sync=True)
            self._hooks.notification[method] = Hook(function)
            return function

        return register

    # ------------------------------------------------------------------ authentication

    async def authenticate(self, method_id: str) -> None:
        """Authenticate with one of `auth_methods`. No timeout, since a user may be asked."""
        check.a_text("method_id", method_id)
        request = schema.AuthenticateRequest(method_id=method_id)
        await self._at().call("authenticate", request, schema.AuthenticateResponse, timeout=None)

    async def logout(self) -> None:
        """End the authentication."""
        auth = self.capabilities.auth
        self._at().needs(auth is not None and auth.logout is not None, "logout")
        await self._at().call("logout", schema.LogoutRequest(), schema.LogoutResponse)

    # ------------------------------------------------------------------ sessions

    async def new_session(
        self,
        cwd: str | os.PathLike[str] = ".",
        *,
        mcp_servers: Sequence[schema.McpServer] = (),
        additional_directories: Sequence[str] = (),
        meta: dict[str, Any] | None = None,
    ) -> AcpSession:
        """Create a session. Updates that the agent sends before the session's first use are held.

        Args:
            cwd: the directory of the session.
            mcp_servers: MCP servers for the agent to use.
            additional_directories: further directories of the session.
            meta: the ``_meta`` of the request.

        Raises:
            AuthRequired: call `authenticate` first.
            AgentRefused: the agent answered with another error.
            FeatureNotNegotiated: the agent does not support such servers or directories.
        """
        check.a_path("cwd", cwd)
        check.a_mapping("meta", meta, none=True)
        connection = self._at()
        request = schema.NewSessionRequest(
            cwd=connection.directory(cwd),
            mcp_servers=usable_servers(connection, mcp_servers),
            additional_directories=usable_directories(connection, additional_directories),
            meta=meta,
        )
        return await make_session(connection, "session/new", request, schema.NewSessionResponse)

    async def fork_session(self, source: AcpSession) -> AcpSession:
        """Create a session with the history of another one (unstable in the protocol)."""
        check.an_instance("source", source, AcpSession, "an AcpSession")
        connection, sessions = self._at(), self.capabilities.session_capabilities
        connection.needs(sessions and sessions.fork is not None, "session/fork")
        request = schema.ForkSessionRequest(
            session_id=source.id, cwd=source.cwd or connection.directory(".")
        )
        result = schema.ForkSessionResponse
        return await make_session(connection, "session/fork", request, result, source=source)

    def session(self, session_id: str) -> AcpSession:
        """Return the session with an id. The agent need not know the session yet.

        Its updates are delivered from now on. To load a session, first register handlers on it,
        then call `AcpSession.load`.
        """
        check.a_text("session_id", session_id)
        connection = self._at()
        known = self._known(session_id)
        if known is None:
            known = open_session(connection, session_id)
            connection.add(known)
        return known.session

    async def load_session(
        self, session_id: str, cwd: str | os.PathLike[str] = ".", **options: Any
    ) -> AcpSession:
        """Return the session with an id, with its history loaded; see `AcpSession.load`.

        When the call returns, the handlers that were registered before, on this client or on
        ``session(id)``, have handled the history. ``updates()`` begins with the history.
        """
        session = self.session(session_id)
        await session.load(cwd, **options)
        return session

    async def resume_session(
        self, session_id: str, cwd: str | os.PathLike[str] = ".", **options: Any
    ) -> AcpSession:
        """Return a session, continued without its history; see `AcpSession.resume`."""
        session = self.session(session_id)
        await session.resume(cwd, **options)
        return session

    async def list_sessions(
        self, *, cwd: str | os.PathLike[str] | None = None
    ) -> AsyncIterator[schema.SessionInfo]:
        """Yield the sessions that the agent has stored, page by page.

        Raises:
            FeatureNotNegotiated: the agent cannot list sessions.
            RemoteProtocolError: the agent returns the same page repeatedly.
        """
        check.a_path("cwd", cwd, none=True)
        async for one in pages(self._at(), cwd):
            yield one

    async def delete_session(self, session_id: str) -> None:
        """Delete a session at the agent."""
        check.a_text("session_id", session_id)
        sessions = self.capabilities.session_capabilities
        self._at().needs(sessions and sessions.delete is not None, "session/delete")
        request = schema.DeleteSessionRequest(session_id=session_id)
        await self._at().call("session/delete", request, schema.DeleteSessionResponse)

    # ------------------------------------------------------------------ other methods

    async def request(
        self, method: str, params: Mapping[str, Any], *, timeout: float | None = 120.0
    ) -> Any:
        """Send a request of any method; return the JSON value of its result.

        Raises:
            AgentRefused, RequestTimeout, LinkLost: as for every call.
            RemoteProtocolError: the answer cannot be read.
        """
        check.a_text("method", method)
        check.a_mapping("params", params)
        check.seconds("timeout", timeout, none=True)
        raw = await self._at().raw(method, dict(params), timeout=timeout)
        try:
            return as_value(raw or b"null")
        except Misshapen as error:
            text = f"the result of {method} cannot be read: {error}"
            raise RemoteProtocolError(text, size=len(raw)) from error

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification of any method."""
        check.a_text("method", method)
        check.a_mapping("params", params)
        await self._at().peer.notify(method, dict(params))

    def _known(self, session_id: str) -> SessionInbox[AcpSession] | None:
        return cast("SessionInbox[AcpSession] | None", self._at().sessions.get(session_id))

    def _at(self) -> AgentConnection:
        if self._connection is None:
            raise LocalProtocolError("the client is not connected; use it with `async with`")
        self._connection.check_loop()
        return self._connection
