"""Keeps the inputs that users submitted, so that a page can show and submit them again."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["KeptInputs"]

_BYTES = 16 << 20
_INPUTS = 2000


class KeptInputs:
    """The latest submits by the id of their job: at most 16 MiB, and 2,000 jobs."""

    def __init__(self, *, limit: int = _BYTES, most: int = _INPUTS) -> None:
        self._limit = limit
        self._most = most
        self._held = 0
        self._by_job: OrderedDict[str, bytes] = OrderedDict()

    def add(self, job_id: str, given: bytes) -> None:
        """Keep the input of a job in place of the oldest ones."""
        self._held += len(given) - len(self._by_job.pop(job_id, b""))
        self._by_job[job_id] = given
        while self._held > self._limit or len(self._by_job) > self._most:
            self._held -= len(self._by_job.popitem(last=False)[1])

    def get(self, job_id: str) -> bytes | None:
        """What was submitted for this job, as JSON; ``None`` if it is not kept."""
        return self._by_job.get(job_id)
