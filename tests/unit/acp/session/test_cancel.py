"""A cancelled turn: the agent is told, open questions are answered, nobody waits for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arcp_client.acp import AcpLimits, CallCancelled, updates
from arcp_client.errors import LinkLost, RequestTimeout
from tests.unit.acp.kit import FakeAgent, chunk, connected, opened, settled, words


def permission(agent: FakeAgent, name: str) -> dict[str, Any]:
    return agent.request(
        "session/request_permission",
        sessionId="s1",
        toolCall={"toolCallId": name},
        options=[{"optionId": "yes", "name": "Yes", "kind": "allow_once"}],
    )


async def test_cancelling_the_task_tells_the_agent_and_answers_open_permissions() -> None:
    asked: list[Any] = []

    async def ask(request: Any) -> bool:
        asked.append(request)
        await asyncio.Event().wait()
        return True

    async with connected(on_permission=ask) as (agent, client):
        session = await opened(agent, client)
        prompting = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        open_ = [permission(agent, "1"), permission(agent, "2")]
        await agent.send(*open_)
        await settled()
        assert len(asked) == 2
        prompting.cancel()
        late = permission(agent, "3")
        replies = [await agent.next() for _ in range(3)]
        assert {m.get("method") for m in replies} == {None, "session/cancel"}
        await agent.send(late)
        replies.append(await agent.next())
        answers = {m["id"]: m["result"] for m in replies if "id" in m}
        cancelled = {"outcome": {"outcome": "cancelled"}}
        assert answers == {m["id"]: cancelled for m in (*open_, late)}
        assert len(asked) == 2  # the late one asks nobody
        assert not prompting.done()
        await agent.send(chunk("last words"), agent.answer(call, {"stopReason": "cancelled"}))
        with pytest.raises(asyncio.CancelledError):
            await prompting
        assert session.last_turn is not None
        assert session.last_turn.stop_reason == "cancelled"
        after = permission(agent, "4")
        await agent.send(after)
        await settled()
        assert len(asked) == 3  # a new turn asks again


async def test_cancel_ends_the_turn_in_the_agents_words_and_ours() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        got: list[str] = []
        session.subscribe(lambda u: got.append(words(u)), updates.AgentMessageChunk)
        prompting = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        await session.cancel()
        assert (await agent.next("session/cancel"))["params"] == {"sessionId": "s1"}
        await agent.send(*map(chunk, range(5)), agent.answer(call, {"stopReason": "end_turn"}))
        turn = await prompting
        assert (turn.stop_reason, turn.cancel_requested) == ("end_turn", True)
        assert got == ["0", "1", "2", "3", "4"]


async def test_a_permission_that_waits_for_its_turn_is_answered_on_cancel() -> None:
    async with connected(on_permission=lambda _: True) as (agent, client):
        session = await opened(agent, client)
        gate = asyncio.Event()

        @session.on(updates.AgentMessageChunk)
        async def slow(_: Any) -> None:
            await gate.wait()

        prompting = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        queued = permission(agent, "1")
        await agent.send(chunk("a"), queued)
        await settled()
        await session.cancel()
        reply = await agent.reply_to(queued)
        assert reply["result"] == {"outcome": {"outcome": "cancelled"}}
        gate.set()
        await agent.result(call, {"stopReason": "cancelled"})
        await prompting


async def test_updates_of_a_cancelled_turn_are_its_own_and_the_next_prompt_waits() -> None:
    async with connected(limits=AcpLimits(cancel=0.01)) as (agent, client):
        session = await opened(agent, client)
        got: list[tuple[str, int | None]] = []
        session.subscribe(lambda u: got.append((words(u), u.turn)), updates.AgentMessageChunk)
        first = asyncio.ensure_future(session.prompt("one"))
        call = await agent.next("session/prompt")
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first  # the agent does not answer within the limit
        second = asyncio.ensure_future(session.prompt("two"))
        await settled()
        await agent.send(chunk("old"), agent.answer(call, {"stopReason": "cancelled"}))
        call = await agent.next("session/prompt")
        await agent.send(chunk("new"), agent.answer(call, {"stopReason": "end_turn"}))
        assert (await second).number == 2
        assert got == [("old", 1), ("new", 2)]


@pytest.mark.parametrize("how", ["session.cancel", "task.cancel"])
async def test_a_second_cancel_kills_an_agent_that_does_not_end_the_turn(how: str) -> None:
    async with connected(limits=AcpLimits(kill=0.02)) as (agent, client):
        session = await opened(agent, client)
        prompting = asyncio.ensure_future(session.prompt("go"))
        await agent.next("session/prompt")
        if how == "session.cancel":
            await session.cancel()
            await session.cancel()
            with pytest.raises(LinkLost, match="a cancelled turn did not end within 0.02 s"):
                await prompting
        else:
            prompting.cancel()
            await settled()
            prompting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await prompting
            lost = await client.wait_closed()
            assert "a cancelled turn did not end" in str(lost)


async def test_a_second_cancel_spares_an_agent_that_ends_the_turn_in_time() -> None:
    async with connected(limits=AcpLimits(kill=30)) as (agent, client):
        session = await opened(agent, client)
        prompting = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        await session.cancel()
        await session.cancel()
        await agent.result(call, {"stopReason": "cancelled"})
        assert (await prompting).cancel_requested
        assert not client._connection.closed.done()  # type: ignore[union-attr]


async def test_a_result_that_came_is_not_lost_by_a_time_out_over_handlers() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        gate = asyncio.Event()

        @session.on(updates.AgentMessageChunk)
        async def slow(_: Any) -> None:
            await gate.wait()

        prompting = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        await agent.send(chunk("a"), agent.answer(call, {"stopReason": "end_turn"}))
        await settled()
        prompting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await prompting
        assert session.last_turn is not None
        assert session.last_turn.stop_reason == "end_turn"
        assert not session.busy
        gate.set()
        assert "session/cancel" not in [m.get("method") for m in agent.seen]


async def test_the_agent_may_take_back_a_request() -> None:
    stopped = asyncio.Event()

    async def ask(_: Any) -> bool:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return True

    async with connected(on_permission=ask) as (agent, client):
        await opened(agent, client)
        request = permission(agent, "1")
        await agent.send(request)
        await settled()
        params = {"requestId": request["id"]}
        await agent.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params})
        assert (await agent.reply_to(request))["error"]["code"] == -32800
        await stopped.wait()
        for odd in ([1], None, {"requestId": [1]}, {"requestId": 77}):
            await agent.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": odd})
        await settled()


async def test_a_call_that_times_out_is_taken_back_once_and_its_late_answer_is_ignored() -> None:
    async with connected() as (agent, client):
        odd: list[Any] = []
        client.on_strange(odd.append)
        calling = asyncio.ensure_future(client.request("x/slow", {}, timeout=0.01))
        call = await agent.next("x/slow")
        with pytest.raises(RequestTimeout, match="x/slow was not answered within 0.01 s"):
            await calling
        cancel = await agent.next("$/cancel_request")
        assert cancel["params"] == {"requestId": call["id"]}
        await agent.result(call, {})
        again = asyncio.ensure_future(client.request("x/again", {}))
        other = await agent.next()
        assert other["method"] == "x/again"
        assert other["id"] != call["id"]
        await agent.refuse(other, {"code": -32800, "message": "cancelled"})
        with pytest.raises(CallCancelled):
            await again
        assert not odd


async def test_cancelling_new_leaves_no_session_behind() -> None:
    async with connected() as (agent, client):
        opening = asyncio.ensure_future(client.new_session())
        call = await agent.next("session/new")
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await agent.next("$/cancel_request")
        await agent.result(call, {"sessionId": "s1"})
        await settled()
        assert not client._connection.sessions  # type: ignore[union-attr]
