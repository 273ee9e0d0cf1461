"""The methods of `Client` that send commands to the runtime: submit, watch, jobs, ping, cancel.

They check arguments and hold no state: `Commands` sends the requests, `JobTable` knows the jobs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any, get_args

from arcp_client import _arguments as check
from arcp_client._client.commands import Commands
from arcp_client._client.jobs import JobTable
from arcp_client._client.submission import Submission
from arcp_client._wire.ids import is_trace_id
from arcp_client.job import Job, JobHandle, JobView
from arcp_client.models import JobStatus, JobSummary, Lease

__all__ = ["CommandMethods"]


class CommandMethods:
    """Submitting, watching, listing, pinging.

    Args:
        commands: sends the requests.
        jobs: what is known of each job.
    """

    def __init__(self, commands: Commands, jobs: JobTable) -> None:
        self._commands = commands
        self._jobs = jobs

    async def submit(
        self,
        agent: str,
        input: Any = None,
        *,
        lease: Lease | Mapping[str, Sequence[str]] | None = None,
        expires_at: datetime | None = None,
        idempotency_key: str | None = None,
        max_runtime: float | None = None,
        trace_id: str | None = None,
        parent: str | JobHandle | None = None,
        timeout: float | None = None,
    ) -> Job:
        """Start a job; returns once the runtime accepted it (§7.1).

        Always sent with an idempotency key, so that a drop in between neither loses the job nor
        starts it twice: it is sent again over the next link with the same payload. The input is
        copied when the call is made.

        Args:
            agent: ``name`` or ``name@version`` (§7.5).
            input: any JSON value; dataclasses, pydantic models, datetimes and decimals too.
            lease: what the job may do, namespace to patterns (§9.2).
            expires_at: when the lease ends (§9.5); needs a time zone.
            idempotency_key: the same key with the same parameters gives the same job (§7.2), as
                long as the runtime knows it. Runtimes behind one address that share no log do not
                know each other's keys: there it runs the agent again.
            max_runtime: seconds after which the runtime ends the job.
            trace_id: W3C trace id, 32 hexadecimal digits (§11); made if absent.
            parent: the job that this one belongs to.
            timeout: seconds to wait for the acceptance; ``Timeouts.request`` by default.

        Raises:
            AgentNotFound, AgentVersionNotFound, DuplicateKey, PermissionDenied, InvalidRequest:
                the runtime refused it.
            RequestTimeout: no answer in time; the job may run all the same.
            ValueError: an argument that no runtime could accept.
            ClientClosed: the client was closed.
        """
        check.a_text("trace_id", trace_id, none=True)
        check.seconds("timeout", timeout, none=True)
        check.an_instance("parent", parent, (str, JobHandle), "a job or the id of one", none=True)
        submission = Submission.of(
            agent,
            input,
            lease=lease,
            expires_at=expires_at,
            key=idempotency_key,
            max_runtime=max_runtime,
            parent=parent.id if isinstance(parent, JobHandle) else parent,
        )
        if trace_id is not None and not is_trace_id(trace_id):
            raise ValueError("trace_id is 32 lower-case hexadecimal digits, not all zero (§11)")
        return await self._commands.submit(submission, trace_id=trace_id, timeout=timeout)

    async def watch(
        self,
        job_id: str,
        *,
        history: bool = False,
        from_seq: int | None = None,
        timeout: float | None = None,
    ) -> JobView:
        """Follow a job of another session, or of this one earlier (§7.6).

        Watching grants no right to cancel it. A job that this client submitted adds no second
        copy of its events.

        Args:
            job_id: which job.
            history: begin with what the runtime still holds of it.
            from_seq: with ``history``, only events after this one, in the numbers of the session
                that submitted it, as ``last_event_seq`` of `jobs` has them.
            timeout: seconds to wait for the confirmation; ``Timeouts.request`` by default.

        Raises:
            JobNotFound, PermissionDenied: the runtime refused it.
            FeatureNotNegotiated: the runtime has no subscriptions.
            RequestTimeout: no answer in time.
        """
        check.a_text("job_id", job_id)
        check.a_flag("history", history)
        check.a_number("from_seq", from_seq, least=0, none=True)
        check.seconds("timeout", timeout, none=True)
        return await self._commands.watch(
            job_id, history=history, from_seq=from_seq, timeout=timeout
        )

    async def jobs(
        self,
        *,
        status: Iterable[JobStatus] = (),
        agent: str | None = None,
        created_after: datetime | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[JobSummary]:
        """The jobs that this principal may see (§6.6), page by page.

        Args:
            status: only these statuses, such as ``["pending", "running"]``.
            agent: only this agent, by name or name@version.
            created_after: only younger ones; needs a time zone.
            timeout: seconds to wait for each page; ``Timeouts.request`` by default.

        Raises:
            ValueError: a status that the specification does not have (§7.3); lists those it has.
            FeatureNotNegotiated: the runtime has no listing.
            RemoteProtocolError: the runtime's pages go round in circles.
            RequestTimeout: no answer in time.
        """
        check.a_text("agent", agent, none=True)
        check.a_moment("created_after", created_after, none=True)
        check.seconds("timeout", timeout, none=True)
        wanted = check.texts("status", status)
        for each in wanted:
            check.any_of("each status", each, get_args(JobStatus))
        found = self._commands.list_jobs(
            status=wanted,
            agent=agent,
            created_after=created_after,
            timeout=timeout,
        )
        async with aclosing(found):
            async for job in found:
                yield job

    def job(self, job_id: str) -> JobHandle | None:
        """The job of that id, if this session has heard of it; from its first event on."""
        check.a_text("job_id", job_id)
        record = self._jobs.get(job_id)
        return self._jobs.handle(record) if record is not None else None

    def open_jobs(self) -> list[Job]:
        """The jobs that this client submitted and whose outcome is not known yet."""
        return self._jobs.open()

    async def ping(self, *, timeout: float | None = None) -> float:
        """Ask the runtime for a sign of life (§6.4); gives the round trip in seconds.

        Raises:
            FeatureNotNegotiated: the runtime has no heartbeat.
            RequestTimeout: no answer in time.
        """
        check.seconds("timeout", timeout, none=True)
        return await self._commands.ping(timeout=timeout)

    async def cancel_job(self, job_id: str, reason: str | None = None) -> None:
        """Ask the runtime to end a job of which only the id is at hand (§7.4); see `Job.cancel`.

        Args:
            job_id: which job.
            reason: why, for the job's record.

        Raises:
            JobNotFound, PermissionDenied: the runtime refused it.
            RequestTimeout: no answer in time.
        """
        check.a_text("job_id", job_id)
        check.a_text("reason", reason, none=True, empty=True)
        await self._commands.cancel(job_id, reason)
