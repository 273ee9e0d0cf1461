"""The spans of open jobs: one span a job, from its submit or acceptance to its end.

A span belongs to its job, not to a link. Lost and new links are events of the span.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from opentelemetry.metrics import Histogram
from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from arcp_client._scrubbing import Scrubber
from arcp_client.otel import _names as names

__all__ = ["JobSpan", "JobSpans"]

_LONGEST = 1000
"""Limit of characters of an error message."""


class JobSpan(msgspec.Struct):
    """The span of one open job.

    Attributes:
        span: the span.
        started: when the job began, on the monotonic clock; ``None`` if another process began it.
        attributes: the attributes of its duration.
        session_id: its session.
    """

    span: Span
    started: float | None
    attributes: dict[str, AttributeValue]
    session_id: str = ""


class JobSpans:
    """The spans of the open jobs of one client or runtime.

    Args:
        duration: measures the jobs.
    """

    def __init__(self, duration: Histogram) -> None:
        self._duration = duration
        self._open: dict[str, JobSpan] = {}

    def __iter__(self) -> Iterator[JobSpan]:
        return iter(tuple(self._open.values()))

    def get(self, job_id: str) -> JobSpan | None:
        """The span of an open job."""
        return self._open.get(job_id)

    def add(self, job_id: str, job: JobSpan) -> None:
        """Keep a span until its job ends."""
        self._open[job_id] = job

    def event(self, job_id: str, name: str, attributes: Mapping[str, Any]) -> None:
        """Add an event to the span of a job, if there is one."""
        job = self._open.get(job_id)
        if job is not None:
            job.span.add_event(name, attributes)

    def event_of_all(self, name: str, attributes: Mapping[str, Any]) -> None:
        """Add an event to all spans."""
        for job in self._open.values():
            job.span.add_event(name, attributes)

    def end(self, job_id: str, status: str, code: str | None, message: str | None) -> None:
        """End the span of a job, if there is one, with the outcome of the job."""
        job = self._open.pop(job_id, None)
        if job is None:
            return
        span, attributes = job.span, {**job.attributes, names.JOB_STATUS: status}
        span.set_attribute(names.JOB_STATUS, status)
        if code is not None:
            attributes[names.ERROR_TYPE] = code
            span.set_attribute(names.ERROR_TYPE, code)
            span.set_status(Status(StatusCode.ERROR, _harmless(message)))
        if job.started is not None:
            self._duration.record(time.monotonic() - job.started, attributes)
        span.end()

    def end_all(self, event: str) -> None:
        """End the spans of jobs that continue without this process."""
        for job in self._open.values():
            job.span.add_event(event)
            job.span.end()
        self._open.clear()


def refuse(span: Span, error: BaseException) -> None:
    """End the span of a job that was refused."""
    code = getattr(error, "code", None)
    span.set_attribute(names.ERROR_TYPE, str(code or type(error).__name__))
    span.set_status(Status(StatusCode.ERROR, _harmless(str(error))))
    span.end()


def _harmless(message: str | None) -> str | None:
    return None if message is None else Scrubber().text(message)[:_LONGEST]
