"""Lists the sessions that an agent has stored, page by page."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

from arcp_client.acp import schema
from arcp_client.acp._connection.connection import AgentConnection
from arcp_client.errors import RemoteProtocolError

__all__ = ["pages"]


async def pages(
    connection: AgentConnection, cwd: str | os.PathLike[str] | None
) -> AsyncIterator[schema.SessionInfo]:
    """Yield all sessions that the agent lists, page by page."""
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
            raise RemoteProtocolError(f"{connection.name} returned the same cursor twice")
        seen.add(cursor)
