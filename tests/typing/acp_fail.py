"""What both checkers must refuse of the client of ACP agents."""
# pyright: reportUnnecessaryTypeIgnoreComment=error

from __future__ import annotations

from arcp_client.acp import AcpSession, updates


async def of_plan(update: updates.Plan) -> None: ...


async def wrong(session: AcpSession) -> None:
    session.on(updates.ToolCall)(of_plan)  # type: ignore[arg-type]
    session.on(updates.Plan, updates.ToolCall)(of_plan)  # type: ignore[arg-type]
    session.on(of_plan)  # type: ignore[call-overload]
    session.on(int)  # type: ignore[type-var]
    await session.prompt(5)  # type: ignore[arg-type]
