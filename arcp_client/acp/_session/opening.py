"""What a session is to be in, the session out, known before anything that follows is read."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from typing import Any

from arcp_client import _arguments as check
from arcp_client.acp import schema
from arcp_client.acp._connection.connection import AgentConnection
from arcp_client.acp._connection.jsonrpc import Outcome
from arcp_client.acp._decode import Misshapen, decode
from arcp_client.acp._session.content import servers as servers_of
from arcp_client.acp._session.inbox import Inbox
from arcp_client.acp.session import AcpSession, open_session
from arcp_client.errors import RemoteProtocolError

__all__ = ["make_session", "pages", "usable_directories", "usable_servers"]


async def make_session(
    connection: AgentConnection,
    method: str,
    request: Any,
    result: type[Any],
    *,
    source: AcpSession | None = None,
) -> AcpSession:
    """Ask the agent for a session of its own naming (``session/new``, ``session/fork``).

    Args:
        connection: the connection.
        method: what to call.
        request: the params; ``cwd`` is the session's directory.
        result: the type of the result, which has a ``session_id``.
        source: the session in whose inbox the answer is a position.
    """
    made: list[Inbox] = []
    gone = False

    def arrived(outcome: Outcome) -> None:
        # In the reader: what follows in the same write must find the session.
        if isinstance(outcome, bytes) and not gone:
            try:
                response = decode(result, outcome)
            except Misshapen:
                return  # the caller gets the error
            inbox = connection.sessions.get(response.session_id)
            if not isinstance(inbox, Inbox):
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


async def pages(
    connection: AgentConnection, cwd: str | os.PathLike[str] | None
) -> AsyncIterator[schema.SessionInfo]:
    """All sessions that the agent lists, page by page."""
    offers = connection.agent.agent_capabilities
    sessions = offers and offers.session_capabilities
    connection.needs(sessions and sessions.list is not None, "session/list")
    directory = None if cwd is None else connection.directory(cwd)
    cursor: str | None = None
    seen: set[str] = set()
    while True:
        request = schema.ListSessionsRequest(cwd=directory, cursor=cursor)
        page = await connection.call("session/list", request, schema.ListSessionsResponse)
        for one in page.sessions:
            yield one
        cursor = page.next_cursor
        if cursor is None:
            return
        if cursor in seen:
            raise RemoteProtocolError(f"{connection.name} gave the same cursor twice")
        seen.add(cursor)


def usable_servers(
    connection: AgentConnection, servers: Sequence[schema.McpServer]
) -> list[schema.McpServer]:
    """MCP servers, if the agent can reach all of them."""
    chosen = servers_of(servers)
    offers = connection.agent.agent_capabilities
    reach = (offers and offers.mcp_capabilities) or schema.McpCapabilities()
    for server in chosen:
        if isinstance(server, schema.McpServerHttp):
            connection.needs(reach.http, "MCP servers over HTTP")
        elif isinstance(server, schema.McpServerSse):
            connection.needs(reach.sse, "MCP servers over SSE")
    return chosen


def usable_directories(connection: AgentConnection, directories: Sequence[str]) -> list[str]:
    """More directories for a session, if the agent takes any."""
    chosen = check.texts("additional_directories", directories)
    if chosen:
        offers = connection.agent.agent_capabilities
        sessions = offers and offers.session_capabilities
        offered = sessions and sessions.additional_directories is not None
        connection.needs(offered, "additional directories")
    return [connection.directory(directory) for directory in chosen]
