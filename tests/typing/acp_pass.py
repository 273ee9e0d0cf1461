"""What both checkers must accept of the client of ACP agents."""

from __future__ import annotations

from typing import assert_type

from arcp_client import Runtime
from arcp_client.acp import (
    AcpClient,
    AcpSession,
    LocalFiles,
    LocalTerminals,
    PermissionRequest,
    Turn,
    allow_list,
    host,
    updates,
)


async def ask(request: PermissionRequest) -> bool:
    return request.tool_call.kind == "read"


async def use() -> None:
    client = AcpClient(
        ["opencode", "acp"],
        cwd=".",
        on_permission=allow_list(kinds=["read"], otherwise=ask),
        fs=LocalFiles("."),
        terminal=LocalTerminals(),
    )
    async with client as agent:
        session = await agent.new_session()
        assert_type(session, AcpSession)

        @session.on(updates.AgentMessageChunk)
        async def show(chunk: updates.AgentMessageChunk) -> None:
            match chunk.content:
                case updates.Text(text=text):
                    assert_type(text, str)
                case _:
                    pass

        @session.on(updates.ToolCall, updates.ToolCallUpdate)
        def tool(update: updates.ToolCall | updates.ToolCallUpdate) -> None:
            assert_type(update.tool_call_id, str)

        @agent.on(updates.Update)
        async def every(update: updates.Update) -> None:
            assert_type(update.turn, int | None)

        await show(updates.AgentMessageChunk(content=updates.Text(text="hi")))
        turn = await session.prompt(["look", updates.Text(text="here")])
        assert_type(turn, Turn)
        assert_type(turn.stop_reason, str)
        async for update in session.updates():
            assert_type(update, updates.Update)
        async for plan in session.updates(updates.Plan):
            assert_type(plan, updates.Plan)
        session.subscribe(tool, updates.ToolCall).dispose()


Runtime().agent("any")(host(["opencode", "acp"]))
