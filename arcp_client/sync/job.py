"""The handles of a job for blocking code: its state, its events in order, its result.

Each wraps a handle of `arcp_client.job` and runs its methods through the client's portal.
Properties other than `JobHandle.verdict` are read without a change of threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from os import PathLike
from typing import Any, Literal, TypeVar, overload

from reactivex import Observable

from arcp_client import _arguments as check
from arcp_client import job as aio
from arcp_client._dispatch.event_filter import Kind
from arcp_client._notebook import job_html
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
from arcp_client.sync._access import LoopAccess
from arcp_client.sync.iterators import EventIterator, LoopObservable

__all__ = ["Job", "JobHandle", "JobView"]

E1 = TypeVar("E1", bound=Event)
E2 = TypeVar("E2", bound=Event)
E3 = TypeVar("E3", bound=Event)
E4 = TypeVar("E4", bound=Event)
T = TypeVar("T")


async def within(seconds: float, what: str, function: Callable[[], Awaitable[T]]) -> T:
    """Await a function for a limited time."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await function()
    except TimeoutError:
        if limit.expired():
            raise TimeoutError(f"{what} did not come within {seconds:g} s") from None
        raise


class JobHandle:
    """A job of this client's session. Only the client makes handles.

    Iterating over it, ``for event in job``, gives every event of the job in order, beginning with
    the replay buffer, and ends after the terminal event. Each iteration is independent. Events that
    arrived before the iteration began count as processed; with a store, use a handler that is
    registered before ``connect()``. Several threads may use a handle, but not one iterator.
    """

    _job: aio.JobHandle

    def __init__(self, access: LoopAccess, job: aio.JobHandle) -> None:
        self._access = access
        self._job = job

    @property
    def id(self) -> str:
        """The job's id."""
        return self._job.id

    @property
    def agent(self) -> str:
        """The agent that runs the job, ``name@version`` once the runtime resolved it (§7.5)."""
        return self._job.agent

    @property
    def status(self) -> str:
        """``pending``, ``running``, ``success``, ``error``, ``cancelled`` or ``timed_out``."""
        return self._job.status

    @property
    def lease(self) -> Lease:
        """The lease that the runtime granted (§9)."""
        return self._job.lease

    @property
    def lease_constraints(self) -> LeaseConstraints:
        """Bounds on the lease (§9.5)."""
        return self._job.lease_constraints

    @property
    def budget(self) -> Budget:
        """The remaining amount in each currency, as reported by the runtime (§9.6)."""
        return self._job.budget

    @property
    def credentials(self) -> dict[str, Credential]:
        """Provisioned credentials by id, each with its newest value (§9.8)."""
        return self._job.credentials

    @property
    def trace_id(self) -> str | None:
        """The job's W3C trace id (§11)."""
        return self._job.trace_id

    @property
    def children(self) -> list[str]:
        """Ids of the jobs that it delegated to, as announced to this session (§10)."""
        return self._job.children

    @property
    def resumed(self) -> bool:
        """Whether an earlier process submitted the job.

        The runtime does not send the events that were processed there to this process again.
        """
        return self._job.resumed

    @property
    def history_last(self) -> str | None:
        """The id of the last past event that the runtime sends for the newest subscription.

        Empty if it sends none, ``None`` if it does not say; see
        `arcp_client.JobHandle.history_last`.
        """
        return self._job.history_last

    @property
    def progress(self) -> Progress | None:
        """The last progress event."""
        return self._job.progress

    @property
    def verdict(self) -> Verdict:
        """What the job is doing, why, and since when; see `arcp_client.JobHandle.verdict`.

        Unlike the other properties, it is read in the client's thread.
        """
        return self._access.call(lambda: self._job.verdict)

    def __iter__(self) -> EventIterator[Event]:
        return self.events()

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
        """Iterate over events of some kinds only; a `Gap` is always given.

        Raises:
            TypeError: a kind is neither an event class nor the name of a vendor kind.
        """
        return EventIterator(self._access, self._access.call(self._job.events, *kinds))

    def result(self, *, timeout: float | None = None) -> Result:
        """Wait for the job's end and return its result, at any time and repeatedly (§7.3, §8.4).

        Returns after the handlers that match the job's earlier events have run, unless they were
        registered with ``barrier=False``. A lost link does not end the wait. Ctrl-C and the timeout
        end the wait and not the job; see `Job.cancel`. An unpaired surrogate is U+FFFD in every
        string of the value, as in `chunks` and `save`.

        Args:
            timeout: seconds to wait; no limit by default.

        Raises:
            TimeoutError: the job has not ended in time.
            JobFailed: the job ended without success; the subclasses are `JobCancelled`,
                `JobTimedOut`, `LeaseExpired` and `BudgetExhausted`.
            JobLost: the runtime no longer knows the job.
            ResultIncomplete: chunks of the result are missing or unreadable, one arrived twice with
                different contents, they belong to two results, or the size is not the one that the
                runtime stated (rule S19).
            ResultUnavailable: the result can no longer be received.
            ClientClosed: the client was closed during the wait.
            ArcpError: any other reason that ended the client during the wait, as in `Closed.cause`.
            WouldDeadlock: called in a handler that the result would wait for, or that runs on the
                loop thread.
        """
        check.seconds("timeout", timeout, none=True)
        if timeout is None:
            return self._access.run(self._job.result)
        return self._access.run(within, timeout, f"the end of job {self.id}", self._job.result)

    def chunks(self) -> Generator[bytes, None, None]:
        """Iterate over the result's decoded chunks, from the first one on, as they arrive (§8.4).

        Yields nothing for a job with an inline result. A chunk may end inside a character. An
        unpaired surrogate is U+FFFD.

        Raises:
            ResultIncomplete: once the job has ended, at the first missing chunk, or after the last
                chunk for the other reasons that `result` lists.
            JobError: any other error that `result` raises: the job failed or is lost.
            ArcpError: the client was closed (`ClientClosed`), or ended for another reason.
        """
        yield from self._access.iterate(self._job.chunks())

    def save(self, path: str | PathLike[str]) -> int:
        """Write the result to a file: a chunked result as it arrives, an inline one at the end.

        Text and bytes are written unchanged. Any other value is written as JSON, with a newline at
        the end and the digits that the runtime sent.

        Returns the number of bytes written. The file appears under its name only when complete.

        Raises:
            JobError: as for `result`, including `ResultIncomplete`.
            ArcpError: the client was closed (`ClientClosed`), or ended for another reason.
            OSError: the file cannot be written, or the path is a device or a directory.
        """
        return self._access.run(self._job.save, path)

    def sse(self, *, last_event_id: str | None = None) -> Generator[bytes, None, None]:
        """Stream the job to a browser: a generator of server-sent events, for WSGI frameworks.

        The frames and the guarantees are those of the asynchronous `JobHandle.sse`. A stream
        occupies the thread that iterates over it. Signals do not end it: call
        `Client.end_streams` before the server waits for its responses.

        Args:
            last_event_id: the header ``Last-Event-ID`` of the request, unchecked.

        Raises:
            TooManyStreams: browsers already follow 1,024 jobs of this client.
            ClientClosed: the client was closed.
        """
        stream = self._access.call(self._job.sse, last_event_id=last_event_id)
        return self._access.iterate(stream)

    def answer(
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
        return self._access.run(
            self._job.answer,
            question_id,
            value,
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    def send(
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
        return self._access.run(
            self._job.send, value, mode=mode, message_id=message_id, timeout=timeout
        )

    @property
    def notifications(self) -> Observable[Event]:
        """The job's later events as an Observable, which completes with the terminal event.

        Its observers are called in the loop thread; see `LoopObservable`.
        """
        return LoopObservable(self._access, self._job.notifications)

    def _repr_html_(self) -> str:
        return job_html(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.agent or '?'} {self.status}>"


class Job(JobHandle):
    """A job that this client submitted; all its attempts, as `arcp_client.Job`."""

    _job: aio.Job

    @property
    def attempts(self) -> tuple[str, ...]:
        """The ids of the jobs that this job was begun as, the present one last."""
        return self._job.attempts

    def next_attempt(self, after: str | None = None) -> str | None:
        """Wait for the attempt that follows another one; returns its id.

        Returns ``None`` once that one is known to be the last: the job has succeeded, its error is
        not retryable, or no retry is left.

        Args:
            after: the id of an attempt; by default that of the present one.

        Raises:
            ValueError: ``after`` is not an attempt of this job.
            ArcpError: the client was closed (`ClientClosed`), or ended for another reason.
        """
        return self._access.run(self._job.next_attempt, after)

    def cancel(self, reason: str | None = None) -> None:
        """Ask the runtime to cancel the job (§7.4).

        Returns once the runtime has acknowledged the request, or the job has ended. The request
        survives a lost link.

        Raises:
            PermissionDenied: this session may not cancel the job.
            RequestTimeout: no answer in time.
        """
        self._access.run(self._job.cancel, reason)


class JobView(JobHandle):
    """A job of another session, or an earlier job of this one, that this client watches (§7.6)."""

    _job: aio.JobView

    def unsubscribe(self) -> None:
        """Stop watching. Its iterators end; events in transit may still arrive. Idempotent."""
        self._access.run(self._job.unsubscribe)
