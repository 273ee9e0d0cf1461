"""The handles of a job: its state, its events in order, its result.

`Job` is the handle of a job that this client submitted, `JobView` of a job that it watches. Both
read a `JobRecord`, which the client updates.
"""

from __future__ import annotations

import errno
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar, overload

from reactivex import Observable

from arcp_client import _arguments as check
from arcp_client import _digits as digits
from arcp_client._dispatch.event_filter import EventFilter, Kind
from arcp_client._dispatch.streams import EventIterator
from arcp_client._jobrecord import JobRecord
from arcp_client._notebook import job_html, show_live
from arcp_client.errors import JobFailed
from arcp_client.events import Event, Progress, Unknown
from arcp_client.models import (
    Budget,
    Credential,
    Lease,
    LeaseConstraints,
    Result,
    TakenAnswer,
    Verdict,
)

__all__ = ["Job", "JobHandle", "JobView"]

E1 = TypeVar("E1", bound=Event)
E2 = TypeVar("E2", bound=Event)
E3 = TypeVar("E3", bound=Event)
E4 = TypeVar("E4", bound=Event)


async def _save(record: JobRecord, path: str | PathLike[str]) -> int:
    target = Path(path)
    part = _beside(target)
    try:
        with part.open("xb") as file:  # never follows a link or file that another program put there
            while True:
                try:
                    written = await _write(record, file)
                    break
                except JobFailed as error:
                    following = await _next_attempt(record, error)
                    if following is None:
                        raise
                    record = following
                    file.seek(0)
                    file.truncate()
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return written


async def _write(record: JobRecord, file: BinaryIO) -> int:
    written = 0
    async for chunk in record.assembler.chunks(record.wait_for_chunk):
        written += file.write(chunk)
    completed = await record.outcome()
    if not written and (await record.result()).result_id is None:
        written = file.write(_as_bytes(digits.value_of(completed, "value")))
    return written


async def _next_attempt(record: JobRecord, error: JobFailed) -> JobRecord | None:
    """Wait for the attempt after one that has failed; ``None`` if it was the last."""
    following = await record.following()
    if following is None and record.attempts is not None and record.attempts.refusal is not None:
        error.add_note(record.attempts.refusal)
    return following


def _beside(target: Path) -> Path:
    """The temporary path at which a file is written before it is renamed."""
    if target.exists() and not target.is_file():  # root could replace even a device
        raise FileExistsError(errno.EEXIST, "not a regular file", str(target))
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    text = digits.dumps(value, ascii=True, indent=2, separators=None, allow_nan=True)
    return f"{text}\n".encode()


class JobHandle:
    """A job of this client's session. Only the client makes handles.

    ``async for event in job`` gives every event of the job in order. It begins with the job's
    recent events, which the client keeps in a replay buffer, and ends after the terminal event.
    Iterations are independent of each other. Events that arrived before the iteration began count
    as processed; with a store, use a handler that is registered before ``connect()``.
    """

    def __init__(self, record: JobRecord) -> None:
        self._first = record

    @property
    def _record(self) -> JobRecord:
        return self._first.latest

    @property
    def id(self) -> str:
        """The job's id."""
        return self._record.job_id

    @property
    def agent(self) -> str:
        """The agent that runs the job, ``name@version`` once the runtime resolved it (§7.5)."""
        return self._record.agent

    @property
    def status(self) -> str:
        """``pending``, ``running``, ``success``, ``error``, ``cancelled`` or ``timed_out``."""
        return self._record.status

    @property
    def lease(self) -> Lease:
        """The lease that the runtime granted (§9)."""
        return self._record.lease

    @property
    def lease_constraints(self) -> LeaseConstraints:
        """Bounds on the lease (§9.5)."""
        return self._record.constraints

    @property
    def budget(self) -> Budget:
        """The remaining amount in each currency, as reported by the runtime (§9.6)."""
        return dict(self._record.budget)

    @property
    def credentials(self) -> dict[str, Credential]:
        """Provisioned credentials by id, each with its newest value (§9.8)."""
        return dict(self._record.credentials)

    @property
    def trace_id(self) -> str | None:
        """The job's W3C trace id (§11)."""
        return self._record.trace_id

    @property
    def children(self) -> list[str]:
        """Ids of the jobs that this job delegated to, as announced to this session (§10)."""
        return list(self._record.children)

    @property
    def resumed(self) -> bool:
        """Whether an earlier process submitted the job.

        The runtime does not send the events that were processed there to this process again.
        """
        return self._record.resumed

    @property
    def history_last(self) -> str | None:
        """The id of the last past event that the runtime sends for the newest subscription.

        With the event that has this id, the history is complete; later events are new. Empty if the
        runtime sends no past events. ``None`` if the runtime does not say: then nothing marks the
        end of a history. The runtime of this package says it for the jobs that it runs itself; see
        "Extensions of the protocol".

        For a job that this client submitted, it is the newest event that the client has now. If the
        idempotency key is that of a job of another session, the client requests the history: then
        it is ``None`` until the runtime has confirmed that, and the newest event after ten seconds.
        """
        return self._record.last_past

    @property
    def progress(self) -> Progress | None:
        """The last progress event."""
        return self._record.progress

    @property
    def verdict(self) -> Verdict:
        """What the job is doing, why, and since when: the first rule of `Verdict` that holds.

        It is computed when it is read, from the job's events, the state of the link, and whether
        your handlers keep the client from reading. Silence counts from the arrival of the last
        event, by the clock of this machine's event loop, and only while the link is up. The
        runtime's timestamps count for events that happened before this client watched the job.
        """
        return self._record.owner.verdict(self._record)

    def __aiter__(self) -> EventIterator[Event]:
        return self._first.follow(EventFilter())

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
        """Iterate over events of some kinds only. A `Gap` is always included.

        Raises:
            TypeError: a kind is neither an event class nor the name of a vendor kind.
        """
        return self._first.follow(EventFilter(kinds))

    async def result(self) -> Result:
        """Wait for the job's end and return its result, at any time and repeatedly (§7.3, §8.4).

        Returns when the handlers of all earlier events of the job have finished, except handlers
        that were registered with ``barrier=False``. A lost link does not end the wait. In every
        string of the value, U+FFFD replaces an unpaired surrogate, as in `chunks` and `save`.

        Raises:
            JobFailed: the job ended without success; the subclasses are `JobCancelled`,
                `JobTimedOut`, `LeaseExpired` and `BudgetExhausted`.
            JobLost: the runtime no longer knows the job.
            ResultIncomplete: chunks of the result are missing or unreadable, one arrived twice with
                different contents, they belong to two results, or the size is not the one that the
                runtime stated (rule S19).
            ResultUnavailable: the result can no longer be received.
            ClientClosed: the client was closed during the wait.
            ArcpError: any other reason that ended the client during the wait, as in `Closed.cause`.
            WouldDeadlock: called in a handler for whose end the result would wait.
        """
        record = self._record
        while True:
            try:
                return await record.result()
            except JobFailed as error:
                following = await _next_attempt(record, error)
                if following is None:
                    raise
                record = following

    async def chunks(self) -> AsyncIterator[bytes]:
        """Iterate over the result's decoded chunks, from the first one on, as they arrive (§8.4).

        Yields nothing for a job with an inline result. A chunk may end inside a character. U+FFFD
        replaces an unpaired surrogate.

        Raises:
            ResultIncomplete: once the job has ended, at the first missing chunk, or after the last
                chunk for the other reasons that `result` lists.
            JobError: any other error that `result` raises: the job failed or is lost.
            ArcpError: the client was closed (`ClientClosed`), or ended for another reason.
        """
        record = self._record
        record.owner.check_loop()
        begun = False
        while True:
            try:
                async for chunk in record.assembler.chunks(record.wait_for_chunk):
                    begun = True
                    yield chunk
                await record.outcome()
            except JobFailed as error:
                following = None if begun else await _next_attempt(record, error)
                if following is None:
                    raise
                record = following
            else:
                return

    async def save(self, path: str | PathLike[str]) -> int:
        """Write the result to a file: a chunked result as it arrives, an inline one at the end.

        Text and bytes are written unchanged. Any other value is written as JSON, with a newline at
        the end and the digits that the runtime sent.

        Returns the number of bytes written. The file appears under its name only when complete.

        Raises:
            JobError: as for `result`, including `ResultIncomplete`.
            ArcpError: the client was closed (`ClientClosed`), or ended for another reason.
            OSError: the file cannot be written, or the path is a device or a directory.
        """
        check.a_path("path", path)
        self._record.owner.check_loop()
        return await _save(self._record, path)

    def sse(self, *, last_event_id: str | None = None) -> AsyncGenerator[bytes, None]:
        """Stream the job to a browser: an async generator of server-sent events.

        Return it as the body of a response with the headers ``arcp_client.web.SSE_HEADERS``, from
        any framework that sends the items of an async generator as they come. There are four kinds
        of server-sent events: ``job`` with the state of the job, ``reset`` before the events start
        again, ``events`` with a batch of events, and ``end`` after the last one. The page
        "Dashboard" of the reference describes their data. A comment is sent after 15 seconds of
        silence. Secrets are masked.

        Each batch has a position as its id. A browser that reconnects sends the position as
        ``Last-Event-ID``, and the stream continues exactly after it. If that is not possible, the
        browser is told ``reset``: the page drops its events, and the oldest one that is kept
        follows. All readers of a job share its events: the last 8 MiB, or an equal share of 256 MiB
        if many jobs are streamed. They are kept until ten minutes after the last reader has left.

        The stream ends with the job and with the client. It also ends

        - at SIGINT and SIGTERM, because a web server waits for all responses to end;
        - after 16 MiB, with ``retry:``, so that a server never holds more than that for a slow
          reader. The browser continues with its next request;
        - if nothing further is asked for in 30 seconds: the browser does not read, or the server
          has dropped the response.

        A lost link to the runtime does not end it.

        The events begin with the replay buffer of the job, as those of ``async for event in job``:
        call this once early, or use `Client.sse` for a job of another session.

        Args:
            last_event_id: the header ``Last-Event-ID`` of the request, unchecked.

        Raises:
            TooManyStreams: browsers already follow 1,024 jobs of this client.
            ClientClosed: the client was closed.
            LocalProtocolError: the caller is in another event loop than the client.
        """
        check.a_text("last_event_id", last_event_id, none=True, empty=True)
        self._record.owner.check_loop()
        return self._record.owner.sse(self, last_event_id)

    async def answer(
        self,
        question_id: str,
        value: Any,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> TakenAnswer:
        """Answer a question of the job's agent, which an `events.Question` reported.

        Returns once the runtime has taken the answer; with a durable event log, it is stored then.
        Exactly one answer is taken, from any client. The request survives a lost link, and is
        taken once.

        Args:
            question_id: the question.
            value: the answer; any JSON value that fits the schema of the question.
            idempotency_key: the same answer under the same key is taken once; generated by default.
            timeout: seconds to wait for the confirmation; ``Timeouts.request`` by default.

        Raises:
            QuestionAnswered: another answer was taken first; the error says whose.
            QuestionClosed: the question has expired or was withdrawn.
            QuestionNotFound: there is no such question.
            InvalidAnswer: the value does not fit the schema.
            PermissionDenied: the question is for other principals.
            FeatureNotNegotiated: the runtime has no questions.
            RequestTimeout: no confirmation in time. The answer may have been taken.
        """
        check.a_text("question_id", question_id)
        check.a_text("idempotency_key", idempotency_key, none=True)
        check.seconds("timeout", timeout, none=True)
        return await self._record.owner.answer(
            self.id, question_id, value, idempotency_key, timeout
        )

    async def send(
        self,
        value: Any,
        *,
        mode: Literal["steer", "queue"] = "queue",
        message_id: str | None = None,
        timeout: float | None = None,
    ) -> str:
        """Send a message to the agent of the running job; returns its id.

        Returns once the runtime has taken the message; with a durable event log, it is stored then.
        The job's events say what becomes of it: `events.Sent`, then `events.Consumed` when the
        agent takes it, or `events.Returned` if the job ends first. Messages are taken in the order
        of their `Sent` events. The request survives a lost link, and is taken once.

        Args:
            value: the message, any JSON value.
            mode: ``steer`` asks the agent to look at the message soon, ``queue`` when it is ready.
                What it does with it is the agent's choice.
            message_id: the same message under the same id is taken once; generated by default.
            timeout: seconds to wait for the confirmation; ``Timeouts.request`` by default.

        Raises:
            JobEnded: the job has ended.
            PermissionDenied: another session submitted the job, and the runtime's ``steering``
                policy does not let this one send messages to it.
            JobNotFound: there is no such job.
            FeatureNotNegotiated: the runtime takes no messages for jobs.
            RequestTimeout: no confirmation in time. The message may have been taken.
        """
        check.any_of("mode", mode, ("steer", "queue"))
        check.a_text("message_id", message_id, none=True)
        check.seconds("timeout", timeout, none=True)
        return await self._record.owner.send(self.id, value, mode, message_id, timeout)

    @property
    def notifications(self) -> Observable[Event]:
        """The job's later events as an Observable, which completes with the terminal event."""
        job_id = self.id

        def of_this_job(event: Event) -> bool:
            return event.job_id == job_id

        def not_terminal(event: Event) -> bool:
            return not event.terminal

        events = self._record.owner.notifications.filter(of_this_job)
        return events.take_while(not_terminal, inclusive=True)

    def _repr_html_(self) -> str:
        return job_html(self, verdict=self.verdict)

    def _ipython_display_(self) -> None:
        show_live(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.agent or '?'} {self.status}>"


class Job(JobHandle):
    """A job that this client submitted.

    If a job that was submitted with ``retries`` fails, the client may submit it again. The runtime
    then starts another job, the next *attempt*. One handle stands for all attempts: ``id`` and the
    other properties, `cancel`, `answer`, `send` and `sse` concern the present attempt. An iteration
    continues with the events of the next attempt after the `events.Failed` of an attempt. `result`
    and `save` wait for the last attempt. `chunks` raises the error of an attempt that has failed
    after its first chunk.
    """

    @property
    def attempts(self) -> tuple[str, ...]:
        """The ids of the jobs of all attempts, the present one last."""
        attempts = self._first.attempts
        return (self.id,) if attempts is None else attempts.ids

    async def next_attempt(self, after: str | None = None) -> str | None:
        """Wait for the attempt that follows another one; returns its id.

        Returns ``None`` once that one is known to be the last: the job has succeeded, its error is
        not retryable, or no retry is left.

        Args:
            after: the id of an attempt; by default that of the present one.

        Raises:
            ValueError: ``after`` is not an attempt of this job.
            ArcpError: the client was closed (`ClientClosed`), or ended for another reason.
        """
        check.a_text("after", after, none=True)
        attempts, job_id = self._first.attempts, after or self.id
        if job_id not in self.attempts:
            raise ValueError(f"after: {job_id:.80} is not an attempt of this job")
        if attempts is None:
            return None
        record = await attempts.after(job_id, self._first.wait_for_attempt)
        return None if record is None else record.job_id

    async def cancel(self, reason: str | None = None) -> None:
        """Ask the runtime to cancel the job (§7.4).

        Returns once the runtime has acknowledged the request, or the job has ended. The request
        survives a lost link.

        Raises:
            PermissionDenied: this session may not cancel the job.
            RequestTimeout: no answer in time.
        """
        check.a_text("reason", reason, none=True, empty=True)
        await self._record.owner.cancel(self.id, reason)


class JobView(JobHandle):
    """A job of another session, or an earlier job of this one, that this client watches (§7.6)."""

    async def unsubscribe(self) -> None:
        """Stop watching. Iterators of the job end; events in transit may arrive. Idempotent."""
        await self._record.owner.unwatch(self.id)
