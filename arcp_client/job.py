"""A job as users hold it: its state, its events in order, its result.

`Job` is a job that this client submitted, `JobView` one that it watches; both are views of one
`JobRecord`, which the client keeps up to date.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from decimal import Decimal
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload

from pydantic import SecretStr
from reactivex import Observable
from reactivex import operators as ops

from ._dispatch.assembler import Assembler
from ._dispatch.jobstreams import JobStream
from ._dispatch.lanes import Lane, wait_for_lanes
from ._dispatch.selection import Kind, Selection
from ._dispatch.streams import EventIterator, Relief
from ._wire.replies import Accepted, Subscribed
from .errors import ArcpError, job_error
from .events import Completed, Event, Failed, Metric, Progress, ResultChunk, Unknown
from .models import Budget, Credential, Lease, LeaseConstraints, Result

__all__ = ["Job", "JobHandle", "JobOwner", "JobRecord", "JobView"]

E1 = TypeVar("E1", bound=Event)
E2 = TypeVar("E2", bound=Event)
E3 = TypeVar("E3", bound=Event)
E4 = TypeVar("E4", bound=Event)

_REMAINING = "cost.budget.remaining"


class JobOwner(Protocol):
    """What a job needs of its client."""

    @property
    def notifications(self) -> Observable[Event]:
        """The events of the session."""

    @property
    def relief(self) -> Relief:
        """Who reads on while something is awaited."""

    def barriers(self, job_id: str) -> Iterable[tuple[Lane, int]]:
        """The lanes that have events of the job, each with the count it must come to."""

    def check_wait(self, job_id: str) -> None:
        """Raise WouldDeadlock if the calling handler would wait for itself."""

    async def cancel_job(self, job_id: str, reason: str | None) -> None:
        """Ask the runtime to cancel it."""

    async def unwatch_job(self, job_id: str) -> None:
        """Watch it no longer."""


class JobRecord(JobStream):
    """Everything that is known of one job; fed by the client, read through the handles."""

    __slots__ = (
        "__weakref__",
        "_outcome",
        "_waiters",
        "agent",
        "assembler",
        "barriers",
        "budget",
        "children",
        "constraints",
        "credentials",
        "handle",
        "key",
        "lease",
        "owner",
        "progress",
        "status",
        "trace_id",
    )

    def __init__(self, job_id: str, owner: JobOwner) -> None:
        super().__init__(job_id, owner.relief)
        self.owner = owner
        self.agent = ""
        self.status = "pending"
        self.lease = Lease()
        self.constraints = LeaseConstraints()
        self.budget: dict[str, Decimal] = {}
        self.credentials: dict[str, Credential] = {}
        self.trace_id: str | None = None
        self.children: list[str] = []
        self.progress: Progress | None = None
        self.key: str | None = None
        self.assembler = Assembler(job_id)
        self.barriers: list[tuple[Lane, int]] = []
        self.handle: JobHandle = JobHandle(self)
        self._outcome: Completed | Failed | Callable[[], ArcpError] | None = None
        self._waiters: list[asyncio.Future[None]] = []

    # -- what the client tells

    def describe(self, told: Accepted | Subscribed) -> None:
        """Take over what an acceptance or a confirmed subscription says."""
        self.agent = told.agent or self.agent
        self.lease = told.lease
        self.constraints = told.constraints
        self.trace_id = told.trace_id or self.trace_id
        if told.budget is not None:
            self.budget = dict(told.budget)
        for credential in told.credentials:
            self.credentials[credential.id] = credential
        if isinstance(told, Subscribed) and told.status:
            self.status = told.status if self._outcome is None else self.status
        elif self.status == "pending":
            self.status = "running"

    def push(self, event: Event) -> None:
        """Deliver one event: to the iterators, and to what is known of the job."""
        observe = _OBSERVERS.get(type(event))
        if observe is not None:
            observe(self, event)
        super().push(event)

    def rotate(self, credential_id: str, value: SecretStr) -> None:
        """A credential has a new value."""
        known = self.credentials.get(credential_id, Credential(id=credential_id))
        self.credentials[credential_id] = known.model_copy(update={"value": value})

    def lose(self, error: Callable[[], ArcpError], *, status: str | None = None) -> None:
        """No outcome will ever come: waiting for one raises this."""
        if self._outcome is None:
            self._outcome = error
            if status is not None:
                self.status = status
            self.assembler.fail(error())
            self.tap.end(error)
            self._tell()

    def _completed(self, event: Completed) -> None:
        self.barriers = list(self.owner.barriers(self.job_id))
        self.status = "success"
        if event.result_id is not None or self.assembler.started:
            self.assembler.finish(event.result_id)
        self._outcome = event
        self._tell()

    def _failed(self, event: Failed) -> None:
        self.barriers = list(self.owner.barriers(self.job_id))
        self.status = event.status
        self._outcome = event
        self.assembler.fail(self._error(event))
        self._tell()

    def _chunk(self, event: ResultChunk) -> None:
        self.assembler.add(event)

    def _progressed(self, event: Progress) -> None:
        self.progress = event

    def _measured(self, event: Metric) -> None:
        if event.name == _REMAINING and event.unit is not None:
            self.budget[event.unit] = Decimal(str(event.value))

    def _tell(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- what the handles ask

    async def outcome(self) -> Completed:
        """Wait until it ended and the handlers of what came before have run (D9)."""
        self.owner.check_wait(self.job_id)
        if self._outcome is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await self.owner.relief.wanted(waiter)
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        outcome = self._outcome
        assert outcome is not None
        if not isinstance(outcome, Event):
            raise outcome()
        await wait_for_lanes(self.barriers, f"the result of job {self.job_id}")
        if isinstance(outcome, Failed):
            raise self._error(outcome)
        return outcome

    async def result(self) -> Result:
        """Its result, as `JobHandle.result` has it."""
        completed = await self.outcome()
        chunked = self.assembler.started or completed.result_id is not None
        return Result(
            value=self.assembler.value() if chunked else completed.value,
            result_id=self.assembler.result_id if chunked else None,
            size=self.assembler.size if chunked else completed.result_size,
            summary=completed.summary,
            completed_at=completed.completed_at,
        )

    @property
    def over(self) -> bool:
        """Whether the outcome is known."""
        return self._outcome is not None

    def _error(self, event: Failed) -> ArcpError:
        return job_error(
            event.code,
            event.message,
            status=event.status,
            retryable=event.retryable,
            details=event.details,
            job_id=self.job_id,
        )


_OBSERVERS: dict[type[Event], Callable[[JobRecord, Any], None]] = {
    Completed: JobRecord._completed,
    Failed: JobRecord._failed,
    ResultChunk: JobRecord._chunk,
    Progress: JobRecord._progressed,
    Metric: JobRecord._measured,
}


async def _save(job: JobHandle, path: str | PathLike[str]) -> int:
    target = Path(path)
    part = target.with_name(f".{target.name}.part")
    written = 0
    try:
        with part.open("wb") as file:
            async for chunk in job.chunks():
                written += file.write(chunk)
            if not written:
                result = await job.result()
                if result.result_id is None:
                    written = file.write(_as_bytes(result.value))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return written


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json.dumps(value, indent=2).encode()


class JobHandle:
    """A job of this client's session. Made by the client, never by hand.

    Iterating over it, ``async for event in job``, gives every event of the job in order, the
    recent past first, and ends after the terminal event. Each iteration is independent.
    """

    def __init__(self, record: JobRecord) -> None:
        self._record = record

    @property
    def id(self) -> str:
        """The job's id."""
        return self._record.job_id

    @property
    def agent(self) -> str:
        """The agent that runs it, ``name@version`` once the runtime resolved it (§7.5)."""
        return self._record.agent

    @property
    def status(self) -> str:
        """``pending``, ``running``, ``success``, ``error``, ``cancelled`` or ``timed_out``."""
        return self._record.status

    @property
    def lease(self) -> Lease:
        """What the job may do, as the runtime granted it (§9)."""
        return self._record.lease

    @property
    def lease_constraints(self) -> LeaseConstraints:
        """Bounds on the lease (§9.5)."""
        return self._record.constraints

    @property
    def budget(self) -> Budget:
        """What is left in each currency, as far as the runtime reported it (§9.6)."""
        return dict(self._record.budget)

    @property
    def credentials(self) -> dict[str, Credential]:
        """Provisioned credentials by id, always with the newest value (§9.8)."""
        return dict(self._record.credentials)

    @property
    def trace_id(self) -> str | None:
        """The job's W3C trace id (§11)."""
        return self._record.trace_id

    @property
    def children(self) -> list[str]:
        """Ids of the jobs that it delegated to, as far as this session was told (§10)."""
        return list(self._record.children)

    @property
    def progress(self) -> Progress | None:
        """The last progress event."""
        return self._record.progress

    def __aiter__(self) -> EventIterator[Event]:
        return self._record.iterate(Selection())

    @overload
    def events(self) -> EventIterator[Event]: ...
    @overload
    def events(self, k1: type[E1], /) -> EventIterator[E1]: ...
    @overload
    def events(self, k1: type[E1], k2: type[E2], /) -> EventIterator[E1 | E2]: ...
    @overload
    def events(
        self, k1: type[E1], k2: type[E2], k3: type[E3], /
    ) -> EventIterator[E1 | E2 | E3]: ...
    @overload
    def events(
        self, k1: type[E1], k2: type[E2], k3: type[E3], k4: type[E4], /
    ) -> EventIterator[E1 | E2 | E3 | E4]: ...
    @overload
    def events(self, kind: str, /, *kinds: str) -> EventIterator[Unknown]: ...
    @overload
    def events(self, *kinds: Kind) -> EventIterator[Any]: ...
    def events(self, *kinds: Kind) -> EventIterator[Any]:
        """Iterate over events of some kinds only; a `Gap` is given in any case.

        Raises:
            TypeError: a kind is neither an event class nor the name of a vendor kind.
        """
        return self._record.iterate(Selection(kinds))

    async def result(self) -> Result:
        """Wait for the job's end and give its result; may be called often and late (§7.3, §8.4).

        Returns after the handlers that match the job's earlier events have run, unless they were
        registered with ``barrier=False``. A lost link does not end the wait.

        Raises:
            JobFailed: the job ended without success, by subclass `JobCancelled`, `JobTimedOut`,
                `LeaseExpired` or `BudgetExhausted`.
            JobLost: the runtime no longer knows the job.
            ResultIncomplete: chunks of the result are missing.
            ResultUnavailable: it succeeded, but its value can no longer be had.
            ClientClosed: the client was closed meanwhile.
            WouldDeadlock: called in a handler that the result would wait for.
        """
        return await self._record.result()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The result's decoded chunks from the first one on, while they come (§8.4).

        Nothing for a job with an inline result.

        Raises:
            ResultIncomplete: at the first missing chunk, once the job has ended.
            JobError: the job failed.
        """
        record = self._record
        async for chunk in record.assembler.chunks(record.owner.relief.wanted):
            yield chunk
        await record.outcome()

    async def save(self, path: str | PathLike[str]) -> int:
        """Write a chunked result to a file while it comes; an inline one as text or JSON.

        Returns the number of bytes written. The file appears under its name only when complete.

        Raises:
            JobError: as `result` does.
        """
        return await _save(self, path)

    @property
    def notifications(self) -> Observable[Event]:
        """The job's events from now on, as an Observable that completes with the terminal one."""
        job_id = self.id

        def mine(event: Event) -> bool:
            return event.job_id == job_id

        def goes_on(event: Event) -> bool:
            return not event.terminal

        return self._record.owner.notifications.pipe(
            ops.filter(mine), ops.take_while(goes_on, inclusive=True)
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.agent or '?'} {self.status}>"


class Job(JobHandle):
    """A job that this client submitted."""

    async def cancel(self, reason: str | None = None) -> None:
        """Ask the runtime to end it (§7.4).

        Returns once the runtime acknowledged it, or the job has ended in any way. A lost link
        does not lose the request.

        Raises:
            PermissionDenied: this session may not cancel it.
            RequestTimeout: no answer in time.
        """
        await self._record.owner.cancel_job(self.id, reason)


class JobView(JobHandle):
    """A job of another session, or of this one earlier, that this client watches (§7.6)."""

    async def unsubscribe(self) -> None:
        """Watch it no longer. Its iterators end; events on their way may still come. Idempotent."""
        await self._record.owner.unwatch_job(self.id)
