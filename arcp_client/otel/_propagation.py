"""Converts between spans and the W3C trace context of envelopes and checkpoints (§11)."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ["carrier_of", "context_of", "context_of_trace", "span_context_of", "traceparent_of"]

_LONGEST = 512
"""Limit of characters of each field of a trace context; W3C asks for 512 of ``tracestate``."""
_FIELDS = ("traceparent", "tracestate")
_W3C = TraceContextTextMapPropagator()


def carrier_of(span: Span) -> dict[str, str]:
    """The W3C trace context of a span; empty if there is no trace."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, set_span_in_context(span, Context()))
    return carrier


def traceparent_of(span: Span) -> str | None:
    """The ``traceparent`` of a span; ``None`` if there is no trace."""
    return carrier_of(span).get("traceparent")


def context_of(carrier: object) -> Context | None:
    """The context of a peer's trace; ``None`` if the carrier has none that is valid."""
    if not isinstance(carrier, Mapping):
        return None
    fields = {
        name: carrier[name]
        for name in _FIELDS
        if isinstance(carrier.get(name), str) and len(carrier[name]) <= _LONGEST
    }
    context = _W3C.extract(fields, Context())
    return context if get_current_span(context).get_span_context().is_valid else None


def span_context_of(traceparent: str | None) -> SpanContext | None:
    """The span context that a ``traceparent`` names."""
    context = context_of({"traceparent": traceparent})
    return None if context is None else get_current_span(context).get_span_context()


def context_of_trace(trace_id: str, job_id: str) -> Context:
    """A context in the trace of an envelope that names no span.

    W3C requires the id of a parent span. It is made from the job's id; no span has it.
    """
    number = int.from_bytes(job_id.encode()[-8:].rjust(8, b"0"), "big")
    parent = SpanContext(
        int(trace_id, 16), number or 1, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )
    return set_span_in_context(NonRecordingSpan(parent), Context())
