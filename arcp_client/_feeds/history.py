"""Decides whether the past events of a job have arrived, for readers that begin with its state.

A history is complete with the last past event that the runtime has named (`JobHandle.history_last`)
or with the end of the job. Other histories count as complete after a pause, or after ten seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from arcp_client.events import Event
from arcp_client.job import JobHandle
from arcp_client.projection.values import in_utc

__all__ = ["QUIET", "History"]

QUIET = 1.0
"""Seconds without an event after which a history counts as complete."""
_LONGEST = 10.0
"""Seconds after its start after which a history counts as complete."""
_PAUSE = 0.25
"""Seconds without a past event after which a history counts as read, for a reader that hurries."""
_RATE = 2500
"""Events a second that arrive only during a history."""
_RATE_INTERVAL = 0.1


class History:
    """The arrival of the past events of one job, from now on.

    Args:
        job: the job.

    Attributes:
        complete: whether the last past event has arrived, or the end of the job.
    """

    def __init__(self, job: JobHandle) -> None:
        self._job = job
        self._began = self._grew = asyncio.get_running_loop().time()
        self._began_at = datetime.now(UTC)
        self._newest: datetime | None = None
        self._count = 0
        self._measured = (self._began, 0)
        self._rate = float("inf")
        self._last = job.history_last
        self.complete = self._last == ""

    def extend(self, batch: Sequence[Event]) -> bool:
        """Note the next events of the job; returns whether they complete its history."""
        self._grew = now = asyncio.get_running_loop().time()
        if not self._count:
            self._measured = now, 0
        self._count += len(batch)
        self._newest = next((each.ts for each in reversed(batch) if each.ts), self._newest)
        since, count = self._measured
        if now - since >= _RATE_INTERVAL:
            self._rate = (self._count - count) / (now - since)
            self._measured = now, self._count
        if self.complete:
            return False
        if self._last is None:  # its subscription may have been confirmed meanwhile
            self._last = self._job.history_last
        self.complete = batch[-1].terminal or any(each.id == self._last for each in batch)
        return self.complete

    @property
    def left(self) -> float:
        """Seconds after which the history counts as complete, unless events arrive; at least 0."""
        if self.complete:
            return 0.0
        now = asyncio.get_running_loop().time()
        return max(0.0, min(self._grew + QUIET, self._began + _LONGEST) - now)

    @property
    def arrives_quickly(self) -> bool:
        """Whether past events arrive, without a pause or much faster than new ones."""
        now = asyncio.get_running_loop().time()
        if self.complete or now >= self._began + _LONGEST:
            return False
        newest = in_utc(self._newest)
        if not self._count or (newest is not None and newest < self._began_at):
            return now < self._grew + _PAUSE
        since, count = self._measured
        rate = self._rate
        if now - since >= _RATE_INTERVAL:
            rate = (self._count - count) / (now - since)
        return rate > _RATE
