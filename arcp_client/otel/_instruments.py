"""The tracer, and the instruments of the metrics, which all clients and runtimes share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakSet

from opentelemetry.metrics import Histogram, Meter
from opentelemetry.trace import Span, Tracer

from arcp_client._telemetry import ClientFigures, RuntimeFigures
from arcp_client.otel._names import METRICS
from arcp_client.otel._reading import Figures

__all__ = ["Instruments"]

_CLIENT = {
    "messaging.client.consumed.messages": "received",
    "arcp.client.processed.messages": "processed",
    "arcp.client.backlog": "backlog",
    "arcp.client.lag": "lag",
    "arcp.client.spilled": "spilled",
    "arcp.client.gaps": "gaps",
    "arcp.client.reconnects": "reconnects",
    "arcp.client.back_pressure.pauses": "pauses",
    "arcp.client.back_pressure.paused": "paused",
}
"""The field of `ClientFigures` of each metric."""
_RUNTIME: Mapping[str, str | tuple[str, Mapping[str, str]]] = {
    "messaging.client.sent.messages": "sent",
    "arcp.runtime.jobs": ("arcp.job.status", {"pending": "pending", "running": "running"}),
    "arcp.runtime.connections": "connections",
    "arcp.runtime.sessions": "sessions",
    "arcp.runtime.resumes": "resumes",
    "arcp.runtime.unsent": "unsent",
    "arcp.runtime.back_pressure.waiting": "waiting",
}
"""The field of `RuntimeFigures` of each metric."""
_BOUNDS = {
    "messaging.process.duration": (
        0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10,
    ),
    "gen_ai.client.operation.duration": (
        0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
        163.84, 327.68, 655.36, 1310.72, 2621.44,
    ),
}  # fmt: skip
"""The conventions' bounds of buckets in seconds, with finer ones for handlers and longer ones for
jobs. A view of the SDK overrides them."""


class Instruments:
    """The tracer and the instruments.

    Args:
        tracer: makes the spans.
        meter: makes the instruments.
        conversation_id: returns the id of the application's conversation, if it has one.

    Attributes:
        own_conversations: whether the application sets the ids of conversations.
    """

    def __init__(
        self, tracer: Tracer, meter: Meter, conversation_id: Callable[[], str | None] | None
    ) -> None:
        self.tracer = tracer
        self.own_conversations = conversation_id is not None
        self.conversation_id = conversation_id or _none
        self.clients: Figures[ClientFigures] = Figures(meter, _CLIENT)
        self.runtimes: Figures[RuntimeFigures] = Figures(meter, _RUNTIME)
        self.handlers = _histogram(meter, "messaging.process.duration")
        self.client_duration = _histogram(meter, "gen_ai.client.operation.duration")
        self.runtime_duration = _histogram(meter, "gen_ai.server.request.duration")
        self._opened: WeakSet[Any] = WeakSet()

    def opened(self, spans: Any) -> None:
        """Note the spans of a client or runtime, for `span_of`."""
        self._opened.add(spans)

    def span_of(self, job_id: str) -> Span | None:
        """The span of an open job; that of the client if both ends are in this process."""
        found = {
            type(spans).__name__: job.span
            for spans in tuple(self._opened)
            if (job := spans.jobs.get(job_id)) is not None
        }
        return found.get("ClientSpans") or found.get("RuntimeSpans")


def _none() -> None:
    return None


def _histogram(meter: Meter, name: str) -> Histogram:
    metric = next(one for one in METRICS if one.name == name)
    bounds = _BOUNDS.get(name, _BOUNDS["gen_ai.client.operation.duration"])
    return meter.create_histogram(
        name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=bounds
    )
