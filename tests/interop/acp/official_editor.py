"""An editor with the client of the official Python SDK, for servers that are killed."""

from __future__ import annotations

import asyncio
from typing import Any

import acp
from acp import schema
from acp.client.connection import ClientSideConnection

from arcp_client.acp.serving.server import PROMPT_ID
from tests.interop.acp.killed import Permission, Process, Updates


class Official(acp.Client):
    """An editor with the client of the official Python SDK."""

    def __init__(self, it: Process, permission: Permission) -> None:
        self.shown: Updates = []
        self.asked = 0
        self._permission = permission
        self._connection = ClientSideConnection(self, it.writer, it.reader)

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        shown = update.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.shown.append(shown)

    async def request_permission(
        self, options: Any, session_id: str, tool_call: Any, **_: Any
    ) -> Any:
        self.asked += 1
        chosen = self._permission()
        if chosen is None:
            await asyncio.get_running_loop().create_future()
        outcome = schema.AllowedOutcome(outcome="selected", option_id=str(chosen))
        return schema.RequestPermissionResponse(outcome=outcome)

    async def start(self) -> None:
        result = await self._connection.initialize(protocol_version=1)
        assert result.agent_capabilities is not None
        assert result.agent_capabilities.load_session

    async def new(self) -> str:
        return (await self._connection.new_session(cwd="/", mcp_servers=[])).session_id

    async def load(self, session: str) -> None:
        await self._connection.load_session(cwd="/", session_id=session, mcp_servers=[])

    async def prompt(self, session: str, words: str) -> str:
        blocks = [acp.text_block(words)]
        answer = await self._connection.prompt(session, blocks, **{PROMPT_ID: words})
        return str(answer.stop_reason)

    async def close(self) -> None:
        await self._connection.close()
