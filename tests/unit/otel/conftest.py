"""A client and a runtime with telemetry, whose spans and metrics stay in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from arcp_client import JobContext, Runtime
from arcp_client.otel import OpenTelemetry


class Collected:
    """What telemetry has exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.telemetry = self.made()

    def made(self, **options: Any) -> OpenTelemetry:
        return OpenTelemetry(tracer_provider=self.tracers, meter_provider=self.meters, **options)

    def spans(self, kind: SpanKind) -> list[ReadableSpan]:
        """The finished spans of a kind, in the order of their ends."""
        return [span for span in self.exporter.get_finished_spans() if span.kind is kind]

    @property
    def client_span(self) -> ReadableSpan:
        [span] = self.spans(SpanKind.CLIENT)
        return span

    @property
    def server_span(self) -> ReadableSpan:
        [span] = self.spans(SpanKind.SERVER)
        return span

    def points(self) -> dict[str, list[Any]]:
        """The data points of each metric."""
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: list(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def value(self, name: str) -> float:
        """The value of a metric with one data point."""
        [point] = self.points()[name]
        return float(point.value)


@pytest.fixture
def collected() -> Iterator[Collected]:
    collected = Collected()
    yield collected
    collected.meters.shutdown()
    collected.tracers.shutdown()


@pytest.fixture
async def runtime(collected: Collected) -> AsyncIterator[Runtime]:
    async with Runtime(name="unit", telemetry=collected.telemetry) as runtime:

        @runtime.agent("say", version="2.0")
        async def say(lines: list[str], job: JobContext) -> int:
            for line in lines:
                await job.log(line)
            return len(lines)

        @runtime.agent("fail")
        async def fail(_: Any, job: JobContext) -> None:
            raise RuntimeError("boom")

        @runtime.agent("wait")
        async def wait(_: Any, job: JobContext) -> None:
            await job.log("begun")
            await job.cancelled.wait()

        yield runtime
