"""Recognises events that a history repeats, by their envelope ids (§7.6).

A *history* is the past events of a job, which a runtime sends to a client that subscribes to the
job. The client may have some of these events already. So this module stores a *mark* of each event
of a job from the moment on at which a history of the job may come. The mark is normally the
envelope id. Some runtimes give a repeated event another id; for these, `Peer.identities` returns
the marks. `receiver` calls `Deduplication.repeats` before it delivers an event.
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
"""The maximum number of ended jobs whose marks are remembered."""


class Deduplication:
    """Compares the marks of events. They are stored in `JobState.delivered`.

    Args:
        jobs: the jobs of the session.
        forgotten: called with each job whose marks are dropped.

    Attributes:
        found: the number of repeats.
    """

    def __init__(self, jobs: Jobs, forgotten: Callable[[JobState], None]) -> None:
        self.found = 0
        self._forgotten = forgotten
        self._jobs = jobs

    def restore(self, job: JobState, ids: Iterable[str]) -> None:
        """Restore the ids of events that an earlier process has handled.

        Events of the job are compared from now on even if there are no ids, because that process
        may have subscribed to the job.
        """
        job.delivered = OrderedDict.fromkeys(ids)

    def remember(self, job: JobState) -> None:
        """Store the marks of a job's events from now on, because a history may come."""
        if job.delivered is None:
            job.delivered = OrderedDict()

    def requested(self, job: JobState, *, history: bool) -> None:
        """Note that a subscription was sent."""
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
        """Stop expecting histories: in a new session they do not come."""
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

        There may be more than one: a subscription whose answer was lost is sent again, and the
        runtime may answer each with the whole history.
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
        """Drop the marks of a job that has ended, or whose events come again from the beginning."""
        job.delivered = None
        job.histories = 0
        job.history_requested = False
        self._forgotten(job)
        self._jobs.tidy(job)

    def repeats(self, job: JobState | None, marks: list[str]) -> bool:
        """Whether an event with one of these marks was delivered before. Stores the marks."""
        if job is None or job.delivered is None or not marks:
            return False
        known = job.delivered
        if len(marks) == 1:  # nearly always
            again = marks[0] in known
            known[marks[0]] = None
        else:
            again = not known.keys().isdisjoint(marks)
            known.update(dict.fromkeys(marks))
        self.found += again
        while len(known) > REMEMBERED:
            known.popitem(last=False)
        return again
