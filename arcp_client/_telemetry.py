"""The interface of telemetry: what a client and a runtime report about jobs, links and handlers.

`arcp_client.otel` implements it. A client or runtime without telemetry holds ``None`` and reports
nothing. No method is called for each event: counts are read when they are exported, and the time of
handlers is measured for a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

__all__ = [
    "TRACE_CONTEXT",
    "ClientFigures",
    "ClientTelemetry",
    "RuntimeFigures",
    "RuntimeTelemetry",
    "SubmitTrace",
    "Telemetry",
]

TRACE_CONTEXT = "x-vendor.opentelemetry.tracecontext"
"""The key of a W3C trace context in the ``extensions`` of an envelope, as the SDKs of the
protocol's authors use it."""


class ClientFigures(msgspec.Struct, frozen=True):
    """The counts of one client.

    Attributes:
        received: events that were received, gaps included.
        processed: events that every consumer has processed.
        backlog: events that wait for the slowest consumer.
        lag: seconds since the arrival of the oldest event that is not processed.
        spilled: events that wait on disk.
        gaps: holes in the sequence of events.
        reconnects: links after the first one.
        pauses: how often the reader was paused by back-pressure.
        paused: whether it is paused.
    """

    received: int = 0
    processed: int = 0
    backlog: int = 0
    lag: float = 0.0
    spilled: int = 0
    gaps: int = 0
    reconnects: int = 0
    pauses: int = 0
    paused: bool = False


class RuntimeFigures(msgspec.Struct, frozen=True):
    """The counts of one runtime.

    Attributes:
        sent: events that were passed to a link, in all sessions; a repetition counts once.
        unsent: events that no link has taken yet, in all sessions.
        waiting: sessions so far behind that agents wait before they emit further events.
        connections: open links.
        sessions: sessions, with or without a link.
        resumes: sessions that were resumed.
        pending: jobs that wait for a slot.
        running: jobs whose agents run.
    """

    sent: int = 0
    unsent: int = 0
    waiting: int = 0
    connections: int = 0
    sessions: int = 0
    resumes: int = 0
    pending: int = 0
    running: int = 0


class SubmitTrace(Protocol):
    """The trace of one submit.

    Attributes:
        trace_id: the trace id for the envelope; ``None`` if there is no trace.
        fresh: whether the trace was begun by this submit, so that no earlier job has the id.
        extensions: the ``extensions`` of the envelope.
    """

    trace_id: str | None
    fresh: bool
    extensions: Mapping[str, Any]


class ClientTelemetry(Protocol):
    """What one client reports."""

    def opened(self, figures: Callable[[], ClientFigures]) -> None:
        """The client has started, in the running loop; ``figures`` must be called in that loop."""

    def closed(self) -> None:
        """The client has ended. Called once, after `opened` or without it."""

    def submitting(self, agent: str) -> SubmitTrace:
        """A job is submitted."""

    def refused(self, trace: SubmitTrace, error: BaseException) -> None:
        """A submit failed."""

    def accepted(
        self, trace: SubmitTrace, job_id: str, agent: str, *, session_id: str, trace_id: str | None
    ) -> str | None:
        """A submit was accepted.

        Args:
            trace: what `submitting` returned.
            job_id: the job.
            agent: the resolved agent.
            session_id: the session.
            trace_id: the trace id of the job.

        Returns:
            The ``traceparent`` of the job, for later processes.
        """

    def resumed(
        self, job_id: str, agent: str, *, session_id: str, traceparent: str | None
    ) -> str | None:
        """A job of an earlier process is open in this one.

        Returns:
            The ``traceparent`` of the job in this process.
        """

    def ended(self, job_id: str, status: str, code: str | None, message: str | None) -> None:
        """A job has ended. ``code`` and ``message`` are those of its error."""

    def gap(self, job_id: str, first: int, last: int | None, reason: str) -> None:
        """Events of a job are missing."""

    def link_lost(self, cause: BaseException) -> None:
        """The link was lost."""

    def link_live(self, *, resumed: bool) -> None:
        """A link is live. ``resumed`` is False if it began a new session."""

    def timed(self, name: str, handler: Callable[[Any], Any]) -> Callable[[], Callable[[Any], Any]]:
        """Measure calls of a handler.

        Called once for each registration. Returns a function that is called whenever the handler's
        task has yielded to the event loop. It returns what to call until the next time: the
        handler, or a wrapper that measures calls.
        """


class RuntimeTelemetry(Protocol):
    """What one runtime reports."""

    def opened(self, figures: Callable[[], RuntimeFigures]) -> None:
        """The runtime has started, in the running loop; ``figures`` must be called in that loop."""

    def closed(self) -> None:
        """The runtime was closed."""

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
        """A job was accepted.

        Args:
            job_id: the job.
            agent: its agent.
            session_id: the session that submitted it.
            trace_id: its trace id.
            carrier: the W3C trace context that came with the submit, unchecked.
            parent_id: the job that delegated it.
        """

    def started(self, job_id: str) -> None:
        """The agent of a job starts. Called in the context in which the agent will run."""

    def resumed(self, session_id: str) -> None:
        """The client of a session has resumed it."""

    def ended(self, job_id: str, status: str, code: str | None, message: str | None) -> None:
        """A job has ended. ``code`` and ``message`` are those of its error."""

    def cut_short(self, job_id: str, agent: str, *, session_id: str, trace_id: str) -> None:
        """A job of an earlier process had not ended when that process did."""


@runtime_checkable
class Telemetry(Protocol):
    """Makes the telemetry of clients and runtimes; `arcp_client.otel.OpenTelemetry` is one."""

    def client(self, target: str) -> ClientTelemetry:
        """Make the telemetry of one client.

        Args:
            target: the address of its runtime.
        """

    def runtime(self, name: str) -> RuntimeTelemetry:
        """Make the telemetry of one runtime.

        Args:
            name: its name.
        """
