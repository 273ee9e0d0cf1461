"""New links, gaps and old acceptances in, requests and outcomes out: each job on its way back.

`Recovery` decides what comes next for a job whose outcome may be missed; this does it: it makes the
requests, reads the answers to them, and says so where no outcome is to be had (S4, S5, S6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec.structs

from arcp_client._protocol import effects
from arcp_client._protocol.asking import no_outcome, request_for
from arcp_client._protocol.delivery import Delivery, Terminal
from arcp_client._protocol.hearing import OWN_TIMEOUT, Hearing
from arcp_client._protocol.jobs import KnownJob, KnownJobs
from arcp_client._protocol.ordering import Ordering
from arcp_client._protocol.outbox import Outbox
from arcp_client._protocol.recovery import Recovery
from arcp_client._protocol.requests import Request, Requests
from arcp_client._protocol.steps import (
    Announce,
    Ask,
    Asking,
    Deliver,
    GiveUp,
    Look,
    Means,
    Plan,
    Probe,
    Step,
)
from arcp_client._protocol.terms import Terms
from arcp_client._wire import dialect
from arcp_client._wire.codec import ControlFrame
from arcp_client._wire.messages import Cancel
from arcp_client._wire.replies import Accepted, JobPage, Subscribed
from arcp_client.errors import ArcpError, RequestError, ResultUnavailable, request_error

__all__ = ["Returns"]

_Steps = Iterable[Step[Terminal]]


class Returns:
    """Leads jobs back.

    What it asks is added to ``requests``; whoever calls one of these verbs sends them.

    Args:
        terms: what was agreed on.
        out: takes what is to be done.
        jobs: the jobs that the session knows.
        requests: those that wait for an answer.
        recovery: decides the next step of each job.
        ordering: told of subscriptions.
        delivery: delivers the ends that come of it.
    """

    def __init__(
        self,
        terms: Terms,
        out: Outbox,
        jobs: KnownJobs,
        requests: Requests,
        recovery: Recovery[Terminal],
        ordering: Ordering,
        delivery: Delivery,
    ) -> None:
        self._terms = terms
        self._out = out
        self._jobs = jobs
        self._requests = requests
        self._recovery = recovery
        self._ordering = ordering
        self._delivery = delivery
        self._ends: dict[str, Terminal] = {}
        self._interrupted: dict[str, Plan] = {}
        self._hearing = Hearing(terms, out, requests, ordering)

    # -- beginnings

    def opened(
        self, cursor: int, now: float, *, resumed: bool, ended: str, ends: Mapping[str, Terminal]
    ) -> None:
        """A link is live, not the first: lead back every job whose events do not come (S5, S13).

        Args:
            cursor: what was received of the session before.
            now: the time.
            resumed: it is the same session.
            ended: the session that is gone, if it is another one.
            ends: ends of jobs that were received of it, behind a hole.
        """
        if not resumed:
            self._ends |= ends
        interrupted, self._interrupted = self._interrupted, {}
        for job in self._jobs:
            if not resumed and job.home == ended and job.since is None:
                job.since = cursor
        if resumed and self._terms.dialect.deaf_after_resume:
            deaf = [job.job_id for job in self._jobs if job.mine and self._is_home_of(job)]
            self._hearing.resumed(deaf, cursor, now, led_back=interrupted)
        for job in self._jobs:
            plan = interrupted.get(job.job_id)
            if plan is None and not (job.ours and self._unheard(job, resumed=resumed)):
                continue
            if not self._unreachable(job, now, resumed=resumed):
                self._lead_back(job, plan, now, resumed=resumed)

    def _is_home_of(self, job: KnownJob) -> bool:
        return job.home == self._terms.session_id

    def _unheard(self, job: KnownJob, *, resumed: bool) -> bool:
        """Whether this link brings nothing of a job unless that is asked for."""
        spoken = self._terms.dialect
        if resumed and spoken.deaf_after_resume:
            return not (job.mine and self._is_home_of(job))  # that comes with the next resume
        return not (resumed and spoken.jobs_survive_drop)

    def _lead_back(self, job: KnownJob, plan: Plan | None, now: float, *, resumed: bool) -> None:
        """Begin with a job; with ``plan``, once more with what was interrupted.

        A resume brings what is held of the session's own jobs, and a history would bring the same
        again. In a new session a history goes on from what was received, in the numbers of the
        session that submitted the job.
        """
        spoken = self._terms.dialect
        deaf = resumed and spoken.deaf_after_resume
        from_seq = job.since
        history = not (resumed and job.mine)
        if plan is None:
            plan = Plan(history=history)
        elif resumed or plan.history:
            history, from_seq = plan.history, plan.from_seq
        if job.live:
            # Of its past, only what was missed; if that cannot be told, what a gap tells of.
            history = self._delivery.skip_past(job.job_id) or deaf
        keep_number = (history or plan.look_first) and not spoken.counts_by_job
        steps = self._recovery.begin(
            job.job_id,
            now,
            means=self._means(job),
            plan=msgspec.structs.replace(
                plan,
                history=history,
                from_seq=from_seq if keep_number else None,
                watchful=deaf or not spoken.jobs_survive_drop,
                look_first=plan.look_first and resumed,
                live=job.live,
            ),
            # In a new session the gap is announced for all jobs; a history brings what it has.
            lossy=resumed and not history and spoken.loses_events,
            renew=resumed and spoken.stale_subscriptions,
        )
        self._perform(steps, now)

    def check(self, doubtful: Mapping[str, int], now: float) -> None:
        """After a gap: find out whether these jobs still run (S4).

        Args:
            doubtful: each with the first number that may be missing.
            now: the time.
        """
        here = self._terms.session_id
        known: dict[str, int | None] = {}
        for job_id, first in doubtful.items():
            job = self._jobs.get(job_id)
            if job is not None:
                known[job_id] = first - 1 if job.home == here else job.since
        self._check(known, now)

    def _check(self, doubtful: Mapping[str, int | None], now: float) -> None:
        blind = False
        for job_id, from_seq in doubtful.items():
            job = self._jobs.get(job_id)
            if job is None or self._recovery.rung(job_id) is not None:
                continue
            means = self._means(job)
            if not (means.attach or means.look or means.fetch):
                blind = True
                continue
            steps = self._recovery.begin(
                job_id,
                now,
                means=means,
                plan=Plan(
                    history=False,
                    from_seq=from_seq,
                    watchful=not self._terms.dialect.jobs_survive_drop,
                    look_first=True,
                ),
            )
            self._perform(steps, now)
        if blind:
            text = "events were lost, and the runtime cannot be asked whether their jobs still run"
            self._out.report(text)

    def accepted(
        self, job: KnownJob, accepted: Accepted, request: Request, now: float, *, elsewhere: bool
    ) -> None:
        """A job was accepted; one that is not new may have run where nobody was told (S6)."""
        spoken = self._terms.dialect
        welcomed_at = self._terms.welcomed_at
        if accepted.accepted_at is not None and welcomed_at is not None:
            before = accepted.accepted_at < welcomed_at
        else:
            before = len(request.ids) > 1
        elsewhere = elsewhere or (before and request.session_id != self._terms.session_id)
        if spoken.deaf_after_resume and len(request.ids) > 1 and not elsewhere:
            self._hearing.learn(job.job_id, now)  # it was started over the link that is gone
        new = request.fresh or (
            spoken.repeats_trace and request.own_trace and accepted.job_trace == request.trace_id
        )
        if elsewhere or (spoken.strict and not new):
            if elsewhere and self._unreachable(job, now, resumed=False):
                return
            steps = self._recovery.begin(
                job.job_id,
                now,
                means=self._means(job),
                plan=Plan(
                    history=True,
                    hold=spoken.stored_outcomes,
                    watchful=not spoken.jobs_survive_drop,
                ),
                lossy=spoken.loses_events,
            )
        elif before and not spoken.jobs_survive_drop:
            steps = self._recovery.begin(
                job.job_id,
                now,
                means=self._means(job),
                plan=Plan(history=False, hold=spoken.stored_outcomes),
                lossy=spoken.loses_events,
                renew=spoken.stale_subscriptions,
            )
        else:
            steps = []
            if not new and not spoken.stored_outcomes:
                self._recovery.doubt(job.job_id, now, means=self._means(job))
        self._perform(steps, now)

    def watched(self, request: Request, subscribed: Subscribed, now: float) -> None:
        """The application watches a job from now on (§7.6)."""
        job_id = subscribed.job_id
        self._confirmed(job_id)
        job = self._jobs.get(job_id)
        if job is None:
            return  # its history brought its end
        history = bool(request.payload.get("history"))
        job.live = not history and not job.mine and (job.live or not job.watched)
        job.watched = True
        job.agent = subscribed.agent
        if job.live:
            self._delivery.from_now_on(job_id)
        if subscribed.status in dialect.ENDED:
            steps = self._recovery.told_ended(
                job_id, subscribed.status, now, means=self._means(job), history=history
            )
            self._perform(steps, now)

    def wanted(self, job_id: str, now: float) -> None:
        """Somebody waits for the outcome of a job whose end was seen, and forgotten, long ago."""
        job = self._jobs.learn(job_id)
        steps = self._recovery.begin(
            job_id,
            now,
            means=self._means(job),
            plan=Plan(
                history=True,
                hold=self._terms.dialect.stored_outcomes,
                watchful=False,
                only_outcome=True,
            ),
        )
        self._perform(steps, now)

    def cancelled(self, job_id: str, now: float) -> None:
        """A cancel was taken in, and nothing says that the job will send an end."""
        job = self._jobs.get(job_id)
        if job is not None:
            means = msgspec.structs.replace(self._means(job), attach=False)
            self._recovery.cancelled(job_id, now, means=means)

    def ending(self, frame: ControlFrame) -> None:
        """A terminal message comes.

        Where outcomes are stored, a resume may bring one that answered a submit over a link that
        died. Then it stands behind the job's last event that was held, as if none were missing.
        """
        job_id = frame.job_id
        if job_id is None or not self._terms.dialect.stored_outcomes:
            return
        if self._jobs.get(job_id) is not None or self._jobs.has_ended(job_id):
            return
        if any(r.kind == dialect.SUBMIT and r.was_sent_before for r in self._requests):
            self._delivery.gap(self._ordering.cursor + 1, None, "lost", job_id=job_id, doubt=False)

    # -- answers, time, and the link

    def answered(self, asking: Asking, value: object, now: float) -> None:
        """What was asked here was answered."""
        job_id = asking.job_id
        steps: _Steps = ()
        if asking.ask is Ask.HEAR:
            self._hearing.answered(job_id, value)
        elif isinstance(value, Subscribed):
            self._confirmed(job_id)
            steps = self._recovery.attached(job_id, value.status, now)
        elif isinstance(value, JobPage):
            steps = self._listed(asking.job_ids, value, now)
        elif isinstance(value, Accepted):
            if value.job_id != job_id:
                self._cancel_unasked(value.job_id, now)
            steps = self._recovery.fetched(job_id, value.job_id, now)
        self._perform(steps, now)

    def fetched_late(self, asking: Asking, accepted: Accepted, now: float) -> None:
        """A submit under an old key was accepted after its time."""
        if accepted.job_id != asking.job_id:
            self._cancel_unasked(accepted.job_id, now)

    def refused(self, asking: Asking, error: ArcpError, now: float) -> None:
        """What was asked here was refused, or not answered in time."""
        if asking.ask is Ask.HEAR:
            return  # it has ended, or stays deaf: the next resume brings what there is
        if not isinstance(error, RequestError):
            error = request_error(dialect.INVALID_REQUEST, str(error))
        for job_id in asking.job_ids:
            one = Asking(asking.ask, job_id, renew=asking.renew)
            self._perform(self._recovery.refused(one, error, now), now)

    def _listed(
        self, job_ids: tuple[str, ...], page: JobPage, now: float
    ) -> Iterator[Step[Terminal]]:
        statuses = {job.job_id: job.status for job in page.jobs}
        for job_id in job_ids:
            status = statuses.get(job_id)
            yield from self._recovery.looked(job_id, status, now, cursor=page.next_cursor)

    def ended(self, job_id: str) -> None:
        """The end of a job was delivered."""
        self._ends.pop(job_id, None)
        self._hearing.ended(job_id)
        for request in self._requests:
            asking = request.token
            if isinstance(asking, Asking) and request.waits and asking.job_ids == (job_id,):
                self._requests.remove(request)

    @property
    def deadline(self) -> float | None:
        """When `tick` must be called; ``None`` while time says nothing about any job."""
        if self._blind:
            return None
        moments = (self._recovery.deadline, self._hearing.deadline)
        return min((moment for moment in moments if moment is not None), default=None)

    def tick(self, now: float) -> None:
        """Time has passed."""
        if self._blind:
            return
        steps = self._recovery.tick(now, heard_at=self._out.liveness.heard_at)
        self._perform(steps, now)
        self._hearing.tick(now)

    @property
    def _blind(self) -> bool:
        """Whether a job's end may be here already: waiting for what was before it, or not read."""
        return self._ordering.missing or self._out.liveness.paused

    def lost(self, now: float) -> None:
        """The link is gone: what is not known by now is asked anew on the next one."""
        self._interrupted |= self._recovery.interrupted()
        self._perform(self._recovery.lost(), now)
        self._hearing.lost()
        for request in self._requests:
            if isinstance(request.token, Asking):
                self._requests.remove(request)

    def unfetchable(self, why: ArcpError) -> bool:
        """Links end over what jobs on their way back are answered with: they have no outcome here.

        To be called after `lost`. False if there are none.
        """
        jobs, self._interrupted = self._interrupted, {}
        for job_id in jobs:
            text = f"the outcome of job {job_id} cannot be received: {why}"
            self._give_up(job_id, ResultUnavailable(text, job_id=job_id), "")
        return bool(jobs)

    # -- steps

    def _perform(self, steps: _Steps, now: float) -> None:
        for step in steps:
            match step:
                case Probe():
                    if self._terms.offer(dialect.HEARTBEAT):
                        self._out.ping(now)
                case Announce(job_id):
                    self._ordering.announced(job_id)
                case Deliver((frame, data)):
                    self._delivery.end(frame, data)
                case GiveUp(job_id, status, why):
                    self._give_up(job_id, no_outcome(job_id, status, why), status)
                case Look() if self._joined(step):
                    pass
                case _:
                    job = self._jobs.get(step.job_id)
                    if job is not None:  # else a step before this one delivered its end
                        self._requests.add(request_for(step, job, now + OWN_TIMEOUT))

    def _joined(self, look: Look) -> bool:
        """Whether a listing that has yet to be sent is for this job, too, from now on."""
        for request in self._requests:
            asking = request.token
            if (
                isinstance(asking, Asking)
                and asking.ask is Ask.LOOK
                and not request.ids
                and request.payload.get("cursor") == look.cursor
            ):
                others = (*asking.others, look.job_id)
                request.token = msgspec.structs.replace(asking, others=others)
                return True
        return False

    def _means(self, job: KnownJob) -> Means:
        """What this runtime can be asked about a job."""
        return Means(
            attach=self._terms.offer(dialect.SUBSCRIPTIONS),
            look=self._terms.offer(dialect.LISTING),
            fetch=self._terms.dialect.stored_outcomes
            and job.key is not None
            and job.payload is not None,
        )

    def _unreachable(self, job: KnownJob, now: float, *, resumed: bool) -> bool:
        """Whether nothing of a job can come in this session; says so."""
        means = self._means(job)
        if resumed or means.attach or means.fetch:
            return False
        text = (
            f"job {job.job_id} runs in a session that is gone, and the runtime has no"
            " subscriptions (§6.2): its result can no longer be had"
        )
        self._give_up(job.job_id, ResultUnavailable(text, job_id=job.job_id), "")
        return True

    def _confirmed(self, job_id: str) -> None:
        self._ordering.subscribed(job_id)
        if not self._jobs.has_ended(job_id):
            self._jobs.learn(job_id)

    def _give_up(self, job_id: str, error: ArcpError, status: str) -> None:
        """The runtime has no outcome for a job: say so, in place of an end."""
        end = self._ends.pop(job_id, None)
        if end is not None:
            self._recovery.ended(job_id)
            self._delivery.end(*end)
        elif self._jobs.end(job_id):
            self._hearing.ended(job_id)
            self._delivery.forget(job_id)
            self._ordering.over(job_id)
            self._out.emit(effects.JobGone(job_id, error, status or None))

    def _cancel_unasked(self, job_id: str, now: float) -> None:
        """The runtime has forgotten a key and started a job that nobody wants."""
        text = f"job {job_id} was started by mistake: its key was forgotten; cancelling it"
        self._out.report(text)
        cancel = Cancel(job_id=job_id, reason="the outcome of an earlier job was asked for")
        self._out.control(dialect.CANCEL, cancel.wire(), now, job_id=job_id)
