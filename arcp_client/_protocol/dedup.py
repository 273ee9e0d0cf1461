"""Recognises events that a history repeats, by their envelope ids (§7.6).

The events of a job are compared from the moment at which a history of it may come. ``receiver``
calls `repeats` before it delivers an event. For runtimes that change the ids of repeated events,
`Peer.identities` gives other marks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from arcp_client._protocol.jobs import Jobs, JobState

__all__ = ["Deduplication"]

REMEMBERED: Final = 65536
"""Marks of events remembered of one job."""
LATER: Final = 4 * REMEMBERED
"""Marks remembered of all ended jobs whose histories have not ended."""
LATER_JOBS: Final = 256
"""The most such jobs."""


class Deduplication:
    """The marks of events that may come again. They are kept in each `JobState`.

    Args:
        jobs: the jobs of the session.
        forgotten: called with each job whose events are no longer compared.

    Attributes:
        found: the number of repeats.
    """

    def __init__(self, jobs: Jobs, forgotten: Callable[[JobState], None]) -> None:
        self.found = 0
        self._forgotten = forgotten
        self._jobs = jobs

    def restore(self, job: JobState, ids: Iterable[str]) -> None:
        """Restore the ids of events that an earlier process has handled.

        The job is compared even without ids, because that process may have subscribed to it.
        """
        job.delivered = OrderedDict.fromkeys(ids)

    def remember(self, job: JobState) -> None:
        """Compare the events of a job from now on, because a history may come."""
        if job.delivered is None:
            job.delivered = OrderedDict()

    def requested(self, job: JobState, *, history: bool) -> None:
        """Note a sent subscription."""
        self.remember(job)
        if history:
            job.history_requested = True
            job.histories += 1

    def answered(self, job: JobState) -> None:
        """Note that a subscription was confirmed or refused."""
        job.history_requested = False
        if self._jobs.has_ended(job.job_id) and not job.histories:
            self.forget(job)

    def restarted(self) -> None:
        """Drop the expected histories: they do not come in a new session."""
        for job in self._jobs.table.values():
            job.histories = 0
            job.history_requested = False

    def may_come(self, job_id: str) -> bool:
        """Whether a requested history of the job has not ended."""
        job = self._jobs.table.get(job_id)
        if job is None or job.delivered is None:
            return False
        return job.histories > 0 or self._jobs.has_ended(job_id)

    def ended(self, job_id: str) -> None:
        """Note a terminal message, which ends one expected history.

        A subscription whose answer was lost is sent again, and both may be answered with the whole
        history. The second one repeats the first.
        """
        job = self._jobs.table.get(job_id)
        if job is None or job.delivered is None:
            return
        job.histories = max(0, job.histories - 1)
        if not job.histories and not job.history_requested:
            self.forget(job)
            return
        later = [other for other in self._jobs.ended if other.delivered is not None]
        marks = sum(len(other.delivered or ()) for other in later)
        while len(later) > 1 and (len(later) > LATER_JOBS or marks > LATER):
            oldest = later.pop(0)
            marks -= len(oldest.delivered or ())
            self.forget(oldest)

    def forget(self, job: JobState) -> None:
        """Forget a job that ended, or whose events come again from the beginning."""
        job.delivered = None
        job.histories = 0
        job.history_requested = False
        self._forgotten(job)
        self._jobs.tidy(job)

    def repeats(self, job: JobState | None, marks: list[str]) -> bool:
        """Whether an event with these marks was delivered before. Remembers the marks."""
        if job is None or job.delivered is None or not marks:
            return False
        known = job.delivered
        again = not known.keys().isdisjoint(marks)
        self.found += again
        known.update(dict.fromkeys(marks))
        while len(known) > REMEMBERED:
            known.popitem(last=False)
        return again
