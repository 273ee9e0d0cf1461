"""A client with telemetry against one without: CPU time of events; prints JSON.

Events come over a real WebSocket from another process. With telemetry, the SDK aggregates metrics
and hands them to an exporter that discards them, once a second. A first, short client of the same
process is not measured: it pays for what the SDK does only once. What counts are the ratios of CPU
time within a round, without over with telemetry: 0.95 says that telemetry costs 5 %.

    python benchmarks/bench_telemetry.py [--rounds 9] [--events 300000] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any

from consume import JOBS, Meter, with_async_for, with_batches, with_on, with_order_job
from rounds import answer, frames_server, interleaved, machine, quartiles, report

_WARM = 5000

WAYS = {
    "on": (with_on, 1),
    "on(batch=True)": (with_batches, 1),
    "async for": (with_async_for, 1),
    "Order.JOB, 100 jobs": (with_order_job, JOBS),
}


def telemetry() -> Any:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import (
        MetricExporter,
        MetricExportResult,
        PeriodicExportingMetricReader,
    )
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    from arcp_client.otel import OpenTelemetry

    class NoSpans(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    class NoMetrics(MetricExporter):
        def export(
            self, metrics_data: Any, timeout_millis: float = 0, **kwargs: Any
        ) -> MetricExportResult:
            return MetricExportResult.SUCCESS

        def force_flush(self, timeout_millis: float = 0) -> bool:
            return True

        def shutdown(self, timeout_millis: float = 0, **kwargs: Any) -> None: ...

    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(NoSpans()))
    reader = PeriodicExportingMetricReader(NoMetrics(), export_interval_millis=1000)
    return OpenTelemetry(tracer_provider=tracers, meter_provider=MeterProvider([reader]))


async def consume(way: str, port: int, events: int) -> None:
    from arcp_client import Client

    name, _, on = way.partition(" + ")
    run, jobs = WAYS[name]
    options = {"telemetry": telemetry()} if on else {}
    found = {}
    for count in (_WARM, events):
        meter = Meter()
        async with Client(f"ws://127.0.0.1:{port}/arcp", token="t", **options) as client:
            await run(client, count, meter, jobs)
            found = meter.report(way)
    print(json.dumps(found))


def measured(rounds: int, events: int) -> dict[str, Any]:
    ways = [f"{name}{on}" for name in WAYS for on in ("", " + telemetry")]
    with frames_server() as port:
        found = interleaved(ways, rounds, lambda way: answer(__file__, way, port, events))
    return {
        **machine(),
        "rounds": rounds,
        "events": events,
        "ways": [
            {
                "way": name,
                "ratio": quartiles(
                    one[name]["cpu_us_per_event"] / one[f"{name} + telemetry"]["cpu_us_per_event"]
                    for one in found
                ),
            }
            for name in WAYS
        ],
    }


def main() -> None:
    if len(sys.argv) == 4 and not sys.argv[1].startswith("-"):
        asyncio.run(consume(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    report("telemetry", measured(options.rounds, options.events), write=options.write)


if __name__ == "__main__":
    main()
