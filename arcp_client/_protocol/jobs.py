"""Keeps one `JobState` for each job of a session: everything that the session knows of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from datetime import datetime
from typing import Any, Final

import msgspec

from arcp_client._wire.codec import ControlFrame
from arcp_client.models import OpenJob

__all__ = ["JobState", "Jobs", "Recovering", "Terminal"]

Terminal = tuple[ControlFrame, bytes]
"""A terminal message of a job and its bytes."""


class Recovering(msgspec.Struct, eq=False):
    """The state of the recovery plan that runs for a job; see `plans` and `plan_runner`.

    Attributes:
        plan: the plan, a generator of steps.
        again: makes the plan anew, to restart it after a lost link.
        needs: the `Recover` from which the peer chose the plan, if any.
        step: the step whose answer the plan waits for.
        may_have_lost_events: events of the job may be lost, and the `Gap` for them is not yet
            delivered.
        behind_gap: the previous session was closed with a `Gap`, and no event of the job was
            delivered since.
        unconfirmed: a subscription was requested and has been neither confirmed nor refused.
        welcomed_at: the time of the welcome on the plan's link, by the runtime's clock.
        subscribed_before: one entry for each earlier link that was lost before a subscription on
            it was confirmed: the time of the welcome on that link, or None if it is not known.
        only_outcome: of the job's events, only chunks of the result and the end are delivered.
        deadline: the time at which a step without a request ends; None for a step with a request,
            which has its own deadline.
        came: an event of the job arrived during the present step.
        waits_since: the time at which the wait for the terminal message began.
        probes: the number of pings sent during that wait.
        held: the terminal message, while it is held back until the history has arrived.
    """

    plan: Generator[Any, Any, None]
    again: Callable[..., Generator[Any, Any, None]]
    needs: Any = None
    step: Any = None
    may_have_lost_events: bool = False
    behind_gap: bool = False
    unconfirmed: bool = False
    welcomed_at: datetime | None = None
    subscribed_before: tuple[datetime | None, ...] = ()
    only_outcome: bool = False
    deadline: float | None = None
    came: bool = False
    waits_since: float = 0.0
    probes: int = 0
    held: Terminal | None = None


class JobState(msgspec.Struct, eq=False):
    """Everything that a session knows of one job.

    A *history* is the past events of a job, which the runtime sends after a subscription with
    history (see `dedup`).

    Attributes:
        job_id: its id.
        open: the session knows of the job, and the job has not ended.
        submitted: this client submitted it.
        subscribed: this session subscribed to it.
        from_now_on: the subscription is without history: only later events are wanted.
        announced: the runtime announced the job, and sends its events without a subscription.
        early: events of the job arrived in this session before its `job.accepted`, and without a
            subscription.
        origin_session: the session that submitted the job, if known; the job's events are numbered
            in it.
        resume_after: the last number that was received in the origin session, set when a new
            session replaces it.
        agent: name or name@version, once known.
        key: the idempotency key of its submit.
        payload: of its submit; a plan sends it again if that is the only way to a lost outcome.
        trace_id: of its submit.
        cancelled: the runtime accepted a cancel of the job.
        first_missing: the first number of a gap that may cover its terminal message.
        began_at: the time of its first event since the subscription, if `from_now_on`.
        skips_past: a history was requested later, for example to get the outcome of the job; its
            events before `began_at` are skipped.
        delivered: the marks (see `dedup`) of delivered events, if a history may repeat them.
        histories: how many requested histories have not ended.
        history_requested: a subscription with history has not been confirmed or refused.
        unsubscribing: the runtime has not confirmed that it read the unsubscribe.
        unsubscribe_barrier: the nonce of the ping that was sent after the unsubscribe; its pong
            shows that the runtime has read the unsubscribe (see `barriers`).
        recovering: the recovery plan that runs for the job.
        interrupted: the plan that a lost link interrupted; the next link restarts it.
        stored_end: its terminal message, if it arrived behind a hole of an earlier session.
        peer: what the `Peer` stores about the job, in a type of its own; None for most runtimes.
    """

    job_id: str
    open: bool = False
    submitted: bool = False
    subscribed: bool = False
    from_now_on: bool = False
    announced: bool = False
    early: bool = False
    origin_session: str = ""
    resume_after: int | None = None
    agent: str = ""
    key: str | None = None
    payload: object = None
    trace_id: str | None = None
    cancelled: bool = False
    first_missing: int | None = None
    began_at: datetime | None = None
    skips_past: bool = False
    delivered: OrderedDict[str, None] | None = None
    histories: int = 0
    history_requested: bool = False
    unsubscribing: bool = False
    unsubscribe_barrier: str | None = None
    recovering: Recovering | None = None
    interrupted: Recovering | None = None
    stored_end: Terminal | None = None
    peer: Any = None

    @property
    def wanted(self) -> bool:
        """Whether this client wants its events."""
        return self.submitted or self.subscribed

    @property
    def plain(self) -> bool:
        """Whether the job's next event can be delivered without a further check."""
        return self.delivered is None and self.recovering is None and not self.unsubscribing

    @property
    def orderly(self) -> bool:
        """Whether the next event of the job can cause no other delivery than its own."""
        recovering = self.recovering
        lost = recovering is not None and recovering.may_have_lost_events
        return not lost and not self.unsubscribing


REMEMBERED: Final = 4096
"""Ended jobs that are remembered, so that a second terminal message is recognised."""
EARLY: Final = 256
"""Jobs that are remembered because their events arrived before their acceptance."""


class Jobs:
    """The jobs of one session: all open jobs, and the jobs that ended last.

    Args:
        remember: how many ended jobs are remembered.

    Attributes:
        table: every job by its id. A plain dict, because each event needs a lookup.
    """

    def __init__(self, *, remember: int = REMEMBERED) -> None:
        self.table: Final[dict[str | None, JobState]] = {}
        self._ended: OrderedDict[str, JobState] = OrderedDict()
        self._early: dict[JobState, None] = {}
        self.remember = remember

    def __iter__(self) -> Iterator[JobState]:
        """The open jobs."""
        return iter([job for job in self.table.values() if job.open])

    @property
    def ended(self) -> list[JobState]:
        """The ended jobs that are remembered, oldest first."""
        return list(self._ended.values())

    def get(self, job_id: str | None) -> JobState | None:
        """The open job of that id."""
        job = self.table.get(job_id)
        return None if job is None or not job.open else job

    def state(self, job_id: str) -> JobState:
        """The state of a job, open or not; created if it is missing."""
        job = self.table.get(job_id)
        if job is None:
            job = self.table[job_id] = JobState(job_id)
        return job

    def learn(self, job_id: str) -> JobState:
        """The job of that id, which is opened if it is unknown or has ended."""
        job = self.state(job_id)
        self._ended.pop(job_id, None)
        job.open = True
        return job

    def came_early(self, job_id: str) -> None:
        """Note that an event of an unknown job arrived."""
        job = self.state(job_id)
        job.early = True
        self._early[job] = None
        if len(self._early) > EARLY:
            self._forget_early(next(iter(self._early)))

    def take_early(self, job: JobState) -> bool:
        """Whether events of a job arrived before its acceptance. True only once."""
        early, job.early = job.early, False
        self._early.pop(job, None)
        return early

    def restarted(self) -> None:
        """Forget which jobs had early events, because a new session began."""
        for job in tuple(self._early):
            self._forget_early(job)

    def _forget_early(self, job: JobState) -> None:
        self.take_early(job)
        self.tidy(job)

    def resume(self, open_job: OpenJob, *, origin: str) -> None:
        """Take over a job that is open in the checkpoint. It is not submitted again."""
        job = self.learn(open_job.job_id)
        job.submitted = True
        job.origin_session, job.agent = origin, open_job.agent
        job.key = open_job.idempotency_key

    def end(self, job_id: str) -> bool:
        """End a job and drop most of its state. False if the job had ended before.

        Events that a later history repeats are still recognised: see `dedup`.
        """
        if job_id in self._ended:
            return False
        self._ended[job_id] = self._reset(job_id)
        if len(self._ended) > self.remember:
            oldest, _ = self._ended.popitem(last=False)
            del self.table[oldest]
        return True

    def forget(self, job_id: str) -> None:
        """Drop an open job that is no longer wanted. Its later frames are still recognised."""
        self.tidy(self._reset(job_id))

    def reopen(self, job_id: str) -> None:
        """Open an ended job again, because its events will come again from the beginning."""
        self.tidy(self._ended.pop(job_id))

    def tidy(self, job: JobState) -> None:
        """Drop the state of a job if it is no longer needed."""
        if job.open or job.early or job.job_id in self._ended:
            return
        if job.plain and job.peer is None:
            self.table.pop(job.job_id, None)

    def has_ended(self, job_id: str) -> bool:
        """Whether the job is among the remembered ended jobs."""
        return job_id in self._ended

    def _reset(self, job_id: str) -> JobState:
        """Keep only the state for frames that are still on their way."""
        job = self.state(job_id)
        if job.recovering is not None:
            job.recovering.plan.close()
            job.recovering = None
        kept = JobState(
            job_id,
            delivered=job.delivered,
            histories=job.histories,
            history_requested=job.history_requested,
            unsubscribing=job.unsubscribing,
            unsubscribe_barrier=job.unsubscribe_barrier,
            peer=job.peer,
        )
        values = msgspec.structs.astuple(kept)
        for field, value in zip(JobState.__struct_fields__, values, strict=True):
            setattr(job, field, value)
        return job
