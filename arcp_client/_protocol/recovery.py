"""Starts the plans that get the outcomes of jobs after a lost link, a gap or a lost session.

`Session` calls a method of `Recovery` in each of these cases. The `Peer`, which adapts the session
to one kind of runtime, decides which jobs need a plan. `plans` defines the plans, and `plan_runner`
runs them. A lost link interrupts a plan; on the next link, the plan starts again from its first
step. A job whose outcome no plan can get ends with an error such as `JobLost` or
`ResultUnavailable`. If the runtime refuses the client for good, no plan runs: the client closes,
and everything that waits for a job raises the error of the refusal.
"""

from __future__ import annotations

from functools import partial

import msgspec

from arcp_client._protocol import actions
from arcp_client._protocol.jobs import JobState
from arcp_client._protocol.peer import AcceptanceContext, Peer, View
from arcp_client._protocol.pending import Request
from arcp_client._protocol.plan_runner import PlanRunner
from arcp_client._protocol.plans import (
    PATIENCE,
    AwaitSilence,
    Recover,
    await_outcome,
    expect_first_event,
    recover,
    watch_cancelled,
)
from arcp_client._wire import names
from arcp_client._wire.replies import Accepted, Subscribed
from arcp_client.errors import ArcpError, ResultUnavailable

__all__ = ["Recovery"]


class Recovery:
    """Starts the recovery plans of one session.

    Args:
        view: the session's jobs, negotiated features and output.
        runner: runs the plans.
    """

    def __init__(self, view: View, runner: PlanRunner) -> None:
        self._out = view.out
        self._jobs = view.jobs
        self._negotiated = view.negotiated
        self._runner = runner

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
                self._runner.start(peer, job, interrupted.again, now, needs=before)
            else:
                if before is not None:
                    needs = _combined(needs, before, job, resumed=resumed)
                self._begin(peer, job, needs, now)
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
        """Check after a gap whether these jobs still run (rule S4)."""
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
            self._begin(peer, job, peer.after_gap(job, position), now)
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
        """Start a plan for an accepted job that may have run without this session (rule S6)."""
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
            self._begin(peer, job, needs, now)
            if needs.history:
                self._out.emit(actions.HistoryRequested(job.job_id))
        elif not fresh and peer.doubts_acceptances:
            self._out.emit(actions.HistoryRequested(job.job_id))
            again = partial(recover, needs=Recover(history=True))
            self._runner.start(peer, job, again, now, first=expect_first_event)

    def watched(self, peer: Peer, request: Request, subscribed: Subscribed, now: float) -> None:
        """Handle the confirmation of a subscription that the application made (§7.6)."""
        job = self._runner.confirmed(subscribed.job_id)
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
            self._runner.start(peer, job, plan, now)

    def outcome_wanted(self, peer: Peer, job_id: str, now: float) -> None:
        """Get the outcome of a job whose terminal message was delivered and forgotten."""
        job = self._jobs.learn(job_id)
        self._begin(peer, job, peer.outcome_wanted(job), now)

    def cancelled(self, peer: Peer, job_id: str, now: float) -> None:
        """Watch a job whose cancel was accepted, because its terminal message may never come."""
        job = self._jobs.get(job_id)
        if job is None:
            return
        job.cancelled = True
        running = job.recovering
        if running is None:
            self._runner.start(peer, job, watch_cancelled, now)
        elif isinstance(running.step, AwaitSilence):
            running.deadline = now + PATIENCE

    def _begin(self, peer: Peer, job: JobState, needs: Recover, now: float) -> None:
        """Start a plan for a job, in place of a running one."""
        self._runner.start(peer, job, partial(recover, needs=needs), now, needs=needs)

    # -- ends

    def unfetchable(self, why: ArcpError, now: float) -> bool:
        """Give up the jobs of interrupted plans, because answers to their requests end the link.

        Call this after `PlanRunner.link_lost`. False if there are no such jobs.
        """
        jobs = [job for job in self._jobs if job.interrupted is not None]
        for job in jobs:
            text = f"the outcome of job {job.job_id} cannot be received: {why}"
            self._runner.give_up(job, ResultUnavailable(text, job_id=job.job_id), "", now)
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
        self._runner.give_up(job, ResultUnavailable(text, job_id=job.job_id), "", now)
        return True


def _combined(needs: Recover, before: Recover, job: JobState, *, resumed: bool) -> Recover:
    """The needs of a job whose plan was interrupted on the previous link (rule S13).

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
