"""Submits in, jobs out: acceptance, who may see and cancel which job, and how long it is kept."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from arcp_client._tasks import TaskOwner
from arcp_client._wire import dialect
from arcp_client._wire.ids import is_trace_id, new_trace_id
from arcp_client._wire.messages import Submit
from arcp_client._wire.stamp import EventIds
from arcp_client.errors import (
    InvalidRequest,
    JobNotFound,
    PermissionDenied,
    request_error,
)
from arcp_client.runtime.agents import Agents
from arcp_client.runtime.authority import Authority, expired
from arcp_client.runtime.context import JobContext
from arcp_client.runtime.idempotency import Keys, Remembered, fingerprint
from arcp_client.runtime.jobs import Job, Request
from arcp_client.runtime.leases import Budget, Grant, parse_grant
from arcp_client.runtime.limits import Limits, Observation, Policy
from arcp_client.runtime.runner import Runner
from arcp_client.runtime.session import Session

__all__ = ["JobTable"]

_log = logging.getLogger("arcp_client.runtime")


class JobTable:
    """All jobs of a runtime: those that run, and ended ones for a while.

    Args:
        agents: what can be submitted to.
        limits: how many, and how long.
        tasks: owns the jobs' tasks.
        policy: widens who may watch.
    """

    def __init__(
        self, agents: Agents, limits: Limits, tasks: TaskOwner, policy: Policy | None
    ) -> None:
        self._agents = agents
        self._limits = limits
        self._policy = policy
        self._ids = EventIds()
        self._jobs: dict[str, Job] = {}
        self._number = 0
        self._open: Counter[str] = Counter()
        self._keys = Keys(limits.idempotency_window, limits.idempotency_keys)
        self._ended: deque[Job] = deque()
        self._ended_bytes = 0
        self._pruning: asyncio.TimerHandle | None = None
        self._budgets: dict[Budget, Job] = {}
        self.runner = Runner(limits, tasks, context=self._context, on_ended=self._on_ended)
        self.closing = False

    def __len__(self) -> int:
        return len(self._jobs)

    def _context(self, job: Job) -> JobContext:
        return JobContext(job, self._limits, Authority(job, self._budgets.get))

    # --------------------------------------------------------------------- submitting

    def submit(
        self, session: Session, submit: Submit, trace_id: str | None
    ) -> Accepted | Awaitable[Accepted]:
        """Accept a submit, or find the job that an earlier one with its key was accepted as.

        Raises:
            RequestError: it is refused; nothing remains of it.
        """
        key = submit.idempotency_key
        if key is None:
            return self._accept(session, submit, trace_id)
        parameters = fingerprint(submit.model_dump(mode="json"))
        known = self._keys.find(session.principal, key, parameters)
        if known is not None:
            return self._repeat(session, known)
        entry = self._keys.begin(session.principal, key, parameters)
        try:
            accepted = self._accept(session, submit, trace_id)
        except BaseException as error:
            self._keys.drop(session.principal, key)
            entry.fail(error)
            raise
        entry.settle(accepted.payload)
        return accepted

    def _repeat(self, session: Session, known: Remembered) -> Accepted | Awaitable[Accepted]:
        if known.payload is None:
            return self._repeat_later(session, known)
        job = self._jobs.get(known.payload["job_id"])
        if job is not None and job.principal == session.principal:
            job.authorities.add(session.id)
        return Accepted(known.payload, None)

    async def _repeat_later(self, session: Session, known: Remembered) -> Accepted:
        payload = await known.wait()
        job = self._jobs.get(payload["job_id"])
        if job is not None:
            job.authorities.add(session.id)
        return Accepted(payload, None)

    def _accept(self, session: Session, submit: Submit, trace_id: str | None) -> Accepted:
        if self.closing:
            raise request_error(
                dialect.INTERNAL_ERROR, "the runtime is shutting down", retryable=True
            )
        agent, function = self._agents.resolve(submit.agent)
        now = datetime.now(UTC)
        requested = submit.lease_request
        if requested is None:
            requested = {n: list(p) for n, p in self._limits.default_lease.root.items()}
        grant = parse_grant(requested, submit.lease_constraints, now)
        _check_features(submit, grant, session.features)
        parent = self._parent(session, submit)
        if parent is not None:
            grant = parent.grant.derive(grant, parent.budget)
        if self._open[session.principal] >= self._limits.jobs_per_principal:
            raise request_error(
                dialect.INTERNAL_ERROR, "too many jobs of this principal are open", retryable=True
            )
        request = Request(
            agent=agent,
            function=function,
            input=submit.input,
            grant=grant,
            trace_id=_trace(trace_id) or (parent.trace_id if parent else new_trace_id()),
            max_runtime=_seconds(submit.max_runtime_sec),
            parent=parent,
            delegate_id=submit.delegate_id,
        )
        job = self._enter(session, request, now)
        return Accepted(job.accept(), job)

    def _parent(self, session: Session, submit: Submit) -> Job | None:
        if submit.parent_job_id is None:
            return None
        parent = self.controlled(session, submit.parent_job_id)
        if parent.ended:
            raise InvalidRequest("the parent job has ended")
        return parent

    def _enter(self, session: Session, request: Request, now: datetime) -> Job:
        self._number += 1
        job = Job(
            request,
            number=self._number,
            owner=session,
            ids=self._ids,
            limits=self._limits,
            created=now,
        )
        self._jobs[job.id] = job
        self._open[job.principal] += 1
        session.jobs.add(job.id)
        if job.grant.limits:
            self._budgets[job.budget] = job
        if job.grant.expires_at is not None:
            seconds = (job.grant.expires_at - now).total_seconds()
            job.deadline = asyncio.get_running_loop().time() + seconds
            job.timers.arm(seconds + self._limits.lease_grace, partial(self._on_lease_end, job))
        _log.info("job %s (%s) accepted for %s", job.id, job.agent, job.principal)
        return job

    def _on_lease_end(self, job: Job) -> None:
        _log.info("the lease of job %s (%s) expired", job.id, job.agent)
        self.runner.stop(job, expired(job))

    # ------------------------------------------------------------------------- access

    def watched(self, session: Session, job_id: str) -> Job:
        """A job that the session's principal may observe (§7.6).

        Raises:
            JobNotFound: there is no such job.
            PermissionDenied: it is another principal's, and the policy does not open it.
        """
        job = self._jobs.get(job_id)
        if job is None:
            raise JobNotFound(f"there is no job {job_id[:80]}")
        allowed = self.visible(session.principal, job)
        _log.info(
            "%s asks to observe job %s of %s: %s",
            session.principal,
            job.id,
            job.principal,
            "allowed" if allowed else "denied",
        )
        if not allowed:
            # Ids are 80 random bits: who knows one has been told of it.
            raise PermissionDenied("this job belongs to another principal")
        return job

    def controlled(self, session: Session, job_id: str) -> Job:
        """A job that the session may cancel (§7.4).

        Raises:
            JobNotFound: there is no such job.
            PermissionDenied: another session submitted it.
        """
        job = self._jobs.get(job_id)
        if job is None:
            raise JobNotFound(f"there is no job {job_id[:80]}")
        if job.principal != session.principal or session.id not in job.authorities:
            raise PermissionDenied("this job was submitted by another session")
        return job

    def visible(self, principal: str, job: Job) -> bool:
        """Whether the principal may know of the job."""
        if job.principal == principal:
            return True
        if self._policy is None:
            return False
        try:
            return bool(self._policy(Observation(principal, job.principal, job.id, job.agent)))
        except Exception:  # noqa: BLE001 - a broken policy opens nothing
            _log.exception("the policy failed; access to job %s denied", job.id)
            return False

    def after(self, number: int) -> Iterator[Job]:
        """All jobs above a number, in the order of their acceptance."""
        return (job for job in tuple(self._jobs.values()) if job.number > number)

    def unwatch(self, session: Session, job_id: str) -> None:
        """A session's subscription has ended."""
        job = self._jobs.get(job_id)
        if job is not None:
            job.feeds.pop(session, None)

    def released(self, session: Session) -> None:
        """A session is gone: its jobs go on without it."""
        for job_id in tuple(session.jobs):
            job = self._jobs.get(job_id)
            if job is not None and job.owner is session:
                job.owner = None
        for feed in tuple(session.feeds.values()):
            job = self._jobs.get(feed.job_id)
            if job is not None:
                job.feeds.pop(session, None)
            feed.end()

    # ----------------------------------------------------------------------- keeping

    def _on_ended(self, job: Job) -> None:
        _log.info("job %s (%s) of %s: %s", job.id, job.agent, job.principal, job.status)
        self._open[job.principal] -= 1
        if self._open[job.principal] <= 0:
            del self._open[job.principal]
        self._budgets.pop(job.budget, None)
        self._ended.append(job)
        self._ended_bytes += job.history.bytes
        self._prune()

    def _prune(self) -> None:
        loop = asyncio.get_running_loop()
        limits = self._limits
        oldest = loop.time() - limits.retention
        while self._ended:
            job = self._ended[0]
            if (
                job.ended_at > oldest
                and len(self._ended) <= limits.retained_jobs
                and self._ended_bytes <= limits.retained_bytes
            ):
                break
            self._ended.popleft()
            self._ended_bytes -= job.history.bytes
            self._forget(job)
        if self._ended and self._pruning is None:
            due = self._ended[0].ended_at + limits.retention
            self._pruning = loop.call_at(due, self._prune_again)

    def _prune_again(self) -> None:
        self._pruning = None
        self._prune()

    def _forget(self, job: Job) -> None:
        del self._jobs[job.id]
        for feed in tuple(job.feeds.values()):
            feed.cut()
        job.feeds.clear()

    def close(self) -> None:
        """Stop the timers."""
        if self._pruning is not None:
            self._pruning.cancel()
            self._pruning = None


class Accepted:
    """An acceptance: its payload, and the job if it is new and has to be started."""

    def __init__(self, payload: dict[str, Any], job: Job | None) -> None:
        self.payload = payload
        self.job = job

    @property
    def job_id(self) -> str:
        """The accepted job's id."""
        job_id: str = self.payload["job_id"]
        return job_id


_GATED = (
    (dialect.BUDGETS, dialect.BUDGETS),
    (dialect.MODEL_USE, dialect.MODEL_USE),
)


def _check_features(submit: Submit, grant: Grant, features: frozenset[str]) -> None:
    """Refuse what the session did not negotiate (§6.2)."""
    asked = submit.lease_request or {}
    missing = [feature for namespace, feature in _GATED if namespace in asked]
    if grant.expires_at is not None:
        missing.append(dialect.LEASE_EXPIRY)
    if "@" in submit.agent:
        missing.append(dialect.AGENT_VERSIONS)
    for feature in missing:
        if feature not in features:
            raise InvalidRequest(f"the feature {feature} was not negotiated")


def _seconds(value: int | None) -> float | None:
    # Above some decades a timer is none; an integer may be too large for a float.
    return None if value is None else float(min(value, 10**9))


def _trace(value: str | None) -> str | None:
    """A trace id from the envelope: bare, or inside a traceparent (§11)."""
    if value is None:
        return None
    parts = value.split("-")
    if len(parts) == 4:
        value = parts[1]
    return value if is_trace_id(value) else None
