"""The record of one job in a client, which the handles of the job (`JobHandle`) read.

Answers of the runtime and the job's events update the record.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from decimal import Decimal
from typing import Any

import msgspec
from pydantic import SecretStr
from reactivex import Observable

from arcp_client._attempts import Attempts, AttemptsIterator
from arcp_client._dispatch.assembler import Assembler, ChunkStore
from arcp_client._dispatch.deadlock import HandlerCall, WaitGraph
from arcp_client._dispatch.event_filter import EventFilter
from arcp_client._dispatch.jobstreams import JobStream
from arcp_client._dispatch.lanes import Lane
from arcp_client._dispatch.reader_gate import ReaderGate
from arcp_client._dispatch.replay_buffer import ReplayMemory
from arcp_client._dispatch.streams import EventIterator
from arcp_client._job_waits import JobWaits, Moment
from arcp_client._telemetry import ClientTelemetry
from arcp_client._wire.replies import Accepted, Subscribed, no_constraints, no_lease
from arcp_client.errors import ArcpError, job_error
from arcp_client.events import (
    Answered,
    Completed,
    Delegate,
    Event,
    Expired,
    Failed,
    Gap,
    Metric,
    Progress,
    Question,
    ResultChunk,
    ToolCall,
    ToolResult,
    Unknown,
    Withdrawn,
)
from arcp_client.models import Credential, Result, TakenAnswer, Verdict

__all__ = ["JobOwner", "JobRecord"]

_REMAINING = "cost.budget.remaining"
_CURRENCIES = 64
"""Limit of currencies for each job, because an agent may report any number of them."""
_CHUNK = "result_chunk"
_HISTORY = 10.0
"""Seconds after the confirmation of a subscription in which a history arrives."""


class JobOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a client that its jobs use.

    Attributes:
        notifications: the events of the session.
        gate: lets the reader continue while a job's events are awaited.
        check_loop: raises LocalProtocolError unless the caller is in the client's event loop.
        wait_graph: waits for lanes, and detects deadlocks.
        barriers: the lanes that the result of a job waits for, each with its count; see
            `WaitGraph`.
        own_call: returns the calling handler, if the end of a job waits for it; may raise
            WouldDeadlock.
        chunk_log: the durable log of a job's result; ``None`` without a store.
        exact_sizes: whether the runtime states exact sizes of results in bytes.
        may_have_lost_events: whether a lost link may have lost events, because the runtime does not
            replay them.
        cancel: asks the runtime to cancel a job.
        unwatch: stops watching a job.
        sse: streams a job to a browser, from its ``Last-Event-ID`` on.
        answer: answers a question of a job.
        send: sends a message to the agent of a job.
        verdict: says what a job is doing, from its record.
        telemetry: traces jobs.
    """

    notifications: Observable[Event]
    gate: ReaderGate
    check_loop: Callable[[], None]
    wait_graph: WaitGraph
    barriers: Callable[[str], Iterable[tuple[Lane, int]]]
    own_call: Callable[[str], HandlerCall | None]
    chunk_log: Callable[[str], ChunkStore | None]
    exact_sizes: Callable[[], bool]
    may_have_lost_events: Callable[[], bool]
    cancel: Callable[[str, str | None], Awaitable[None]]
    unwatch: Callable[[str], Awaitable[None]]
    sse: Callable[[Any, str | None], AsyncGenerator[bytes, None]]
    answer: Callable[[str, str, Any, str | None, float | None], Awaitable[TakenAnswer]]
    send: Callable[[str, Any, str, str | None, float | None], Awaitable[str]]
    verdict: Callable[[Any], Verdict]
    telemetry: ClientTelemetry | None = None


class JobRecord(JobStream):
    """The state of one job. The client updates it, and handles read it.

    Attributes:
        began: when the client learned of the job, by the clock of its event loop.
        history_last: the id of the last past event that the runtime has named.
        awaits_history: whether the past events of a submitted job may be on their way, because
            another session may have begun it.
        history_until: events that arrived before this time may have happened long before.
        waits: what the job waits for; ``None`` before its first wait.
        over_at: when it ended; ``None`` if its end is not known.
        unwatched: whether the client stopped watching it.
    """

    __slots__ = (
        "__weakref__",
        "_outcome",
        "_waiters",
        "agent",
        "assembler",
        "attempts",
        "awaits_history",
        "barriers",
        "began",
        "budget",
        "children",
        "constraints",
        "credentials",
        "history_last",
        "history_until",
        "key",
        "lease",
        "over_at",
        "owner",
        "progress",
        "resumed",
        "status",
        "submitted",
        "subscribed",
        "trace_id",
        "unwatched",
        "waits",
    )

    def __init__(self, job_id: str, owner: JobOwner, memory: ReplayMemory) -> None:
        super().__init__(job_id, owner.gate, memory)
        self.owner = owner
        self.agent = ""
        self.status = "pending"
        self.lease = no_lease()
        self.constraints = no_constraints()
        self.budget: dict[str, Decimal] = {}
        self.credentials: dict[str, Credential] = {}
        self.trace_id: str | None = None
        self.children: list[str] = []
        self.progress: Progress | None = None
        self.key: str | None = None
        self.attempts: Attempts[JobRecord] | None = None
        self.assembler = Assembler(
            job_id, log=lambda: owner.chunk_log(job_id), exact=owner.exact_sizes
        )
        self.barriers: list[tuple[Lane, int]] = []
        self.submitted = False
        self.resumed = False
        self.subscribed = False
        self.unwatched = False
        self.began = asyncio.get_running_loop().time()
        self.history_last: str | None = None
        self.awaits_history = False
        self.history_until = float("-inf")
        self.waits: JobWaits | None = None
        self.over_at: Moment | None = None
        self._outcome: Completed | Failed | Callable[[], ArcpError] | None = None
        self._waiters: list[asyncio.Future[None]] = []

    # -- updates

    def describe(self, reply: Accepted | Subscribed) -> None:
        """Copy the fields of an acceptance or of a confirmed subscription."""
        self.agent = reply.agent or self.agent
        if isinstance(reply, Accepted) or not self.submitted:
            # Several runtimes omit these fields in confirmations.
            self.lease = reply.lease
            self.constraints = reply.constraints
        self.trace_id = reply.trace_id or self.trace_id
        if reply.budget is not None:
            self.budget = dict(reply.budget)
        for credential in reply.credentials:
            self.credentials[credential.id] = credential
        if isinstance(reply, Subscribed):
            self.history_last = reply.history_last
        if isinstance(reply, Subscribed) and reply.status:
            self.status = reply.status if self._outcome is None else self.status
        elif self.status == "pending":
            self.status = "running"

    def expect_history(self) -> None:
        """Note that events of the next seconds may have happened long before they arrive.

        They are kept for an iterator that begins in this time.
        """
        loop = asyncio.get_running_loop()
        self.history_until = loop.time() + _HISTORY
        self.replay_buffer.keep_history()
        loop.call_later(_HISTORY, self._history_over)

    def await_history(self) -> None:
        """Note that past events of a submitted job may be on their way."""
        self.awaits_history = True
        self.expect_history()

    def _history_over(self) -> None:
        self.awaits_history = False
        self.replay_buffer.keep_recent()

    @property
    def last_past(self) -> str | None:
        """The id of the last past event; see `JobHandle.history_last`."""
        has_all = self.submitted and not self.awaits_history
        return self.replay_buffer.newest_id if has_all else self.history_last

    def rotate(self, credential_id: str, value: SecretStr) -> None:
        """Store the new value of a credential."""
        known = self.credentials.get(credential_id, Credential(id=credential_id))
        self.credentials[credential_id] = known.model_copy(update={"value": value})

    def lose(self, error: Callable[[], ArcpError], *, status: str | None = None) -> None:
        """End the job without an outcome: calls that wait for the job raise this error."""
        if self._outcome is None:
            self._outcome = error
            if status is not None:
                self.status = status
            self.assembler.fail(error())
            self.tap.end(error)
            self._resolve_waiters()
            self.report_end()

    def completed(self, event: Completed) -> None:
        """Record the success."""
        self.barriers = list(self.owner.barriers(self.job_id))
        self.status = "success"
        self.ended = True
        if self.owner.may_have_lost_events():  # a result must not be short, even without a gap
            self.assembler.mark_lossy()
        self.assembler.finish(event.result_id, event.result_size)
        self._outcome = event
        self._over(event)
        self._resolve_waiters()
        self.report_end()

    def failed(self, event: Failed) -> None:
        """Record the failure."""
        self.barriers = list(self.owner.barriers(self.job_id))
        self.status = event.status
        self.ended = True
        self._outcome = event
        self._over(event)
        self.assembler.fail(self._error(event))
        self._resolve_waiters()
        self.report_end()

    def _over(self, event: Event) -> None:
        self.over_at = Moment(asyncio.get_running_loop().time(), event.ts)
        self.waits = None

    def _remember_waits(self) -> JobWaits:
        if self.waits is None:
            self.waits = JobWaits()
        return self.waits

    def called(self, event: ToolCall) -> None:
        """Note that a tool is called."""
        waits = self.waits or self._remember_waits()
        waits.called(event, self.heard)

    def returned(self, event: ToolResult) -> None:
        """Note that a tool has returned."""
        waits = self.waits
        if waits is not None:
            waits.returned(event, self.heard)

    def asked(self, event: Question) -> None:
        """Note that the agent asks."""
        self._remember_waits().asked(event, self.heard)

    def settled(self, event: Answered | Expired | Withdrawn) -> None:
        """Note that a question is open no longer."""
        self._remember_waits().settled(event, self.heard)

    def handed_on(self, event: Delegate) -> None:
        """Note a delegated job that the agent reported."""
        if event.child_job_id is not None:
            self._remember_waits().delegated(
                event.child_job_id, event.agent or "", self.heard, event.ts
            )

    def delegated(self, job_id: str, agent: str) -> None:
        """Note a delegated job that the runtime announced."""
        if job_id not in self.children:
            self.children.append(job_id)
        self._remember_waits().delegated(job_id, agent, asyncio.get_running_loop().time())

    def report_end(self) -> None:
        """Report the outcome to telemetry, if there are both."""
        telemetry, outcome = self.owner.telemetry, self._outcome
        if telemetry is None or outcome is None:
            return
        code = message = None
        if isinstance(outcome, Failed):
            code, message = outcome.code, outcome.message
        elif not isinstance(outcome, Event):
            error = outcome()
            code, message = type(error).__name__, str(error)
        telemetry.ended(self.job_id, self.status, code, message)

    def recall(self, event: Completed | Failed, chunks: Iterable[ResultChunk]) -> None:
        """Restore an outcome from an earlier process, with the stored chunks of the result."""
        self.assembler.restore(chunks)
        self.replay_buffer.extend([event], event.size)
        self.replay_buffer.incomplete()
        self.observers[type(event)](self, event)
        self.tap.end()

    def gap(self, event: Gap) -> None:
        """Record that chunks of the result may be lost."""
        if self.owner.telemetry is not None:
            self.owner.telemetry.gap(self.job_id, event.first, event.last, event.reason)
        if event.reason != "overflow":
            self.assembler.mark_lossy()

    def chunk(self, event: ResultChunk) -> None:
        """Add a chunk of the result."""
        self.assembler.add(event)

    def unknown(self, event: Unknown) -> None:
        """Record that a chunk may be lost, if the event is an unreadable chunk."""
        if event.kind == _CHUNK:
            self.assembler.mark_lossy()

    def progressed(self, event: Progress) -> None:
        """Store the progress."""
        self.progress = event

    def measured(self, event: Metric) -> None:
        """Store the remaining budget, if the metric reports one."""
        if event.name != _REMAINING:
            return
        known = event.unit in self.budget
        if event.unit is not None and (known or len(self.budget) < _CURRENCIES):
            self.budget[event.unit] = Decimal(str(event.value))

    def _resolve_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- for the handles

    @property
    def latest(self) -> JobRecord:
        """The present attempt of this job; the job itself unless it was submitted again."""
        return self if self.attempts is None else self.attempts.latest

    @property
    def failure(self) -> Failed | None:
        """The event with which the job failed."""
        return self._outcome if isinstance(self._outcome, Failed) else None

    async def until_over(self) -> None:
        """Wait until the outcome is known, without waiting for handlers."""
        if self._outcome is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def follow(self, event_filter: EventFilter) -> EventIterator[Event]:
        """Iterate over the events of this attempt and of those after it."""
        if self.attempts is None:
            return self.iterate(event_filter)
        return AttemptsIterator(self.attempts, self, event_filter, self.wait_for_attempt)

    async def following(self) -> JobRecord | None:
        """Wait for the attempt after this one; ``None`` if this is the last.

        Raises:
            ArcpError: the client has ended.
        """
        if self.attempts is None:
            return None
        return await self.attempts.after(self.job_id, self.wait_for_attempt)

    async def wait_for_attempt(self, waiter: asyncio.Future[None]) -> None:
        """Wait for a further attempt, while the reader continues."""
        await self.owner.gate.wait_for(waiter, result=True)

    async def wait_for_chunk(self, news: asyncio.Future[None]) -> None:
        """Wait for the next chunk of the result."""
        await self.owner.gate.wait_for(news, result=True)

    async def outcome(self) -> Completed:
        """Wait until the job has ended and the handlers of its earlier events have run (rule D9).

        Raises:
            HandlerFailed: a handler with ``on_error="stop"`` failed, so the handlers do not run.
        """
        self.owner.check_loop()
        what = f"the result of job {self.job_id}"
        if self._outcome is None:
            await self._end(self.owner.own_call(self.job_id), what)
        outcome = self._outcome
        assert outcome is not None
        if not isinstance(outcome, Event):
            raise outcome()
        await self.owner.wait_graph.wait_for(self.barriers, what)
        for lane, count in self.barriers:
            failure = lane.registration.failure
            if failure is not None and lane.done < count:
                stopped = copy.copy(failure)  # one object raised twice would collect tracebacks
                stopped.__cause__ = failure.__cause__
                raise stopped
        if isinstance(outcome, Failed):
            raise self._error(outcome)
        return outcome

    async def _end(self, own: HandlerCall | None, what: str) -> None:
        """Wait until the job has ended."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            wait = self.owner.gate.wait_for(waiter, result=True)
            if own is None:
                await wait
            else:
                await self.owner.wait_graph.guarded(waiter, own, lambda: True, what, wait)
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    async def result(self) -> Result:
        """Wait for the result; see `JobHandle.result`."""
        completed = await self.outcome()
        inline = completed.value is not None
        chunked = self.assembler.started or (completed.result_id is not None and not inline)
        return Result(
            value=self.assembler.value() if chunked else completed.value,
            result_id=self.assembler.result_id if chunked else None,
            size=self.assembler.size if chunked else completed.result_size,
            summary=completed.summary,
            completed_at=completed.completed_at,
        )

    @property
    def in_use(self) -> bool:
        """Whether there are iterators of the job, or callers that wait for it."""
        return self.tap.has_iterators or bool(self._waiters)

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


JobRecord.observers = {
    Answered: JobRecord.settled,
    Completed: JobRecord.completed,
    Delegate: JobRecord.handed_on,
    Expired: JobRecord.settled,
    Failed: JobRecord.failed,
    Gap: JobRecord.gap,
    Metric: JobRecord.measured,
    Progress: JobRecord.progressed,
    Question: JobRecord.asked,
    ResultChunk: JobRecord.chunk,
    ToolCall: JobRecord.called,
    ToolResult: JobRecord.returned,
    Unknown: JobRecord.unknown,
    Withdrawn: JobRecord.settled,
}
