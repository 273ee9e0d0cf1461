"""A hosted agent in an editor: its session is a job, which outlives the editor."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arcp_client.acp import AgentRefused, NotFound
from arcp_client.errors import LinkLost
from tests.unit.acp.kit import chunk, notification
from tests.unit.acp.serving.kit import Talker, editor, hosted


async def echo(agent: Talker, words: str) -> str:
    await agent.send(chunk(f"you said {words}. "))
    return "end_turn"


async def test_an_editor_sees_the_agent_as_if_it_ran_here() -> None:
    async def turn(agent: Talker, words: str) -> str:
        call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Read", "kind": "read"}
        plan = {
            "sessionUpdate": "plan",
            "entries": [{"content": "a", "priority": "high", "status": "completed"}],
        }
        await agent.send(
            notification(
                {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "?"}}
            ),
            notification(plan),
            notification({**call, "rawInput": {"path": "x"}, "_meta": {"own": 1}}),
            notification(
                {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}
            ),
            chunk("hello"),
            notification(
                {
                    "sessionUpdate": "agent_message_chunk",
                    "content": {"type": "text", "text": " world"},
                    "messageId": "m1",
                }
            ),
            notification({"sessionUpdate": "future", "a": 1}),
        )
        return "max_tokens"

    async with hosted(turn) as (runtime, agents), editor(runtime) as first:
        assert first.acp.info is not None
        assert first.acp.info.name == "acp"
        session = await first.new()
        assert session.state.mode == "ask"
        await session.set_mode("ask")
        done = await session.prompt("go")
        assert done.stop_reason == "max_tokens"
        sent = [message["params"]["update"] for message in (await _sent(turn))]
        assert first.shown == sent
        async with editor(runtime) as second:
            await second.load(session.id)
            assert second.shown == [
                {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "go"}},
                *sent,
            ]
        assert len(agents.made) == 1


async def _sent(turn: Any) -> list[dict[str, Any]]:
    """What a turn sends, by itself."""

    class Recorder:
        def __init__(self) -> None:
            self.messages: list[dict[str, Any]] = []

        async def send(self, *messages: Any) -> None:
            self.messages.extend(messages)

    recorder = Recorder()
    await turn(recorder, "")
    return recorder.messages


async def test_the_next_editor_sees_the_turn_that_was_running_and_its_end() -> None:
    go = asyncio.Event()

    async def turn(agent: Talker, words: str) -> str:
        await agent.send(chunk("one "))
        await go.wait()
        await agent.send(chunk("two"))
        return "end_turn"

    async with hosted(turn) as (runtime, agents):
        async with editor(runtime) as first:
            session = await first.new()
            prompting = asyncio.ensure_future(session.prompt("go"))
            await first.until("one ")
            await first.kill()
            with pytest.raises(LinkLost):
                await prompting
        async with editor(runtime) as second:
            again = await second.load(session.id)
            assert second.text == "[go]one "
            resent = asyncio.ensure_future(again.prompt("go"))
            await asyncio.sleep(0)
            go.set()
            assert (await resent).stop_reason == "end_turn"
            assert second.text == "[go]one two"
        async with editor(runtime) as third:
            await third.load(session.id)
            assert third.text == "[go]one two"
        assert [call for agent in agents.made for call in agent.calls].count("session/prompt") == 1


async def test_a_cancel_ends_the_turn_and_not_the_session() -> None:
    async def turn(agent: Talker, words: str) -> str:
        if words == "wait":
            await agent.send(chunk("waiting "))
            await agent.next("session/cancel")
            return "cancelled"
        return await echo(agent, words)

    async with hosted(turn) as (runtime, _), editor(runtime) as first:
        session = await first.new()
        prompting = asyncio.ensure_future(session.prompt("wait"))
        await first.until("waiting ")
        async with editor(runtime) as second:
            other = await second.load(session.id)
            await other.cancel()
            assert (await prompting).stop_reason == "cancelled"
        assert (await session.prompt("on")).stop_reason == "end_turn"
        assert first.text == "waiting you said on. "


async def test_an_open_question_is_asked_again_and_answered_once() -> None:
    answers: list[str] = []

    async def turn(agent: Talker, words: str) -> str:
        asking = agent.request(
            "session/request_permission",
            sessionId="s1",
            toolCall={"toolCallId": "t", "title": "Run make", "kind": "execute"},
            options=[
                {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
                {"optionId": "no", "name": "No", "kind": "reject_once"},
            ],
        )
        await agent.send(asking)
        outcome = (await agent.reply_to(asking))["result"]["outcome"]
        answers.append(outcome["optionId"])
        await agent.send(chunk(outcome["optionId"]))
        return "end_turn"

    asked = asyncio.Event()

    async def never(request: Any) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    seen: list[Any] = []

    def yes(request: Any) -> str:
        seen.append((request.tool_call.title, [one.kind for one in request.options]))
        return "yes"

    async with hosted(turn) as (runtime, _):
        async with editor(runtime, on_permission=never) as first:
            session = await first.new()
            prompting = asyncio.ensure_future(session.prompt("go"))
            await asked.wait()
            await first.kill()
            with pytest.raises(LinkLost):
                await prompting
        async with editor(runtime, on_permission=yes) as second:
            again = await second.load(session.id)
            assert (await again.prompt("go")).stop_reason == "end_turn"
            assert seen == [("Run make", ["allow_once", "reject_once"])]
        async with editor(runtime, on_permission=yes) as third:
            await third.load(session.id)
            assert third.text == "[go]yes"
        assert len(seen) == 1
        assert answers == ["yes"]


async def test_two_editors_share_a_session_in_one_order() -> None:
    async with hosted(echo) as (runtime, _), editor(runtime) as first, editor(runtime) as second:
        session = await first.new()
        await session.prompt("a")
        other = await second.load(session.id)
        await other.prompt("b")
        await first.until("said b")
        await session.prompt("c")
        assert first.text == "you said a. [b]you said b. you said c. "
        await second.until("said c")
        assert second.text == "[a]you said a. you said b. [c]you said c. "


async def test_the_agent_is_ended_while_nothing_happens_and_continues_with_the_next_prompt() -> (
    None
):
    async with hosted(echo, idle=0.01) as (runtime, agents), editor(runtime) as first:
        session = await first.new()
        await session.prompt("a")
        await asyncio.gather(*agents.tasks, return_exceptions=True)
        await session.prompt("b")
        assert first.text == "you said a. you said b. "
        assert "session/load" in agents.made[-1].calls


async def test_a_job_that_ended_is_continued_by_another_one() -> None:
    async with hosted(echo) as (runtime, agents), editor(runtime) as first:
        session = await first.new()
        await session.prompt("a")
        await first.acp.request("session/close", {"sessionId": session.id})
        await asyncio.gather(*agents.tasks, return_exceptions=True)
        await session.prompt("b")
        async with editor(runtime) as second:
            await second.load(session.id)
            assert second.text == "[a]you said a. [b]you said b. "
            assert [s.session_id async for s in second.acp.list_sessions()] == [session.id]
        assert [job.status async for job in first.client.jobs()] == ["success", "running"]


async def test_an_error_of_the_agent_ends_the_turn_and_is_part_of_the_transcript() -> None:
    async def turn(agent: Talker, words: str) -> str:
        return "error" if words == "bad" else await echo(agent, words)

    async with hosted(turn) as (runtime, _), editor(runtime) as first:
        session = await first.new()
        with pytest.raises(AgentRefused, match="log in first"):
            await session.prompt("bad")
        await session.prompt("a")
        assert first.text == "[INTERNAL_ERROR: log in first]\nyou said a. "


async def test_a_session_that_does_not_exist_is_refused() -> None:
    async with hosted(echo) as (runtime, _), editor(runtime) as first:
        for name in ("01K0000000000000000000000A", "nonsense"):
            with pytest.raises(NotFound, match="there is no session"):
                await first.load(name)


async def test_the_same_process_can_load_its_session_again() -> None:
    async with hosted(echo) as (runtime, _), editor(runtime) as first:
        session = await first.new()
        await session.prompt("a")
        first.shown.clear()
        await session.load("/")
        assert first.text == "[a]you said a. "
