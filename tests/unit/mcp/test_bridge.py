"""Calls of tools become jobs: notifications, typed results, cancellations, jobs that go on."""

from __future__ import annotations

import asyncio
import base64
import inspect
from pathlib import Path
from typing import Any

import pytest

mcp = pytest.importorskip("mcp")

from arcp_client import Client, Lease, Runtime, events  # noqa: E402
from arcp_client import mcp as bridge_module  # noqa: E402
from arcp_client.errors import JobFailed  # noqa: E402
from arcp_client.mcp import FileSubmits, server  # noqa: E402
from arcp_client.runtime import JobContext  # noqa: E402

Connect = Any
NONE = "job_00000000000000000000000000"


class Heard:
    """The notifications of calls, in their order."""

    def __init__(self) -> None:
        self.logged: list[Any] = []
        self.reported: list[Any] = []

    async def log(self, params: Any) -> None:
        self.logged.append((params.level, params.data))

    async def progress(self, current: float, total: float | None, message: str | None) -> None:
        self.reported.append((current, total, message))


async def test_each_agent_is_a_tool_with_its_schema_and_description(connect: Connect) -> None:
    listed = {tool.name: tool for tool in (await (await connect()).list_tools()).tools}
    assert set(listed) == {
        "echo", "report", "stream", "wait", "asks", "fails",
        "job_status", "job_result", "job_cancel",
    }  # fmt: skip
    assert listed["report"].description == "Writes a report."
    assert listed["report"].input_schema["required"] == ["title"]
    assert set(listed["report"].input_schema["properties"]) == {"title", "pages"}
    assert list(listed["echo"].input_schema["properties"]) == ["input"]
    assert listed["echo"].description == "Runs the agent echo."


async def test_progress_log_lines_and_statuses_become_notifications_in_order(
    connect: Connect,
) -> None:
    heard = Heard()
    tools = await connect(hook=heard.log)
    await tools.call_tool("report", {"title": "May"}, progress_callback=heard.progress)
    level, accepted = heard.logged.pop(0)
    assert (level, accepted["status"]) == ("info", "accepted")
    # With a handshake, a client sets the level by a request of its own; until then it is info.
    debug = tools.protocol_version >= "2026"
    assert heard.logged == [
        *([("debug", "begun")] if debug else []),
        ("warning", "careful"),
        ("info", "1 of 3 pages"),  # MCP: progress must increase
        ("info", "printing: page 2"),
        *([("debug", "nearly done")] if debug else []),
    ]
    assert heard.reported == [(1.0, 3.0, None), (3.0, 3.0, "printed")]


async def test_chunks_of_a_result_become_log_notifications_and_progress(connect: Connect) -> None:
    heard = Heard()
    tools = await connect(hook=heard.log)
    answer = await tools.call_tool(
        "stream", {"input": ["grü", "n"]}, progress_callback=heard.progress
    )
    assert answer.structured_content["result"] == "grün"
    assert heard.reported == [
        (4.0, None, "4 bytes of the result"),
        (5.0, None, "5 bytes of the result"),
    ]
    chunks = [data["data"] for _, data in heard.logged[1:]]
    assert "".join(chunks) == "grün"


async def test_a_question_of_the_agent_becomes_a_log_notification(
    connect: Connect, client: Client
) -> None:
    @client.on(events.Question)
    async def answer(event: events.Question) -> None:
        job = client.job(event.job_id)
        assert job is not None
        await job.answer(event.question_id, "green")

    heard = Heard()
    tools = await connect(hook=heard.log)
    answered = await tools.call_tool("asks", {})
    assert answered.structured_content["result"] == "green"
    assert ("notice", "the agent asks: Which colour?") in heard.logged


async def test_without_a_wanted_level_no_log_line_is_sent(client: Client, connect: Connect) -> None:
    tools = await connect()
    answer = await tools.call_tool("report", {"title": "May"})
    assert not answer.is_error


async def test_the_log_level_of_a_connection_is_kept() -> None:
    async with Runtime() as runtime, Client(runtime) as client:

        @runtime.agent("logs")
        async def logs(input: Any, job: JobContext) -> None:
            for level in ("debug", "info", "warn", "error"):
                await job.log(level, level)

        async with Client(runtime) as client:
            heard = Heard()
            bridge = server(client)
            async with mcp.Client(bridge, mode="legacy", logging_callback=heard.log) as tools:
                await tools.call_tool("logs", {})
                assert [level for level, _ in heard.logged] == ["info", "info", "warning", "error"]
                heard.logged.clear()
                with pytest.warns(mcp.MCPDeprecationWarning):
                    await tools.set_logging_level("error")
                await tools.call_tool("logs", {})
                assert heard.logged == [("error", "error")]
            await bridge.close()


@pytest.mark.parametrize(
    "value", [{"a": [1, None]}, [1, "b"], "text", 5, 2.5, True, None, {}, "", 2**60], ids=str
)
async def test_a_result_keeps_its_type(connect: Connect, value: Any) -> None:
    answer = await (await connect()).call_tool("echo", {"input": value})
    assert answer.structured_content["status"] == "success"
    result = answer.structured_content["result"]
    assert result == value
    assert type(result) is type(value)


async def test_a_binary_result_is_base64_and_a_resource(connect: Connect) -> None:
    answer = await (await connect()).call_tool("stream", {"input": [[0, 255], [7]]})
    assert answer.structured_content["encoding"] == "base64"
    assert base64.b64decode(answer.structured_content["result"]) == bytes([0, 255, 7])
    (content,) = answer.content
    assert base64.b64decode(content.resource.blob) == bytes([0, 255, 7])


async def test_a_long_text_arrives_in_parts(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcp_client.mcp.bridge.MOST_RESULT", 4)
    tools = await connect()
    answer = (await tools.call_tool("stream", {"input": ["abcde", "fghi"]})).structured_content
    parts, job_id = [answer["result"]], answer["job_id"]
    while "next_offset" in answer:
        assert answer["size"] == 9
        given = {"job_id": job_id, "offset": answer["next_offset"]}
        answer = (await tools.call_tool("job_result", given)).structured_content
        parts.append(answer["result"])
    assert parts == ["abcd", "efgh", "i"]


async def test_a_failed_job_is_an_error_with_its_code(connect: Connect) -> None:
    answer = await (await connect()).call_tool("fails", {})
    assert answer.is_error
    facts = answer.structured_content
    assert (facts["status"], facts["code"], facts["retryable"]) == ("error", "DISK_FULL", True)
    assert facts["remedy"] == JobFailed.remedy
    assert "the disk is full" in answer.content[0].text


async def test_a_wrong_input_is_an_error_that_names_the_fields(connect: Connect) -> None:
    answer = await (await connect()).call_tool("report", {"pages": "many"})
    assert answer.is_error
    assert set(answer.structured_content["fields"]) == {"title", "pages"}
    assert "title: Field required" in answer.content[0].text


async def test_an_unknown_tool_and_wrong_arguments_are_refused(connect: Connect) -> None:
    tools = await connect()
    for name, given in [
        ("nothing", {}),
        ("job_status", {}),
        ("job_result", {"job_id": "j", "offset": -1}),
        ("job_result", {"job_id": "j", "wait": True}),
    ]:
        with pytest.raises(mcp.MCPError) as caught:
            await tools.call_tool(name, given)
        assert caught.value.error.code == -32602


async def test_a_job_that_is_not_known_is_an_error(connect: Connect) -> None:
    tools = await connect()
    for name in ("job_status", "job_result", "job_cancel"):
        answer = await tools.call_tool(name, {"job_id": NONE})
        assert answer.is_error
        assert answer.structured_content["code"] == "JOB_NOT_FOUND"


async def test_a_job_that_outlives_the_call_goes_on_by_its_id(
    connect: Connect, agents: Any
) -> None:
    tools = await connect(wait=0)
    answer = await tools.call_tool("wait", {})
    facts = answer.structured_content
    assert not answer.is_error
    assert facts["status"] in ("pending", "running")
    assert "job_result" in answer.content[0].text
    await agents.started.wait()
    status = (await tools.call_tool("job_status", {"job_id": facts["job_id"]})).structured_content
    assert status["status"] == "running"
    again = await tools.call_tool("job_result", {"job_id": facts["job_id"], "wait": 0})
    assert again.structured_content["status"] == "running"
    agents.go.set()
    patient = await connect(wait=None)
    done = await patient.call_tool("job_result", {"job_id": facts["job_id"]})
    assert (done.structured_content["status"], done.structured_content["result"]) == (
        "success",
        "late",
    )
    status = (await tools.call_tool("job_status", {"job_id": facts["job_id"]})).structured_content
    assert status["status"] == "success"
    assert status["progress"] == {"current": 2, "total": 5, "units": "files"}


async def test_another_client_of_the_principal_fetches_status_and_result(
    connect: Connect, runtime: Runtime, agents: Any
) -> None:
    first = await connect(wait=0)
    job_id = (await first.call_tool("wait", {})).structured_content["job_id"]
    async with Client(runtime) as other:
        second = await connect(server(other, wait=None))
        status = (await second.call_tool("job_status", {"job_id": job_id})).structured_content
        assert status["status"] == "running"
        waiting = asyncio.create_task(second.call_tool("job_result", {"job_id": job_id}))
        also = asyncio.create_task(second.call_tool("job_result", {"job_id": job_id}))
        agents.go.set()
        for answer in await asyncio.gather(waiting, also):
            assert answer.structured_content.get("result") == "late", answer


async def test_job_cancel_cancels_and_tells_the_outcome(connect: Connect, agents: Any) -> None:
    tools = await connect(wait=0)
    job_id = (await tools.call_tool("wait", {})).structured_content["job_id"]
    await agents.started.wait()
    patient = await connect()
    for _ in range(2):  # the second call finds it cancelled
        answer = await patient.call_tool("job_cancel", {"job_id": job_id, "reason": "enough"})
        assert not answer.is_error
        assert answer.structured_content["status"] == "cancelled"
    result = await patient.call_tool("job_result", {"job_id": job_id})
    assert result.is_error
    assert result.structured_content["message"] == "enough"
    assert agents.ended == ["cancelled"]


async def test_another_client_cancels_a_job_whose_submit_was_kept(
    connect: Connect, runtime: Runtime, agents: Any, tmp_path: Path
) -> None:
    kept = FileSubmits(tmp_path / "submits")
    first = await connect(wait=0, submits=kept, lease=Lease({"fs.read": ("/a",)}))
    job_id = (await first.call_tool("wait", {"input": {"a": 1}})).structured_content["job_id"]
    await agents.started.wait()
    async with Client(runtime) as blind, Client(runtime) as other:
        without = await connect(server(blind))
        refused = await without.call_tool("job_cancel", {"job_id": job_id})
        assert refused.is_error
        assert refused.structured_content["code"] == "PERMISSION_DENIED"
        assert not agents.ended
        second = await connect(server(other, submits=kept))
        answer = await second.call_tool("job_cancel", {"job_id": job_id})
        assert answer.structured_content["status"] == "cancelled"
        assert len([job async for job in other.jobs()]) == 1


async def test_a_cancelled_call_cancels_its_job(
    client: Client, connect: Connect, agents: Any
) -> None:
    tools = await connect()
    call = asyncio.create_task(tools.call_tool("wait", {}))
    await agents.started.wait()
    (job,) = client.open_jobs()
    call.cancel()
    assert [event.code async for event in job.events(events.Failed)] == ["CANCELLED"]
    assert agents.ended == ["cancelled"]
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_call_that_is_cancelled_before_the_acceptance_leaves_no_job(
    client: Client, connect: Connect, agents: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, free = asyncio.Event(), asyncio.Event()
    real = Client.submit

    async def slow(self: Client, *given: Any, **options: Any) -> Any:
        held.set()
        await free.wait()
        return await real(self, *given, **options)

    monkeypatch.setattr(Client, "submit", slow)
    tools = await connect()
    call = asyncio.create_task(tools.call_tool("wait", {}))
    await held.wait()
    call.cancel()
    await asyncio.wait({call})
    free.set()
    while not (jobs := client.open_jobs()):
        await asyncio.sleep(0)
    assert [event.code async for event in jobs[0].events(events.Failed)] == ["CANCELLED"]


async def test_a_connection_that_ends_leaves_its_job_running(client: Client, agents: Any) -> None:
    bridge = server(client)
    async with mcp.Client(bridge, mode="legacy") as tools:
        call = asyncio.create_task(tools.call_tool("wait", {}))
        await agents.started.wait()
        (job,) = client.open_jobs()
    with pytest.raises(mcp.MCPError):
        await call
    await bridge.close()
    agents.go.set()
    assert (await job.result()).value == "late"


async def test_only_the_wanted_agents_and_versions_are_tools(
    runtime: Runtime, connect: Connect
) -> None:
    runtime.agent("echo", "3+b")(lambda input, job: "v3")
    async with Client(runtime) as client:
        tools = await connect(of=client, agents=["echo@3+b", "report"])
        names = [tool.name for tool in (await tools.list_tools()).tools]
        assert names[:2] == ["echo_3_b", "report"]
        assert "wait" not in names
        answer = await tools.call_tool("echo_3_b", {})
        assert answer.structured_content["agent"] == "echo@3+b"


async def test_a_wanted_agent_that_is_missing_is_an_error(connect: Connect) -> None:
    tools = await connect(agents=["gone"])
    answer = await tools.call_tool("gone", {})
    assert answer.is_error
    assert "gone is not an agent of this runtime" in answer.content[0].text


async def test_jobs_get_the_lease_and_the_time_limit_of_the_bridge(
    client: Client, connect: Connect, agents: Any
) -> None:
    tools = await connect(wait=0, lease={"fs.read": ["/a/**"]}, max_runtime=60)
    await tools.call_tool("wait", {})
    (job,) = client.open_jobs()
    assert job.lease.get("fs.read") == ("/a/**",)
    agents.go.set()
    await job.result()


async def test_a_client_that_has_ended_is_an_error_of_the_call(runtime: Runtime) -> None:
    async with Client(runtime) as client:
        bridge = server(client)
    async with mcp.Client(bridge) as tools:
        answer = await tools.call_tool("echo", {"input": 1})
        assert answer.is_error
        assert answer.structured_content["code"] == "ClientClosed"
    await bridge.close()


def test_wrong_arguments_are_refused_at_once() -> None:
    with pytest.raises(TypeError, match="client must be a Client"):
        server("ws://127.0.0.1")  # type: ignore[arg-type]


def test_the_public_names_and_their_parameters() -> None:
    assert set(bridge_module.__all__) == {
        "BridgeServer", "FileSubmits", "HttpBridge", "Submits", "http_app", "server",
    }  # fmt: skip
    assert list(inspect.signature(server).parameters) == [
        "client", "agents", "lease", "max_runtime", "wait", "task_after", "task_ttl",
        "submits", "name",
    ]  # fmt: skip
    assert list(inspect.signature(bridge_module.http_app).parameters) == [
        "bridge", "path", "token", "allowed_hosts",
    ]  # fmt: skip
