"""Resumes the session from time to time, for runtimes that send stored events only then (§6.3).

Such a runtime stores the events that a job emits after the link of its client was lost. The runtime
sends them at the next resume, and after that it stores events again. If the runtime lets a
session subscribe to its own jobs, the client subscribes, which restores delivery. Otherwise, and
until the subscription is confirmed, the client polls by resuming the session.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from arcp_client._protocol.jobs import JobState
from arcp_client._protocol.peer import AcceptanceContext, Peer, Received, View
from arcp_client._protocol.pending import Request
from arcp_client._protocol.plan_runner import OWN_TIMEOUT
from arcp_client._protocol.plans import Recover
from arcp_client._wire import names
from arcp_client._wire.messages import SubscribeMessage
from arcp_client._wire.replies import Subscribed
from arcp_client.errors import ArcpError, LinkLost

__all__ = ["FIRST_PAUSE", "LONGEST_PAUSE", "ResumePolling", "SilentResume"]

FIRST_PAUSE: Final = 2.0
"""Seconds until the first resume that only polls for events."""
LONGEST_PAUSE: Final = 30.0
"""The longest pause between two such resumes; pauses double while no events arrive."""
_BUSY: Final = 1.0


class ResumePolling:
    """Decides when to resume for jobs whose events the runtime sends only at a resume.

    Attributes:
        deadline: the time at which `due` must be called; ``None`` if there are no such jobs.
    """

    def __init__(self) -> None:
        self.deadline: float | None = None
        self._jobs: set[JobState] = set()
        self._pause = FIRST_PAUSE
        self._cursor = -1

    def resumed(self, jobs: Iterable[JobState], cursor: int, now: float) -> None:
        """Start polling after a resume.

        Args:
            jobs: running jobs that were submitted over earlier links.
            cursor: the number up to which all events were received before the resume.
            now: the time.
        """
        moved, self._cursor = cursor != self._cursor, cursor
        self._pause = FIRST_PAUSE if moved else min(2 * self._pause, LONGEST_PAUSE)
        self._jobs = set(jobs)
        self.deadline = now + self._pause if self._jobs else None

    def add(self, job: JobState, now: float) -> None:
        """Poll for a further job that is bound to a lost link."""
        self._jobs.add(job)
        if self.deadline is None:
            self.deadline = now + self._pause

    def remove(self, job: JobState) -> None:
        """Stop polling for a job, because it has ended or its events arrive without polling."""
        self._jobs.discard(job)
        if not self._jobs:
            self.deadline = None

    def due(self, now: float, *, busy: bool) -> bool:
        """Whether to resume now. Not while a request waits for its answer (``busy``)."""
        if self.deadline is None or now < self.deadline:
            return False
        self.deadline = now + _BUSY
        return not busy

    def link_lost(self) -> None:
        """Stop polling until `resumed` is called with the jobs of the next link."""
        self._jobs.clear()
        self.deadline = None


class SilentResume(Peer):
    """A runtime that sends a resumed session no new events of jobs that were submitted before.

    Attributes:
        hears_by_subscribing: it sends them if the session subscribes to the job.
        counts_by_job: the number after which a history starts counts only events of the job.
    """

    may_fall_silent: ClassVar[bool] = True
    doubts_acceptances: ClassVar[bool] = True
    hears_by_subscribing: ClassVar[bool] = False
    counts_by_job: ClassVar[bool] = False

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._polling = ResumePolling()

    # -- which jobs

    def opened(self, now: float, *, resumed: bool) -> None:
        super().opened(now, resumed=resumed)
        if not resumed:
            return
        jobs = [job for job in self.view.jobs if self._is_own(job)]
        self._polling.resumed(jobs, self.view.receiver.cursor, now)
        for job in jobs:
            if job.interrupted is None:  # else a plan subscribes to it
                self._subscribe(job, now)

    def after_acceptance(
        self, job: JobState, acceptance: AcceptanceContext, now: float
    ) -> Recover | None:
        if acceptance.elsewhere:
            return Recover(history=True, poll_if_silent=False)
        if acceptance.resent:
            self._polling.add(job, now)  # it was started over the link that is gone
            self._subscribe(job, now)
        return None

    def after_resume(self, job: JobState) -> Recover | None:
        if self._is_own(job):
            return None  # the next resume brings its events
        self.wants_history(job)
        return Recover(history=True, after=self.history_start(job))

    def after_gap(self, job: JobState, position: int | None) -> Recover:
        return super().after_gap(job, None if self.counts_by_job else position)

    def _is_own(self, job: JobState) -> bool:
        """Whether this session submitted the job."""
        return job.submitted and job.origin_session == self.view.negotiated.session_id

    def settled(self, request: Request, *, confirmed: bool, late: bool = False) -> None:
        super().settled(request, confirmed=confirmed, late=late)
        if request.kind != names.SUBSCRIBE or request.owner is not None or not confirmed or late:
            return
        if len(request.ids) > 1 and request.job_id is not None and not self.hears_by_subscribing:
            # The subscription may be bound to the lost link on which it was sent first.
            now = self.view.out.heartbeat.heard_at
            self._polling.add(self.view.jobs.state(request.job_id), now)

    def history_start(self, job: JobState) -> int | None:
        return None if self.counts_by_job else super().history_start(job)

    def link_lost(self) -> None:
        super().link_lost()
        self._polling.link_lost()
        for request in self.view.pending:
            if request.owner is self:
                self.view.pending.remove(request)

    def job_ended(self, job: JobState) -> None:
        super().job_ended(job)
        self._polling.remove(job)

    def _subscribe(self, job: JobState, now: float) -> None:
        if self.hears_by_subscribing and self.view.negotiated.offers(names.SUBSCRIPTIONS):
            # Its history has the events between the resume's replay and the subscription.
            message = SubscribeMessage(
                job_id=job.job_id, history=True, from_event_seq=self.view.receiver.cursor or None
            )
            self.view.pending.add(
                Request(
                    kind=names.SUBSCRIBE,
                    payload=message.wire(),
                    deadline=now + OWN_TIMEOUT,
                    job_id=job.job_id,
                    owner=self,
                )
            )

    # -- its own requests

    def answered(self, request: Request, value: object, now: float) -> None:
        """Called when a subscription was confirmed. A job that has ended is polled for its end."""
        assert request.job_id is not None
        self.view.receiver.subscribed(request.job_id)
        if isinstance(value, Subscribed) and value.status not in names.ENDED:
            self._polling.remove(self.view.jobs.state(request.job_id))

    def refused(self, request: Request, error: ArcpError, now: float) -> None:
        """Called when a subscription was refused. Does nothing: the polling continues."""

    # -- time

    @property
    def deadline(self) -> float | None:
        due_at = None if self.view.blind else self._polling.deadline
        return _earliest(super().deadline, due_at)

    def tick(self, now: float) -> Iterable[Received]:
        busy = self.view.pending.asked()
        if not self.view.blind and self._polling.due(now, busy=busy):
            text = "jobs run of which this link receives nothing: the next resume brings it"
            self.view.out.relink(LinkLost(f"{text} (§6.3)"))
        yield from super().tick(now)


def _earliest(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else min(one, other)
