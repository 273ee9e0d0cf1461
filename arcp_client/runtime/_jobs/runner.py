"""Runs the agents of accepted jobs within the limit of concurrent jobs, and stops them.

The runtime owns the tasks; they are independent of sessions and connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol

from arcp_client._tasks import TaskOwner, pass_on
from arcp_client._wire import names
from arcp_client.errors import (
    FeatureNotNegotiated,
    JobFailed,
    LeaseSubsetViolation,
    PermissionDenied,
)
from arcp_client.runtime._jobs.abandonable import Abandonable
from arcp_client.runtime._jobs.job import PENDING, ServerJob
from arcp_client.runtime._jobs.outcomes import Failure, Success
from arcp_client.runtime._jobs.output import JobOutput
from arcp_client.runtime._jobs.shares import TurnQueue
from arcp_client.runtime.limits import Limits

__all__ = ["AgentContext", "Runner"]

_log = logging.getLogger("arcp_client.runtime")

_LAST_WORDS = 1.0
"""Seconds for the tasks of ended jobs to end too."""
_WITHHELD = Failure(names.ERROR, names.INTERNAL_ERROR, "another replica runs the job")


class AgentContext(Protocol):
    """The part of a `JobContext` that the runner uses."""

    async def chunk(self, data: Any, more: bool = True) -> None:
        """Emit a piece of the result."""


class Runner:
    """Runs jobs, at most ``max_concurrent_jobs`` at once.

    Waiting jobs are started in order of acceptance, alternating between principals.

    Args:
        limits: the number of jobs, and the grace periods.
        tasks: owns the jobs' tasks.
        context: makes the context of a job.
        on_ended: called for every job after its terminal event was emitted.
        before_end: revokes the credentials of a job; the terminal event waits for it (§9.8).
        started: called with the id of each job whose agent starts, in the agent's context.
        vacant: called when a job has ended, so that there is room for another one.
    """

    def __init__(
        self,
        limits: Limits,
        tasks: TaskOwner,
        *,
        context: Callable[[ServerJob], AgentContext],
        on_ended: Callable[[ServerJob], None],
        before_end: Callable[[ServerJob], Awaitable[None]] | None = None,
        started: Callable[[str], None] | None = None,
        vacant: Callable[[], None] = lambda: None,
    ) -> None:
        self._started = started
        self._vacant = vacant
        self._before_end = before_end
        self._limits = limits
        self._tasks = tasks
        self._context = context
        self._on_ended = on_ended
        self._waiting: TurnQueue[ServerJob] = TurnQueue()
        self._running: set[ServerJob] = set()
        self._abandonable: dict[ServerJob, Abandonable[Any]] = {}

    def admit(self, job: ServerJob) -> None:
        """Start a job, now or when a slot is free.

        A delegated job shares its parent's slot. If it needed a slot of its own while its parent
        waits for the result, both could wait for ever.
        """
        if job.ended or job.stopping is not None:
            return  # the job was stopped before it was announced
        if job.parent is not None and job.parent in self._running:
            self._start(job)
            return
        self._waiting.push(job.principal, job)
        self._fill()

    def _fill(self) -> None:
        bound = self._limits.max_concurrent_jobs
        while self._waiting and (bound is None or self._slots_taken() < bound):
            self._start(self._waiting.pop())

    @property
    def vacancies(self) -> int:
        """The number of further jobs that would be started at once."""
        bound = self._limits.max_concurrent_jobs
        taken = self._slots_taken() + len(self._waiting)
        return sys.maxsize if bound is None else max(0, bound - taken)

    def withhold(self) -> list[ServerJob]:
        """Take all waiting jobs out of the queue; nothing stops them until they are admitted."""
        withheld = []
        while self._waiting:
            job = self._waiting.pop()
            job.stopping = _WITHHELD
            withheld.append(job)
        return withheld

    def readmit(self, job: ServerJob) -> None:
        """Put a withheld job back into the queue."""
        job.stopping = None
        self.admit(job)

    def _slots_taken(self) -> int:
        return sum(job.parent is None for job in self._running)

    def _start(self, job: ServerJob) -> None:
        job.started()
        self._running.add(job)
        request = job.request
        assert request is not None
        if request.max_runtime is not None:
            job.timers.arm(
                request.max_runtime,
                partial(
                    self.stop,
                    job,
                    Failure(
                        names.TIMED_OUT,
                        names.TIMEOUT,
                        f"the job ran longer than {request.max_runtime:g} seconds",
                    ),
                ),
            )
        # An empty context: context variables of the submitting client must not reach the agent.
        context = contextvars.Context()
        if self._started is not None:
            context.run(self._started, job.id)
        job.task = context.run(self._tasks.spawn, self._run(job), name=job.id)

    # ------------------------------------------------------------------------ ending

    def stop(self, job: ServerJob, failure: Failure, *, grace: float = 0.0) -> None:
        """End a job with a failure: at once, or after a grace period if its agent cooperates."""
        if job.ended or job.stopping is not None:
            return
        job.stopping = failure
        job.cancelled.set(failure.message)
        if job.status == PENDING:
            self._waiting.discard(job.principal, job)
            self._close(job, failure)
        elif grace > 0 and job.cooperative:
            job.timers.arm(grace, partial(self._interrupt, job))
        else:
            self._interrupt(job)

    def forget(self, job: ServerJob, failure: Failure) -> None:
        """Stop a job that this replica may no longer run; it emits nothing more."""
        job.stopping = failure
        job.cancelled.set(failure.message)
        self._waiting.discard(job.principal, job)
        self._running.discard(job)
        if job.task is not None:
            job.task.cancel()

    def _interrupt(self, job: ServerJob) -> None:
        if job.ended or job.task is None:
            return
        job.task.cancel()
        job.timers.arm(self._limits.kill_grace, partial(self._abandon, job))

    def _abandon(self, job: ServerJob) -> None:
        if job.ended or job.stopping is None:
            return
        _log.error(
            "job %s (%s) does not end when interrupted; abandoned",
            job.id,
            job.agent,
            extra=job.log_fields,
        )
        running = self._abandonable.get(job)
        if running is not None and job.task is not None:
            running.abandon()
            job.task.cancel()
        self._close(job, job.stopping)

    def _close(self, job: ServerJob, outcome: Success | Failure) -> None:
        if job.ended or job.ending:
            return
        if job.credentials and self._before_end is not None:
            job.ending = True
            self._tasks.spawn(self._close_later(job, outcome, self._before_end), name="end")
        else:
            self._end(job, outcome)

    async def _close_later(
        self,
        job: ServerJob,
        outcome: Success | Failure,
        before_end: Callable[[ServerJob], Awaitable[None]],
    ) -> None:
        try:
            await before_end(job)
        finally:
            self._end(job, outcome)

    def _end(self, job: ServerJob, outcome: Success | Failure) -> None:
        job.end(outcome)
        self._running.discard(job)
        self._on_ended(job)
        self._fill()
        self._vacant()

    async def end_all(
        self, open_jobs: Callable[[], Sequence[ServerJob]], failure: Failure, timeout: float
    ) -> None:
        """Wait until no job is open, and end those that are open after ``timeout`` seconds."""
        await _ended(open_jobs(), timeout)
        jobs = open_jobs()
        for job in jobs:
            self.stop(job, failure)
        await _ended(jobs, self._limits.kill_grace + 1)
        tasks = {job.task for job in jobs if job.task is not None}
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=_LAST_WORDS)
            for task in left:
                _log.error("task %s of an agent is still running: it ignores cancellation", task)

    # ----------------------------------------------------------------------- running

    async def _run(self, job: ServerJob) -> None:
        outcome: Success | Failure
        task = asyncio.current_task()
        context = self._context(job)
        try:
            running = self._abandonable[job] = Abandonable(
                self._call(job, context), f"job {job.id}", job.log_fields
            )
            try:
                value = await running
            finally:
                del self._abandonable[job]
            outcome = JobOutput(job, self._limits).success(value)
        except asyncio.CancelledError:
            outcome = Failure(
                names.ERROR, names.INTERNAL_ERROR, "the agent was interrupted", retryable=True
            )
        except (JobFailed, PermissionDenied, LeaseSubsetViolation, FeatureNotNegotiated) as error:
            outcome = JobOutput(job, self._limits).failure(error)
        except BaseException as error:  # noqa: BLE001 - an agent's failure is that of its job alone
            pass_on(error, task)
            _log.error(
                "the agent of job %s (%s) failed",
                job.id,
                job.agent,
                exc_info=error,
                extra=job.log_fields,
            )
            text = "the agent failed"
            if not isinstance(error, Exception):  # the type helps to diagnose and reveals no secret
                text = f"the agent raised {type(error).__name__}"
            outcome = Failure(names.ERROR, names.INTERNAL_ERROR, text, retryable=True)
        self._close(job, job.stopping or job.violated or outcome)

    async def _call(self, job: ServerJob, context: AgentContext) -> Any:
        request = job.request
        assert request is not None
        made = request.function(request.input, context)
        value = await made if inspect.isawaitable(made) else made
        if not hasattr(value, "__aiter__"):
            return value
        try:
            async for piece in value:
                await context.chunk(piece)
        finally:
            # A generator that is not exhausted must be closed explicitly.
            if hasattr(value, "aclose"):
                await value.aclose()
        JobOutput(job, self._limits).finish()
        return None


async def _ended(jobs: Sequence[ServerJob], timeout: float) -> None:
    """Wait until jobs have ended, at most ``timeout`` seconds."""
    if timeout > 0:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                for job in jobs:
                    await job.done.wait()
