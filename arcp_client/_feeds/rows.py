"""Builds the row of a job in the job list from its events, its handle and the runtime's listing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from arcp_client.events import Progress
from arcp_client.job import JobHandle
from arcp_client.models import JobSummary
from arcp_client.projection import ENDED, JobProjection

__all__ = ["LOST", "Outcome", "row"]

LOST = "lost"
"""The status of a job that the runtime no longer lists and whose end is unknown."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended, for its row after its events were dropped.

    Attributes:
        status: the final status.
        began_at: the time of the first event, by the runtime's clock, in ISO 8601.
        ended_at: the time of the terminal event.
        error: the code and the message, if the job failed.
        progress: the last progress report.
    """

    status: str
    began_at: str | None = None
    ended_at: str | None = None
    error: str | None = None
    progress: dict[str, Any] | None = None

    @classmethod
    def of(cls, seen: JobProjection) -> Outcome:
        """The state of a job according to its events so far."""
        bars = seen.progress
        began, last = seen.began_at, seen.last_at
        return cls(
            status=seen.status,
            began_at=began.isoformat() if began is not None else None,
            ended_at=last.isoformat() if last is not None and seen.ended else None,
            error=None if seen.error is None else f"{seen.error.code}: {seen.error.message}",
            progress=asdict(bars[-1]) if bars else None,
        )


def row(
    job_id: str,
    *,
    summary: JobSummary | None = None,
    handle: JobHandle | None = None,
    seen: JobProjection | None = None,
    outcome: Outcome | None = None,
    lost: bool = False,
) -> dict[str, Any]:
    """The row of a job: from its events if possible, else from the handle, else from the listing.

    Args:
        job_id: the id of the job.
        summary: the entry in the runtime's listing.
        handle: the handle of the job, if this session has one.
        seen: the state according to its events, if the dashboard follows them.
        outcome: how the job ended, if the dashboard followed it to the end.
        lost: whether the runtime no longer lists the job.
    """
    if seen is not None:
        outcome = Outcome.of(seen)
    agent = (handle.agent if handle is not None else "") or (summary.agent if summary else "")
    name, _, version = agent.partition("@")
    reported = [each.status for each in (outcome, handle, summary) if each is not None]
    # A final status wins: the status of a job that is no longer watched is out of date.
    ended = [status for status in reported if status in ENDED]
    known = [status for status in reversed(reported) if status and status != "pending"]
    status = next(iter([*ended, *([LOST] if lost else known)]), "pending")
    created = summary.created_at if summary is not None else None
    began = outcome.began_at if outcome is not None else None
    bar = handle.progress if handle is not None else None
    return {
        "job_id": job_id,
        "agent": name,
        "version": version or None,
        "status": status,
        "created_at": created.isoformat() if created is not None else began,
        "ended_at": outcome.ended_at if outcome is not None else None,
        "reason": outcome.error if outcome is not None else None,
        "parent_job_id": summary.parent_job_id if summary is not None else None,
        "progress": outcome.progress if bar is None and outcome is not None else _progress(bar),
        "phase": seen.phase if seen is not None else None,
        "last_event_seq": summary.last_event_seq if summary is not None else None,
    }


def _progress(bar: Progress | None) -> dict[str, Any] | None:
    if bar is None:
        return None
    return {name: getattr(bar, name) for name in ("current", "total", "units", "message")}
