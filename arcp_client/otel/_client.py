"""The telemetry of one client: spans of the jobs that it submits, and its metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, get_current_span

from arcp_client._telemetry import TRACE_CONTEXT, ClientFigures
from arcp_client.otel import _names as names
from arcp_client.otel._handlers import timed
from arcp_client.otel._instruments import Instruments
from arcp_client.otel._propagation import carrier_of, span_context_of, traceparent_of
from arcp_client.otel._reading import Attributes, FigureSource
from arcp_client.otel._spans import JobSpan, JobSpans, refuse

__all__ = ["ClientSpans"]


class TracedSubmit(msgspec.Struct):
    """The trace of one submit; see `SubmitTrace`."""

    span: Span
    started: float
    trace_id: str | None
    fresh: bool
    extensions: Mapping[str, Any]


class ClientSpans:
    """Implements `ClientTelemetry`.

    Args:
        instruments: the instruments that all clients share.
        target: the address of the runtime.
    """

    def __init__(self, instruments: Instruments, target: str) -> None:
        self.jobs = JobSpans(instruments.client_duration)
        self._instruments = instruments
        self._server = server_attributes(target)
        self._source: FigureSource[ClientFigures] | None = None

    # -- the client

    def opened(self, figures: Callable[[], ClientFigures]) -> None:
        attributes = {names.MESSAGING_SYSTEM: names.SYSTEM, **self._server}
        self._source = FigureSource(figures, attributes)
        self._instruments.clients.add(self._source)
        self._instruments.opened(self)

    def closed(self) -> None:
        self.jobs.end_all(names.CLIENT_CLOSED)
        if self._source is not None:
            self._instruments.clients.end(self._source)
            self._source = None

    # -- jobs

    def submitting(self, agent: str) -> TracedSubmit:
        name, version = names.split_agent(agent)
        span = self._instruments.tracer.start_span(
            f"{names.INVOKE_AGENT} {name}",
            kind=SpanKind.CLIENT,
            attributes=self._describe(name, version),
        )
        context = span.get_span_context()
        parent = get_current_span().get_span_context()
        carrier = carrier_of(span)
        return TracedSubmit(
            span=span,
            started=time.monotonic(),
            trace_id=f"{context.trace_id:032x}" if context.is_valid else None,
            fresh=not parent.is_valid,
            extensions={TRACE_CONTEXT: carrier} if carrier else {},
        )

    def refused(self, trace: Any, error: BaseException) -> None:
        refuse(trace.span, error)

    def accepted(
        self, trace: Any, job_id: str, agent: str, *, session_id: str, trace_id: str | None
    ) -> str | None:
        span: Span = trace.span
        known = self.jobs.get(job_id)
        span.set_attributes(self._of_job(job_id, agent, session_id))
        if trace_id is not None and trace_id != trace.trace_id:
            span.set_attribute(names.TRACE_ID, trace_id)
        if known is not None:  # a submit with the same key: the job has its span
            span.add_link(known.span.get_span_context())
            span.end()
            return traceparent_of(known.span)
        name, _ = names.split_agent(agent)
        attributes = {**self._operation(name), **self._server}
        self.jobs.add(job_id, JobSpan(span, trace.started, attributes, session_id))
        return traceparent_of(span)

    def resumed(
        self, job_id: str, agent: str, *, session_id: str, traceparent: str | None
    ) -> str | None:
        name, version = names.split_agent(agent)
        before = span_context_of(traceparent)
        span = self._instruments.tracer.start_span(
            f"{names.INVOKE_AGENT} {name}",
            Context(),  # a root: the job is no part of the work that connects this client
            kind=SpanKind.CLIENT,
            attributes={
                **self._describe(name, version),
                **self._of_job(job_id, agent, session_id),
            },
            links=[] if before is None else [Link(before, {names.LINK: "resumed"})],
        )
        if before is not None:
            span.set_attribute(names.TRACE_ID, f"{before.trace_id:032x}")
        attributes = {**self._operation(name), **self._server}
        self.jobs.add(job_id, JobSpan(span, None, attributes, session_id))
        return traceparent_of(span)

    def ended(self, job_id: str, status: str, code: str | None, message: str | None) -> None:
        self.jobs.end(job_id, status, code, message)

    def gap(self, job_id: str, first: int, last: int | None, reason: str) -> None:
        attributes: dict[str, Any] = {"arcp.gap.first": first, "arcp.gap.reason": reason}
        if last is not None:
            attributes["arcp.gap.last"] = last
        self.jobs.event(job_id, names.GAP, attributes)

    # -- links

    def link_lost(self, cause: BaseException) -> None:
        self.jobs.event_of_all(names.LINK_LOST, {names.ERROR_TYPE: type(cause).__name__})

    def link_live(self, *, resumed: bool) -> None:
        self.jobs.event_of_all(names.SESSION_RESUMED if resumed else names.SESSION_RENEWED, {})

    # -- handlers

    def timed(self, name: str, handler: Callable[[Any], Any]) -> Callable[[], Callable[[Any], Any]]:
        attributes = {
            names.MESSAGING_SYSTEM: names.SYSTEM,
            names.MESSAGING_OPERATION: "process",
            names.HANDLER: name,
            **self._server,
        }
        return timed(handler, self._instruments.handlers, attributes)

    # -- attributes

    def _operation(self, name: str) -> dict[str, Any]:
        return {
            names.OPERATION: names.INVOKE_AGENT,
            names.PROVIDER: names.SYSTEM,
            names.AGENT_NAME: name,
        }

    def _describe(self, name: str, version: str | None) -> Attributes:
        attributes = {**self._operation(name), **self._server}
        conversation = self._instruments.conversation_id()
        if conversation is not None:
            attributes[names.CONVERSATION] = conversation
        if version is not None:
            attributes[names.AGENT_VERSION] = version
        return attributes

    def _of_job(self, job_id: str, agent: str, session_id: str) -> dict[str, Any]:
        """The attributes that are known once a job was accepted."""
        name, version = names.split_agent(agent)
        attributes: dict[str, Any] = {
            names.JOB_ID: job_id,
            names.SESSION_ID: session_id,
            names.AGENT_NAME: name,
        }
        if version is not None:
            attributes[names.AGENT_VERSION] = version
        if not self._instruments.own_conversations:
            attributes[names.CONVERSATION] = session_id
        return attributes


def server_attributes(target: str) -> dict[str, Any]:
    """The address of a runtime, if it has one; an embedded one or a child process has none."""
    parts = urlsplit(target)
    if parts.scheme not in ("ws", "wss") or not parts.hostname:
        return {}
    port = parts.port or (443 if parts.scheme == "wss" else 80)
    return {names.SERVER_ADDRESS: parts.hostname, names.SERVER_PORT: port}
