"""Questions through the public client: handlers answer, devices race, the inbox follows."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

from arcp_client import Client, JobContext, Runtime, errors, events
from arcp_client.testing import FaultyProxy


def asks(runtime: Runtime) -> None:
    @runtime.agent("asks")
    async def asks(input: Any, job: JobContext) -> Any:
        return await job.ask("Deploy?", schema=Literal["yes", "no"], **(input or {}))


async def question_of(job: Any) -> events.Question:
    async for event in job.events(events.Question):
        assert isinstance(event, events.Question)
        return event
    raise AssertionError("the job ended without a question")


async def test_a_handler_answers_in_order_with_other_events(
    runtime: Runtime, client: Client
) -> None:
    asks(runtime)

    @client.on(events.Question)
    async def decide(event: events.Question) -> None:
        assert event.job_id is not None
        taken = await client.answer(event.job_id, event.question_id, "yes")
        assert (taken.value, taken.question_id) == ("yes", event.question_id)

    job = await client.submit("asks")
    kinds = [type(event).__name__ async for event in job]
    assert kinds == ["Question", "Answered", "Completed"]
    assert (await job.result()).value == "yes"


async def test_late_devices_are_told_who_was_first(runtime: Runtime, client: Client) -> None:
    asks(runtime)
    job = await client.submit("asks")
    question = await question_of(job)
    async with Client(runtime) as phone:
        view = await phone.watch(job.id, history=True)
        await view.answer(question.question_id, "no")
        with pytest.raises(errors.QuestionAnswered) as caught:
            await job.answer(question.question_id, "yes")
    assert (caught.value.value, caught.value.by) == ("no", "anonymous")
    assert caught.value.client.startswith("arcp-client ")
    assert caught.value.at
    assert (await job.result()).value == "no"
    with pytest.raises(errors.QuestionNotFound):
        await job.answer("q_made_up", "yes")


async def test_an_invalid_answer_leaves_the_question_open(runtime: Runtime, client: Client) -> None:
    asks(runtime)
    job = await client.submit("asks")
    question = await question_of(job)
    with pytest.raises(errors.InvalidAnswer, match=r"\$: must be one of"):
        await job.answer(question.question_id, "maybe")
    with pytest.raises(ValueError, match=r"value: .*set has no form in JSON"):
        await job.answer(question.question_id, {1})
    assert [q.question_id async for q in client.questions()] == [question.question_id]
    await job.answer(question.question_id, "yes")
    assert [q async for q in client.questions()] == []


async def test_the_inbox_shows_what_is_open_now_and_after_each_change(
    runtime: Runtime, client: Client
) -> None:
    asks(runtime)
    async with Client(runtime) as phone:
        inbox = phone.inbox()
        assert await anext(inbox) == ()
        job = await client.submit("asks", {"default": "no"})
        (question,) = await anext(inbox)
        assert (question.job_id, question.agent, question.text) == (job.id, "asks", "Deploy?")
        assert (question.has_default, question.default, question.may_answer) == (True, "no", True)
        await phone.answer(question.job_id, question.question_id, "yes")
        assert await anext(inbox) == ()
    with pytest.raises(errors.ClientClosed):
        await anext(inbox)


async def test_an_expired_question_is_the_error_of_its_job(
    runtime: Runtime, client: Client
) -> None:
    asks(runtime)
    job = await client.submit("asks", {"timeout": 0.01})
    with pytest.raises(errors.QuestionExpired):
        await job.result()


async def test_x2_a_runtime_without_questions_is_named_before_anything_is_sent(
    runtime: Runtime,
) -> None:
    async with Client(runtime, features=["heartbeat"]) as client:
        for call in (
            client.answer("job", "q", 1),
            anext(client.questions()),
            anext(client.inbox()),
            client.submit("echo", work_id="w"),
        ):
            with pytest.raises(
                errors.FeatureNotNegotiated, match=r"x-vendor.arcp-client.(ask|work)"
            ):
                await call
        assert (await (await client.submit("echo", 1)).result()).value == 1


async def test_an_answer_over_a_cut_link_is_taken_once(runtime: Runtime) -> None:
    asks(runtime)
    async with (
        runtime.serve() as server,
        FaultyProxy(server.url) as proxy,
        Client(proxy.url) as client,
    ):
        for _ in range(5):
            job = await client.submit("asks")
            question = await question_of(job)
            answering = asyncio.ensure_future(job.answer(question.question_id, "yes"))
            await asyncio.sleep(0)
            proxy.cut()
            assert (await answering).value == "yes"
            assert (await job.result()).value == "yes"
