"""Retains ended jobs for a time, within limits shared fairly between principals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._jobs.shares import Shares
from arcp_client.runtime.limits import Limits

__all__ = ["RetainedJobs"]


class RetainedJobs:
    """The ended jobs that can still be listed and subscribed to.

    Args:
        limits: bounds number, bytes and time.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._sizes: dict[ServerJob, int] = {}
        self._of: dict[str, dict[ServerJob, None]] = {}
        self._shares = Shares()
        self._bytes: Counter[str] = Counter()
        self._total = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, job: ServerJob, size: int) -> None:
        """Retain a job that has just ended."""
        self._sizes[job] = size
        self._of.setdefault(job.principal, {})[job] = None
        self._shares.add(job.principal)
        self._bytes[job.principal] += size
        self._total += size

    def overdue(self, now: float) -> Iterator[ServerJob]:
        """Remove and yield the jobs whose retention is over.

        These are first the jobs that ended too long ago, and then, while there are too many jobs or
        bytes, the oldest job of the principal that has most.
        """
        limits = self._limits
        while self._sizes:
            job = next(iter(self._sizes))
            if job.ended_at > now - limits.retention:
                if len(self._sizes) > limits.retained_jobs:
                    job = self._oldest(self._shares.largest())
                elif self._total > limits.retained_bytes:
                    job = self._oldest(max(self._bytes, key=self._bytes.__getitem__))
                else:
                    return
            self._remove(job)
            yield job

    def due(self) -> float | None:
        """Return the time at which the oldest job expires."""
        job = next(iter(self._sizes), None)
        return None if job is None else job.ended_at + self._limits.retention

    def remove(self, job: ServerJob) -> None:
        """Retain a job no longer."""
        self._remove(job)

    def _oldest(self, principal: str) -> ServerJob:
        return next(iter(self._of[principal]))

    def _remove(self, job: ServerJob) -> None:
        size = self._sizes.pop(job)
        principal = job.principal
        theirs = self._of[principal]
        del theirs[job]
        self._shares.remove(principal)
        self._bytes[principal] -= size
        self._total -= size
        if not theirs:
            del self._of[principal], self._bytes[principal]
