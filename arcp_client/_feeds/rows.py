"""Builds the row of a job in a list, from its events, its handle and the runtime's listing."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from arcp_client import _digits as digits
from arcp_client.job import JobHandle
from arcp_client.models import JobSummary
from arcp_client.projection import ENDED, Bar, JobProjection, JobRow, reason_of, verdict_of
from arcp_client.projection.values import in_utc, number, short

__all__ = ["LOST", "row"]

LOST = "lost"
"""The status of a job that the runtime no longer lists and whose end is unknown."""


def row(
    job_id: str,
    now: datetime,
    *,
    summary: JobSummary | None = None,
    handle: JobHandle | None = None,
    seen: JobProjection | None = None,
    outcome: JobRow | None = None,
    lost: bool = False,
    label: str | None = None,
) -> JobRow:
    """The row of a job: from its events if possible, else from the handle, else from the listing.

    Args:
        job_id: the id of the job.
        now: the time, by the runtime's clock.
        summary: the entry in the runtime's listing.
        handle: the handle of the job, if this session has one.
        seen: the state according to its events, if they are followed.
        outcome: the row of the job at its end, if its events were followed to the end.
        lost: whether the runtime no longer lists the job.
        label: the label of the job's input, if it is known.
    """
    followed = seen if seen is not None else outcome
    status = _status(summary, handle, followed.status if followed is not None else None, lost)
    if seen is not None:
        verdict = handle.verdict if handle is not None else None
        made = JobRow.of(seen, now, summary=summary, status=status, label=label, verdict=verdict)
        return made if made.agent or handle is None else _with_agent(made, handle.agent)
    made = outcome if outcome is not None else _unfollowed(job_id, handle)
    agent = (handle.agent if handle is not None else "") or (summary.agent if summary else "")
    if agent:
        made = _with_agent(made, agent)
    if summary is not None:
        created = in_utc(summary.created_at) or made.created_at
        made = replace(made, created_at=created, parent_job_id=summary.parent_job_id)
    if status == LOST:
        gone = JobProjection(job_id, status=LOST)
        verdict = verdict_of(gone, now)
        made = replace(made, verdict=verdict, reason=reason_of(gone, now, verdict=verdict))
    return replace(made, status=status, label=label or made.label)


def _status(
    summary: JobSummary | None, handle: JobHandle | None, seen: str | None, lost: bool
) -> str:
    listed = summary.status if summary is not None else None
    reported = [seen, handle.status if handle is not None else None, listed]
    # A final status wins: the status of a job that is no longer watched is out of date.
    ended = [status for status in reported if status in ENDED]
    known = [status for status in reversed(reported) if status and status != "pending"]
    return next(iter([*ended, *([LOST] if lost else known)]), "pending") or "pending"


def _with_agent(made: JobRow, agent: str) -> JobRow:
    name, _, version = agent.partition("@")
    return replace(made, agent=name, version=version or None)


def _unfollowed(job_id: str, handle: JobHandle | None) -> JobRow:
    """What is known of a job whose events nothing reads: the progress that its handle keeps."""
    event = handle.progress if handle is not None else None
    current = number(event.current) if event is not None else None
    if event is None or current is None:
        return JobRow(job_id=job_id)
    total = number(event.total)
    return JobRow(
        job_id=job_id,
        current=digits.value_of(event, "current"),
        total=None if total is None else digits.value_of(event, "total"),
        units=event.units and short(event.units),
        done=Bar(current, total).share,
    )
