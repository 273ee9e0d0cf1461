"""The telemetry of one runtime: spans of the jobs that it runs, and its metrics."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from opentelemetry.context import Context, attach
from opentelemetry.trace import SpanKind, set_span_in_context

from arcp_client._telemetry import TRACE_CONTEXT, RuntimeFigures
from arcp_client.otel import _names as names
from arcp_client.otel._instruments import Instruments
from arcp_client.otel._propagation import context_of, context_of_trace
from arcp_client.otel._reading import FigureSource
from arcp_client.otel._spans import JobSpan, JobSpans

__all__ = ["RuntimeSpans"]


class RuntimeSpans:
    """Implements `RuntimeTelemetry`.

    Args:
        instruments: the instruments that all runtimes share.
        name: the name of the runtime.
    """

    def __init__(self, instruments: Instruments, name: str) -> None:
        self.jobs = JobSpans(instruments.runtime_duration)
        self._instruments = instruments
        self._name = name
        self._source: FigureSource[RuntimeFigures] | None = None

    def opened(self, figures: Callable[[], RuntimeFigures]) -> None:
        attributes = {names.MESSAGING_SYSTEM: names.SYSTEM, names.RUNTIME: self._name}
        self._source = FigureSource(figures, attributes)
        self._instruments.runtimes.add(self._source)
        self._instruments.opened(self)

    def closed(self) -> None:
        self.jobs.end_all(names.RUNTIME_CLOSED)
        if self._source is not None:
            self._instruments.runtimes.end(self._source)
            self._source = None

    def accepted(
        self,
        job_id: str,
        agent: str,
        *,
        session_id: str,
        trace_id: str,
        carrier: object,
        parent_id: str | None,
    ) -> None:
        parent = self.jobs.get(parent_id) if parent_id is not None else None
        if parent is not None:
            context = set_span_in_context(parent.span, Context())
        else:
            context = _context_of_submit(carrier) or context_of_trace(trace_id, job_id)
        self._start(job_id, agent, session_id, trace_id, parent_id, context, time.monotonic())

    def _start(
        self,
        job_id: str,
        agent: str,
        session_id: str,
        trace_id: str,
        parent_id: str | None,
        context: Context,
        started: float | None,
    ) -> None:
        name, version = names.split_agent(agent)
        operation: dict[str, Any] = {
            names.OPERATION: names.INVOKE_AGENT,
            names.PROVIDER: names.SYSTEM,
            names.AGENT_NAME: name,
            names.RUNTIME: self._name,
        }
        attributes = operation | {
            names.CONVERSATION: session_id,
            names.JOB_ID: job_id,
            names.SESSION_ID: session_id,
        }
        if version is not None:
            attributes[names.AGENT_VERSION] = version
        if parent_id is not None:
            attributes[names.PARENT_JOB_ID] = parent_id
        span = self._instruments.tracer.start_span(
            f"{names.INVOKE_AGENT} {name}", context, kind=SpanKind.SERVER, attributes=attributes
        )
        if f"{span.get_span_context().trace_id:032x}" != trace_id:
            span.set_attribute(names.TRACE_ID, trace_id)
        self.jobs.add(job_id, JobSpan(span, started, operation, session_id))

    def started(self, job_id: str) -> None:
        job = self.jobs.get(job_id)
        if job is not None:
            job.span.add_event(names.JOB_STARTED)
            attach(set_span_in_context(job.span))  # the task's context ends with the task

    def resumed(self, session_id: str) -> None:
        for job in self.jobs:
            if job.session_id == session_id:
                job.span.add_event(names.SESSION_RESUMED)

    def ended(self, job_id: str, status: str, code: str | None, message: str | None) -> None:
        self.jobs.end(job_id, status, code, message)

    def cut_short(self, job_id: str, agent: str, *, session_id: str, trace_id: str) -> None:
        context = context_of_trace(trace_id, job_id)
        self._start(job_id, agent, session_id, trace_id, None, context, None)


def _context_of_submit(extensions: object) -> Context | None:
    if not isinstance(extensions, dict):
        return None
    return context_of(extensions.get(TRACE_CONTEXT))
