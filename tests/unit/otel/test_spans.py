"""One span a job, in the client and in the runtime, in one trace."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode, format_trace_id

from arcp_client import Client, JobContext, Runtime, SqliteStore, errors, events
from arcp_client.otel import OpenTelemetry
from arcp_client.testing import FaultyProxy, ScriptedRuntime
from arcp_client.testing.scripted import Finish
from tests.unit.otel.conftest import Collected


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def event_names(span: ReadableSpan) -> list[str]:
    return [event.name for event in span.events]


async def test_a_job_is_one_span_of_the_client_and_one_of_the_runtime_in_one_trace(
    collected: Collected, runtime: Runtime
) -> None:
    async with Client(runtime, telemetry=collected.telemetry) as client:
        job = await client.submit("say", ["a", "b"])
        await job.result()
        session = client.session.id
    mine, theirs = collected.client_span, collected.server_span
    assert mine.name == theirs.name == "invoke_agent say"
    assert theirs.parent is not None
    assert mine.context is not None
    assert theirs.parent.span_id == mine.context.span_id
    assert theirs.parent.trace_id == mine.context.trace_id
    assert job.trace_id == format_trace_id(mine.context.trace_id)
    for span in (mine, theirs):
        found = attributes(span)
        assert found["gen_ai.operation.name"] == "invoke_agent"
        assert found["gen_ai.agent.name"] == "say"
        assert found["gen_ai.agent.version"] == "2.0"
        assert found["gen_ai.conversation.id"] == session
        assert found["arcp.job.id"] == job.id
        assert found["arcp.job.status"] == "success"
        assert span.status.status_code is StatusCode.UNSET
    assert event_names(theirs) == ["arcp.job.started"]


async def test_a_submit_inside_a_span_continues_its_trace(
    collected: Collected, runtime: Runtime
) -> None:
    tracer = trace.get_tracer("application", tracer_provider=collected.tracers)
    async with Client(runtime, telemetry=collected.telemetry) as client:
        with tracer.start_as_current_span("request") as request:
            jobs = await asyncio.gather(*(client.submit("say", []) for _ in range(3)))
        for job in jobs:
            await job.result()
    context = request.get_span_context()
    spans = collected.spans(SpanKind.CLIENT)
    assert len(spans) == 3
    for span in spans:
        assert span.parent is not None
        assert span.parent.span_id == context.span_id
    assert {job.trace_id for job in jobs} == {format_trace_id(context.trace_id)}


async def test_the_agent_runs_in_the_context_of_its_jobs_span(
    collected: Collected, runtime: Runtime
) -> None:
    tracer = trace.get_tracer("agent", tracer_provider=collected.tracers)

    @runtime.agent("child")
    async def child(_: Any, job: JobContext) -> None:
        with tracer.start_as_current_span("model call"):
            pass

    @runtime.agent("parent")
    async def parent(_: Any, job: JobContext) -> None:
        delegated = await job.delegate("child")
        await delegated.result()

    async with Client(runtime, telemetry=collected.telemetry) as client:
        job = await client.submit("parent", lease={"agent.delegate": ["*"]})
        await job.result()
    [call] = [s for s in collected.exporter.get_finished_spans() if s.name == "model call"]
    by_name = {span.name: span for span in collected.spans(SpanKind.SERVER)}
    inner, outer = by_name["invoke_agent child"], by_name["invoke_agent parent"]
    assert call.parent is not None
    assert inner.parent is not None
    assert inner.context is not None
    assert outer.context is not None
    assert call.parent.span_id == inner.context.span_id
    assert inner.parent.span_id == outer.context.span_id
    assert attributes(inner)["arcp.job.parent_id"] == job.id
    assert trace.get_current_span().get_span_context().is_valid is False


async def test_a_failed_job_and_a_refused_submit_are_errors_of_their_spans(
    collected: Collected, runtime: Runtime
) -> None:
    async with Client(runtime, telemetry=collected.telemetry) as client:
        job = await client.submit("fail")
        with pytest.raises(errors.JobFailed):
            await job.result()
        with pytest.raises(errors.AgentNotFound):
            await client.submit("nothing")
    failed, refused = collected.spans(SpanKind.CLIENT)
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.status.description == "the agent failed"
    assert attributes(failed)["error.type"] == "INTERNAL_ERROR"
    assert refused.status.status_code is StatusCode.ERROR
    assert attributes(refused)["error.type"] == "AGENT_NOT_AVAILABLE"
    assert attributes(collected.server_span)["error.type"] == "INTERNAL_ERROR"


async def test_a_span_outlives_links_and_a_resume_is_an_event_of_it(
    collected: Collected, runtime: Runtime
) -> None:
    async with (
        runtime.serve() as server,
        FaultyProxy(server.url) as proxy,
        Client(proxy.url, telemetry=collected.telemetry) as client,
    ):
        job = await client.submit("wait")
        async for event in job:
            if isinstance(event, events.Log):
                break
        proxy.cut()
        await client.ping()
        assert not collected.exporter.get_finished_spans()
        await job.cancel()
        with pytest.raises(errors.JobCancelled):
            await job.result()
    mine, theirs = collected.client_span, collected.server_span
    assert event_names(mine) == ["arcp.link.lost", "arcp.session.resumed"]
    assert event_names(theirs) == ["arcp.job.started", "arcp.session.resumed"]
    assert attributes(mine)["arcp.job.status"] == "cancelled"
    assert attributes(mine)["server.address"] == "127.0.0.1"


async def test_a_new_process_has_a_new_span_with_a_link_to_the_old_one(
    collected: Collected, runtime: Runtime, tmp_path: Path
) -> None:
    def client() -> Client:
        store = SqliteStore(tmp_path / "client.db")
        return Client(runtime, store=store, telemetry=collected.telemetry)

    async with client() as first:
        job = await first.submit("wait")
        await first.detach()
    async with client() as second:
        assert [one.id for one in second.open_jobs()] == [job.id]
        await second.detach()
    async with client() as third:
        [again] = third.open_jobs()
        await again.cancel()
        with pytest.raises(errors.JobCancelled):
            await again.result()
    one, two, three = collected.spans(SpanKind.CLIENT)
    assert event_names(one) == event_names(two) == ["arcp.client.closed"]
    assert one.context is not None
    for span, before in ((two, one), (three, two)):
        [link] = span.links
        assert before.context is not None
        assert span.context is not None
        assert link.context.span_id == before.context.span_id
        assert span.parent is None
        assert attributes(span)["arcp.job.id"] == job.id
    assert attributes(three)["arcp.job.status"] == "cancelled"
    assert collected.server_span.parent is not None  # for the runtime, it was one job all the time


async def test_a_trace_id_alone_is_continued_by_the_runtime(
    collected: Collected, runtime: Runtime
) -> None:
    async with Client(runtime) as client:
        job = await client.submit("say", [], trace_id="ab" * 16)
        await job.result()
    span = collected.server_span
    assert span.context is not None
    assert format_trace_id(span.context.trace_id) == "ab" * 16


async def test_a_trace_id_of_the_caller_goes_to_the_envelope_and_the_span_has_it(
    collected: Collected, runtime: Runtime
) -> None:
    async with Client(runtime, telemetry=collected.telemetry) as client:
        job = await client.submit("say", [], trace_id="ab" * 16)
        await job.result()
    assert job.trace_id == "ab" * 16
    assert attributes(collected.client_span)["arcp.trace_id"] == "ab" * 16
    mine, theirs = collected.client_span, collected.server_span
    assert mine.context is not None
    assert theirs.parent is not None
    assert theirs.parent.span_id == mine.context.span_id


@pytest.mark.parametrize(
    "carrier",
    [
        None,
        7,
        [],
        {"x-vendor.opentelemetry.tracecontext": "00-1-2-3"},
        {"x-vendor.opentelemetry.tracecontext": {"traceparent": 3, "tracestate": {}}},
        {"x-vendor.opentelemetry.tracecontext": {"traceparent": "00-" + "0" * 32 + "-1-01"}},
        {"x-vendor.opentelemetry.tracecontext": {"traceparent": "0" * 100_000}},
        {"x-vendor.opentelemetry.tracecontext": {"tracestate": "a=b"}},
    ],
)
def test_a_malformed_trace_context_is_ignored(collected: Collected, carrier: Any) -> None:
    spans = collected.telemetry.runtime("unit")
    spans.accepted(
        "job_1", "say", session_id="s", trace_id="cd" * 16, carrier=carrier, parent_id=None
    )
    spans.ended("job_1", "success", None, None)
    context = collected.server_span.context
    assert context is not None
    assert format_trace_id(context.trace_id) == "cd" * 16


async def test_without_an_sdk_jobs_run_and_have_trace_ids(runtime: Runtime) -> None:
    async with Client(runtime, telemetry=OpenTelemetry()) as client:
        job = await client.submit("say", ["a"])
        assert (await job.result()).value == 1
        assert job.trace_id is not None
        assert len(job.trace_id) == 32


async def test_the_application_can_name_its_conversation(
    collected: Collected, runtime: Runtime
) -> None:
    telemetry = collected.made(conversation_id=lambda: "thread-7")
    async with Client(runtime, telemetry=telemetry) as client:
        await (await client.submit("say", [])).result()
    assert attributes(collected.client_span)["gen_ai.conversation.id"] == "thread-7"


async def test_a_second_submit_with_the_same_key_is_the_same_job_and_has_no_second_span(
    collected: Collected, runtime: Runtime
) -> None:
    async with Client(runtime, telemetry=collected.telemetry) as client:
        first, second = await asyncio.gather(
            *(client.submit("wait", idempotency_key="k") for _ in range(2))
        )
        third = await client.submit("wait", idempotency_key="k")
        assert first.id == second.id == third.id
        await first.cancel()
        with pytest.raises(errors.JobCancelled):
            await first.result()
    repeat, job = collected.spans(SpanKind.CLIENT)
    assert job.context is not None
    assert [link.context.span_id for link in repeat.links] == [job.context.span_id]
    assert "arcp.job.status" not in attributes(repeat)


async def test_secrets_in_an_error_do_not_reach_the_span(
    collected: Collected, runtime: Runtime
) -> None:
    @runtime.agent("leak")
    async def leak(_: Any, job: JobContext) -> None:
        raise errors.JobFailed("refused: Authorization: Bearer abcdef0123456789abcdef", code="X")

    async with Client(runtime, telemetry=collected.telemetry) as client:
        job = await client.submit("leak")
        with pytest.raises(errors.JobFailed):
            await job.result()
    for span in collected.exporter.get_finished_spans():
        assert "abcdef0123456789" not in (span.status.description or "")


async def test_handlers_can_start_spans_in_the_context_of_a_job(
    collected: Collected, runtime: Runtime
) -> None:
    tracer = trace.get_tracer("application", tracer_provider=collected.tracers)
    client = Client(runtime, telemetry=collected.telemetry)

    @client.on(events.Log)
    def save(event: events.Log) -> None:
        assert event.job_id is not None
        context = collected.telemetry.context(event.job_id)
        with tracer.start_as_current_span("save", context=context):
            pass

    async with client:
        job = await client.submit("wait")
        async for event in job:
            if isinstance(event, events.Log):
                break
        await client.drain()
        await job.cancel()
    [saved] = [span for span in collected.exporter.get_finished_spans() if span.name == "save"]
    assert saved.context is not None
    assert format_trace_id(saved.context.trace_id) == job.trace_id
    assert collected.telemetry.context("job_unknown") is not None


@pytest.mark.parametrize(
    ("dialect", "shared"),
    [("typescript", False), ("go", False), ("spec", False), ("python", True), ("ruby", True)],
)
async def test_submits_of_one_trace_share_its_id_unless_the_runtime_tells_them_apart_by_it(
    dialect: str, shared: bool
) -> None:
    collected = Collected()
    tracer = trace.get_tracer("application", tracer_provider=collected.tracers)
    script = ScriptedRuntime(dialect, agents={"a": [Finish(1)], "b": [Finish(2)]})
    async with script, Client(script, telemetry=collected.telemetry) as client:
        with tracer.start_as_current_span("request") as request:
            await asyncio.gather(client.submit("a"), client.submit("b"))
    submits = [frame for frame in script.heard if frame["type"] == "job.submit"]
    trace_id = format_trace_id(request.get_span_context().trace_id)
    assert submits[0]["trace_id"] == trace_id
    assert (submits[1]["trace_id"] == trace_id) is shared
    for submit in submits:
        carrier = submit["extensions"]["x-vendor.opentelemetry.tracecontext"]
        assert carrier["traceparent"].split("-")[1] == trace_id


def test_a_job_that_a_restart_cut_short_has_a_span_in_its_trace(collected: Collected) -> None:
    telemetry = collected.telemetry.runtime("unit")
    telemetry.cut_short("job_1", "wait", session_id="s", trace_id="cd" * 16)
    telemetry.ended("job_1", "error", "INTERNAL_ERROR", "cut short")
    span = collected.server_span
    assert span.context is not None
    assert format_trace_id(span.context.trace_id) == "cd" * 16
    assert attributes(span)["error.type"] == "INTERNAL_ERROR"
