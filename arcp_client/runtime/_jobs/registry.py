"""Holds the jobs of a runtime; decides who may access a job and how long it is kept (§7.6)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from functools import partial

from arcp_client._budget import ByteBudget
from arcp_client._log_fields import log_fields
from arcp_client._tasks import TaskOwner, pass_on
from arcp_client._telemetry import RuntimeTelemetry
from arcp_client._wire import names
from arcp_client._wire.ids import parse_time
from arcp_client._wire.stamp import EventIds
from arcp_client.errors import JobNotFound, PermissionDenied, request_error
from arcp_client.runtime._jobs.compat import SPECIFICATION, Compat
from arcp_client.runtime._jobs.job import JobOrigin, JobRequest, Noticed, ServerJob
from arcp_client.runtime._jobs.outcomes import LEASE_RAN_OUT, NOT_WRITTEN, PARENT_ENDED, Failure
from arcp_client.runtime._jobs.retained import RetainedJobs
from arcp_client.runtime._jobs.runner import AgentContext, Runner
from arcp_client.runtime._leases.grant import Budget
from arcp_client.runtime._log.entries import Gone, LoggedJobState
from arcp_client.runtime._log.journal import Journal
from arcp_client.runtime._sessions.session import ServerSession
from arcp_client.runtime.limits import Limits, Observation, Policy

__all__ = ["JobRegistry"]

_log = logging.getLogger("arcp_client.runtime")


class JobRegistry:
    """All jobs of a runtime: running jobs, and ended ones for a limited time.

    Args:
        limits: bounds number and retention.
        tasks: owns the jobs' tasks.
        policy: lets principals observe the jobs of others.
        steering: lets sessions send messages to jobs that they did not submit.
        journal: stores jobs, if they must survive the process.
        before_end: revokes a job's credentials.
        context: makes the `JobContext` of a job.
        compat: adapts payloads to the SDKs that connect.
        telemetry: traces jobs.
        vacant: called when a job has ended, so that there is room for another one.
        noticed: called after each event of a question, and after each terminal event.

    Attributes:
        runner: runs the jobs.
        mirrors: jobs of other replicas that sessions of this one receive.
    """

    def __init__(
        self,
        limits: Limits,
        tasks: TaskOwner,
        *,
        policy: Policy | None,
        steering: Policy | None,
        journal: Journal | None,
        before_end: Callable[[ServerJob], Awaitable[None]] | None,
        context: Callable[[ServerJob, Callable[[Budget], ServerJob | None]], AgentContext],
        compat: Compat = SPECIFICATION,
        telemetry: RuntimeTelemetry | None = None,
        vacant: Callable[[], None] = lambda: None,
        noticed: Noticed | None = None,
    ) -> None:
        self._telemetry = telemetry
        self._noticed = noticed
        self._compat = compat
        self._limits = limits
        self._policy = policy
        self._steering = steering
        self._journal = journal
        self._ids = EventIds()
        self._jobs: dict[str, ServerJob] = {}
        self.mirrors: dict[str, ServerJob] = {}
        self._number = 0
        self._open: Counter[str] = Counter()
        self._inputs: dict[str, ByteBudget] = {}
        self._input_sizes: dict[ServerJob, int] = {}
        self._of: dict[str, dict[str, ServerJob]] = {}
        self._retained = RetainedJobs(limits)
        self._pruning: asyncio.TimerHandle | None = None
        self._budgets: dict[Budget, ServerJob] = {}
        self.runner = Runner(
            limits,
            tasks,
            context=lambda job: context(job, self._budgets.get),
            on_ended=self._on_ended,
            before_end=before_end,
            started=None if telemetry is None else telemetry.started,
            vacant=vacant,
        )
        self.closing = False

    def __len__(self) -> int:
        return len(self._jobs)

    # ----------------------------------------------------------------------- entering

    def check_room(self, principal: str, size: int = 0) -> None:
        """Refuse a job that cannot be accepted now.

        Raises:
            RequestError: the runtime is closing, its event log cannot be written, or the principal
                has too many jobs.
        """
        if self.closing:
            raise request_error(
                names.INTERNAL_ERROR, "the runtime is shutting down", retryable=True
            )
        self.check_log()
        if self._open[principal] >= self._limits.jobs_per_principal:
            raise request_error(
                names.INTERNAL_ERROR, "too many jobs of this principal are open", retryable=True
            )

        inputs = self._inputs.get(principal)
        if inputs is not None and not inputs.fits(size):
            raise request_error(
                names.INTERNAL_ERROR,
                f"the inputs of this principal's open jobs are over {inputs.limit} bytes",
                retryable=True,
            )

    def check_log(self) -> None:
        """Refuse a request that must be stored while the event log fails.

        Raises:
            RequestError: the event log cannot be written.
        """
        if self._journal is not None:
            self._journal.check()

    def draft(self, request: JobRequest, created: datetime, origin: JobOrigin) -> ServerJob:
        """Make a job without registering it: another replica will run it."""
        self._number += 1
        return ServerJob(
            request,
            number=self._number,
            origin=origin,
            ids=self._ids,
            limits=self._limits,
            created=created,
            compat=self._compat,
            journal=self._journal,
            noticed=self._noticed,
        )

    def enter(self, request: JobRequest, created: datetime, origin: JobOrigin) -> ServerJob:
        """Register a new job without starting it."""
        job = self.draft(request, created, origin)
        self._add(job)
        self._open[job.principal] += 1
        if request.size:
            self._input_sizes[job] = request.size
            inputs = self._inputs.setdefault(job.principal, ByteBudget(self._limits.input_bytes))
            inputs.add(request.size)
        if job.owner is not None:
            job.owner.jobs.add(job.id)
        if job.grant.limits:
            self._budgets[job.budget] = job
        if job.grant.expires_at is not None:
            seconds = (job.grant.expires_at - datetime.now(UTC)).total_seconds()
            job.deadline = asyncio.get_running_loop().time() + seconds
            job.timers.arm(seconds + self._limits.lease_grace, partial(self._on_lease_end, job))
        _log.info(
            "job %s (%s) accepted for %s", job.id, job.agent, job.principal, extra=job.log_fields
        )
        if self._telemetry is not None:
            self._telemetry.accepted(
                job.id,
                job.agent,
                session_id=job.owner_id,
                trace_id=job.trace_id,
                carrier=request.extensions,
                parent_id=job.parent_id,
            )
        return job

    def claim(self, request: JobRequest, created: datetime, origin: JobOrigin) -> ServerJob:
        """Register a job that another replica has accepted, and that has no events yet.

        Sessions of this replica that follow the job continue to.
        """
        job = self.enter(request, created, origin)
        mirror = self.mirrors.pop(job.id, None)
        if mirror is not None:
            job.history, job.feeds = mirror.history, mirror.feeds
            job.authorities |= mirror.authorities
            mirror.feeds = {}
        return job

    def reenter(self, state: LoggedJobState, request: JobRequest, origin: JobOrigin) -> ServerJob:
        """Register a stored job; call `restored` once its history is complete."""
        job = self._stored(state, request, origin, self._journal)
        job.noticed = self._noticed
        self._add(job)
        self._number = max(self._number, state.number)
        return job

    def mirror(self, state: LoggedJobState, request: JobRequest, origin: JobOrigin) -> ServerJob:
        """Make the mirror of a job that another replica runs; it stores nothing."""
        job = self.mirrors[state.id] = self._stored(state, request, origin, None)
        return job

    def _stored(
        self,
        state: LoggedJobState,
        request: JobRequest,
        origin: JobOrigin,
        journal: Journal | None,
    ) -> ServerJob:
        return ServerJob(
            request,
            number=state.number,
            origin=origin,
            ids=self._ids,
            limits=self._limits,
            created=parse_time(state.created) or datetime.now(UTC),
            compat=self._compat,
            journal=journal,
            id=state.id,
        )

    def _add(self, job: ServerJob) -> None:
        self._jobs[job.id] = job
        self._of.setdefault(job.principal, {})[job.id] = job

    def restored(self, job: ServerJob, age: float) -> None:
        """Finish the restoration of a stored job that ended ``age`` seconds ago."""
        job.ended_at = asyncio.get_running_loop().time() - age
        self._keep(job)

    def cut_short(self, job: ServerJob) -> None:
        """Finish the restoration of a stored job that had not ended."""
        if self._telemetry is not None:
            self._telemetry.cut_short(
                job.id, job.agent, session_id=job.owner_id, trace_id=job.trace_id
            )
            self._report_end(self._telemetry, job)
        self.restored(job, 0.0)

    def withdraw(self, job: ServerJob) -> None:
        """End a job that could not be stored and was not announced."""
        if job.owner is not None:
            job.owner.jobs.discard(job.id)
            job.owner = None
        self.runner.stop(job, NOT_WRITTEN)

    def lease_moved(self, job: ServerJob) -> None:
        """End a job when its lease ends, whose ``deadline`` was moved."""
        if job.deadline is not None:
            left = job.deadline - asyncio.get_running_loop().time()
            job.timers.arm(left + self._limits.lease_grace, partial(self._on_lease_end, job))

    def discard(self, job: ServerJob, failure: Failure = NOT_WRITTEN) -> None:
        """Remove a job that was never announced, or that this replica may no longer run."""
        self.runner.forget(job, failure)
        job.drop()
        self._uncount(job)
        if job.parent is not None:
            job.parent.children.discard(job)
        job.parent = None
        self._remove(job)

    def discard_all(self, failure: Failure) -> None:
        """Remove all jobs, because this replica may no longer run them."""
        for job in tuple(self._jobs.values()):
            if job.ended:
                self._retained.remove(job)
                self._remove(job)
            else:
                self.discard(job, failure)
        self.mirrors.clear()

    def _on_lease_end(self, job: ServerJob) -> None:
        moved = job.deadline is not None and job.deadline > asyncio.get_running_loop().time()
        if job.paused_at is not None or moved:
            return  # `lease_moved` sets another timer
        _log.info("the lease of job %s (%s) expired", job.id, job.agent, extra=job.log_fields)
        self.runner.stop(job, LEASE_RAN_OUT)

    # ------------------------------------------------------------------------- access

    def get(self, job_id: str) -> ServerJob | None:
        """Return a job of this replica without checking access."""
        return self._jobs.get(job_id)

    def known(self, job_id: str) -> ServerJob | None:
        """Return a job of this replica, or the mirror of another one's, without checking access."""
        return self._jobs.get(job_id) or self.mirrors.get(job_id)

    def watched(self, session: ServerSession, job_id: str) -> ServerJob:
        """Return a job that the session's principal may observe (§7.6).

        Raises:
            JobNotFound: there is no such job.
            PermissionDenied: the job belongs to another principal, and the policy does not allow
                it.
        """
        job = self.known(job_id)
        if job is None:
            raise JobNotFound(f"there is no job {job_id[:80]}")
        allowed = self.visible(session.principal, job)
        _log.info(
            "%s asks to observe job %s of %s: %s",
            session.principal,
            job.id,
            job.principal,
            "allowed" if allowed else "denied",
            extra=log_fields(session=session.id, job=job.id),
        )
        if not allowed:
            # Ids have 80 random bits: a principal that sends one did not guess it.
            raise PermissionDenied("this job belongs to another principal")
        return job

    def controlled(self, session: ServerSession, job_id: str) -> ServerJob:
        """Return a job that the session may cancel (§7.4).

        Raises:
            JobNotFound: there is no such job.
            PermissionDenied: another session submitted it.
        """
        job = self.known(job_id)
        if job is None:
            raise JobNotFound(f"there is no job {job_id[:80]}")
        if job.principal != session.principal or session.id not in job.authorities:
            raise PermissionDenied("this job was submitted by another session")
        return job

    def steered(self, session: ServerSession, job_id: str) -> ServerJob:
        """Return a job that the session may send messages to.

        Raises:
            JobNotFound: there is no such job.
            PermissionDenied: another session submitted it, and the policy does not allow it.
        """
        job = self.known(job_id)
        if job is None:
            raise JobNotFound(f"there is no job {job_id[:80]}")
        if job.principal == session.principal and session.id in job.authorities:
            return job
        watch = Observation(session.principal, job.principal, job.id, job.agent)
        if self._permits(self._steering, watch):
            return job
        raise PermissionDenied("this job was submitted by another session")

    def visible(self, principal: str, job: ServerJob) -> bool:
        """Whether the principal may see the job."""
        return self.allows(principal, job.principal, job.id, job.agent)

    @property
    def shows_others(self) -> bool:
        """Whether a policy may let principals see the jobs of others."""
        return self._policy is not None

    def allows(self, principal: str, owner: str, job_id: str, agent: str) -> bool:
        """Whether the principal may see a job of ``owner``."""
        return owner == principal or self._permits(
            self._policy, Observation(principal, owner, job_id, agent)
        )

    def _permits(self, policy: Policy | None, watch: Observation) -> bool:
        if policy is None:
            return False
        try:
            return bool(policy(watch))
        except BaseException as error:  # noqa: BLE001 - a broken policy opens nothing
            pass_on(error)
            _log.exception(
                "the policy failed; access to job %s denied",
                watch.job_id,
                extra=log_fields(job=watch.job_id),
            )
            return False

    def open(self) -> list[ServerJob]:
        """Return the jobs that have not ended."""
        return [job for job in self._jobs.values() if not job.ended]

    def after(self, number: int, principal: str) -> Iterator[ServerJob]:
        """Yield the visible jobs above a number, in order of acceptance.

        Without a policy, only the principal's own jobs are iterated.
        """
        jobs = self._jobs if self._policy is not None else self._of.get(principal, {})
        return (
            job
            for job in tuple(jobs.values())
            if job.number > number and self.visible(principal, job)
        )

    def unwatch(self, session: ServerSession, job_id: str) -> None:
        """Remove a session's subscription."""
        job = self.known(job_id)
        if job is not None:
            job.feeds.pop(session, None)

    def released(self, session: ServerSession) -> None:
        """Detach the jobs of an expired session. They keep running."""
        for job_id in tuple(session.jobs):
            job = self._jobs.get(job_id)
            if job is not None and job.owner is session:
                job.owner = None
        for feed in tuple(session.feeds.values()):
            self.unwatch(session, feed.job_id)
            feed.end()

    # ----------------------------------------------------------------------- keeping

    def _on_ended(self, job: ServerJob) -> None:
        _log.info(
            "job %s (%s) of %s: %s",
            job.id,
            job.agent,
            job.principal,
            job.status,
            extra=job.log_fields,
        )
        if self._telemetry is not None:
            self._report_end(self._telemetry, job)
        self._uncount(job)
        if job.status != names.SUCCESS:
            self._end_children(job)
        parent = job.parent
        if parent is not None:
            parent.children.discard(job)
        job.parent = None
        self._keep(job)

    def _uncount(self, job: ServerJob) -> None:
        self._open[job.principal] -= 1
        if self._open[job.principal] <= 0:
            del self._open[job.principal]
        size = self._input_sizes.pop(job, 0)
        if size:
            inputs = self._inputs[job.principal]
            inputs.release(size)
            if not inputs.used:
                del self._inputs[job.principal]
        self._budgets.pop(job.budget, None)

    def _report_end(self, telemetry: RuntimeTelemetry, job: ServerJob) -> None:
        outcome = job.outcome
        if isinstance(outcome, Failure):
            telemetry.ended(job.id, job.status, outcome.code, outcome.message)
        else:
            telemetry.ended(job.id, job.status, None, None)

    def _keep(self, job: ServerJob) -> None:
        self._retained.add(job, job.held)
        self._prune()

    def _end_children(self, parent: ServerJob) -> None:
        """End the delegated jobs of a job that was stopped or failed."""
        for child in tuple(parent.children):
            self.runner.stop(child, PARENT_ENDED, grace=self._limits.cancel_grace)

    def _prune(self) -> None:
        loop = asyncio.get_running_loop()
        for job in self._retained.overdue(loop.time()):
            self._forget(job)
        due = self._retained.due()
        if due is not None and self._pruning is None:
            self._pruning = loop.call_at(due, self._prune_again)

    def _prune_again(self) -> None:
        self._pruning = None
        self._prune()

    def _forget(self, job: ServerJob) -> None:
        self._remove(job)
        if self._journal is not None:
            self._journal.put(Gone(job_id=job.id))
        for feed in tuple(job.feeds.values()):
            feed.cut()
        job.feeds.clear()

    def _remove(self, job: ServerJob) -> None:
        del self._jobs[job.id]
        theirs = self._of[job.principal]
        del theirs[job.id]
        if not theirs:
            del self._of[job.principal]

    def close(self) -> None:
        """Stop the timers."""
        if self._pruning is not None:
            self._pruning.cancel()
            self._pruning = None
