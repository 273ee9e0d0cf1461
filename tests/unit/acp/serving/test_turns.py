"""An agent of one input and one result in an editor: each prompt is a job."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arcp_client import Client, Runtime, errors
from arcp_client.acp import AgentRefused, serve
from arcp_client.errors import LinkLost
from arcp_client.transports import memory_pair
from tests.unit.acp.serving.kit import editor


async def test_events_of_a_job_are_updates_and_its_end_is_the_answer() -> None:
    runtime = Runtime()

    @runtime.agent("acp")
    async def agent(input: Any, job: Any) -> Any:
        await job.thought("hm")
        async with job.tool("search", {"q": input}) as call:
            call.result = ["found"]
        return {"answer": 42}

    async with editor(runtime) as first:
        session = await first.new()
        assert (await session.prompt("what?")).stop_reason == "end_turn"
        kinds = [update["sessionUpdate"] for update in first.shown]
        assert kinds == [
            "agent_thought_chunk",
            "tool_call",
            "tool_call_update",
            "agent_message_chunk",
        ]
        assert '"answer": 42' in first.text
        async with editor(runtime) as second:
            await second.load(session.id)
            assert second.shown == first.shown


async def test_a_prompt_that_is_sent_again_joins_its_job() -> None:
    runtime, runs, go = Runtime(), [], asyncio.Event()

    @runtime.agent("acp")
    async def agent(input: Any, job: Any) -> Any:
        runs.append(input)
        await job.chunk("one ")
        if input == "wait":
            await go.wait()
        await job.chunk("two ")

    async with editor(runtime) as first:
        session = await first.new()
        await session.prompt("first")
        prompting = asyncio.ensure_future(session.prompt("wait"))
        await first.until("one two one")
        await first.kill()
        with pytest.raises(LinkLost):
            await prompting
    async with editor(runtime) as second:
        again = await second.load(session.id)
        resent = asyncio.ensure_future(again.prompt("wait"))
        go.set()
        assert (await resent).stop_reason == "end_turn"
        assert second.text == "one two one two "
        await again.prompt("next")
    assert runs == ["first", "wait", "next"]


async def test_a_cancel_ends_the_job() -> None:
    runtime = Runtime()

    @runtime.agent("acp")
    async def agent(input: Any, job: Any) -> None:
        await job.thought("hm")
        await job.cancelled.wait()

    async with editor(runtime) as first:
        session = await first.new()
        prompting = asyncio.ensure_future(session.prompt("go"))
        await first.until("hm")
        await session.cancel()
        assert (await prompting).stop_reason == "cancelled"


async def test_a_failure_is_shown_and_is_the_error_of_the_prompt() -> None:
    runtime = Runtime()

    @runtime.agent("acp")
    async def agent(input: Any, job: Any) -> None:
        raise errors.JobFailed("no disk", code="NO_DISK")

    async with editor(runtime) as first:
        session = await first.new()
        with pytest.raises(AgentRefused, match="no disk"):
            await session.prompt("go")
        assert first.text == "[NO_DISK: no disk]\n"


async def test_a_question_with_options_is_a_permission_request() -> None:
    runtime = Runtime()

    @runtime.agent("acp")
    async def agent(input: Any, job: Any) -> Any:
        return await job.ask("Which?", options=[(1, "One"), (2, "Two")])

    def second_option(request: Any) -> str:
        assert [option.name for option in request.options] == ["One", "Two"]
        return str(request.options[1].option_id)

    async with editor(runtime, on_permission=second_option) as first:
        session = await first.new()
        await session.prompt("go")
        assert "2" in first.text


async def test_an_agent_that_does_not_exist_is_named() -> None:
    runtime = Runtime()
    runtime.agent("other")(_nothing)
    async with Client(runtime) as client:
        with pytest.raises(errors.AgentNotFound, match="no agent 'acp'; it has other"):
            await serve(client, "acp", transport=memory_pair()[0])


async def _nothing(input: Any, job: Any) -> None:
    return None
