"""What is known of a job in, one row of the table of jobs out."""

from __future__ import annotations

from typing import Any

from arcp_client import JobHandle, JobSummary
from arcp_client.projection import ENDED, JobProjection

__all__ = ["row"]


def row(
    job_id: str,
    *,
    summary: JobSummary | None = None,
    handle: JobHandle | None = None,
    seen: JobProjection | None = None,
) -> dict[str, Any]:
    """A row, from the newest that is known: the events seen, the handle, then the listing.

    Args:
        job_id: the job.
        summary: what the runtime's listing says.
        handle: the job, if this session has heard of it.
        seen: its events so far, if somebody looks at it.
    """
    agent = (handle.agent if handle is not None else "") or (summary.agent if summary else "")
    name, _, version = agent.partition("@")
    told = [each.status for each in (seen, handle, summary) if each is not None]
    # Whoever knows of the end knows best: a job that is watched no longer stands still here.
    ended = [status for status in told if status in ENDED]
    known = [status for status in reversed(told) if status and status != "pending"]
    status = next(iter([*ended, *known]), "pending")
    created = summary.created_at if summary is not None else None
    bar = handle.progress if handle is not None else None
    return {
        "job_id": job_id,
        "agent": name,
        "version": version or None,
        "status": status,
        "created_at": created.isoformat() if created is not None else None,
        "parent_job_id": summary.parent_job_id if summary is not None else None,
        "progress": None
        if bar is None
        else {
            "current": bar.current,
            "total": bar.total,
            "units": bar.units,
            "message": bar.message,
        },
        "phase": seen.phase if seen is not None else None,
        "last_event_seq": summary.last_event_seq if summary is not None else None,
    }
