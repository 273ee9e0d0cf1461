"""Submit, events, results and ends of jobs."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, get_args

import pytest

from arcp_client.errors import JobFailed, LocalProtocolError
from arcp_client.models import Lease, LogLevel
from arcp_client.runtime import JobContext, Limits
from tests.unit.runtime.peer import bodies, seqs

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


async def test_a_job_is_accepted_followed_and_answered(runtime: Any, open_peer: Any) -> None:
    @runtime.agent("greeter", "1.2.3")
    async def greeter(input: Any, job: JobContext) -> Any:
        await job.log("hello", "debug")
        await job.thought("hm")
        await job.status("greeting", "now")
        await job.progress(1, 2, "steps", "half")
        await job.metric("latency", 1.5, "s", {"a": 1})
        await job.artifact("file:///x", "text/plain", 3, "00")
        call = await job.tool_call("t", {"x": 1}, "c1")
        await job.tool_result(call, {"y": 2})
        await job.emit("x-vendor.acme.seen", {"z": 3})
        return {"greeting": f"hello {input['name']}"}

    peer = await open_peer(runtime)
    accepted = await peer.submit("greeter", {"name": "ada"}, trace_id=TRACE)
    payload = accepted["payload"]
    assert payload["agent"] == "greeter@1.2.3"
    assert payload["trace_id"] == accepted["trace_id"] == TRACE
    assert payload["accepted_at"].endswith("Z")
    frames = await peer.follow(payload["job_id"])
    assert seqs(frames) == list(range(1, 11))
    assert [f["payload"].get("kind") for f in frames[:-1]] == [
        "log",
        "thought",
        "status",
        "progress",
        "metric",
        "artifact_ref",
        "tool_call",
        "tool_result",
        "x-vendor.acme.seen",
    ]
    assert bodies(frames, "log") == [{"level": "debug", "message": "hello"}]
    assert bodies(frames, "progress") == [
        {"current": 1, "total": 2, "units": "steps", "message": "half"}
    ]
    assert bodies(frames, "metric") == [
        {"name": "latency", "value": 1.5, "unit": "s", "dimensions": {"a": 1}}
    ]
    assert bodies(frames, "tool_result") == [{"call_id": "c1", "result": {"y": 2}}]
    assert all(f["trace_id"] == TRACE for f in frames)
    result = frames[-1]
    assert result["type"] == "job.result"
    assert result["payload"]["final_status"] == "success"
    assert result["payload"]["result"] == {"greeting": "hello ada"}
    assert result["payload"]["completed_at"].endswith("Z")


async def test_a_trace_id_is_minted_where_none_or_a_bad_one_came(
    runtime: Any, open_peer: Any
) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> str:
        return job.trace_id

    peer = await open_peer(runtime)
    for given in (None, "0" * 32, "X", f"00-{TRACE}-00f067aa0ba902b7-01"):
        options = {} if given is None else {"trace_id": given}
        accepted = await peer.submit("a", **options)
        frames = await peer.follow(accepted["payload"]["job_id"])
        trace = accepted["payload"]["trace_id"]
        assert frames[-1]["payload"]["result"] == trace
        assert len(trace) == 32
        assert (trace == TRACE) is (given is not None and TRACE in given)


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ({"agent": "nobody"}, "AGENT_NOT_AVAILABLE"),
        ({"agent": "a@9"}, "AGENT_VERSION_NOT_AVAILABLE"),
        ({"agent": "Not A Name"}, "INVALID_REQUEST"),
        ({}, "INVALID_REQUEST"),
        ({"agent": "a", "max_runtime_sec": 0}, "INVALID_REQUEST"),
        ({"agent": "a", "max_runtime_sec": "soon"}, "INVALID_REQUEST"),
        ({"agent": "a", "lease_request": {"fs.read": "/x"}}, "INVALID_REQUEST"),
        ({"agent": "a", "lease_request": {"cost.budget": ["five"]}}, "INVALID_REQUEST"),
        ({"agent": "a", "lease_constraints": {"expires_at": "never"}}, "INVALID_REQUEST"),
        (
            {"agent": "a", "lease_constraints": {"expires_at": "2020-01-01T00:00:00Z"}},
            "INVALID_REQUEST",
        ),
        ({"agent": "a", "parent_job_id": "job_x"}, "JOB_NOT_FOUND"),
    ],
)
async def test_a_refused_submit_is_a_session_error_with_its_request_id(
    runtime: Any, open_peer: Any, payload: Any, code: str
) -> None:
    @runtime.agent("a", "1")
    async def a(input: Any, job: JobContext) -> None: ...

    peer = await open_peer(runtime)
    reply = await peer.ask("job.submit", payload)
    assert reply["type"] == "session.error"
    assert reply["payload"]["code"] == code
    assert "event_seq" not in reply
    _, frames = await peer.run("a")  # the session lives, and no number was spent
    assert seqs(frames) == [1]


async def test_versions_resolve_as_the_specification_says(runtime: Any, open_peer: Any) -> None:
    for version in ("1.0.0", "2.0.0", "3.0.0-rc+x"):

        @runtime.agent("a", version, default=version == "2.0.0")
        async def a(input: Any, job: JobContext) -> str:
            return job.agent

    peer = await open_peer(runtime)
    for asked, got in [("a", "a@2.0.0"), ("a@1.0.0", "a@1.0.0"), ("a@3.0.0-rc+x",) * 2]:
        _, frames = await peer.run(asked)
        assert frames[-1]["payload"]["result"] == got


async def test_names_are_registered_once_and_follow_the_grammar(runtime: Any) -> None:
    async def f(input: Any, job: JobContext) -> None: ...

    assert runtime.agent("a")(f) is f
    for name, version in [("a", None), ("A", None), ("a@1", None), ("a b", None), ("a", "1 2")]:
        with pytest.raises(ValueError, match=r"agent"):
            runtime.agent(name, version)(f)


async def test_an_exception_of_an_agent_reaches_nobody_but_the_log(
    runtime: Any, open_peer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> None:
        raise ValueError("secret path")

    peer = await open_peer(runtime)
    _, (error,) = await peer.run("a")
    assert error["type"] == "job.error"
    assert error["payload"]["final_status"] == "error"
    assert error["payload"]["code"] == "INTERNAL_ERROR"
    assert error["payload"]["retryable"] is True
    assert "secret" not in str(error)
    assert "Traceback" not in str(error)
    assert "secret path" in caplog.text


async def test_an_agent_fails_on_purpose_with_a_code_of_its_own(
    runtime: Any, open_peer: Any
) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> None:
        raise JobFailed("no such branch", code="X_NO_BRANCH", retryable=False, details={"b": 1})

    peer = await open_peer(runtime)
    _, (error,) = await peer.run("a")
    assert error["payload"]["code"] == "X_NO_BRANCH"
    assert error["payload"]["message"] == "no such branch"
    assert error["payload"]["details"] == {"b": 1}


@pytest.mark.parametrize(
    "value",
    [float("nan"), {1, 2}, object(), "x" * 5_000_000],
    ids=["nan", "set", "object", "large"],
)
async def test_a_result_that_cannot_be_sent_is_a_failure(
    runtime: Any, open_peer: Any, value: Any
) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> Any:
        return value

    peer = await open_peer(runtime)
    _, (error,) = await peer.run("a")
    assert error["payload"]["code"] == "INTERNAL_ERROR"


async def test_an_agent_that_cancels_itself_fails(runtime: Any, open_peer: Any) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> None:
        raise asyncio.CancelledError

    peer = await open_peer(runtime)
    _, (error,) = await peer.run("a")
    assert error["payload"]["code"] == "INTERNAL_ERROR"
    assert error["payload"]["final_status"] == "error"


async def test_an_agent_that_only_emits_lets_others_run(runtime: Any, open_peer: Any) -> None:
    enough = asyncio.Event()

    @runtime.agent("busy")
    async def busy(input: Any, job: JobContext) -> None:
        while not enough.is_set():
            await job.log("again")

    peer = await open_peer(runtime)
    accepted = await peer.submit("busy")
    await peer.cut()  # nobody holds it back
    other = await open_peer(runtime)
    assert (await other.ask("session.list_jobs"))["payload"]["jobs"][0]["status"] == "running"
    enough.set()
    watched = {"job_id": accepted["payload"]["job_id"], "history": True}
    await other.ask("job.subscribe", watched)
    assert (await other.follow(watched["job_id"]))[-1]["type"] == "job.result"


async def test_nothing_can_be_emitted_after_the_end(runtime: Any, open_peer: Any) -> None:
    late: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    gone = asyncio.Event()
    tasks = []

    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> None:
        async def straggle() -> None:
            await gone.wait()
            try:
                await job.log("too late")
            except LocalProtocolError as error:
                late.set_result(error)

        tasks.append(asyncio.create_task(straggle()))

    peer = await open_peer(runtime)
    _, frames = await peer.run("a")
    gone.set()
    assert "ended" in str(await late)
    assert len(frames) == 1


# ------------------------------------------------------------------------------ chunks


async def text_chunks(input: Any, job: JobContext) -> AsyncIterator[str]:
    for piece in ("one ", "zwei ", "три"):
        yield piece


async def binary_chunks(input: Any, job: JobContext) -> Any:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"\x00\xff"
        yield b""
        yield b"end"

    return pieces()


async def by_hand(input: Any, job: JobContext) -> None:
    await job.chunk("a")
    await job.log("between")
    await job.chunk(b"b", more=False)


async def no_chunks(input: Any, job: JobContext) -> AsyncIterator[str]:
    return
    yield


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        (text_chunks, "one zwei три".encode()),
        (binary_chunks, b"\x00\xffend"),
        (by_hand, b"ab"),
        (no_chunks, b""),
    ],
)
async def test_a_streamed_result_comes_in_order_and_ends_with_its_id(
    runtime: Any, open_peer: Any, agent: Any, expected: bytes
) -> None:
    runtime.agent("a")(agent)
    peer = await open_peer(runtime)
    _, frames = await peer.run("a")
    chunks = bodies(frames, "result_chunk")
    assert [c["chunk_seq"] for c in chunks] == list(range(len(chunks)))
    assert [c["more"] for c in chunks] == [True] * (len(chunks) - 1) + [False]
    result = frames[-1]["payload"]
    assert {c["result_id"] for c in chunks} == {result["result_id"]}
    joined = b"".join(
        base64.b64decode(c["data"]) if c["encoding"] == "base64" else c["data"].encode()
        for c in chunks
    )
    assert joined == expected
    assert result["result_size"] == len(expected)
    assert "result" not in result


@pytest.mark.parametrize("limits", [Limits(chunk_bytes=3), Limits(result_bytes=5)])
async def test_chunks_over_a_cap_end_the_job(make: Any, open_peer: Any, limits: Limits) -> None:
    runtime = make(limits=limits)

    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> None:
        await job.chunk("ok")
        with contextlib.suppress(JobFailed):  # swallowing it does not help
            await job.chunk("much too large")

    peer = await open_peer(runtime)
    _, frames = await peer.run("a")
    assert frames[-1]["payload"]["code"] == "INTERNAL_ERROR"
    assert "limit" in frames[-1]["payload"]["message"]


async def test_a_value_after_chunks_is_refused(runtime: Any, open_peer: Any) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> str:
        await job.chunk("x")
        return "y"

    peer = await open_peer(runtime)
    _, frames = await peer.run("a")
    assert frames[-1]["payload"]["code"] == "INTERNAL_ERROR"


async def test_a_client_without_result_chunk_gets_the_whole_inline(
    runtime: Any, open_peer: Any
) -> None:
    runtime.agent("text")(text_chunks)
    runtime.agent("binary")(binary_chunks)

    @runtime.agent("busy")
    async def busy(input: Any, job: JobContext) -> None:
        await job.progress(1)
        await job.log("seen")

    peer = await open_peer(runtime, features=("ack",))
    _, frames = await peer.run("text")
    assert [f["payload"].get("result") for f in frames] == ["one zwei три"]
    _, frames = await peer.run("binary")
    assert base64.b64decode(frames[-1]["payload"]["result"]) == b"\x00\xffend"
    _, frames = await peer.run("busy")  # progress was not negotiated, and leaves no hole
    assert [f["payload"].get("kind") for f in frames] == ["log", None]
    assert seqs(frames) == [3, 4]


async def test_an_early_end_cleans_the_generator_up(runtime: Any, open_peer: Any) -> None:
    cleaned = asyncio.Event()

    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> AsyncIterator[str]:
        try:
            yield "x"
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    peer = await open_peer(runtime)
    accepted = await peer.submit("a")
    await peer.until("job.event")
    await peer.send("job.cancel", {"job_id": accepted["payload"]["job_id"]})
    await peer.until("job.error")
    assert cleaned.is_set()


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("-inf"), Decimal("NaN"), b"bytes", {1, 2}, [b"x"], {"a": [float("inf")]}],
)
async def test_what_json_cannot_hold_is_the_agents_error(
    runtime: Any, open_peer: Any, value: Any
) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> str:
        with pytest.raises(ValueError, match="not a JSON value"):
            await job.tool_call("t", value)
        with pytest.raises(ValueError, match="not a JSON value"):
            await job.emit("x-mine", {"value": value, "none": None})
        return "went on"

    peer = await open_peer(runtime)
    (result,) = (await peer.run("a"))[1]
    assert result["payload"]["result"] == "went on"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda j: j.tool_call("t", {"a": [b""]}), "$.args.a[0]: bytes"),
        (lambda j: j.tool_result("c", [0, {1}]), "$.result[1]: set"),
        (lambda j: j.tool_result("c", error={"code": {1}}), "$.error.code: set"),
        (lambda j: j.metric("m", 1, dimensions={"k": {1}}), "$.dimensions.k: set"),
        (lambda j: j.emit("x-a", {"b": object()}), "$.b: object"),
        (lambda j: j.delegate("a", [{1}]), "$[0]: set"),
    ],
    ids=["tool_call", "tool_result", "error", "metric", "emit", "delegate"],
)
async def test_what_an_agent_hands_in_is_refused_with_path_and_type(
    runtime: Any, open_peer: Any, call: Any, said: str
) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> str:
        with pytest.raises(ValueError, match="not a JSON value") as caught:
            await call(job)
        return str(caught.value)

    peer = await open_peer(runtime)
    (result,) = (await peer.run("a", lease_request={"agent.delegate": ["**"]}))[1]
    assert f"not a JSON value: {said} has no form in JSON" in result["payload"]["result"]


async def test_a_result_that_json_cannot_hold_fails_with_path_and_type(
    runtime: Any, open_peer: Any
) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> Any:
        return {"a": [1, 2, 3, {4}]}

    peer = await open_peer(runtime)
    (error,) = (await peer.run("a"))[1]
    said = "the agent's result is not a JSON value: $.a[3]: set has no form in JSON"
    assert (error["payload"]["code"], error["payload"]["message"]) == ("INTERNAL_ERROR", said)


@pytest.mark.parametrize("details", [{"x": {1}}, b"x", [float("nan")]])
async def test_details_that_json_cannot_hold_are_left_out_and_the_job_ends(
    runtime: Any, open_peer: Any, details: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> Any:
        raise JobFailed("no", code="MINE", details=details)

    peer = await open_peer(runtime)
    (error,) = (await peer.run("a"))[1]
    assert (error["payload"]["code"], error["payload"]["message"]) == ("MINE", "no")
    assert "not a JSON value: $" in error["payload"]["details"]["left_out"]
    assert "not a JSON value: $" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("info", "text"), "the message is the first argument: job.log('text', 'info')"),
        (("WARN", "text"), "the message is the first argument: job.log('text', 'warn')"),
        (("text", "warning"), "not 'warning'; write job.log(message, 'warn')"),
        (("text", "WARN"), "not 'WARN'; write job.log(message, 'warn')"),
        (("text", "fatal"), "not 'fatal'; write job.log(message, 'error')"),
        (("text", "loud"), "level must be one of debug, info, warn, error, not 'loud'"),
        (("text", ""), "level must be one of debug, info, warn, error, not ''"),
    ],
)
async def test_a_level_that_is_none_is_refused_with_the_call_that_is_meant(
    runtime: Any, open_peer: Any, arguments: tuple[Any, Any], said: str
) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> str:
        for level in get_args(LogLevel):
            await job.log("text", level)
        with pytest.raises(ValueError, match="level|message") as caught:
            await job.log(*arguments)
        return str(caught.value)

    peer = await open_peer(runtime)
    *lines, result = (await peer.run("a"))[1]
    assert result["payload"]["result"].endswith(said)
    assert [each["payload"]["body"]["level"] for each in lines] == [
        "debug",
        "info",
        "warn",
        "error",
    ]


async def test_what_json_can_hold_arrives_as_it_is(runtime: Any, open_peer: Any) -> None:
    values = {
        "null": None, "text": "null NaN \u2028 \ud800", "number": 10**30, "half": 0.5,
        "exact": Decimal("0.1"), "deep": [{"a": (1, [2])}],
        "when": datetime(2026, 1, 2, tzinfo=UTC), "lease": Lease({"fs.read": ("/a",)}),
    }  # fmt: skip

    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> None:
        for name, value in values.items():
            await job.emit("x-mine", {name: value})
        await job.emit("x-mine", values)

    peer = await open_peer(runtime)
    *events, _ = (await peer.run("a"))[1]
    wire = {
        **values, "exact": 0.1, "deep": [{"a": [1, [2]]}], "when": "2026-01-02T00:00:00Z",
        "lease": {"fs.read": ["/a"]},
    }  # fmt: skip
    assert [e["payload"]["body"] for e in events] == [*({k: v} for k, v in wire.items()), wire]
