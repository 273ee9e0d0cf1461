"""Recognises events that a history brings again, by their envelope ids (§7.6).

A job's events are compared from the moment on at which a history of it may come. ``receiver`` asks
before it delivers. Runtimes that rename what they send again give further marks of an event, see
`Peer.identities`.
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
"""Marks remembered of all jobs that have ended and whose histories are still to come."""
LATER_JOBS: Final = 256
"""How many such jobs there are."""


class Deduplication:
    """The events of a session that may come again.

    What is remembered of a job stands in its `JobState`.

    Args:
        jobs: the jobs of the session.
        forgotten: called with each job whose events are no longer compared.

    Attributes:
        found: how many repeats were found.
    """

    def __init__(self, jobs: Jobs, forgotten: Callable[[JobState], None]) -> None:
        self.found = 0
        self._forgotten = forgotten
        self._jobs = jobs

    def restore(self, job: JobState, ids: Iterable[str]) -> None:
        """These events of an open job were processed in an earlier life of the client.

        The job is remembered even if there are none: that life may have subscribed to it.
        """
        job.delivered = OrderedDict.fromkeys(ids)

    def remember(self, job: JobState) -> None:
        """A history of the job may come: its events are known by their ids from now on."""
        if job.delivered is None:
            job.delivered = OrderedDict()

    def requested(self, job: JobState, *, history: bool) -> None:
        """A subscription is sent."""
        self.remember(job)
        if history:
            job.history_requested = True
            job.histories += 1

    def answered(self, job: JobState) -> None:
        """A subscription was confirmed or refused: its history is not on its way any more."""
        job.history_requested = False
        if self._jobs.has_ended(job.job_id) and not job.histories:
            self.forget(job)

    def restarted(self) -> None:
        """A new session: no history that was asked for in the one before comes in it."""
        for job in self._jobs.table.values():
            job.histories = 0
            job.history_requested = False

    def may_come(self, job_id: str) -> bool:
        """Whether a history of the job that was asked for has not come to its end."""
        job = self._jobs.table.get(job_id)
        if job is None or job.delivered is None:
            return False
        return job.histories > 0 or self._jobs.has_ended(job_id)

    def ended(self, job_id: str) -> None:
        """The end of a job came, for the first time or once more: one history less is to come.

        A subscription whose answer was lost is sent again, and both may be answered with all of
        the job: the first time by the replay, and the second time nothing of it is new.
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
        """Whether an event with these marks was delivered before; if not, it is now."""
        if job is None or job.delivered is None or not marks:
            return False
        known = job.delivered
        again = not known.keys().isdisjoint(marks)
        self.found += again
        known.update(dict.fromkeys(marks))
        while len(known) > REMEMBERED:
            known.popitem(last=False)
        return again
