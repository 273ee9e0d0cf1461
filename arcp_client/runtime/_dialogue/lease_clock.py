"""Stops the clock of a job's lease while a question is open, if the lease says so (§9.5)."""

from __future__ import annotations

from datetime import timedelta

from arcp_client._wire.ids import time_text
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._jobs.registry import JobRegistry
from arcp_client.runtime._leases.grant import Grant

__all__ = ["pause", "unpause"]


def pause(job: ServerJob, now: float) -> None:
    """Stop the clock of a lease that allows it, if it is running."""
    if job.deadline is not None and job.paused_at is None:
        job.paused_at = now


def unpause(job: ServerJob, now: float, jobs: JobRegistry) -> str | None:
    """Start the clock again; return the new end of the lease, or ``None`` if it was not stopped."""
    since, job.paused_at = job.paused_at, None
    if since is None or job.deadline is None or job.grant.expires_at is None:
        return None
    seconds = now - since
    expires_at = job.grant.expires_at + timedelta(seconds=seconds)
    parent = job.parent
    if parent is not None and parent.grant.expires_at is not None:
        # A delegated lease never ends after its parent's (§9.4).
        bound = max(parent.grant.expires_at, job.grant.expires_at)
        seconds -= max((expires_at - bound).total_seconds(), 0.0)
        expires_at = min(expires_at, bound)
    job.grant = Grant(job.grant.lease, expires_at, pauses=True)
    job.deadline += seconds
    if not job.ended:
        jobs.lease_moved(job)
        job.note()
    return time_text(expires_at)
