"""Keeps the outcomes of the jobs that ended last, within limits, for a restart.

A job's terminal message is processed once: after that, the runtime does not send it again, and some
runtimes drop the outcome. From here, later calls of `result()` get the outcome, also after a crash.

See rule S10 in docs/explanation/rules.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from arcp_client._wire.codec import parse, to_json
from arcp_client._wire.ids import parse_time, time_text
from arcp_client.events import Completed, Event, Failed
from arcp_client.models import EndedJob, OpenJob

__all__ = ["EndedJobs", "event_of"]

_JOBS = 256
_BYTES = 64 * 1024 * 1024
_SHARED = ("seq", "id", "session_id", "job_id", "trace_id")
_OF: dict[str, tuple[type[Event], tuple[str, ...]]] = {
    "completed": (Completed, ("value", "result_id", "result_size", "summary")),
    "failed": (Failed, ("status", "code", "message", "retryable", "details")),
}


class EndedJobs:
    """The jobs of one client that ended last. The oldest is dropped first, the newest never.

    Args:
        jobs: number of jobs to keep.
        bytes_: bytes to keep, streamed results included.
    """

    def __init__(self, *, jobs: int = _JOBS, bytes_: int = _BYTES) -> None:
        self._most = jobs
        self._limit = bytes_
        self._kept: dict[str, EndedJob] = {}
        self._sizes: dict[str, int] = {}

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    @property
    def all(self) -> tuple[EndedJob, ...]:
        """All kept jobs, the oldest first."""
        return tuple(self._kept.values())

    def restore(self, ended: Iterable[EndedJob], beside: Callable[[str], int]) -> None:
        """Restore the jobs from a checkpoint.

        Args:
            ended: the jobs, the oldest first.
            beside: returns the bytes of a job's stored chunks.
        """
        for job in ended:
            self._add(job, len(job.outcome) + beside(job.job_id))

    def keep(self, job: OpenJob, end: Event, *, beside: int) -> None:
        """Add a job whose events are all processed.

        Args:
            job: the job.
            end: its terminal event.
            beside: bytes of its stored chunks.
        """
        outcome = _text_of(end)
        if outcome is not None:
            ended = EndedJob(
                job.job_id, job.agent, job.idempotency_key, job.payload_hash, outcome=outcome
            )
            self._add(ended, len(outcome) + beside)

    def _add(self, job: EndedJob, size: int) -> None:
        self._kept.pop(job.job_id, None)
        self._kept[job.job_id] = job
        self._sizes[job.job_id] = size
        total = sum(self._sizes.values())
        while len(self._kept) > 1 and (len(self._kept) > self._most or total > self._limit):
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            total -= self._sizes.pop(oldest)


def _text_of(end: Event) -> str | None:
    for name, (cls, fields) in _OF.items():
        if isinstance(end, cls):
            kept: dict[str, Any] = {each: getattr(end, each) for each in (*_SHARED, *fields)}
            if isinstance(end, Completed) and end.completed_at is not None:
                kept["completed_at"] = time_text(end.completed_at)
            return to_json({"end": name, **kept}).decode()
    return None


def event_of(job: EndedJob) -> Completed | Failed | None:
    """Restore a job's terminal event; ``None`` if a later version wrote it in another format."""
    try:
        kept = parse(job.outcome.encode())
        cls, fields = _OF[kept["end"]]
        told = {each: kept[each] for each in (*_SHARED, *fields) if each in kept}
        if kept.get("completed_at") is not None:
            told["completed_at"] = parse_time(kept["completed_at"])
        event = cls(**told)
    except (KeyError, TypeError, ValueError):
        return None
    assert isinstance(event, Completed | Failed)
    return event
