"""Routes the agent's requests to the client's files, terminals, permission policy and elicitation.

One table determines both which methods are served and which capabilities the client declares.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

from arcp_client._tasks import pass_on
from arcp_client.acp import schema
from arcp_client.acp._connection.agent_requests import Route
from arcp_client.acp._connection.connection import AgentConnection
from arcp_client.acp._decode import as_json, decode
from arcp_client.acp._session.inbox import SessionInbox
from arcp_client.acp.errors import INVALID_PARAMS, Refusal
from arcp_client.acp.services.files import FileSystem
from arcp_client.acp.services.permissions import PermissionRequest, Policy, decide
from arcp_client.acp.services.terminals import Terminals
from arcp_client.acp.session import AcpSession

__all__ = ["Elicit", "Services", "capabilities"]

Elicit: TypeAlias = Callable[
    [schema.CreateElicitationRequestForm | schema.CreateElicitationRequestUrl],
    Awaitable[Any] | Any,
]


_COPIES = 4  # copies of an answer while it is sent: bytes, text, JSON, and the line in the pipe
_LARGE = 1024 * 1024  # bytes of an answer, for services without max_bytes

_MODES: dict[str, Any] = {
    "form": schema.CreateElicitationRequestForm,
    "url": schema.CreateElicitationRequestUrl,
}


class Services:
    """The services of one client.

    Args:
        policy: decides on permissions.
        fs: serves files, or None.
        terminal: serves terminals, or None.
        elicit: asks the user, or None.

    Attributes:
        connection: the connection that is served; set before the first request is read.
    """

    connection: AgentConnection

    def __init__(
        self,
        *,
        policy: Policy,
        fs: FileSystem | None,
        terminal: Terminals | None,
        elicit: Elicit | None,
    ) -> None:
        self._policy = policy
        self._fs = fs
        self._terminal = terminal
        self._elicit = elicit

    def routes(self) -> dict[str, Route]:
        """Return the served methods and their routes."""
        routes = {
            "session/request_permission": Route(self._permission, schema.RequestPermissionRequest)
        }
        if self._fs is not None:
            routes["fs/read_text_file"] = Route(
                self._read, schema.ReadTextFileRequest, _weight(self._fs)
            )
            if self._fs.writable:
                routes["fs/write_text_file"] = Route(self._write, schema.WriteTextFileRequest)
        if self._terminal is not None:
            routes |= {
                "terminal/create": Route(self._create, schema.CreateTerminalRequest),
                "terminal/output": Route(
                    self._output, schema.TerminalOutputRequest, _weight(self._terminal)
                ),
                "terminal/wait_for_exit": Route(self._wait, schema.WaitForTerminalExitRequest),
                "terminal/kill": Route(self._kill, schema.KillTerminalRequest),
                "terminal/release": Route(self._release, schema.ReleaseTerminalRequest),
            }
        if self._elicit is not None:
            routes["elicitation/create"] = Route(self._ask)
        return routes

    def speak_version2(self, routes: dict[str, Route]) -> None:
        """Change the routes for an agent of version 2, which cannot use the client's files."""
        for method in [name for name in routes if name.startswith(("fs/", "terminal/"))]:
            del routes[method]
        routes["session/request_permission"] = Route(self._permission2)

    async def _permission2(self, params: Any, _: str | None) -> schema.RequestPermissionResponse:
        assert self.connection.version2 is not None
        asked = self.connection.version2.permission(params)
        return await self._decide(asked.request, asked.title, asked.description)

    async def _permission(
        self, params: schema.RequestPermissionRequest, _: str | None
    ) -> schema.RequestPermissionResponse:
        return await self._decide(params)

    async def _decide(
        self,
        params: schema.RequestPermissionRequest,
        title: str | None = None,
        description: str | None = None,
    ) -> schema.RequestPermissionResponse:
        inbox = cast(
            "SessionInbox[AcpSession] | None", self.connection.sessions.get(params.session_id)
        )
        call = (
            inbox.call(params.tool_call)
            if inbox is not None and params.tool_call.tool_call_id
            else schema.ToolCall(
                tool_call_id=params.tool_call.tool_call_id,
                title=params.tool_call.title or "",
                kind=params.tool_call.kind,
                raw_input=params.tool_call.raw_input,
            )
        )
        session = None if inbox is None else inbox.session
        request = PermissionRequest(
            session, params.session_id, call, tuple(params.options), title, description
        )
        task = asyncio.current_task()
        try:
            return await decide(self._policy, request)
        except BaseException as error:  # noqa: BLE001  # a policy is user code, and yes is no default
            pass_on(error, task)
            self.connection.failed("the permission policy", error)
            return await decide(lambda _: False, request)

    async def _read(
        self, params: schema.ReadTextFileRequest, _: str | None
    ) -> schema.ReadTextFileResponse:
        assert self._fs is not None
        text = await self._fs.read_text_file(
            params.path, line=params.line, limit=params.limit, session_id=params.session_id
        )
        return schema.ReadTextFileResponse(content=text)

    async def _write(
        self, params: schema.WriteTextFileRequest, _: str | None
    ) -> schema.WriteTextFileResponse:
        assert self._fs is not None
        await self._fs.write_text_file(params.path, params.content, session_id=params.session_id)
        return schema.WriteTextFileResponse()

    async def _create(
        self, params: schema.CreateTerminalRequest, _: str | None
    ) -> schema.CreateTerminalResponse:
        assert self._terminal is not None
        return schema.CreateTerminalResponse(terminal_id=await self._terminal.create(params))

    async def _output(self, params: schema.TerminalOutputRequest, _: str | None) -> Any:
        assert self._terminal is not None
        return await self._terminal.output(params.session_id, params.terminal_id)

    async def _wait(self, params: schema.WaitForTerminalExitRequest, _: str | None) -> Any:
        assert self._terminal is not None
        return await self._terminal.wait_for_exit(params.session_id, params.terminal_id)

    async def _kill(self, params: schema.KillTerminalRequest, _: str | None) -> Any:
        assert self._terminal is not None
        await self._terminal.kill(params.session_id, params.terminal_id)
        return schema.KillTerminalResponse()

    async def _release(self, params: schema.ReleaseTerminalRequest, _: str | None) -> Any:
        assert self._terminal is not None
        await self._terminal.release(params.session_id, params.terminal_id)
        return schema.ReleaseTerminalResponse()

    async def _ask(self, params: Any, _: str | None) -> Any:
        assert self._elicit is not None
        kind = params.get("mode") if isinstance(params, dict) else None
        if kind not in _MODES:
            raise Refusal(f"unknown mode {kind!r}", number=INVALID_PARAMS)
        request = decode(_MODES[kind], as_json(params))
        answer = self._elicit(request)
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is None:
            return schema.CreateElicitationResponseCancel()
        if answer is False:
            return schema.CreateElicitationResponseDecline()
        if isinstance(answer, dict):
            return schema.CreateElicitationResponseAccept(content=answer)
        return schema.CreateElicitationResponseAccept() if answer is True else answer


def _weight(service: object) -> int:
    largest = getattr(service, "max_bytes", None)
    return _COPIES * (largest if isinstance(largest, int) else _LARGE)


def capabilities(
    routes: dict[str, Route], extra: schema.ClientCapabilities | None
) -> schema.ClientCapabilities:
    """Return the capabilities to declare: the served methods, and the caller's additions."""
    elicit = "elicitation/create" in routes
    own: dict[str, Any] = {
        "fs": schema.FileSystemCapabilities(
            read_text_file="fs/read_text_file" in routes,
            write_text_file="fs/write_text_file" in routes,
        ),
        "terminal": "terminal/create" in routes,
        "session": schema.ClientSessionCapabilities(
            compaction=schema.CompactionCapabilities(),
            config_options=schema.SessionConfigOptionsCapabilities(
                boolean=schema.BooleanConfigOptionCapabilities()
            ),
            notices=schema.NoticeCapabilities(),
        ),
        "elicitation": schema.ElicitationCapabilities(
            form=schema.ElicitationFormCapabilities(), url=schema.ElicitationUrlCapabilities()
        )
        if elicit
        else None,
    }
    if extra is not None:
        for name in schema.ClientCapabilities.__struct_fields__:
            value = getattr(extra, name)
            if value:
                own[name] = value
    return schema.ClientCapabilities(**own)
