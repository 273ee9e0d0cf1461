"""Agents of the official SDKs, Python and npm: in order, and every service from end to end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from arcp_client.acp import AcpClient, AgentRefused, LocalFiles, LocalTerminals, updates

pytestmark = pytest.mark.usefixtures("forked_sdk")

# How long the handlers of five updates take, in ms: unordered, they end the other way round.
DELAYS = [150, 120, 90, 60, 30]


class Slow:
    def __init__(self) -> None:
        self.ended: list[str] = []

    async def __call__(self, update: Any) -> None:
        await asyncio.sleep(DELAYS[int(update.content.text)] / 1000)
        self.ended.append(update.content.text)


@pytest.mark.parametrize("call", ["prompt", "load", "resume"])
async def test_five_updates_are_done_in_order_before_the_call_returns(
    sdk_agent: dict[str, Any], call: str
) -> None:
    async with AcpClient(**sdk_agent) as agent:
        session = await agent.new_session() if call == "prompt" else agent.session("s1")
        slow = Slow()
        session.subscribe(slow, updates.AgentMessageChunk)
        if call == "prompt":
            await session.prompt("five")
        else:
            await getattr(session, call)()
        assert slow.ended == ["0", "1", "2", "3", "4"]


async def test_two_hundred_turns_never_end_before_their_update(sdk_agent: dict[str, Any]) -> None:
    async with AcpClient(**sdk_agent) as agent:
        session = await agent.new_session()
        done: list[str] = []

        @session.on(updates.AgentMessageChunk)
        async def handle(update: Any) -> None:
            await asyncio.sleep(0)
            done.append(update.content.text)

        for number in range(200):
            await session.prompt(f"one {number}")
            assert done[-1] == str(number)


async def said(agent: AcpClient, words: str) -> tuple[str, Any]:
    session = await agent.new_session()
    got: list[str] = []
    with_dispose = session.subscribe(
        lambda u: got.append(u.content.text), updates.AgentMessageChunk
    )
    turn = await session.prompt(words)
    with_dispose.dispose()
    return "".join(got), turn


async def test_services_from_end_to_end(sdk_agent: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the file")
    (tmp_path.parent / "outside").write_text("secret")
    seen: list[str] = []

    async def ask(request: Any) -> bool:
        seen.append(request.tool_call.title)
        return True

    client = AcpClient(
        **sdk_agent,
        cwd=tmp_path,
        on_permission=ask,
        fs=LocalFiles(tmp_path),
        terminal=LocalTerminals(),
    )
    async with client as agent:
        assert (await said(agent, f"read {tmp_path}/file"))[0] == "in the file"
        assert (await said(agent, "ask"))[0] == "yes"
        assert seen == ["Edit"]
        assert (await said(agent, "run echo_hi;exit_3"))[0] == "hi\n3"
        assert (await said(agent, "run sleep_1000"))[0] == "SIGTERM"
        with pytest.raises(AgentRefused):
            await said(agent, f"read {tmp_path.parent}/outside")
        with pytest.raises(AgentRefused):
            await said(agent, "fail")
        assert [one.session_id async for one in agent.list_sessions()] == ["s1"]


async def test_a_turn_is_cancelled(sdk_agent: dict[str, Any]) -> None:
    async with AcpClient(**sdk_agent) as agent:
        session = await agent.new_session()
        got: list[str] = []

        @session.on(updates.AgentMessageChunk)
        async def handle(update: Any) -> None:
            got.append(update.content.text)
            if update.content.text == "waiting":
                await session.cancel()

        turn = await session.prompt("wait")
        assert (turn.stop_reason, turn.cancel_requested) == ("cancelled", True)
        assert got == ["waiting", "stopped"]


async def test_without_services_the_agent_is_told_so(sdk_agent: dict[str, Any]) -> None:
    async with AcpClient(**sdk_agent) as agent:
        assert agent.info is not None
        assert agent.info.name in ("py agent", "npm agent")
        with pytest.raises(AgentRefused):
            await said(agent, "read /etc/passwd")
        assert (await said(agent, "ask"))[0] == "no"
