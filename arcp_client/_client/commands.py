"""Sends the commands of a client and awaits their answers: submit, watch, list, ping, cancel, and
the answers to questions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from arcp_client._client.engine import SessionEngine
from arcp_client._client.job_table import JobTable
from arcp_client._client.lifecycle import Lifecycle
from arcp_client._client.retries import Retries
from arcp_client._client.submission import Submission, is_own_key
from arcp_client._jobrecord import JobRecord
from arcp_client._protocol.pending import Request
from arcp_client._telemetry import ClientTelemetry
from arcp_client._wire import names as wire
from arcp_client._wire.codec import snapshot
from arcp_client._wire.fields import Malformed
from arcp_client._wire.ids import new_id, new_trace_id, now_text, time_text
from arcp_client._wire.messages import (
    Answer,
    Cancel,
    JobFilter,
    ListJobsMessage,
    ListQuestions,
    Ping,
    SendMessage,
    SubscribeMessage,
)
from arcp_client._wire.replies import JobPage, QuestionPage
from arcp_client.errors import JobLost, JobNotFound, RemoteProtocolError
from arcp_client.job import Job, JobView
from arcp_client.models import JobSummary, OpenQuestion, OpenQuestions, TakenAnswer
from arcp_client.policy import Timeouts

__all__ = ["Commands"]

_PAGE = 100


class Commands:
    """The requests of one client.

    Args:
        engine: sends the requests.
        lifecycle: checks that the client can make requests.
        jobs: gets the submitted and watched jobs.
        timeouts: the default time to wait for an answer.
        telemetry: traces submits.
    """

    def __init__(
        self,
        engine: SessionEngine,
        *,
        lifecycle: Lifecycle,
        jobs: JobTable,
        timeouts: Timeouts,
        telemetry: ClientTelemetry | None = None,
    ) -> None:
        self._telemetry = telemetry
        self._engine = engine
        self._lifecycle = lifecycle
        self._jobs = jobs
        self._timeouts = timeouts

    @cached_property
    def _retries(self) -> Retries:  # made for the first job with retries
        return Retries(self._attempt, self._jobs.retried)

    async def _ask(self, request: Request) -> Any:
        self._lifecycle.usable()
        return await self._engine.ask(request)

    def _until(self, timeout: float | None) -> float:
        seconds = self._timeouts.request if timeout is None else timeout
        return asyncio.get_running_loop().time() + seconds

    @property
    def features(self) -> frozenset[str]:
        """The features of the present session; none before there is one."""
        info = self._engine.info
        return frozenset() if info is None else info.features

    async def submit(
        self,
        submission: Submission,
        *,
        trace_id: str | None,
        timeout: float | None,
        retries: int = 0,
    ) -> Job:
        """Start a job, or return the open job of a submission with the same key and parameters."""
        job = await self._submit(submission, trace_id=trace_id, timeout=timeout)
        if retries:
            self._retries.keep(self._jobs.record(job.id), submission, retries)
        return job

    async def _attempt(self, submission: Submission, trace_id: str | None) -> JobRecord:
        """Submit a further attempt."""
        job = await self._submit(submission, trace_id=trace_id, timeout=None)
        return self._jobs.record(job.id)

    async def _submit(
        self, submission: Submission, *, trace_id: str | None, timeout: float | None
    ) -> Job:
        same = self._jobs.find_equal(submission)
        if same is not None:
            return same
        request = Request(
            kind=wire.SUBMIT,
            payload=submission.payload,
            deadline=self._until(timeout),
            trace_id=trace_id or new_trace_id(),
            key=submission.key,
            fresh=is_own_key(submission.key),
            own_trace=trace_id is None,
            needs=submission.needs,
        )
        if self._telemetry is not None:
            accepted = await self._ask_traced(self._telemetry, request, submission, trace_id)
        else:
            accepted = await self._ask(request)
        job = self._jobs.accept(accepted.job_id, submission)
        await self._engine.save()
        return job

    async def _ask_traced(
        self,
        telemetry: ClientTelemetry,
        request: Request,
        submission: Submission,
        trace_id: str | None,
    ) -> Any:
        """Send a submit with a trace context (§11)."""
        self._lifecycle.usable()
        request.trace = trace = telemetry.submitting(submission.agent)
        request.extensions = trace.extensions
        own = None if trace_id is not None else trace.trace_id
        if own is not None and self._engine.may_share_trace(own):
            request.own_trace = trace.fresh
            request.trace_id = own
        try:
            return await self._engine.ask(request)
        except BaseException as error:
            telemetry.refused(trace, error)
            raise

    async def watch(
        self, job_id: str, *, history: bool, from_seq: int | None, timeout: float | None
    ) -> JobView:
        """Follow a job. No request is needed if this client submitted the job."""
        known = self._jobs.get(job_id)
        if known is not None and known.submitted:
            return JobView(known)
        start = from_seq if history else None
        try:
            subscribe = SubscribeMessage(job_id=job_id, history=history, from_event_seq=start)
        except Malformed as error:
            raise ValueError(f"watch: {error}") from None
        request = Request(
            kind=wire.SUBSCRIBE,
            payload=subscribe.wire(),
            deadline=self._until(timeout),
            job_id=job_id,
        )
        # Only for a watched job the runtime sends the history again. A delegated job was delivered
        # without a subscription, and is not.
        replayed = history and known is not None and known.over and known.subscribed
        ended = known if replayed else None
        if ended is not None:
            self._jobs.reopen(ended)
        with self._jobs.expect_history(job_id):
            try:
                await self._ask(request)
            except BaseException:
                if ended is not None:
                    self._jobs.restore(ended)
                raise
            return JobView(self._jobs.record(job_id))

    async def unwatch(self, job_id: str) -> None:
        """Stop watching a job (§7.6)."""
        record = self._jobs.get(job_id)
        if record is None or record.submitted:
            return
        self._lifecycle.usable()
        self._engine.unsubscribe(job_id)
        self._jobs.forget(job_id)
        record.unwatched = True
        record.lose(lambda: JobLost(f"job {job_id} is no longer watched", job_id=job_id))
        await self._engine.flushed()

    async def list_jobs(
        self,
        *,
        status: tuple[str, ...],
        agent: str | None,
        created_after: datetime | None,
        timeout: float | None,
    ) -> AsyncGenerator[JobSummary, None]:
        """Iterate over the jobs that match, page by page."""
        try:
            wanted = JobFilter(status=status or None, agent=agent, created_after=created_after)
        except Malformed as error:
            raise ValueError(f"jobs: {error}") from None
        listing = ListJobsMessage(filter=wanted if wanted != JobFilter() else None, limit=_PAGE)
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
            listing = msgspec.structs.replace(listing, cursor=page.next_cursor)

    async def ping(self, *, timeout: float | None) -> float:
        """Send a ping; return the round trip in seconds."""
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

    async def cancel(self, job_id: str, reason: str | None = None) -> None:
        """Ask the runtime to cancel a job; return at once if it has ended."""
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

    async def answer(
        self, job_id: str, question_id: str, value: Any, *, key: str | None, timeout: float | None
    ) -> TakenAnswer:
        """Answer a question; return the answer once the runtime has taken it."""
        try:
            encoded = snapshot(value)
        except ValueError as error:
            raise ValueError(f"value: {error}") from error
        try:
            message = Answer(
                job_id=job_id,
                question_id=question_id,
                value=encoded,
                idempotency_key=key or f"auto-{new_id()}",
            )
        except Malformed as error:
            raise ValueError(f"answer: {error}") from None
        request = Request(
            kind=wire.ANSWER,
            payload=message.wire(),
            deadline=self._until(timeout),
            job_id=job_id,
        )
        taken: TakenAnswer = await self._ask(request)
        return taken

    async def send(
        self, job_id: str, value: Any, *, mode: str, message_id: str | None, timeout: float | None
    ) -> str:
        """Send a message to the agent of a job; return its id once the runtime has taken it."""
        try:
            encoded = snapshot(value)
        except ValueError as error:
            raise ValueError(f"value: {error}") from error
        try:
            message = SendMessage(
                job_id=job_id,
                message_id=message_id or f"msg_{new_id()}",
                mode=mode,
                value=encoded,
            )
        except Malformed as error:
            raise ValueError(f"send: {error}") from None
        request = Request(
            kind=wire.SEND,
            payload=message.wire(),
            deadline=self._until(timeout),
            job_id=job_id,
        )
        await self._ask(request)
        return message.message_id

    async def questions(
        self, *, follow: bool, timeout: float | None
    ) -> AsyncGenerator[OpenQuestion, None]:
        """Iterate over the open questions, page by page; each is yielded once."""
        seen: set[str] = set()
        cursor: str | None = None
        while True:
            listing = ListQuestions(limit=_PAGE, cursor=cursor, follow=follow)
            request = Request(
                kind=wire.LIST_QUESTIONS, payload=listing.wire(), deadline=self._until(timeout)
            )
            page: QuestionPage = await self._ask(request)
            for question in page.questions:
                if question.question_id not in seen:
                    seen.add(question.question_id)
                    yield question
            if page.next_cursor is None:
                return
            if page.next_cursor == cursor:
                raise RemoteProtocolError("the runtime's list of questions repeats a cursor")
            cursor = page.next_cursor

    async def inbox(self, *, timeout: float | None) -> AsyncGenerator[OpenQuestions, None]:
        """Yield all open questions, now and after each change."""
        news = self._engine.news
        shown: OpenQuestions | None = None
        while True:
            count = news.count
            found = self.questions(follow=True, timeout=timeout)
            now_open = tuple([question async for question in found])
            if now_open != shown:
                shown = now_open
                yield now_open
            await news.after(count)
            self._lifecycle.usable()
