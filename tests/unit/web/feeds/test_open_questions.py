"""The dashboard lists open questions, takes answers, and says how each question was closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from arcp_client import Client, JobContext, Runtime
from tests.unit.web.kit import SOON, Site, site

ANSWER = {"question_id": "q", "value": "yes", "idempotency_key": "k"}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    runtime = Runtime(auth={"a": "alice", "b": "bob"}, policy=lambda *_: True)

    @runtime.agent("asks")
    async def asks(how: dict[str, Any], job: JobContext) -> Any:
        return await job.ask("Deploy with token-of-the-dashboard?", **how)

    async with runtime, Client(runtime, token="a") as client:
        yield client


async def found(served: Site, wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The questions, once they are as wanted."""
    async with asyncio.timeout(SOON):
        while True:
            status, questions = await served.get("api/questions")
            assert status == 200
            if wanted(questions):
                return dict(questions)
            await asyncio.sleep(0.01)


async def test_an_answer_from_the_page_is_taken_with_its_digits_and_only_once(
    client: Client,
) -> None:
    async with site(client, allow_control=True, secrets=["token-of-the-dashboard"]) as served:
        job = await client.submit("asks", {"schema": {"type": "number"}, "timeout": 600})
        listed = await found(served, lambda told: told["open"])
        [question] = listed["open"]
        assert question["text"] == "Deploy with **********?"
        assert (question["job_id"], question["may_answer"]) == (job.id, True)
        link = (await served.get("api/overview"))[1]["link"]["questions"]
        assert link == {"open": 1, "revision": listed["revision"]}
        path = f"api/jobs/{job.id}/answer"
        asked = {**ANSWER, "question_id": question["question_id"]}
        status, refused = await served.post(path, {**asked, "value": "many"})
        assert (status, refused["error"]["code"]) == (400, "INVALID_ANSWER")
        digits = b"0.1000000000000000000000001"
        body = b'{"question_id":"%b","idempotency_key":"k2","value":%b}'
        sent = body % (question["question_id"].encode(), digits)
        status, how = await served.post(path, sent)
        assert (status, how["state"], how["by"]) == (200, "answered", "alice")
        assert (await served.post(path, sent))[0] == 200, "the same answer again"
        status, refused = await served.post(path, {**asked, "value": 2, "idempotency_key": "k3"})
        assert (status, refused["error"]["code"]) == (409, "QUESTION_ANSWERED")
        later = await found(served, lambda told: told["closed"] and not told["open"])
        assert later["revision"] > listed["revision"]
        assert later["closed"][0]["outcome"]["by"] == "alice"
        await job.result()


async def test_expired_and_withdrawn_questions_say_so(client: Client) -> None:
    async with site(client, allow_control=True) as served:
        quick = {"options": ["a", "b"], "default": "b", "timeout": 0.2}
        await (await client.submit("asks", quick)).result()
        job = await client.submit("asks", {"timeout": 600})
        await found(served, lambda told: told["open"])
        await job.cancel()

        def over(told: dict[str, Any]) -> dict[str, Any] | None:
            how = {each["job_id"]: each["outcome"] for each in told["closed"]}.get(job.id)
            return how if how and how["state"] != "closed" else None

        how = over(await found(served, over))
        assert how == {"state": "withdrawn", "reason": "job_ended"}


async def test_questions_can_be_read_and_not_answered_without_control(client: Client) -> None:
    async with site(client) as served:
        status, refused = await served.post("api/jobs/x/answer", ANSWER)
        assert (status, refused["error"]["code"]) == (403, "READ_ONLY")
        assert "answer questions" in refused["error"]["remedy"]
        assert (await served.get("api/questions"))[1]["open"] == []


async def test_a_request_of_another_origin_or_with_a_wrong_body_is_refused(client: Client) -> None:
    async with site(client, allow_control=True) as served:
        status, refused = await served.post(
            "api/jobs/x/answer", ANSWER, Origin="http://evil.example"
        )
        assert status == 403, refused
        for body in ({}, {**ANSWER, "more": 1}, b"no JSON"):
            assert (await served.post("api/jobs/x/answer", body))[0] == 400
        status, refused = await served.post("api/jobs/x/answer", ANSWER)
        assert (status, refused["error"]["code"]) == (404, "QUESTION_NOT_FOUND")


async def test_with_a_login_questions_are_not_for_everybody(client: Client) -> None:
    async with site(client, allow_control=True, token="secret-login") as served:
        assert (await served.get("api/questions"))[0] == 401
        assert (await served.post("api/jobs/x/answer", ANSWER))[0] == 401


async def test_a_runtime_without_questions_has_an_empty_inbox() -> None:
    runtime = Runtime()
    features = ["subscribe", "list_jobs"]
    async with runtime, Client(runtime, features=features) as client, site(client) as served:
        told = (await served.get("api/questions"))[1]
        assert (told["open"], told["closed"], told["truncated"]) == ([], [], False)
