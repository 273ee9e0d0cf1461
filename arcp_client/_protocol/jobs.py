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
    """The recovery plan that runs for a job; see `plans` and `recovery`.

    Attributes:
        plan: the plan, a generator of steps.
        again: restarts the plan after a lost link.
        needs: the `Recover` from which the peer chose the plan, if any.
        step: the step whose answer the plan waits for.
        may_have_lost_events: events may be lost, and the `Gap` is not delivered yet.
        behind_gap: no event of the job was delivered since the `Gap` of a session that is gone.
        unconfirmed: a subscription was requested, and it was neither confirmed nor refused.
        welcomed_at: the time of the welcome of its link, by the runtime's clock.
        subscribed_before: that time of each earlier link on which such a subscription was
            requested, and which was lost; None where the time is not known.
        only_outcome: only events of the result are delivered.
        deadline: when the step times out; None while an answer is awaited.
        came: an event of the job arrived during this step.
        waits_since: when the wait for the terminal message began.
        probes: the number of pings during that wait.
        held: the terminal message that waits until the history has arrived.
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

    Attributes:
        job_id: its id.
        open: the session knows of it, and it has not ended.
        submitted: this client submitted it.
        subscribed: this session subscribed to it.
        from_now_on: subscribed without its history: only later events are wanted.
        announced: the runtime announced it; its events come without a subscription.
        early: events of it arrived in this session before its acceptance, and were not asked for.
        origin_session: the session that submitted it, where known; its numbers are the job's.
        resume_after: the last number received in the origin session, once that session is gone.
        agent: name or name@version, once known.
        key: the idempotency key of its submit.
        payload: of its submit; sent again where that is the only way to a lost outcome.
        trace_id: of its submit.
        cancelled: the runtime accepted a cancel of it.
        first_missing: the first number of a gap that may contain its terminal message.
        began_at: the time of its first event, for a job that is watched without its past.
        skips_past: a history is on its way; its events before that time are skipped.
        delivered: marks of its delivered events, where a history may bring them again.
        histories: the number of requested histories that have not ended.
        history_requested: a subscription with history waits for its confirmation.
        unsubscribing: the runtime has not confirmed that it read the unsubscribe.
        unsubscribe_barrier: the barrier after the unsubscribe, once that was sent.
        recovering: the recovery plan that runs for it.
        interrupted: the plan that a lost link interrupted; the next link restarts it.
        stored_end: its terminal message, which arrived behind a hole of an earlier session.
        peer: the state of the peer's repairs for the job.
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
        """Whether its next event can be delivered without a further check."""
        return self.delivered is None and self.recovering is None and not self.unsubscribing


REMEMBERED: Final = 4096
"""Ended jobs that are remembered, so that a second terminal message is recognised."""
EARLY: Final = 256
"""Jobs that are remembered because their events arrived before their acceptance."""


class Jobs:
    """The jobs of one session: the open ones, and the last ones that ended.

    Args:
        remember: how many ended ones are remembered.

    Attributes:
        table: every job by its id; looked at for each event, so a plain dict.
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
        """The open job of that id; an unknown or ended job is opened."""
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
        """Whether events of an accepted job arrived before; true once."""
        early, job.early = job.early, False
        self._early.pop(job, None)
        return early

    def restarted(self) -> None:
        """Forget which events arrived before their job: a new session began."""
        for job in tuple(self._early):
            self._forget_early(job)

    def _forget_early(self, job: JobState) -> None:
        self.take_early(job)
        self.tidy(job)

    def resume(self, open_job: OpenJob, *, origin: str) -> None:
        """Take over a job that was open at the checkpoint; its submit is not repeated."""
        job = self.learn(open_job.job_id)
        job.submitted = True
        job.origin_session, job.agent = origin, open_job.agent
        job.key = open_job.idempotency_key

    def end(self, job_id: str) -> bool:
        """End a job: drop the state of an open job. False if the job had ended before.

        Events that a later history may repeat are still recognised: see `dedup`.
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
        for field in JobState.__struct_fields__:
            setattr(job, field, getattr(kept, field))
        return job
