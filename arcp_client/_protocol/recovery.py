"""Runs the plans that bring jobs to their outcome after a lost link, a gap or a new session.

The session reports what happens, the `Peer` decides which jobs need a plan, and `plans` has the
plans. `Recovery` sends the request of each step and continues the plan with the answer (S4, S5,
S6). If a lost link interrupts a plan, the plan is restarted from its first step on the next link. A
job that no plan can bring to its outcome ends with `JobLost`. If the runtime refuses the client for
good, no plan runs: the client closes, and all waits for jobs raise the error of the refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Final

import msgspec

from arcp_client._protocol import actions
from arcp_client._protocol.jobs import JobState, Recovering
from arcp_client._protocol.peer import AcceptanceContext, Incoming, Peer, View
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
    await_outcome,
    expect_first_event,
    recover,
    watch_cancelled,
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

__all__ = ["OWN_TIMEOUT", "Recovery"]

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
    """What `Recovery` attaches to a request: the jobs and the steps that the answer serves."""

    steps: list[tuple[str, Step]]


class Recovery:
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

    # -- beginnings

    def opened(self, peer: Peer, now: float, *, resumed: bool) -> None:
        """Start the plans of the jobs that need one. Called on every link but the first."""
        for job in self._jobs:
            interrupted, job.interrupted = job.interrupted, None
            needs = self._needs_on(peer, job, resumed=resumed)
            if needs is None and interrupted is None:
                continue
            if not resumed and self._is_unreachable(peer, job, now):
                continue
            before = interrupted.needs if interrupted is not None else None
            if needs is None:
                assert interrupted is not None
                self._start(peer, job, interrupted.again, now, needs=before)
            else:
                if before is not None:
                    needs = _combined(needs, before, job, resumed=resumed)
                self.begin(peer, job, needs, now)
            if job.recovering is not None:
                job.recovering.behind_gap = not resumed
            if interrupted is not None and job.recovering is not None:
                before_this = (interrupted.welcomed_at,) if interrupted.unconfirmed else ()
                job.recovering.subscribed_before = interrupted.subscribed_before + before_this
                job.recovering.only_outcome |= interrupted.only_outcome

    def _needs_on(self, peer: Peer, job: JobState, *, resumed: bool) -> Recover | None:
        if not job.wanted:
            return None
        if resumed:
            return peer.after_resume(job)
        return peer.after_new_session(job)

    def check(self, peer: Peer, jobs: list[JobState], now: float) -> None:
        """Check after a gap whether these jobs still run (S4)."""
        blind = False
        for job in jobs:
            first, job.first_missing = job.first_missing, None
            if job.recovering is not None:
                continue
            means = peer.means(job)
            if not means.any:
                blind = True
                continue
            position = job.resume_after
            if job.origin_session == self._negotiated.session_id and first is not None:
                position = first - 1
            self.begin(peer, job, peer.after_gap(job, position), now)
        if blind:
            text = "events were lost, and the runtime cannot be asked whether their jobs still run"
            self._out.report(text)

    def accepted(
        self,
        peer: Peer,
        job: JobState,
        accepted: Accepted,
        request: Request,
        now: float,
        *,
        elsewhere: bool,
    ) -> None:
        """Start a plan for an accepted job that may have run without this session (S6)."""
        welcomed_at = self._negotiated.welcomed_at
        if accepted.accepted_at is not None and welcomed_at is not None:
            before = accepted.accepted_at < welcomed_at
        else:
            before = len(request.ids) > 1
        # Events before the acceptance show that the job is of this session, and none is missing.
        early = self._jobs.take_early(job)
        moved = before and request.session_id != self._negotiated.session_id
        elsewhere = elsewhere or (moved and not early)
        if elsewhere and self._is_unreachable(peer, job, now):
            return
        traced = request.own_trace and accepted.job_trace == request.trace_id
        fresh = request.fresh or early or (peer.repeats_trace and traced)
        needs = peer.after_acceptance(
            job,
            AcceptanceContext(
                elsewhere=elsewhere,
                sent_before=before,
                resent=len(request.ids) > 1,
                fresh=fresh,
            ),
            now,
        )
        if needs is not None:
            self.begin(peer, job, needs, now)
        elif not fresh and peer.doubts_acceptances:
            again = partial(recover, needs=Recover(history=True))
            self._start(peer, job, again, now, first=expect_first_event)

    def watched(self, peer: Peer, request: Request, subscribed: Subscribed, now: float) -> None:
        """Handle the confirmation of a subscription that the application made (§7.6)."""
        job = self._confirmed(subscribed.job_id)
        if job is None:
            return  # its history brought its end
        history = bool(request.payload.get("history"))
        job.from_now_on = (
            not history and not job.submitted and (job.from_now_on or not job.subscribed)
        )
        job.subscribed = True
        job.agent = subscribed.agent
        if subscribed.status in names.ENDED:
            plan = partial(await_outcome, status=subscribed.status, history=history)
            self._start(peer, job, plan, now)

    def outcome_wanted(self, peer: Peer, job_id: str, now: float) -> None:
        """Get the outcome of a job whose terminal message was delivered and forgotten."""
        job = self._jobs.learn(job_id)
        self.begin(peer, job, peer.outcome_wanted(job), now)

    def cancelled(self, peer: Peer, job_id: str, now: float) -> None:
        """Watch a job whose cancel was accepted, because its terminal message may never come."""
        job = self._jobs.get(job_id)
        if job is None:
            return
        job.cancelled = True
        running = job.recovering
        if running is None:
            self._start(peer, job, watch_cancelled, now)
        elif isinstance(running.step, AwaitSilence):
            running.deadline = now + PATIENCE

    def begin(self, peer: Peer, job: JobState, needs: Recover, now: float) -> None:
        """Start a plan for a job, in place of a running one."""
        self._start(peer, job, partial(recover, needs=needs), now, needs=needs)

    def _start(
        self,
        peer: Peer,
        job: JobState,
        again: Begin,
        now: float,
        *,
        first: Begin | None = None,
        needs: Recover | None = None,
    ) -> None:
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
                self._confirmed(job_id)
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
                self._give_up(job, _no_outcome(job.job_id, status, why), status, now)
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

    def unfetchable(self, why: ArcpError, now: float) -> bool:
        """Give up the jobs of interrupted plans, because answers to their requests end the link.

        Call this after `link_lost`. False if there are no such jobs.
        """
        jobs = [job for job in self._jobs if job.interrupted is not None]
        for job in jobs:
            text = f"the outcome of job {job.job_id} cannot be received: {why}"
            self._give_up(job, ResultUnavailable(text, job_id=job.job_id), "", now)
        return bool(jobs)

    def _is_unreachable(self, peer: Peer, job: JobState, now: float) -> bool:
        """Give up a job whose events cannot arrive in this session. False if they can."""
        means = peer.means(job)
        if means.subscribe or means.resubmit:
            return False
        text = (
            f"job {job.job_id} runs in a session that is gone, and the runtime has no"
            " subscriptions (§6.2): its result is not available any more"
        )
        self._give_up(job, ResultUnavailable(text, job_id=job.job_id), "", now)
        return True

    def _confirmed(self, job_id: str) -> JobState | None:
        """Note that a subscription was confirmed. Returns the job; ``None`` if it has ended."""
        self._receiver.subscribed(job_id)
        return None if self._jobs.has_ended(job_id) else self._jobs.learn(job_id)

    def _give_up(self, job: JobState, error: ArcpError, status: str, now: float) -> None:
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


def _combined(needs: Recover, before: Recover, job: JobState, *, resumed: bool) -> Recover:
    """The needs of a job whose plan was interrupted on the previous link (S13).

    For another client's job, the history has the events that were missed on the previous link. For
    a job of this client, it does not have them.
    """
    history = before.history if resumed else needs.history
    return msgspec.structs.replace(
        needs,
        history=history,
        after=before.after if resumed else needs.after,
        may_have_lost_events=needs.may_have_lost_events and (job.submitted or not history),
        hold_terminal=before.hold_terminal,
        only_outcome=before.only_outcome,
        list_first=before.list_first and resumed,
    )


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
        return job_error(_CODES.get(status, ""), text, status=status, job_id=job_id)
    return JobLost(f"job {job_id}: the runtime no longer knows it ({why})", job_id=job_id)
