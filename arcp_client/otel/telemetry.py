"""`OpenTelemetry`: the public object, which clients and runtimes take as ``telemetry=``."""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry import metrics, trace
from opentelemetry.context import Context, get_current
from opentelemetry.trace import set_span_in_context

from arcp_client import _arguments as check
from arcp_client.otel._client import ClientSpans
from arcp_client.otel._instruments import Instruments
from arcp_client.otel._runtime import RuntimeSpans
from arcp_client.version import __version__

__all__ = ["OpenTelemetry"]

_SCOPE = "arcp_client"


class OpenTelemetry:
    """Traces jobs and counts events with OpenTelemetry.

    Make one, and give it to all clients and runtimes of the process. Without an SDK, OpenTelemetry
    discards everything.

    Each job has one span, named ``invoke_agent`` and the agent: a CLIENT span in the client that
    submits the job, from the submit to its end, and a SERVER span in the runtime, from the
    acceptance to its end. A lost link does not end a span: that the session was resumed is an event
    of it. A client that resumes the session of an earlier process has a new span, with a link to
    the span of that process. Jobs that a client only watches have no span of their own.

    The client sends the trace context with the submit, as ``trace_id`` of the envelope (§11) and as
    ``traceparent`` in its ``extensions``. The runtime continues that trace, and its agents run in
    the context of their job's span. A submit without a trace context, but with a trace id, is
    continued as a sampled trace.

    Args:
        tracer_provider: makes the tracer; the global provider by default.
        meter_provider: makes the meter; the global provider by default.
        conversation_id: returns ``gen_ai.conversation.id`` for a submit of a client, or ``None``.
            Called in the context of the submit. By default it is the session's id, as in runtimes.
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        conversation_id: Callable[[], str | None] | None = None,
    ) -> None:
        check.a_function("conversation_id", conversation_id, none=True, sync=True)
        self._instruments = Instruments(
            trace.get_tracer(_SCOPE, __version__, tracer_provider),
            metrics.get_meter(_SCOPE, __version__, meter_provider),
            conversation_id,
        )

    def context(self, job_id: str) -> Context:
        """The context of a job's span, in which a handler may start spans of its own.

        ::

            with tracer.start_as_current_span("save", context=telemetry.context(event.job_id)):
                ...

        Args:
            job_id: the job. Once it has ended, and for a job without a span, the present context is
                returned.
        """
        span = self._instruments.span_of(job_id)
        return get_current() if span is None else set_span_in_context(span)

    def client(self, target: str) -> ClientSpans:
        """Make the telemetry of one client; `Client` calls it."""
        return ClientSpans(self._instruments, target)

    def runtime(self, name: str) -> RuntimeSpans:
        """Make the telemetry of one runtime; `Runtime` calls it."""
        return RuntimeSpans(self._instruments, name)
