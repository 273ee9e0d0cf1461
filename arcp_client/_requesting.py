"""Requests of users in, answers of the runtime out: the asking half of `Client`.

It owns the session, which knows what was asked, and the table of jobs; ``client`` keeps the
session on a link.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from ._dispatch.assembler import Log
from ._dispatch.streams import EventIterator
from ._jobrecord import JobOwner
from ._jobtable import JobTable
from ._link.driver import Driver
from ._link.link import Link
from ._observing import Observing
from ._protocol.requests import Request
from ._protocol.session import Session
from ._submission import Submission, is_own_key
from ._wire import dialect as wire
from ._wire.ids import is_trace_id, new_id, new_trace_id, now_text, time_text
from ._wire.messages import Cancel, JobFilter, ListJobs, Ping, Subscribe
from ._wire.replies import JobPage
from .errors import ArcpError, JobLost, JobNotFound, RemoteProtocolError
from .events import Event
from .job import Job, JobHandle, JobView
from .models import JobSummary, Lease
from .policy import Buffer, Order, Timeouts

__all__ = ["Requesting", "reject"]

_PAGE = 100


class Requesting(Observing):
    """Submitting, watching, listing, pinging.

    Args:
        session: decides; see ``_protocol``.
        order: the order of registrations that do not choose one.
        buffer: how much may wait for slow consumers.
        timeouts: bounds on every wait.
        handler_timeout: seconds that one handler call may take.
        activity: called at the first event after a quiet time.
    """

    def __init__(
        self,
        session: Session,
        *,
        order: Order,
        buffer: Buffer,
        timeouts: Timeouts,
        handler_timeout: float | None,
        activity: Callable[[], None],
    ) -> None:
        super().__init__(
            order=order,
            buffer=buffer,
            timeouts=timeouts,
            handler_timeout=handler_timeout,
            asked=lambda: any(not request.orphaned for request in self._session.requests),
            activity=activity,
        )
        self._session = session
        self._timeouts = timeouts
        self._jobs = JobTable(self._job_owner())
        self._subject.attach(self._jobs.streams)

    def _iterators(self) -> Iterator[EventIterator[Event]]:
        """All iterators that are in use."""
        yield from super()._iterators()
        yield from self._jobs.streams.iterators()

    def _job_owner(self) -> JobOwner:
        return JobOwner(
            notifications=self._notifications,
            relief=self._pressure,
            waits=self._waits,
            barriers=self._barriers,
            own_call=self._own_call,
            chunk_log=self._chunk_log,
            cancel=self.cancel_job,
            unwatch=self._unwatch,
        )

    def _chunk_log(self, job_id: str) -> Log | None:
        """Where the chunks of a job's result outlive the process; ``None`` if nowhere."""
        raise NotImplementedError

    def _open(self) -> Driver:
        """What carries the session; raises if there is none, or no more."""
        raise NotImplementedError

    async def _kept(self) -> None:
        """Return when a restart would know of what is known here."""

    @property
    def _link(self) -> Link | None:
        """The link that is up."""
        raise NotImplementedError

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
            idempotency_key: the same key with the same parameters gives the same job (§7.2).
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
        same = self._jobs.same(submission)
        if same is not None:
            return same
        request = Request(
            kind=wire.SUBMIT,
            payload=submission.payload,
            deadline=self._until(timeout),
            trace_id=trace_id or new_trace_id(),
            key=submission.key,
            fresh=is_own_key(submission.key),
        )
        accepted = await self._ask(request)
        job = self._jobs.submitted(accepted.job_id, submission)
        await self._kept()
        return job

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
        known = self._jobs.get(job_id)
        if known is not None and known.mine:
            return JobView(known)
        subscribe = Subscribe(
            job_id=job_id, history=history, from_event_seq=from_seq if history else None
        )
        request = Request(
            kind=wire.SUBSCRIBE,
            payload=subscribe.wire(),
            deadline=self._until(timeout),
            job_id=job_id,
        )
        await self._ask(request)
        return JobView(self._jobs.record(job_id))

    async def jobs(
        self,
        *,
        status: Iterable[str] = (),
        agent: str | None = None,
        created_after: datetime | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[JobSummary]:
        """The jobs that this principal may see (§6.6), page by page.

        Args:
            status: only these statuses.
            agent: only this agent, by name or name@version.
            created_after: only younger ones; needs a time zone.
            timeout: seconds to wait for each page; ``Timeouts.request`` by default.

        Raises:
            FeatureNotNegotiated: the runtime has no listing.
            RemoteProtocolError: the runtime's pages go round in circles.
            RequestTimeout: no answer in time.
        """
        wanted = JobFilter(
            status=tuple(status) or None, agent=agent, created_after=_with_zone(created_after)
        )
        listing = ListJobs(filter=wanted if wanted != JobFilter() else None, limit=_PAGE)
        seen: set[str] = set()
        while True:
            payload = listing.wire()
            if created_after is not None:
                payload["filter"]["created_after"] = time_text(created_after)
            request = Request(kind=wire.LIST_JOBS, payload=payload, deadline=self._until(timeout))
            page: JobPage = await self._ask(request)
            for job in page.jobs:
                yield job
            if page.next_cursor is None:
                return
            if page.next_cursor in seen:
                raise RemoteProtocolError("the runtime's job listing repeats a cursor (§6.6)")
            seen.add(page.next_cursor)
            listing = listing.model_copy(update={"cursor": page.next_cursor})

    def job(self, job_id: str) -> JobHandle | None:
        """The job of that id, if this session has heard of it; from its first event on."""
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
        nonce = new_id()
        started = asyncio.get_running_loop().time()
        request = Request(
            kind=wire.PING,
            payload=Ping(nonce=nonce, sent_at=now_text()).wire(),
            deadline=self._until(timeout),
            nonce=nonce,
        )
        answered: float = await self._ask(request)
        return answered - started

    async def _ask(self, request: Request) -> Any:
        """Send a request, now or over the next link, and wait for its answer (S7)."""
        driver = self._open()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        request.token = answer
        try:
            with self._pressure.inside(answer):
                self._session.request(request, driver.now)
                driver.carry()
                self._pressure.eased()
                return await answer
        finally:
            self._session.withdraw(request)

    def _until(self, timeout: float | None) -> float:
        seconds = self._timeouts.request if timeout is None else timeout
        return asyncio.get_running_loop().time() + seconds

    # ------------------------------------------------------------------ for jobs

    async def cancel_job(self, job_id: str, reason: str | None = None) -> None:
        """Ask the runtime to end a job of which only the id is at hand (§7.4); see `Job.cancel`.

        Args:
            job_id: which job.
            reason: why, for the job's record.

        Raises:
            JobNotFound, PermissionDenied: the runtime refused it.
            RequestTimeout: no answer in time.
        """
        record = self._jobs.record(job_id)
        if record.over:
            return
        cancel = Cancel(job_id=job_id, reason=reason or "client.cancel")
        request = Request(
            kind=wire.CANCEL,
            payload=cancel.wire(),
            deadline=self._until(None),
            job_id=job_id,
            envelope_job=True,
        )
        try:
            await self._ask(request)
        except JobNotFound:
            if not record.over:
                raise

    async def _unwatch(self, job_id: str) -> None:
        """Watch a job no longer (§7.6)."""
        record = self._jobs.get(job_id)
        if record is None or record.mine:
            return
        driver = self._open()
        self._session.unsubscribe(job_id, driver.now)
        driver.carry()
        self._jobs.forget(job_id)
        record.lose(lambda: JobLost(f"job {job_id} is watched no longer", job_id=job_id))
        if self._link is not None:
            await self._link.flushed()


def _with_zone(moment: datetime | None) -> datetime | None:
    if moment is not None and moment.tzinfo is None:
        raise ValueError("created_after needs a time zone")
    return moment


def reject(request: Request, error: ArcpError) -> None:
    """The request ends with this error."""
    answer = request.token
    if isinstance(answer, asyncio.Future) and not answer.done():
        answer.set_exception(error)
