"""Runs of AG-UI over HTTP: a run is a job, with a cursor, a key and an explicit cancel."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from ag_ui.core import RunAgentInput
from aiohttp import web
from aiohttp.test_utils import TestServer

from arcp_client import Client, Runtime, events
from arcp_client._feeds import history
from arcp_client.web import add_ag_ui_routes
from arcp_client.web.exports import agui_kept
from arcp_client.web.exports.agui import InterruptId
from tests.unit.web.kit import SOON, Gates, agents

INPUTS: dict[str, dict[str, Any]] = {
    "say": {"input": lambda _: {"lines": 20}},
    "gated": {"input": lambda _: "never"},
}
USER = {"id": "u", "role": "user", "content": "five"}


class Front:
    """A front end that reads a stream as it is on the wire."""

    def __init__(self, server: TestServer, http: aiohttp.ClientSession) -> None:
        self.server = server
        self.http = http

    async def post(
        self, path: str, body: dict[str, Any], **headers: str
    ) -> tuple[int, list[tuple[str, dict[str, Any]]] | dict[str, Any]]:
        """The status, and the ids and events of the stream, or the problem."""
        async with (
            asyncio.timeout(SOON),
            self.http.post(self.server.make_url(path), json=body, headers=headers) as response,
        ):
            text = await response.text()
            if response.content_type == "application/json":
                return response.status, json.loads(text)
            return response.status, parsed(text)

    async def run(self, path: str, **given: Any) -> list[tuple[str, dict[str, Any]]]:
        headers = given.pop("headers", {})
        status, events = await self.post(path, request(**given), **headers)
        assert status == 200, events
        assert isinstance(events, list)
        return events

    async def refused(self, path: str, body: dict[str, Any], **headers: str) -> tuple[int, str]:
        status, said = await self.post(path, body, **headers)
        assert isinstance(said, dict)
        return status, said["error"]["code"]


def request(thread: str = "t", run: str = "r", **more: Any) -> dict[str, Any]:
    return {"threadId": thread, "runId": run, "messages": [USER], **more}


def parsed(text: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for frame in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in frame.splitlines() if ": " in line)
        if "data" in fields:
            found.append((fields.get("id", ""), json.loads(fields["data"])))
    return found


def kinds(events: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [event["type"] for _, event in events]


@asynccontextmanager
async def serving(
    gates: Gates | None = None, **options: Any
) -> AsyncIterator[tuple[Front, Client]]:
    async with Runtime() as runtime, Client(runtime) as client:
        agents(runtime, gates or Gates())

        @runtime.agent("asks_two")
        async def asks_two(input: Any, job: Any) -> Any:
            await job.status("asking")
            first, second = await asyncio.gather(job.ask("one?"), job.ask("two?", schema=int))
            return [first, second]

        app = web.Application()
        for name in ("echo", "gated", "asks_two", "say"):
            add_ag_ui_routes(
                app, client, name, path=f"/{name}", **{**INPUTS.get(name, {}), **options}
            )
        async with TestServer(app) as server, aiohttp.ClientSession() as http:
            yield Front(server, http), client


async def count(client: Client) -> int:
    return len([job async for job in client.jobs()])


async def test_the_input_of_the_job_is_the_request_without_state() -> None:
    async with serving() as (front, _):
        events = await front.run("echo", state={"a": 1}, forwardedProps={"n": 1.50})
    given = events[-1][1]["result"]
    assert given == {
        "threadId": "t", "runId": "r", "messages": [USER], "forwardedProps": {"n": 1.5},
    }  # fmt: skip
    assert RunAgentInput.model_validate(given).messages[0].content == "five"


async def test_the_input_of_the_job_can_be_made_of_the_request() -> None:
    async with serving(input=lambda given: given.messages[-1].content) as (front, _):
        events = await front.run("echo")
    assert events[-1][1]["result"] == "five"
    assert kinds(events)[:2] == ["RUN_STARTED", "STATE_SNAPSHOT"]
    assert events[0][1]["runId"] == "r"


async def test_the_same_run_attaches_to_its_job_and_other_requests_are_refused() -> None:
    async with serving() as (front, client):
        first = await front.run("echo")
        again = await front.run("echo", state={"job_id": "other"})
        assert again == first
        assert await count(client) == 1
        other = request(messages=[{**USER, "content": "six"}])
        assert await front.refused("echo", other) == (409, "DUPLICATE_KEY")
        assert await count(client) == 1
        await front.run("echo", run="r2", messages=[])
        assert await count(client) == 2


async def test_the_key_of_the_header_is_the_key_of_the_submit() -> None:
    async with serving() as (front, client):
        key = {"Idempotency-Key": "mine"}
        first = await front.run("echo", headers=key)
        job = await client.submit("echo", {"not": "it"})
        assert (await front.run("echo", headers=key))[-1] == first[-1]
        assert await front.refused("echo", request(run="r2"), **key) == (409, "DUPLICATE_KEY")
        assert await count(client) == 2
        assert await front.refused("echo", request(), **{"Idempotency-Key": "x" * 257}) == (
            400,
            "INVALID_KEY",
        )
        assert job.id


async def test_a_cursor_continues_exactly_and_an_unknown_one_is_refused_by_name() -> None:
    async with serving() as (front, _):
        whole = await front.run("say", messages=[])
        assert all(cursor for cursor, _ in whole)
        assert len({cursor for cursor, _ in whole}) == len(whole)
        for n, (cursor, _) in enumerate(whole):
            rest = await front.run("say", messages=[], headers={"Last-Event-ID": cursor})
            assert rest == whole[n + 1 :]
        body = request(messages=[])
        assert await front.refused("say", body, **{"Last-Event-ID": "~-99.0"}) == (
            410,
            "CURSOR_EXPIRED",
        )


async def test_a_closed_connection_leaves_the_job_running_and_a_cancel_ends_it() -> None:
    gates = Gates()
    async with serving(gates) as (front, client):
        url = front.server.make_url("gated")
        body = request(messages=[])
        async with front.http.post(url, json=body) as response:
            assert b"retry" in await response.content.readuntil(b"\n\n")
        [job] = client.open_jobs()
        assert job.status in ("pending", "running")
        gone = {"threadId": "t", "runId": "other"}
        assert await front.refused("gated/cancel", gone) == (404, "RUN_NOT_FOUND")
        status, said = await front.post("gated/cancel", {"threadId": "t", "runId": "r"})
        assert (status, said) == (202, {"job_id": job.id})
        events = await front.run("gated", messages=[])
        assert events[-1][1]["outcome"] == {"type": "cancelled"}


async def test_a_run_can_be_followed_with_get() -> None:
    async with serving() as (front, _):
        whole = await front.run("echo")
        url = front.server.make_url("echo").with_query(threadId="t", runId="r")
        async with front.http.get(url) as response:
            assert parsed(await response.text()) == whole
        async with front.http.get(url.update_query(runId="x")) as response:
            assert response.status == 404


async def test_two_open_questions_are_asked_together_to_a_front_end_that_comes_back() -> None:
    async with serving() as (front, client):
        events = await front.run("asks_two")
        [one] = events[-1][1]["outcome"]["interrupts"]
        assert one["message"] == "one?"
        async for questions in client.inbox():
            if len(questions) == 2:
                break
        # It has a message of the run, so that it gets a snapshot of the present.
        found = InterruptId.parse(one["id"])
        assert found is not None
        own = {"id": f"{found.prefix}:1", "role": "developer", "content": "x"}
        events = await front.run("asks_two", messages=[USER, own])
        assert kinds(events) == [
            "RUN_STARTED", "MESSAGES_SNAPSHOT", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT",
            "RUN_FINISHED",
        ]  # fmt: skip
        assert events[2][1]["messages"] == [USER]
        asked = events[-1][1]["outcome"]["interrupts"]
        assert [each["message"] for each in asked] == ["one?", "two?"]
        answers = ["yes", 2]
        resume = [
            {"interruptId": each["id"], "status": "resolved", "payload": answer}
            for each, answer in zip(asked, answers, strict=True)
        ]
        events = await front.run("asks_two", run="r2", resume=resume)
        assert events[-1][1]["result"] == answers
        # The same again attaches to the run; other answers under its id are refused.
        assert (await front.run("asks_two", run="r2", resume=resume))[-1] == events[-1]
        resume[0]["payload"] = "no"
        assert await front.refused("asks_two", request(run="r2", resume=resume)) == (
            409,
            "DUPLICATE_KEY",
        )


async def test_a_cancelled_interrupt_leaves_the_question_to_others() -> None:
    async with serving() as (front, client):
        events = await front.run("asks_two")
        [one] = events[-1][1]["outcome"]["interrupts"]
        resume = [{"interruptId": one["id"], "status": "cancelled"}]
        events = await front.run("asks_two", run="r2", resume=resume)
        assert events[-1][1]["outcome"]["interrupts"][0]["message"] == "two?"
        assert len([each async for each in client.questions()]) == 2


@pytest.mark.parametrize("bad", ["", "nonsense", "WyJhIl0", "e30"])
async def test_an_interrupt_that_is_none_is_refused(bad: str) -> None:
    async with serving() as (front, _):
        resume = [{"interruptId": bad, "status": "resolved", "payload": 1}]
        assert await front.refused("asks_two", request(resume=resume)) == (
            404,
            "QUESTION_NOT_FOUND",
        )


async def test_a_job_of_another_agent_cannot_be_continued() -> None:
    async with serving() as (front, client):
        events = await front.run("asks_two")
        [one] = events[-1][1]["outcome"]["interrupts"]
        resume = [{"interruptId": one["id"], "status": "resolved", "payload": "x"}]
        assert await front.refused("echo", request(resume=resume)) == (404, "JOB_NOT_FOUND")
        assert len([each async for each in client.questions()]) >= 1


async def test_bad_requests_say_what_is_wrong() -> None:
    async with serving() as (front, _):
        assert await front.refused("echo", {"threadId": "t"}) == (400, "INVALID_BODY")
        url = front.server.make_url("echo")
        async with front.http.post(url, data=b"{}") as response:
            assert response.status == 415
        async with front.http.post(
            url, data=b"{", headers={"Content-Type": "application/json"}
        ) as response:
            assert response.status == 400


async def test_a_log_that_has_dropped_the_beginning_gives_a_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agui_kept, "MEMORY", 2000)
    async with serving(input=lambda _: {"lines": 50}) as (front, _):
        with contextlib.suppress(aiohttp.ClientPayloadError):  # it is slower than the job
            await front.run("say", messages=[])
        late = await front.run("say", messages=[])
        assert kinds(late) == [
            "RUN_STARTED", "MESSAGES_SNAPSHOT", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT",
            "RUN_FINISHED",
        ]  # fmt: skip
        lines = [f"{n}".ljust(10, ".") for n in range(50)]
        assert [each["content"] for each in late[2][1]["messages"]] == lines


async def test_a_server_that_begins_again_shows_the_state_of_the_whole_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agui_kept, "MEMORY", 20_000)
    monkeypatch.setattr(history, "_PAUSE", 1000.0)  # only the named event ends the history
    monkeypatch.setattr(history, "_LONGEST", 1000.0)
    gates, half = Gates(), 1000
    given = {"lines": 2 * half, "gate": "half"}
    async with Runtime() as runtime, Client(runtime) as first, Client(runtime) as second:
        agents(runtime, gates)

        def server_of(client: Client) -> TestServer:
            app = web.Application()
            add_ag_ui_routes(app, client, "say", path="/say", input=lambda _: given)
            return TestServer(app)

        async with aiohttp.ClientSession() as http:
            async with server_of(first) as server:
                async with http.post(server.make_url("/say"), json=request()):
                    [job] = first.open_jobs()
                async for event in job.events(events.Log):
                    if event.message.rstrip(".") == f"{half - 1}":
                        break
            async with (
                server_of(second) as server,
                http.post(server.make_url("/say"), json=request()) as response,
            ):
                head = [await response.content.readuntil(b"\n\n") for _ in range(5)]
                told = parsed(b"".join(head).decode())
                assert kinds(told) == [
                    "RUN_STARTED", "MESSAGES_SNAPSHOT", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT",
                ]  # fmt: skip
                shown = [each["content"] for each in told[2][1]["messages"][1:]]
                assert shown == [f"{n}".ljust(10, ".") for n in range(half)]
                monkeypatch.undo()  # the front end may read more slowly than the job runs
                gates["half"].set()
                rest = parsed(await response.text())
    later = [event["delta"] for _, event in rest if event["type"] == "TEXT_MESSAGE_CONTENT"]
    assert later == [f"{n}".ljust(10, ".") for n in range(half, 2 * half)]
    assert rest[-1][1]["type"] == "RUN_FINISHED"


async def test_the_end_of_the_server_cuts_its_streams_and_is_no_end_of_the_run() -> None:
    gates = Gates()
    async with serving(gates) as (front, client):
        url = front.server.make_url("gated")
        response = await front.http.post(url, json=request(messages=[]))
        await response.content.readuntil(b"\n\n")
        closing = asyncio.create_task(front.server.close())
        with pytest.raises(aiohttp.ClientError):
            async with asyncio.timeout(SOON):
                await response.read()
        await closing
        [job] = client.open_jobs()
        await job.cancel()
