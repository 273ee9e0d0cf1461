"""A hosted agent's permissions and forms are questions; messages of people are its next prompts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arcp_client import Client, Lease, Runtime, errors, events
from arcp_client.acp import host, permissions
from arcp_client.errors import JobCancelled
from tests.unit.acp.host.test_jobs import Agents, Served, hosted
from tests.unit.acp.kit import chunk

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
LEASE = Lease({"tool.call": ["run"]})


async def permission(agent: Served, name: str = "run") -> str:
    """Ask the client for a permission; the chosen option."""
    asking = agent.request(
        "session/request_permission",
        sessionId="s1",
        toolCall={"toolCallId": "t", "title": "Run make", "kind": "execute", "name": name},
        options=OPTIONS,
    )
    await agent.send(asking)
    outcome = (await agent.reply_to(asking))["result"]["outcome"]
    return str(outcome.get("optionId", outcome["outcome"]))


async def test_a_permission_is_answered_once_from_another_client() -> None:
    async def turn(agent: Served) -> None:
        await agent.send(chunk(await permission(agent)))
        await agent.end()

    async with hosted(turn, ask=True) as (client, agents):
        job = await client.submit("acp", "do it", lease=LEASE)
        async for event in job.events(events.Question):
            assert isinstance(event, events.Question)
            assert event.text == "May the agent do this? Run make"
            assert [choice.label for choice in event.options] == ["Yes", "No"]
            await client.answer(job.id, event.question_id, "no")
            with pytest.raises(errors.QuestionAnswered) as caught:
                await job.answer(event.question_id, "yes")
            assert caught.value.value == "no"
            break
        assert (await job.result()).value == "no"
        assert len(agents.made) == 1


async def test_the_lease_decides_what_may_be_asked_and_a_local_policy_comes_first() -> None:
    def local(request: permissions.PermissionRequest) -> permissions.Answer:
        return True if request.tool_call.name == "run" else permissions.ASK

    async def turn(agent: Served) -> None:
        await agent.send(chunk(await permission(agent, "run")))
        await agent.send(chunk(await permission(agent, "rm")))
        await agent.end()

    async with hosted(turn, ask=True, policy=local) as (client, _):
        job = await client.submit("acp", "do it", lease=LEASE)
        asked = [event async for event in job if isinstance(event, events.Question)]
        assert (await job.result()).value == "yesno"
        assert asked == []


async def test_nobody_answers_and_the_permission_is_rejected() -> None:
    async def turn(agent: Served) -> None:
        await agent.send(chunk(await permission(agent)))
        await agent.end()

    async with hosted(turn, ask=True, ask_timeout=0.01) as (client, _):
        job = await client.submit("acp", "do it", lease=LEASE)
        assert (await job.result()).value == "no"


async def test_a_client_that_cannot_answer_leaves_it_to_the_lease() -> None:
    async def turn(agent: Served) -> None:
        await agent.send(chunk(await permission(agent)))
        await agent.end()

    agents = Agents(turn)
    async with Runtime() as runtime:
        runtime.agent("acp")(host(agents, ask=True))
        async with Client(runtime, features=["result_chunk"]) as plain:
            job = await plain.submit("acp", "do it", lease=LEASE)
            assert (await job.result()).value == "yes"
    await asyncio.gather(*agents.tasks)


async def test_a_cancelled_turn_withdraws_the_question() -> None:
    async def turn(agent: Served) -> None:
        answer = await permission(agent)
        assert answer == "cancelled"
        await agent.end("cancelled")

    async with hosted(turn, ask=True) as (client, _):
        job = await client.submit("acp", "do it", lease=LEASE)
        withdrawn = 0
        async for event in job:
            if isinstance(event, events.Question):
                await job.cancel()
            withdrawn += isinstance(event, events.Withdrawn)
        with pytest.raises(JobCancelled):
            await job.result()
        assert withdrawn == 1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [({"name": "Ada"}, "accept"), ("decline", "decline")],
)
async def test_an_elicited_form_is_a_question_with_its_schema(answer: Any, expected: str) -> None:
    async def turn(agent: Served) -> None:
        asking = agent.request(
            "elicitation/create",
            mode="form",
            sessionId="s1",
            message="Who are you?",
            requestedSchema={
                "type": "object",
                "properties": {"name": {"type": "string", "minLength": 2}},
                "required": ["name"],
            },
        )
        await agent.send(asking)
        await agent.send(chunk((await agent.reply_to(asking))["result"]["action"]))
        await agent.end()

    async with hosted(turn, ask=True) as (client, _):
        job = await client.submit("acp", "do it")
        async for event in job.events(events.Question):
            assert isinstance(event, events.Question)
            with pytest.raises(errors.InvalidAnswer):
                await job.answer(event.question_id, {"name": 1})
            await job.answer(event.question_id, answer)
            break
        assert (await job.result()).value == expected


async def test_a_message_is_the_next_prompt_and_steering_cancels_the_turn() -> None:
    prompts: list[Any] = []

    async def turn(agent: Served) -> None:
        prompts.append(agent.prompt["params"]["prompt"][0]["text"])
        await agent.send(chunk("first "))
        await agent.next("session/cancel")
        await agent.end("cancelled")
        for word in ("second ", "third"):
            agent.prompt = await agent.next("session/prompt")
            prompts.append(agent.prompt["params"]["prompt"][0]["text"])
            await agent.send(chunk(word))
            await agent.end()

    async with hosted(turn) as (client, _):
        job = await client.submit("acp", "begin")
        async for event in job.events(events.ResultChunk):
            assert isinstance(event, events.ResultChunk)
            await job.send("not that file", mode="steer")
            await job.send({"prompt": "and the tests"})
            break
        assert (await job.result()).value == "first second third"
        logs = [event.message async for event in job.events(events.Log)]
    assert prompts == ["begin", "not that file", "and the tests"]
    assert any("the turn is cancelled" in line for line in logs)
