"""Answers the directory of the replicas: takes jobs from other replicas, and hands jobs to them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from arcp_client.errors import RequestError
from arcp_client.runtime._agents.registry import AgentRegistry
from arcp_client.runtime._jobs.admission import Admission, job_input
from arcp_client.runtime._jobs.outcomes import SHUT_DOWN
from arcp_client.runtime._jobs.registry import JobRegistry
from arcp_client.runtime._log.directory import Bounds, Directory
from arcp_client.runtime._log.entries import JobInput, LoggedJobState
from arcp_client.runtime._log.journal import Journal
from arcp_client.runtime._sessions.registry import SessionRegistry
from arcp_client.runtime._webhooks.notices import WebhookNotices
from arcp_client.runtime.limits import Limits

__all__ = ["Replica", "bounds_of"]


def bounds_of(limits: Limits, resume_window: float) -> Bounds:
    """Return the limits of a runtime that hold over all of its replicas."""
    return Bounds(
        jobs=limits.jobs_per_principal,
        sessions=limits.sessions_per_principal,
        retention=limits.retention,
        key_window=limits.idempotency_window,
        resume_window=resume_window,
        unclaimed=limits.unclaimed_time,
        answer_window=limits.answer_window,
        answers=limits.answers,
        answer_bytes=limits.answer_bytes,
    )


class Replica:
    """What the directory may ask of this replica: the `ReplicaHost` of a runtime.

    Args:
        bounds: the limits that hold over all replicas.
        agents: the agents of this replica.
        jobs: the jobs of this replica.
        admission: begins the jobs that other replicas have accepted.
        sessions: the sessions of this replica.
        webhooks: the webhooks of this replica.
        journal: stores their changes.
        fenced: drops all sessions and jobs without storing anything.
    """

    def __init__(
        self,
        bounds: Bounds,
        agents: AgentRegistry,
        jobs: JobRegistry,
        admission: Admission,
        sessions: SessionRegistry,
        webhooks: WebhookNotices,
        journal: Journal,
        fenced: Callable[[], None],
    ) -> None:
        self.bounds = bounds
        self.fenced = fenced
        # The other methods of a `ReplicaHost` that one part alone answers:
        self.inventory = agents.inventory
        self.session_lost = sessions.lose
        self.flushed = journal.flushed
        self._stored = journal.stored
        self._agents = agents
        self._jobs = jobs
        self._admission = admission
        self._webhooks = webhooks

    @property
    def webhooks(self) -> Mapping[str, Sequence[str]]:
        """What the webhooks with room for more calls are called for, by endpoint."""
        return self._webhooks.open

    @property
    def references(self) -> list[str]:
        """The full references of the agents of this replica."""
        return self._agents.references

    @property
    def vacancies(self) -> int:
        """The number of further jobs that this replica would start now."""
        return 0 if self._jobs.closing else self._jobs.runner.vacancies

    def claimed(self, state: LoggedJobState, given: JobInput) -> None:
        """Run a job that another replica accepted."""
        if self._jobs.closing or self._jobs.get(state.id) is not None:
            return  # `Directory.leave` ends it, retryable; or it runs here already
        job, failure = self._admission.claim(state, given)
        if failure is None:
            self._jobs.runner.admit(job)
        else:
            self._jobs.runner.stop(job, failure)

    async def hand_over(self, directory: Directory, *, timeout: float) -> None:
        """Hand the jobs that have not started to the other replicas.

        Tries for ``timeout`` seconds to store what is known of them.
        """
        runner = self._jobs.runner
        withheld = runner.withhold()
        moved: frozenset[str] = frozenset()
        with contextlib.suppress(RequestError, TimeoutError):
            async with asyncio.timeout(timeout):
                await self._stored()  # nothing of them is stored after this
            moved = await directory.release(
                [
                    (job.state(), job_input(job.request, job.owner))
                    for job in withheld
                    # Another replica begins with the first event: messages may have been before.
                    if job.request is not None and not job.history.end
                ]
            )
        for job in withheld:
            if job.id in moved:
                self._jobs.discard(job, SHUT_DOWN)
            elif not job.ended:
                runner.readmit(job)
