"""Buffers events that arrive before `job.accepted`, for a limited time (D12).

The number of such jobs and the time are limited. Events of a job that is never accepted go to the
consumers of the session only.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["EVENTS", "EarlyEvents"]

_log = logging.getLogger("arcp_client.dispatch")

EVENTS = 256
"""Events that are kept of one such job."""

_JOBS = 64
_SECONDS = 30.0
_REMEMBERED = 1024


class EarlyEvents:
    """The jobs that wait to be told of, oldest first.

    Args:
        wanted: whether somebody uses what is known of a job: then it stays.
        drop: called with the id of a job that is given up.
    """

    def __init__(self, *, wanted: Callable[[str], bool], drop: Callable[[str], None]) -> None:
        self._wanted = wanted
        self._drop = drop
        self._since: OrderedDict[str, float] = OrderedDict()
        self._dropped: OrderedDict[str, None] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def admits(self, job_id: str) -> bool:
        """An event came of a job that nobody told of: whether to keep it; False once given up."""
        if job_id in self._dropped:
            return False
        loop = asyncio.get_running_loop()
        self._since[job_id] = loop.time()
        if len(self._since) > _JOBS:
            self._give_up(next(iter(self._since)), f"more than {_JOBS} such jobs")
        if self._timer is None:
            self._timer = loop.call_later(_SECONDS, self._look)
        return True

    def claim(self, job_id: str) -> bool:
        """The job was told of, or has ended; True if it waited for that."""
        self._dropped.pop(job_id, None)
        return self._since.pop(job_id, self) is not self

    def close(self) -> None:
        """Wait for none any more."""
        self._since.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._since:
            job_id, since = next(iter(self._since.items()))
            if now < since + _SECONDS:
                self._timer = loop.call_at(since + _SECONDS, self._look)
                return
            self._give_up(job_id, f"none in {_SECONDS:.0f} s")

    def _give_up(self, job_id: str, why: str) -> None:
        del self._since[job_id]
        if self._wanted(job_id):
            return
        _log.warning("events of job %s came without its acceptance (%s)", job_id[:80], why)
        self._dropped[job_id] = None
        if len(self._dropped) > _REMEMBERED:
            self._dropped.popitem(last=False)
        self._drop(job_id)
