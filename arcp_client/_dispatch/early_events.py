"""Limits the buffering of events that arrive before `job.accepted`.

These early events are kept for their job, for a limited time and for a limited number of jobs. If
the job is never accepted, only the consumers of the whole session get its events.

See rule D12 in docs/explanation/rules.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable

from arcp_client._log_fields import log_fields

__all__ = ["EVENTS", "EarlyEvents"]

_log = logging.getLogger("arcp_client.dispatch")

EVENTS = 256
"""Number of events kept for each such job."""

_JOBS = 64
_SECONDS = 30.0
_REMEMBERED = 1024


class EarlyEvents:
    """The jobs with early events, oldest first.

    Args:
        in_use: whether the application uses the job's record; if so, the record is not dropped.
        drop: called with the id of a job whose early events are dropped.
    """

    def __init__(self, *, in_use: Callable[[str], bool], drop: Callable[[str], None]) -> None:
        self._in_use = in_use
        self._drop = drop
        self._since: OrderedDict[str, float] = OrderedDict()
        self._dropped: OrderedDict[str, None] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def admits(self, job_id: str) -> bool:
        """Whether to buffer an event of an unknown job. False after the time limit of the job."""
        if job_id in self._dropped:
            return False
        loop = asyncio.get_running_loop()
        self._since[job_id] = loop.time()
        if len(self._since) > _JOBS:
            self._discard(next(iter(self._since)), f"more than {_JOBS} such jobs")
        if self._timer is None:
            self._timer = loop.call_later(_SECONDS, self._expire)
        return True

    def claim(self, job_id: str) -> bool:
        """Stop the time limit of a job that is now known or has ended. False if it had no limit."""
        self._dropped.pop(job_id, None)
        return self._since.pop(job_id, self) is not self

    def close(self) -> None:
        """Drop all jobs, and cancel the timer."""
        self._since.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._since:
            job_id, since = next(iter(self._since.items()))
            if now < since + _SECONDS:
                self._timer = loop.call_at(since + _SECONDS, self._expire)
                return
            self._discard(job_id, f"none in {_SECONDS:.0f} s")

    def _discard(self, job_id: str, why: str) -> None:
        del self._since[job_id]
        if self._in_use(job_id):
            return
        _log.warning(
            "events of job %s arrived without job.accepted (%s)",
            job_id[:80],
            why,
            extra=log_fields(job=job_id),
        )
        self._dropped[job_id] = None
        if len(self._dropped) > _REMEMBERED:
            self._dropped.popitem(last=False)
        self._drop(job_id)
