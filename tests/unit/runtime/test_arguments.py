"""Arguments of a runtime, and of what agents call, that make no sense are refused by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from aiohttp import web

from arcp_client import Client, JobContext, Limits, MemoryEventLog, Runtime, SqliteEventLog

NAN, INFINITE = float("nan"), float("inf")
NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001
SECONDS: list[Any] = ["5", True, NAN, INFINITE, -1]
WHOLE: list[Any] = [None, "5", 1.5, True, -1]
TEXTS: list[Any] = [None, 5, b"text", ""]
FLAGS: list[Any] = [None, 0, "yes"]

Asked = Callable[[Any, Any], Any]

HOSTS = [None, 5, "jobs.example", [5], ["http://jobs.example"], ["a:80"], [""]]

RUNTIME: dict[tuple[str, str], tuple[Asked, list[Any]]] = {
    ("__init__", "name"): (lambda _, v: Runtime(name=v), TEXTS),
    ("__init__", "version"): (lambda _, v: Runtime(version=v), [5, ""]),
    ("__init__", "auth"): (
        lambda _, v: Runtime(auth=v),
        ["secret", 5, ["secret"], {"": "me"}, {"secret": ""}, {"secret": 5}, {5: "me"}],
    ),
    ("__init__", "event_log"): (lambda _, v: Runtime(event_log=v), ["runtime.db", 5]),
    ("__init__", "heartbeat_interval"): (
        lambda _, v: Runtime(heartbeat_interval=v),
        [0, *SECONDS],
    ),
    ("__init__", "resume_window"): (lambda _, v: Runtime(resume_window=v), [None, 0, *SECONDS]),
    ("__init__", "limits"): (lambda _, v: Runtime(limits=v), [5, {}]),
    ("__init__", "policy"): (lambda _, v: Runtime(policy=v), [5, "all"]),
    ("__init__", "steering"): (lambda _, v: Runtime(steering=v), [5, "all"]),
    ("__init__", "provisioner"): (lambda _, v: Runtime(provisioner=v), [5, object()]),
    ("__init__", "telemetry"): (lambda _, v: Runtime(telemetry=v), [5, "otel", object()]),
    ("__init__", "webhooks"): (
        lambda _, v: Runtime(webhooks=v),
        [None, 5, "https://x", [object()]],
    ),
    ("__init__", "dialect"): (lambda _, v: Runtime(dialect=v), [None, "", "perl"]),
    ("agent", "name"): (lambda r, v: r.agent(v), [*TEXTS, "Not A Name"]),
    ("agent", "version"): (lambda r, v: r.agent("agent-a", v), [5, "", "no version"]),
    ("agent", "default"): (lambda r, v: r.agent("a", default=v), FLAGS),
    ("agent", "input_schema"): (lambda r, v: r.agent("a", input_schema=v)(print), [5, "int"]),
    ("agent", "description"): (lambda r, v: r.agent("a", description=v), [5, b"text"]),
    ("agent", "function"): (lambda r, v: r.agent("a")(v), [None, 5, "echo"]),
    ("rotate", "job_id"): (lambda r, v: r.rotate(v, None), TEXTS),
    ("rotate", "credential"): (lambda r, v: r.rotate("job_1", v), [None, "secret"]),
    ("serve", "host"): (lambda r, v: r.serve(v), TEXTS),
    ("serve", "port"): (lambda r, v: r.serve(port=v), WHOLE),
    ("serve", "path"): (lambda r, v: r.serve(path=v), [*TEXTS, "arcp"]),
    ("serve", "probes"): (lambda r, v: r.serve(probes=v), FLAGS),
    ("serve", "ssl"): (lambda r, v: r.serve(ssl=v), [True, "cert.pem"]),
    ("serve", "allowed_hosts"): (lambda r, v: r.serve(allowed_hosts=v), HOSTS),
    ("add_routes", "allowed_hosts"): (
        lambda r, v: r.add_routes(web.Application(), allowed_hosts=v),
        HOSTS,
    ),
    ("add_routes", "app"): (lambda r, v: r.add_routes(v), [None, 5]),
    ("add_routes", "path"): (lambda r, v: r.add_routes(web.Application(), v), [*TEXTS, "arcp"]),
    ("asgi", "allowed_hosts"): (lambda r, v: r.asgi(allowed_hosts=v), HOSTS),
    ("serve_stdio", "stdin"): (lambda r, v: r.serve_stdio(stdin=v), WHOLE[1:]),
    ("serve_stdio", "stdout"): (lambda r, v: r.serve_stdio(stdout=v), WHOLE[1:]),
    ("close", "timeout"): (lambda r, v: r.close(timeout=v), [None, *SECONDS]),
}


@pytest.mark.parametrize(("call", "name"), RUNTIME)
async def test_a_runtime_says_which_argument_is_wrong(call: str, name: str) -> None:
    asked, values = RUNTIME[call, name]
    async with Runtime() as runtime:
        for value in values:
            with pytest.raises((TypeError, ValueError), match=name) as caught:
                done = asked(runtime, value)
                if inspect.isawaitable(done):
                    await done
            assert type(caught.value) in (TypeError, ValueError), value
            assert "secret" not in str(caught.value)


def test_every_argument_of_a_runtime_is_in_the_table() -> None:
    for call, member in inspect.getmembers(Runtime, inspect.isfunction):
        if not call.startswith("_") or call == "__init__":
            for name in set(inspect.signature(member).parameters) - {"self"}:
                assert (call, name) in RUNTIME, (call, name)


LOGS: dict[tuple[Any, str], tuple[Callable[[Any], Any], list[Any]]] = {
    (MemoryEventLog, "max_events"): (lambda v: MemoryEventLog(max_events=v), [0, *WHOLE]),
    (MemoryEventLog, "max_bytes"): (lambda v: MemoryEventLog(max_bytes=v), [0, *WHOLE]),
    (SqliteEventLog, "path"): (SqliteEventLog, [None, 5, "", "a\0b"]),
    (SqliteEventLog, "max_events"): (lambda v: SqliteEventLog("x", max_events=v), [0, *WHOLE]),
    (SqliteEventLog, "max_bytes"): (lambda v: SqliteEventLog("x", max_bytes=v), [0, *WHOLE]),
    (SqliteEventLog, "full_sync"): (lambda v: SqliteEventLog("x", full_sync=v), FLAGS),
}


@pytest.mark.parametrize(("cls", "name"), LOGS)
def test_an_event_log_says_which_argument_is_wrong(cls: Any, name: str) -> None:
    made, values = LOGS[cls, name]
    for value in values:
        with pytest.raises((TypeError, ValueError), match=name):
            made(value)
    assert set(inspect.signature(cls).parameters) == {each for of, each in LOGS if of is cls}


@pytest.mark.parametrize("name", list(inspect.signature(Limits).parameters))
def test_limits_say_which_of_them_is_wrong(name: str) -> None:
    for value in ("5", -1, NAN, INFINITE, [5]):
        with pytest.raises((TypeError, ValueError), match=rf"Limits\.{name} must be ") as caught:
            Limits(**{name: value})
        assert type(caught.value) in (TypeError, ValueError)


AGENT: dict[tuple[str, str], tuple[Asked, list[Any]]] = {
    ("log", "message"): (lambda j, v: j.log(v), [None, 5, b"text"]),
    ("log", "level"): (lambda j, v: j.log("a", v), TEXTS),
    ("thought", "text"): (lambda j, v: j.thought(v), [None, 5]),
    ("status", "phase"): (lambda j, v: j.status(v), TEXTS),
    ("status", "message"): (lambda j, v: j.status("a", v), [5]),
    ("tool_call", "tool"): (lambda j, v: j.tool_call(v), TEXTS),
    ("tool_call", "call_id"): (lambda j, v: j.tool_call("a", call_id=v), [5, ""]),
    ("tool_result", "call_id"): (lambda j, v: j.tool_result(v), TEXTS),
    ("tool_result", "error"): (lambda j, v: j.tool_result("a", error=v), ["no", 5]),
    ("tool", "name"): (lambda j, v: j.tool(v), TEXTS),
    ("metric", "name"): (lambda j, v: j.metric(v, 1), TEXTS),
    ("metric", "value"): (lambda j, v: j.metric("a", v), [None, "5", True, NAN, INFINITE]),
    ("metric", "unit"): (lambda j, v: j.metric("a", 1, v), [5, ""]),
    ("metric", "dimensions"): (lambda j, v: j.metric("a", 1, dimensions=v), [5, ["a"]]),
    ("artifact", "uri"): (lambda j, v: j.artifact(v, "text/plain"), TEXTS),
    ("artifact", "content_type"): (lambda j, v: j.artifact("file:///x", v), TEXTS),
    ("artifact", "byte_size"): (lambda j, v: j.artifact("f", "t", byte_size=v), WHOLE[1:]),
    ("artifact", "sha256"): (lambda j, v: j.artifact("f", "t", sha256=v), [5, ""]),
    ("progress", "current"): (lambda j, v: j.progress(v), [None, "5", True, NAN, INFINITE, -1]),
    ("progress", "total"): (lambda j, v: j.progress(1, v), ["5", True, NAN, INFINITE, -1]),
    ("progress", "units"): (lambda j, v: j.progress(1, units=v), [5, ""]),
    ("progress", "message"): (lambda j, v: j.progress(1, message=v), [5]),
    ("emit", "kind"): (lambda j, v: j.emit(v, {}), TEXTS),
    ("emit", "body"): (lambda j, v: j.emit("x-vendor.a", v), [None, 5, ["a"]]),
    ("chunk", "chunk"): (lambda j, v: j.chunk(v), [None, 5, ["a"]]),
    ("authorize", "capability"): (lambda j, v: j.authorize(v, "/a"), TEXTS),
    ("authorize", "target"): (lambda j, v: j.authorize("fs.read", v), [None, 5]),
    ("delegate", "agent"): (lambda j, v: j.delegate(v), TEXTS),
    ("delegate", "lease"): (lambda j, v: j.delegate("a", lease=v), [5, "fs.read"]),
    ("delegate", "expires_at"): (lambda j, v: j.delegate("a", expires_at=v), [5, NAIVE]),
    ("delegate", "max_runtime"): (lambda j, v: j.delegate("a", max_runtime=v), [0, *SECONDS]),
    ("delegate", "delegate_id"): (lambda j, v: j.delegate("a", delegate_id=v), [5, ""]),
}


@pytest.mark.parametrize(("call", "name"), AGENT)
async def test_what_an_agent_calls_says_which_argument_is_wrong(call: str, name: str) -> None:
    asked, values = AGENT[call, name]
    said: list[BaseException] = []
    async with Runtime() as runtime, Client(runtime) as client:

        @runtime.agent("tries")
        async def tries(input: Any, job: JobContext) -> int:
            for value in values:
                try:
                    done = asked(job, value)
                    if inspect.isawaitable(done):
                        await done
                except Exception as error:
                    said.append(error)
            return len(values)

        job = await client.submit("tries")
        assert (await job.result()).value == len(said)
        seen = [event.kind async for event in job]
    assert {type(error) for error in said} <= {TypeError, ValueError}
    assert all(name in str(error) for error in said), said
    assert set(seen) <= {"status", "result"}  # nothing of it was emitted


def test_the_decorator_without_parentheses_says_how_it_is_written() -> None:
    async def work(input: Any, job: Any) -> None: ...

    with pytest.raises(TypeError, match=r"write @runtime\.agent\(\"name\"\)"):
        Runtime().agent(work)  # type: ignore[arg-type, type-var]
