"""The methods that an editor calls: sessions, prompts and settings of one agent of a runtime."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from arcp_client import _arguments as check
from arcp_client._tasks import cancel_and_wait, start
from arcp_client.acp._connection.agent_requests import Route
from arcp_client.acp._connection.messages import take_apart
from arcp_client.acp._decode import REFUSED, as_json
from arcp_client.acp.errors import INTERNAL, INVALID_PARAMS, NOT_FOUND, Refusal
from arcp_client.acp.limits import AcpLimits
from arcp_client.acp.serving.conversation import ConversationSession
from arcp_client.acp.serving.ids import new_session_id, session_of, started_before, trace_of
from arcp_client.acp.serving.link import EditorLink
from arcp_client.acp.serving.session import ServedSession, ServeOptions
from arcp_client.acp.serving.turns import TurnsSession
from arcp_client.acp.serving.versions import Version1, Version2
from arcp_client.client import Client
from arcp_client.errors import (
    AgentNotFound,
    ArcpError,
    LinkLost,
    RemoteProtocolError,
    RequestError,
)
from arcp_client.models import AgentInfo, JobSummary, Lease
from arcp_client.state import Closed
from arcp_client.transports import Transport
from arcp_client.transports.stdio import StdioServerTransport
from arcp_client.version import __version__

__all__ = ["refuse", "serve"]

_log = logging.getLogger("arcp_client.acp")

PROMPT_ID = "x-vendor.arcp-client.prompt_id"
"""The member of a prompt's ``_meta`` that identifies it, if the editor sends it again."""
_PAGE = 100


async def serve(
    client: Client,
    agent: str,
    *,
    transport: Transport | None = None,
    cwd: str | os.PathLike[str] | None = None,
    lease: Lease | Mapping[str, Sequence[str]] | None = None,
    max_runtime: float | None = None,
    limits: AcpLimits | None = None,
) -> None:
    """Serve an agent of a runtime to an editor, as an ACP agent; returns when the editor leaves.

    ::

        async with Client("ws://127.0.0.1:7777/arcp") as client:
            await acp.serve(client, "claude")

    To the editor it is an ordinary agent of version 1 of the protocol, with ``session/load``,
    ``session/resume`` and ``session/list``; to an editor that asks for it, of the draft of version
    2, with ``replayFrom``. The runtime runs its sessions as jobs, which continue when the editor
    or this process ends, at whatever byte. The next process loads the session: it sends
    every update once, in order, and then those that come; open questions are asked again, and one
    answer is taken. The runtime knows the sessions; nothing is stored on this machine.

    An agent that `host` made has the session as one job, a conversation. Every other agent gets
    each prompt as a job, whose input is the text.

    A prompt is run once. One that is sent again to another process, because the answer was lost, is
    recognised if its turn still runs, or if the runtime took it and the process that sends it again
    had loaded the session before that; or always, if the editor identifies it by
    ``x-vendor.arcp-client.prompt_id`` in ``_meta``.

    Args:
        client: the connected client of the runtime.
        agent: the agent, ``name`` or ``name@version``.
        transport: the link to the editor; by default stdin and stdout of this process.
        cwd: the directory of a hosted agent, as the runtime names it; by default the editor's.
        lease: the operations that each job may perform, as for `Client.submit`.
        max_runtime: seconds after which the runtime ends a job.
        limits: limits of the link to the editor.

    Raises:
        AgentNotFound: the runtime has no such agent.
        ArcpError: the client has ended.
    """
    check.an_instance("client", client, Client, "a Client")
    check.a_text("agent", agent)
    check.a_path("cwd", cwd, none=True)
    check.seconds("max_runtime", max_runtime, above=True, none=True)
    check.an_instance("limits", limits, AcpLimits, "AcpLimits", none=True)
    found = _find(client, agent)
    where = None if cwd is None else os.fspath(cwd)
    options = ServeOptions(client, agent, lease, max_runtime, where)
    limits = limits or AcpLimits()
    mine = transport is None
    link = transport or StdioServerTransport(max_line=limits.max_line)
    try:
        await _Server(options, found, link, limits).run()
    finally:
        if mine:
            await link.close(timeout=1.0)


def _find(client: Client, agent: str) -> AgentInfo:
    name = agent.partition("@")[0]
    for info in client.session.agents:
        if info.name == name:
            return info
    known = ", ".join(info.name for info in client.session.agents)
    raise AgentNotFound(f"the runtime has no agent {name!r:.80}; it has {known or 'none'}")


def _converses(info: AgentInfo, agent: str) -> bool:
    """Whether the agent takes conversations: whether `host` made it."""
    declared = info.declaration(agent.partition("@")[2] or None).input_schema or {}
    forms = declared.get("anyOf")
    return any(
        isinstance(form, Mapping) and "conversation" in (form.get("properties") or {})
        for form in (forms if isinstance(forms, list) else ())
    )


async def refuse(transport: Transport, message: str, *, timeout: float = 5.0) -> None:
    """Answer the editor's first request with an error, since there is no agent.

    Args:
        transport: the link to the editor; it is not closed.
        message: why, in one sentence.
        timeout: seconds to wait for the request.
    """
    with contextlib.suppress(TimeoutError, LinkLost):
        async with asyncio.timeout(timeout):
            while True:
                try:
                    _, id_, method = take_apart(await transport.receive())
                except (*REFUSED, ValueError, RemoteProtocolError):
                    continue  # this is no request
                if id_ is not None and method is not None:
                    error = {"code": INTERNAL, "message": message}
                    answer = {"jsonrpc": "2.0", "id": id_.raw, "error": error}
                    await transport.send(as_json(answer))
                    return


class _Server:
    """The sessions of one editor."""

    def __init__(
        self, options: ServeOptions, info: AgentInfo, transport: Transport, limits: AcpLimits
    ) -> None:
        self._options = options
        self._info = info
        self._converses = _converses(info, options.agent)
        self._sessions: dict[str, ServedSession] = {}
        self._opening = asyncio.Lock()
        self._forms = False
        self._version: type[Version1] = Version1
        methods: dict[str, Callable[[Any], Awaitable[Any]]] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/list": self._list,
            "session/close": self._close,
            "session/prompt": self._prompt,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_config_option,
        }
        routes = {name: Route(_served(method)) for name, method in methods.items()}
        self._link = EditorLink(transport, routes, {"session/cancel": self._cancel}, limits)

    async def run(self) -> None:
        """Serve until the editor disconnects, or the client ends."""
        self._link.start()
        client = self._options.client
        waits = [start(self._link.gone.wait(), name="editor"), start(_end(client), name="client")]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            state = client.state
            if isinstance(state, Closed) and state.cause is not None:
                raise state.cause
        finally:
            await cancel_and_wait(waits)
            await self._link.close()

    # ------------------------------------------------------------------ methods

    async def _initialize(self, params: Mapping[str, Any]) -> Any:
        # Version 2 is a draft: only an editor that asks for it gets it.
        asked = params.get("protocolVersion")
        newer = isinstance(asked, int | float) and asked >= Version2.number
        self._version = Version2 if newer else Version1
        offers = params.get("capabilities" if newer else "clientCapabilities")
        elicits = offers.get("elicitation") if isinstance(offers, Mapping) else None
        self._forms = isinstance(elicits, Mapping) and elicits.get("form") is not None
        declared = self._info.declaration(self._options.agent.partition("@")[2] or None)
        info = {
            "name": self._info.name,
            "title": declared.description or self._info.name,
            "version": declared.version or __version__,
        }
        rich = self._converses
        if newer:
            prompts: dict[str, Any] = {"embeddedContext": {}}
            if rich:
                prompts |= {"image": {}, "audio": {}}
            capabilities: dict[str, Any] = {"session": {"prompt": prompts}}
            return {
                "protocolVersion": Version2.number,
                "info": info,
                "capabilities": capabilities,
            }
        return {
            "protocolVersion": Version1.number,
            "agentInfo": info,
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": rich, "audio": rich, "embeddedContext": True},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
            },
            "authMethods": [],
        }

    async def _authenticate(self, _: Mapping[str, Any]) -> Any:
        return {}  # this process has its token already

    async def _new(self, params: Mapping[str, Any]) -> Any:
        _warn_of_servers(params)
        session = self._session(new_session_id())
        self._sessions[session.id] = session
        try:
            told = await session.create(_cwd(params))
        except BaseException:
            del self._sessions[session.id]
            raise
        return {"sessionId": session.id, **told}

    async def _load(self, params: Mapping[str, Any]) -> Any:
        return await self._reopen(params, replay=True)

    async def _resume(self, params: Mapping[str, Any]) -> Any:
        since = params.get("replayFrom") if self._version is Version2 else None
        if since is not None and (not isinstance(since, Mapping) or since.get("type") != "start"):
            raise Refusal("replayFrom must be of the type 'start'", number=INVALID_PARAMS)
        return await self._reopen(params, replay=since is not None)

    async def _reopen(self, params: Mapping[str, Any], *, replay: bool) -> Any:
        _warn_of_servers(params)
        session_id = _text(params, "sessionId")
        async with self._opening:
            session = self._sessions.get(session_id)
            if session is not None:
                if replay:
                    await session.again()
                await session.tell_state()
                return {}
            jobs = await self._jobs_of(session_id)
            session = self._session(session_id)
            told = await session.load(jobs, _cwd(params), replay=replay)
            self._sessions[session_id] = session
            return told

    async def _list(self, params: Mapping[str, Any]) -> Any:
        found: dict[str, JobSummary] = {}
        async for job in self._options.client.jobs(agent=self._options.agent):
            if job.trace_id is not None and job.parent_job_id is None:
                found[session_of(job.trace_id)] = job
        cwd = params.get("cwd") if isinstance(params.get("cwd"), str) else os.getcwd()  # noqa: PTH109
        newest = sorted(found, reverse=True)[:_PAGE]
        return {"sessions": [_shown(name, found[name], cwd) for name in newest]}

    async def _close(self, params: Mapping[str, Any]) -> Any:
        session = self._known(params)
        await session.close()
        return {}

    async def _prompt(self, params: Mapping[str, Any]) -> Any:
        session = self._known(params)
        blocks = params.get("prompt")
        if not isinstance(blocks, list) or not blocks:
            raise Refusal("prompt must be a list of content blocks", number=INVALID_PARAMS)
        meta = params.get("_meta")
        key = meta.get(PROMPT_ID) if isinstance(meta, Mapping) else None
        return await session.prompt(blocks, key if isinstance(key, str) else None)

    async def _set_mode(self, params: Mapping[str, Any]) -> Any:
        return await self._known(params).call("session/set_mode", params)

    async def _set_config_option(self, params: Mapping[str, Any]) -> Any:
        given = self._version.config_option(params)
        result = await self._known(params).call("session/set_config_option", given)
        return self._version.config_options(result)

    async def _cancel(self, params: Any) -> None:
        if isinstance(params, Mapping):
            await self._known(params).cancel()

    # ------------------------------------------------------------------ sessions

    def _session(self, session_id: str) -> ServedSession:
        kind = ConversationSession if self._converses else TurnsSession
        version = self._version()
        return kind(session_id, self._options, self._link, version=version, forms=self._forms)

    def _known(self, params: Mapping[str, Any]) -> ServedSession:
        session_id = _text(params, "sessionId")
        session = self._sessions.get(session_id)
        if session is None:
            raise _no_session(session_id)
        return session

    async def _jobs_of(self, session_id: str) -> list[str]:
        """Return the jobs of a session, the oldest first."""
        try:
            trace, since = trace_of(session_id), started_before(session_id)
        except ValueError:
            raise _no_session(session_id) from None
        found = self._options.client.jobs(agent=self._options.agent, created_after=since)
        jobs = [job.job_id async for job in found if job.trace_id == trace]
        if not jobs:
            raise _no_session(session_id)
        return jobs


async def _end(client: Client) -> None:
    """Wait until the client has ended, which no later call survives."""
    ended = asyncio.Event()
    states = client.states.subscribe(on_completed=ended.set, on_error=lambda _: ended.set())
    try:
        await ended.wait()
    finally:
        states.dispose()


def _served(method: Callable[[Any], Awaitable[Any]]) -> Callable[[Any, str | None], Awaitable[Any]]:
    async def serve(params: Any, _: str | None) -> Any:
        if not isinstance(params, Mapping):
            raise Refusal("params must be an object", number=INVALID_PARAMS)
        try:
            return await method(params)
        except (Refusal, LinkLost):
            raise
        except ArcpError as error:
            data = {"code": error.code} if isinstance(error, RequestError) else None
            _log.error("a request of the editor failed: %s", error)
            raise Refusal(str(error), data=data) from error

    return serve


def _no_session(session_id: str) -> Refusal:
    text = f"there is no session {session_id!r:.60} of this agent at this runtime"
    _log.error("%s", text)
    return Refusal(text, number=NOT_FOUND)


def _text(params: Mapping[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise Refusal(f"{name} must be a string", number=INVALID_PARAMS)
    return value


def _cwd(params: Mapping[str, Any]) -> str:
    return _text(params, "cwd")


def _warn_of_servers(params: Mapping[str, Any]) -> None:
    if params.get("mcpServers"):
        _log.warning("the MCP servers of the editor are not passed to the runtime's agent")


def _shown(session_id: str, job: JobSummary, cwd: Any) -> dict[str, Any]:
    shown = {"sessionId": session_id, "cwd": cwd, "title": f"{job.agent} ({job.status})"}
    if job.created_at is not None:
        shown["updatedAt"] = job.created_at.isoformat()
    return shown
