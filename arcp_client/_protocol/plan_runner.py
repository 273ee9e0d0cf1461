"""Runs the plans that bring jobs to their outcome.

`recovery` starts the plans, and `plans` defines them. `PlanRunner` sends the request of each step
and continues the plan with the answer, until the plan or the job has ended (rules S4, S5 and S6 in
docs/explanation/rules.md).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec

from arcp_client._protocol import actions
from arcp_client._protocol.jobs import JobState, Recovering
from arcp_client._protocol.peer import Incoming, Peer, View
from arcp_client._protocol.pending import Request
from arcp_client._protocol.plans import (
    PATIENCE,
    QUIET,
    TRIES,
    AwaitSilence,
    AwaitTerminal,
    Backoff,
    EventsLost,
    GiveUp,
    ListJobs,
    Means,
    OnlyOutcome,
    Plan,
    Recover,
    ReleaseTerminal,
    Resubmit,
    Step,
    StepRefused,
    Subscribe,
)
from arcp_client._protocol.receiver import Receiver
from arcp_client._wire import names
from arcp_client._wire.codec import ControlFrame, EventFrame
from arcp_client._wire.messages import Cancel, ListJobsMessage, SubscribeMessage
from arcp_client._wire.replies import Accepted, JobPage, Subscribed
from arcp_client.errors import (
    ArcpError,
    JobLost,
    RequestError,
    RequestTimeout,
    ResultUnavailable,
    job_error,
    request_error,
)

__all__ = ["OWN_TIMEOUT", "Begin", "PlanRunner"]

OWN_TIMEOUT: Final = 30.0
"""Seconds that the runtime has to answer a request of a plan."""

_CODES: Final = {
    names.STATUS_CANCELLED: names.CODE_CANCELLED,
    names.TIMED_OUT: names.TIMEOUT,
    names.ERROR: names.INTERNAL_ERROR,
}
"""Error codes for jobs of which only the final status is known."""

Begin = Callable[[JobState, Means], Plan]
"""Makes the plan of a job, from the requests that the runtime supports."""


class _Asked(msgspec.Struct, eq=False):
    """What `PlanRunner` attaches to a request: the jobs and the steps that the answer serves."""

    steps: list[tuple[str, Step]]


class PlanRunner:
    """Runs the recovery plans of one session.

    Args:
        view: the session.
        receiver: delivers terminal messages and gaps.
        ended: called with each job that is given up.
        unsubscribe: called with each given-up job whose history may still come.
    """

    def __init__(
        self,
        view: View,
        receiver: Receiver,
        ended: Callable[[str, float], None],
        unsubscribe: Callable[[str, float], None],
    ) -> None:
        self._view = view
        self._out = view.out
        self._jobs = view.jobs
        self._pending = view.pending
        self._negotiated = view.negotiated
        self._receiver = receiver
        self._ended = ended
        self._unsubscribe = unsubscribe
        self._active: dict[JobState, None] = {}  # an empty set is three times as large

    def start(
        self,
        peer: Peer,
        job: JobState,
        again: Begin,
        now: float,
        *,
        first: Begin | None = None,
        needs: Recover | None = None,
    ) -> None:
        """Start a plan for a job, in place of a running one.

        Args:
            peer: knows which requests the runtime supports.
            job: the job.
            again: makes the plan; also on the next link, if a lost link interrupts the plan.
            now: the time.
            first: makes another plan on this link.
            needs: what the plan restores, for the next link.
        """
        if job.recovering is not None:
            job.recovering.plan.close()
        plan = (first or again)(job, peer.means(job))
        may_have_lost_events = needs is not None and needs.may_have_lost_events
        job.recovering = Recovering(
            plan,
            again,
            needs,
            may_have_lost_events=may_have_lost_events,
            welcomed_at=self._negotiated.welcomed_at,
        )
        self._active[job] = None
        self._go_on(job, now)

    # -- answers to the requests of plans

    def answered(self, request: Request, value: object, now: float) -> None:
        """Handle the answer to a request that plans have made."""
        for job_id, step in request.token.steps:
            if isinstance(value, Subscribed):
                self.confirmed(job_id)
            job = self._jobs.get(job_id)
            if isinstance(value, Accepted) and value.job_id != job_id:
                self._cancel_unasked(value.job_id, now)
            if job is None or job.recovering is None or job.recovering.step is not step:
                continue
            if isinstance(value, Subscribed):
                job.recovering.unconfirmed = False
                self._go_on(job, now, value.status)
            elif isinstance(value, Accepted):
                self._go_on(job, now, value.job_id)
            else:
                assert isinstance(value, JobPage)
                self._listed(job, value, now)

    def accepted_late(self, request: Request, accepted: Accepted, now: float) -> None:
        """Handle an acceptance that arrives after the deadline of a `Resubmit`."""
        if all(accepted.job_id != job_id for job_id, _ in request.token.steps):
            self._cancel_unasked(accepted.job_id, now)

    def _listed(self, job: JobState, page: JobPage, now: float) -> None:
        status = next((one.status for one in page.jobs if one.job_id == job.job_id), None)
        if status is None and page.next_cursor is not None:
            self._perform(job, ListJobs(page.next_cursor), now)
        else:
            self._go_on(job, now, status)

    def refused(self, request: Request, error: ArcpError, now: float) -> None:
        """Handle the refusal or time-out of a request that plans have made."""
        if not isinstance(error, RequestError):
            error = request_error(names.INVALID_REQUEST, str(error))
        for job_id, step in request.token.steps:
            job = self._jobs.get(job_id)
            if job is not None and job.recovering is not None and job.recovering.step is step:
                if isinstance(step, Subscribe) and not isinstance(error, RequestTimeout):
                    job.recovering.unconfirmed = False
                self._go_on(job, now, StepRefused(error))

    # -- events

    def seen(self, job: JobState, frame: Incoming, now: float) -> None:
        """Note a frame of a job that has a plan."""
        running = job.recovering
        assert running is not None
        if running.may_have_lost_events and running.subscribed_before:
            # The frame may answer a subscription of an earlier link. Events before that link was
            # lost precede it, and events after it may be lost as well.
            later = _later_links(running.subscribed_before, frame)
            if later != running.subscribed_before:
                running.subscribed_before = later
                self._receiver.events_lost(job.job_id)
        if isinstance(running.step, AwaitTerminal):
            running.deadline = now + PATIENCE
        elif isinstance(running.step, AwaitSilence):
            if running.step.until_first:
                running.plan.close()
                job.recovering = None
            else:
                running.came = True
                running.deadline = now + QUIET

    def holds(self, job: JobState | None, frame: ControlFrame, data: bytes) -> bool:
        """Hold a terminal message if the history of its job is awaited. True if it is held."""
        running = job.recovering if job is not None else None
        if running is None or not isinstance(running.step, Subscribe):
            return False
        if not running.step.hold_terminal:
            return False
        if running.step.history and frame.session_id == self._negotiated.session_id:
            # It was sent in a history of this session, so no event is missing.
            running.may_have_lost_events = False
        running.held = frame, data
        return True

    # -- time, and the link

    @property
    def deadline(self) -> float | None:
        """The time at which `tick` must be called next, or ``None``."""
        if not self._active or self._view.blind:
            return None
        moments = [running.deadline for _, running in self._running()]
        return min((moment for moment in moments if moment is not None), default=None)

    def _running(self) -> list[tuple[JobState, Recovering]]:
        """The jobs with a plan."""
        running = []
        for job in tuple(self._active):
            if job.recovering is None:
                self._active.pop(job, None)
            else:
                running.append((job, job.recovering))
        return running

    def tick(self, now: float) -> None:
        """Continue the plans whose step has timed out."""
        if not self._active or self._view.blind:
            return
        for job, running in self._running():
            if job.recovering is not running:
                continue
            if running.deadline is None or now < running.deadline:
                continue
            running.deadline = None
            if isinstance(running.step, AwaitSilence):
                self._go_on(job, now, running.came)
            elif isinstance(running.step, AwaitTerminal) and self._is_link_silent(running, now):
                running.probes += 1
                running.waits_since = now
                running.deadline = now + PATIENCE
                if self._negotiated.offers(names.HEARTBEAT):
                    self._out.ping(now)
            else:
                self._go_on(job, now)

    def _is_link_silent(self, running: Recovering, now: float) -> bool:
        """Whether to ping, because the whole link, and not only the job, may be silent."""
        heard_at = self._out.heartbeat.heard_at
        quiet = not running.probes and heard_at <= now - PATIENCE / 2
        return running.probes < TRIES and (quiet or heard_at <= running.waits_since)

    def link_lost(self, now: float) -> None:
        """Interrupt every plan and withdraw its requests, because the link was lost."""
        for job, running in self._running():
            job.recovering = None
            running.plan.close()
            watched = isinstance(running.step, AwaitSilence) and running.step.confirmed
            job.interrupted = None if watched else running
            if isinstance(running.step, Subscribe) and running.step.hold_terminal:
                # The resume may bring its stored end, which must not look like the whole of it.
                if running.may_have_lost_events:
                    # The events of its subscription follow this gap.
                    running.unconfirmed, running.subscribed_before = False, ()
                    self._receiver.events_lost(job.job_id)
                if running.held is not None:
                    self._receiver.end(*running.held)
        for request in self._pending:
            if request.owner is self:
                self._pending.remove(request)

    def job_ended(self, job: JobState) -> None:
        """Drop the plan of a job that has ended or is no longer wanted."""
        self._active.pop(job, None)
        for request in self._pending.waiting():
            if request.owner is self and [job_id for job_id, _ in request.token.steps] == [
                job.job_id
            ]:
                self._pending.remove(request)

    # -- steps

    def _go_on(self, job: JobState, now: float, answer: object = None) -> None:
        """Send a plan the answer to its step, and perform its next steps until one must wait."""
        running = job.recovering
        assert running is not None
        while True:
            try:
                if isinstance(answer, StepRefused):
                    step = running.plan.throw(answer)
                else:
                    step = running.plan.send(answer if running.step is not None else None)
            except StopIteration:
                job.recovering = None
                return
            running.step, running.deadline, running.came = step, None, False
            answer = None
            if self._perform(job, step, now) or job.recovering is not running:
                return

    def _perform(self, job: JobState, step: Step, now: float) -> bool:
        """Perform a step. Returns whether the plan must wait for an answer."""
        running = job.recovering
        assert running is not None
        match step:
            case EventsLost():
                if running.may_have_lost_events:
                    running.may_have_lost_events = False
                    if not running.behind_gap:
                        self._receiver.events_lost(job.job_id)
                return False
            case ReleaseTerminal():
                if running.held is not None:
                    self._receiver.end(*running.held)
                return False
            case OnlyOutcome():
                running.only_outcome = True
                return False
            case GiveUp(status, why):
                self.give_up(job, _no_outcome(job.job_id, status, why), status, now)
            case Backoff(seconds) | AwaitSilence(seconds):
                running.deadline = now + seconds
            case AwaitTerminal():
                running.probes, running.waits_since = 0, now
                running.deadline = now + PATIENCE
            case ListJobs() if self._joins(job, step):
                running.step = step
            case _:
                running.step = step
                running.unconfirmed |= isinstance(step, Subscribe)
                self._pending.add(self._request(job, step, now))
        return True

    def _joins(self, job: JobState, step: ListJobs) -> bool:
        """Let the step share a listing request that is not sent yet. False if there is none."""
        for request in self._pending:
            if (
                request.owner is self
                and request.kind == names.LIST_JOBS
                and not request.ids
                and request.payload.get("cursor") == step.cursor
            ):
                request.token.steps.append((job.job_id, step))
                return True
        return False

    def _request(self, job: JobState, step: Step, now: float) -> Request:
        """Make the request of a step."""
        asked = _Asked([(job.job_id, step)])
        deadline = now + OWN_TIMEOUT
        if isinstance(step, Subscribe):
            message = SubscribeMessage(
                job_id=job.job_id, history=step.history, from_event_seq=step.after
            )
            return Request(
                kind=names.SUBSCRIBE,
                payload=message.wire(),
                deadline=deadline,
                job_id=job.job_id,
                token=asked,
                owner=self,
                resubscribe=step.resubscribe,
            )
        if isinstance(step, ListJobs):
            return Request(
                kind=names.LIST_JOBS,
                payload=ListJobsMessage(limit=1000, cursor=step.cursor).wire(),
                deadline=deadline,
                token=asked,
                owner=self,
            )
        assert isinstance(step, Resubmit)
        return Request(
            kind=names.SUBMIT,
            payload=job.payload,
            deadline=deadline,
            trace_id=job.trace_id,
            key=job.key,
            token=asked,
            owner=self,
        )

    # -- ends

    def confirmed(self, job_id: str) -> JobState | None:
        """Note that a subscription was confirmed. Returns the job; ``None`` if it has ended."""
        self._receiver.subscribed(job_id)
        return None if self._jobs.has_ended(job_id) else self._jobs.learn(job_id)

    def give_up(self, job: JobState, error: ArcpError, status: str, now: float) -> None:
        """End a job without an outcome."""
        if job.stored_end is not None:
            self._receiver.end(*job.stored_end)
        else:
            may_come = self._receiver.dedup.may_come(job.job_id)
            self._jobs.end(job.job_id)
            self._receiver.forget(job.job_id)
            self._out.emit(actions.JobGone(job.job_id, error, status or None))
            self._ended(job.job_id, now)
            if may_come:
                self._unsubscribe(job.job_id, now)

    def _cancel_unasked(self, job_id: str, now: float) -> None:
        """Cancel a job that the runtime started because it had forgotten the idempotency key."""
        text = f"job {job_id} was started by mistake: its key was forgotten; cancelling it"
        self._out.report(text, job_id=job_id)
        cancel = Cancel(job_id=job_id, reason="the outcome of an earlier job was asked for")
        self._out.control(names.CANCEL, cancel.wire(), now, job_id=job_id)


def _later_links(
    welcomes: tuple[datetime | None, ...], frame: Incoming
) -> tuple[datetime | None, ...]:
    """The welcomes that are later than a frame; all of them if the frame is `skipped`."""
    if isinstance(frame, ControlFrame) and not frame.type:
        return welcomes
    moment = frame.payload.ts if isinstance(frame, EventFrame) else None
    if moment is None:
        return ()
    return tuple(each for each in welcomes if each is not None and each > moment)


def _no_outcome(job_id: str, status: str, why: str) -> ArcpError:
    """The error for a job of which at most the status is known."""
    if status == names.SUCCESS:
        text = f"job {job_id} succeeded, but its result is not available any more ({why})"
        return ResultUnavailable(text, job_id=job_id)
    if status:
        text = f"the runtime tells no more than its status ({why})"
        code = _CODES.get(status, "")
        retryable = code == names.INTERNAL_ERROR  # always, by §12
        return job_error(code, text, status=status, retryable=retryable, job_id=job_id)
    return JobLost(f"job {job_id}: the runtime no longer knows it ({why})", job_id=job_id)
