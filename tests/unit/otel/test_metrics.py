"""The metrics count what happened, in every thread, and cost nothing for an event."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics, messaging_metrics

from arcp_client import Client, Order, Runtime, errors, events
from arcp_client._client.wiring import Wiring
from arcp_client._dispatch.registration import HandlerRegistration
from arcp_client.otel import _handlers as handlers
from arcp_client.otel._handlers import timed
from arcp_client.otel._names import METRICS
from arcp_client.testing import FaultyProxy
from tests.unit.otel.conftest import Collected

ROOT = Path(__file__).parents[3]
DASHBOARD = ROOT / "docs" / "howto" / "grafana-dashboard.json"
HOWTO = ROOT / "docs" / "howto" / "telemetry.md"


async def test_received_and_processed_events_jobs_and_handlers_are_counted(
    collected: Collected, runtime: Runtime
) -> None:
    async with Client(runtime, telemetry=collected.telemetry) as client:

        @client.on(events.Log)
        async def save(event: events.Log) -> None:
            await asyncio.sleep(0)

        job = await client.submit("say", ["a", "b", "c"])
        await job.result()
        await client.drain()
        assert collected.value("messaging.client.consumed.messages") == 4
        assert collected.value("arcp.client.processed.messages") == 4
        assert collected.value("arcp.client.backlog") == 0
        assert collected.value("arcp.client.lag") == 0
        assert collected.value("arcp.runtime.sessions") == 1
        assert collected.value("arcp.runtime.connections") == 1
    assert collected.value("messaging.client.sent.messages") == 4
    [handler] = collected.points()["messaging.process.duration"]
    assert handler.attributes["arcp.handler.name"].endswith("save")
    assert handler.attributes["messaging.operation.name"] == "process"
    assert handler.count >= 1
    for name in ("gen_ai.client.operation.duration", "gen_ai.server.request.duration"):
        [duration] = collected.points()[name]
        assert duration.count == 1
        assert duration.attributes["gen_ai.agent.name"] == "say"
        assert duration.attributes["arcp.job.status"] == "success"


async def test_a_failing_handler_is_measured_with_its_error(
    collected: Collected, runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(runtime, telemetry=collected.telemetry, order=Order.JOB) as client:

        @client.on(events.Log)
        def save(event: events.Log) -> None:
            raise ValueError(event.message)

        await (await client.submit("say", ["a"])).result()
    [point] = collected.points()["messaging.process.duration"]
    assert point.attributes["error.type"] == "ValueError"
    assert "save failed on Log 1" in caplog.text


async def test_reconnects_resumes_and_failed_jobs_are_counted(
    collected: Collected, runtime: Runtime
) -> None:
    async with (
        runtime.serve() as server,
        FaultyProxy(server.url) as proxy,
        Client(proxy.url, telemetry=collected.telemetry) as client,
    ):
        job = await client.submit("wait")
        proxy.cut()
        await client.ping()
        [running] = [
            point
            for point in collected.points()["arcp.runtime.jobs"]
            if point.attributes["arcp.job.status"] == "running"
        ]
        assert running.value == 1
        await job.cancel()
        with pytest.raises(errors.JobCancelled):
            await job.result()
    [reconnects] = collected.points()["arcp.client.reconnects"]
    assert reconnects.value == 1
    assert reconnects.attributes["server.address"] == "127.0.0.1"
    assert collected.value("arcp.runtime.resumes") == 1
    [duration] = collected.points()["gen_ai.client.operation.duration"]
    assert duration.attributes["error.type"] == "CANCELLED"


async def test_counters_do_not_go_back_when_a_client_ends(
    collected: Collected, runtime: Runtime
) -> None:
    for expected in (1, 2, 3):
        async with Client(runtime, telemetry=collected.telemetry) as client:
            await (await client.submit("say", [])).result()
            assert collected.value("messaging.client.consumed.messages") == expected
        assert collected.value("messaging.client.consumed.messages") == expected


async def test_an_exporters_thread_reads_the_counts_in_the_event_loop(
    collected: Collected, runtime: Runtime
) -> None:
    async with Client(runtime, telemetry=collected.telemetry) as client:
        await (await client.submit("say", ["a"])).result()
        value = await asyncio.to_thread(collected.value, "messaging.client.consumed.messages")
        assert value == 2

        # While the loop is blocked, the last counts are exported.
        await (await client.submit("say", ["a"])).result()
        found: list[float] = []
        thread = threading.Thread(
            target=lambda: found.append(collected.value("messaging.client.consumed.messages"))
        )
        thread.start()
        thread.join()  # blocks the loop
        assert found == [2]
        assert collected.value("messaging.client.consumed.messages") == 4


class Recorded:
    """A histogram that keeps what it gets."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def record(self, value: float, attributes: Any = None) -> None:
        self.values.append(value)


def test_one_call_in_each_group_and_interval_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(handlers.time, "perf_counter", lambda: now)
    histogram = Recorded()

    def handle(seconds: float) -> None:
        nonlocal now
        now += seconds

    pick = timed(handle, histogram, {})  # type: ignore[arg-type]
    for _ in range(1000):  # one second of quick calls, in groups of a millisecond
        call = pick()
        for _ in range(100):
            call(0.00001)
    count = len(histogram.values)
    assert 80 <= count <= 100
    assert histogram.values == pytest.approx([0.00001] * count, rel=0.01)
    for _ in range(50):  # slow calls end their groups, and are measured one by one
        pick()(0.02)
    assert histogram.values[-49:] == pytest.approx([0.02] * 49)


async def test_asynchronous_handlers_are_measured_until_they_return(
    collected: Collected, runtime: Runtime
) -> None:
    gate = asyncio.Event()
    async with Client(runtime, telemetry=collected.telemetry) as client:

        @client.on(events.Log, batch=True)
        async def save(batch: list[events.Log]) -> None:
            await gate.wait()

        job = await client.submit("say", ["a"])
        async for _ in job:
            assert "messaging.process.duration" not in collected.points()
        gate.set()
        await job.result()
    [point] = collected.points()["messaging.process.duration"]
    assert point.count == 1


async def test_without_telemetry_nothing_is_installed(runtime: Runtime) -> None:
    client = Client(runtime)

    @client.on(events.Log)
    async def save(event: events.Log) -> None: ...

    parts = client._parts
    assert isinstance(parts, Wiring)
    assert parts.engine._telemetry is None
    [registration] = parts.consumers._registrations
    assert isinstance(registration, HandlerRegistration)
    registration._sink = registration._start()
    assert registration._sink.options.pick is None


def test_names_that_the_conventions_have_are_theirs() -> None:
    theirs = {
        value
        for module in (gen_ai_metrics, messaging_metrics)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    ours = {metric.name for metric in METRICS}
    assert {name for name in ours if not name.startswith("arcp.")} <= theirs


async def test_every_metric_is_exported_with_its_unit(
    collected: Collected, runtime: Runtime
) -> None:
    async with Client(runtime, telemetry=collected.telemetry) as client:
        client.subscribe(lambda event: None, events.Log)
        await (await client.submit("say", ["a"])).result()
        data = collected.reader.get_metrics_data()
    assert data is not None
    exported = {
        metric.name: metric.unit
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert exported == {metric.name: metric.unit for metric in METRICS}


def prometheus_names() -> set[str]:
    """The names of the metrics in Prometheus, by its rules for OpenTelemetry."""
    names = set()
    for metric in METRICS:
        name = metric.name.replace(".", "_")
        if metric.unit == "s":
            name += "_seconds"
        if metric.kind == "counter":
            name += "_total"
        names |= (
            {f"{name}_bucket", f"{name}_count", f"{name}_sum"}
            if metric.kind == "histogram"
            else {name}
        )
    return names


def test_the_dashboard_queries_metrics_and_labels_that_exist() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert len(panels) >= 10
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    names = {
        name for query in queries for name in re.findall(r"\b(?:arcp|gen_ai|messaging)_\w+", query)
    }
    labels = {
        "arcp_handler_name", "arcp_job_status", "arcp_runtime_name", "gen_ai_agent_name",
    }  # fmt: skip
    metrics = names - labels
    assert metrics <= prometheus_names()
    bases = {re.sub(r"_(bucket|count|sum|total)$", "", name) for name in prometheus_names()}
    assert {re.sub(r"_(bucket|count|sum|total)$", "", name) for name in metrics} == bases
    grid = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len(set(grid)) == len(grid)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_page_lists_every_metric_with_its_unit() -> None:
    text = HOWTO.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z_.]+)` \| \w+ \| `([^`]+)` \|", text, re.MULTILINE))
    assert rows == {metric.name: metric.unit for metric in METRICS}
