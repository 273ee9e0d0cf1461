"""Trace a job through the client, the runtime and its agent."""

import asyncio

try:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
except ImportError:
    raise SystemExit("this example needs: pip install opentelemetry-sdk") from None

from arcp_client import Client
from arcp_client.otel import OpenTelemetry
from arcp_client.runtime import JobContext, Runtime

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
tracer = provider.get_tracer("your program")

telemetry = OpenTelemetry(tracer_provider=provider)
runtime = Runtime(telemetry=telemetry)


@runtime.agent("summarize")
async def summarize(text: str, job: JobContext) -> str:
    with tracer.start_as_current_span("call of a model"):
        return text[:5]


async def main() -> None:
    async with runtime, Client(runtime, telemetry=telemetry) as client:
        with tracer.start_as_current_span("request"):
            job = await client.submit("summarize", "a long text")
        await job.result()

    def show(parent: int | None, depth: int) -> None:
        for span in spans.get_finished_spans():
            if (span.parent.span_id if span.parent else None) == parent and span.context:
                print("  " * depth + span.name, f"({span.kind.name})")
                show(span.context.span_id, depth + 1)

    show(None, 0)


if __name__ == "__main__":
    asyncio.run(main())
