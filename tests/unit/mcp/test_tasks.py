"""Jobs are tasks of MCP: polled, answered once, cancelled, and finished by another bridge."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

mcp = pytest.importorskip("mcp")

from mcp import MCPError, types  # noqa: E402

from arcp_client import Client, Runtime  # noqa: E402
from arcp_client.mcp import _tasks, server  # noqa: E402
from arcp_client.runtime import JobContext  # noqa: E402
from tests.unit.mcp import mcp_tasks as tasks  # noqa: E402

SOON = 40.0
NONE = "job_00000000000000000000000000"


async def elicited(*_: Any) -> Any:
    """That a client has this callback says that it takes forms."""
    raise AssertionError("requests of tasks are no requests of the server")


@asynccontextmanager
async def connected(
    client: Client,
    *,
    mode: str = "auto",
    elicits: bool = True,
    tasks_of: Any = None,
    **options: Any,
) -> AsyncIterator[tuple[Any, tasks.Tasks]]:
    """An MCP client with the tasks extension, at a bridge of its own."""
    options.setdefault("task_after", 0)
    extension = tasks.Tasks() if tasks_of is None else tasks_of
    bridge = server(client, **options)
    chosen: dict[str, Any] = {"elicitation_callback": elicited} if elicits else {}
    extensions = [extension] if extension else []
    async with asyncio.timeout(SOON), contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(bridge.close)
        yield (
            await stack.enter_async_context(
                mcp.Client(bridge, mode=mode, extensions=extensions, **chosen)
            ),
            extension,
        )


async def begun(tool: Any, name: str, arguments: Any = None, **more: Any) -> tasks.Created:
    created = await tool.session.call_tool(name, arguments or {}, allow_claimed=True, **more)
    assert isinstance(created, tasks.Created), created
    return created


async def test_a_job_that_takes_longer_is_a_task_with_the_id_of_the_job(
    client: Client, agents: Any
) -> None:
    async with connected(client) as (tool, _):
        created = await begun(tool, "wait")
        assert created.status == "working"
        assert client.job(created.task_id) is not None
        assert created.ttl_ms is not None
        assert created.ttl_ms >= 86_400_000
        task = await tasks.get(tool.session, created.task_id)
        assert task.status == "working"
        assert task.created_at == created.created_at
        agents.go.set()
        task = await tasks.ended(tool.session, created.task_id)
        assert task.status == "completed"
        assert task.result is not None
        assert task.result["structuredContent"]["result"] == "late"
        assert task.created_at == created.created_at
        assert task.last_updated_at >= task.created_at


async def test_a_call_ends_like_any_other_for_a_client_that_polls_by_itself(
    client: Client, agents: Any
) -> None:
    async with connected(client) as (tool, _):
        call = asyncio.create_task(tool.call_tool("wait"))
        await agents.started.wait()
        agents.go.set()
        answer = await call
        assert answer.structured_content["result"] == "late"


async def test_a_job_that_ends_soon_is_no_task(client: Client) -> None:
    async with connected(client, task_after=SOON) as (tool, _):
        answer = await tool.session.call_tool("echo", {"input": 5}, allow_claimed=True)
        assert isinstance(answer, types.CallToolResult)
        assert answer.structured_content["result"] == 5


async def test_a_job_that_fails_is_a_completed_task_with_an_error(client: Client) -> None:
    async with connected(client) as (tool, _):
        answer = await tool.session.call_tool("fails", {}, allow_claimed=True)
        at_once = isinstance(answer, types.CallToolResult)  # it may have ended by now
        job_id = answer.structured_content["job_id"] if at_once else answer.task_id
        task = await tasks.ended(tool.session, job_id)
        assert task.status == "completed"
        assert task.result is not None
        assert task.result["isError"] is True
        assert task.result["structuredContent"]["code"] == "DISK_FULL"


async def test_a_cancelled_task_is_a_cancelled_job(client: Client, agents: Any) -> None:
    async with connected(client) as (tool, _):
        created = await begun(tool, "wait")
        await agents.started.wait()
        await tasks.cancel(tool.session, created.task_id)
        task = await tasks.ended(tool.session, created.task_id)
        assert task.status == "cancelled"
        assert agents.ended == ["cancelled"]
        await tasks.cancel(tool.session, created.task_id)


async def test_a_question_is_input_that_is_required_and_is_answered_once(client: Client) -> None:
    async with connected(client) as (tool, _):
        created = await begun(tool, "asks")
        task = await tasks.until(tool.session, created.task_id, "input_required")
        assert task.input_requests is not None
        [(key, asked)] = task.input_requests.items()
        assert asked["method"] == "elicitation/create"
        assert asked["params"]["message"] == "Which colour?"
        assert asked["params"]["requestedSchema"]["properties"] == {"answer": {"type": "string"}}
        response = {"action": "accept", "content": {"answer": "blue"}}
        await tasks.update(tool.session, created.task_id, **{key: response})
        task = await tasks.ended(tool.session, created.task_id)
        assert task.result is not None
        assert task.result["structuredContent"]["result"] == "blue"
        late = await tasks.update(tool.session, created.task_id, **{key: response})
        assert late.meta is not None
        assert late.meta[_tasks.ANSWERS][key]["code"] == "QUESTION_CLOSED"


async def test_a_later_answer_is_told_whose_was_first(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(client) as (tool, _):
        created = await begun(tool, "asks")
        task = await tasks.until(tool.session, created.task_id, "input_required")
        [key] = task.input_requests or {}
        questions = [each async for each in client.questions()]

        async def as_before() -> Any:
            """The list as it was: another one answers between the list and the answer."""
            for each in questions:
                yield each

        monkeypatch.setattr(client, "questions", as_before)
        await client.answer(created.task_id, questions[0].question_id, "red")
        response = {"action": "accept", "content": {"answer": "blue"}}
        told = await tasks.update(tool.session, created.task_id, **{key: response})
        assert told.meta is not None
        refused = told.meta[_tasks.ANSWERS][key]
        assert (refused["code"], refused["value"]) == ("QUESTION_ANSWERED", "red")
        assert refused["by"]


async def test_an_answer_that_does_not_fit_is_refused_and_asked_under_another_key(
    runtime: Runtime, client: Client
) -> None:
    @runtime.agent("counts")
    async def counts(input: Any, job: JobContext) -> Any:
        return await job.ask("How many?", schema=int)

    async with Client(runtime) as other, connected(other) as (tool, _):
        created = await begun(tool, "counts")
        task = await tasks.until(tool.session, created.task_id, "input_required")
        [key] = task.input_requests or {}
        wrong = {"action": "accept", "content": {"answer": "many"}}
        with pytest.raises(MCPError, match="integer"):
            await tasks.update(tool.session, created.task_id, **{key: wrong})
        task = await tasks.get(tool.session, created.task_id)
        [again] = task.input_requests or {}
        assert again != key
        right = {"action": "accept", "content": {"answer": 3}}
        await tasks.update(tool.session, created.task_id, **{again: right})
        task = await tasks.ended(tool.session, created.task_id)
        assert task.result is not None
        assert task.result["structuredContent"]["result"] == 3


async def test_a_declined_request_leaves_the_question_to_others(client: Client) -> None:
    async with connected(client) as (tool, _):
        created = await begun(tool, "asks")
        task = await tasks.until(tool.session, created.task_id, "input_required")
        [key] = task.input_requests or {}
        await tasks.update(tool.session, created.task_id, **{key: {"action": "decline"}})
        assert (await tasks.get(tool.session, created.task_id)).status == "working"
        [question] = [each async for each in client.questions()]
        await client.answer(created.task_id, question.question_id, "red")
        assert (await tasks.ended(tool.session, created.task_id)).status == "completed"


async def test_a_client_without_forms_sees_that_the_agent_asks(client: Client) -> None:
    async with connected(client, elicits=False) as (tool, _):
        created = await begun(tool, "asks")
        async for questions in client.inbox():
            if questions:
                break
        task = await tasks.get(tool.session, created.task_id)
        assert (task.status, task.status_message) == ("working", "the agent asks: Which colour?")


async def test_another_bridge_continues_a_task(
    runtime: Runtime, client: Client, agents: Any
) -> None:
    async with connected(client) as (tool, _):
        created = await begun(tool, "wait")
    async with Client(runtime) as other, connected(other) as (tool, _):
        task = await tasks.get(tool.session, created.task_id)
        assert task.status == "working"
        agents.go.set()
        task = await tasks.ended(tool.session, created.task_id)
        assert task.result is not None
        assert task.result["structuredContent"]["result"] == "late"


async def test_a_task_that_is_not_known_is_invalid(client: Client) -> None:
    async with connected(client) as (tool, _):
        for ask in (tasks.get, tasks.cancel):
            with pytest.raises(MCPError, match="not found") as caught:
                await ask(tool.session, NONE)
            assert caught.value.code == -32602


async def test_only_clients_with_the_extension_get_tasks(client: Client, agents: Any) -> None:
    async with connected(client, tasks_of=False, wait=0) as (tool, _):
        answer = await tool.call_tool("wait")
        assert answer.structured_content["status"] in ("pending", "running")
        with pytest.raises(MCPError) as caught:
            await tasks.get(tool.session, answer.structured_content["job_id"])
        assert caught.value.code == -32021
        agents.go.set()


async def test_a_client_with_a_handshake_gets_no_tasks(client: Client, agents: Any) -> None:
    async with connected(client, mode="legacy", wait=0) as (tool, _):
        answer = await tool.call_tool("wait")
        job_id = answer.structured_content["job_id"]
        with pytest.raises(MCPError) as caught:
            await tasks.get(tool.session, job_id)
        assert caught.value.code == -32601
        agents.go.set()


async def test_the_key_of_a_call_is_the_key_of_the_submit(client: Client) -> None:
    async with connected(client, task_after=SOON) as (tool, _):
        meta = {"arcp-client/idempotencyKey": "mine"}
        first = await tool.call_tool("echo", {"input": 1}, meta=meta)
        again = await tool.call_tool("echo", {"input": 1}, meta=meta)
        assert first.structured_content == again.structured_content
        job = await client.submit("echo", 1, idempotency_key="mine")
        assert job.id == first.structured_content["job_id"]
        other = await tool.call_tool("echo", {"input": 2}, meta=meta)
        assert other.is_error
        assert other.structured_content["code"] == "DUPLICATE_KEY"
        for bad in (5, "", "x" * 257):
            with pytest.raises(MCPError, match="idempotencyKey"):
                await tool.call_tool("echo", {"input": 1}, meta={"arcp-client/idempotencyKey": bad})


async def test_changes_of_tasks_are_sent_to_those_who_listen(client: Client, agents: Any) -> None:
    async with connected(client) as (tool, extension):
        created = await begun(tool, "wait")
        await agents.started.wait()
        listen = types.SubscriptionsListenRequest(
            params=types.SubscriptionsListenRequestParams(
                notifications=types.SubscriptionFilter.model_validate(
                    {"taskIds": [created.task_id]}
                )
            )
        )
        listening = asyncio.create_task(
            tool.session.send_request(listen, types.SubscriptionsListenResult)
        )
        notice = await extension.heard.get()
        assert (notice.task_id, notice.status) == (created.task_id, "working")
        agents.go.set()
        while notice.status == "working":
            notice = await extension.heard.get()
        assert notice.status == "completed"
        assert notice.result is not None
        assert notice.result["structuredContent"]["result"] == "late"
        await listening
