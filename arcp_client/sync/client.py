"""The blocking `Client`: connects to a runtime, submits jobs and delivers events.

It wraps an `arcp_client.Client`, which runs in the loop thread of a `Portal` and holds all state of
the session. `event_methods` has the methods that receive events.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self

from reactivex import Observable

from arcp_client import _arguments as check
from arcp_client import job as aio
from arcp_client._link.reconnect import TokenSource
from arcp_client._telemetry import Telemetry
from arcp_client.client import Client as AsyncClient
from arcp_client.models import (
    ClientInfo,
    JobStatus,
    JobSummary,
    Lease,
    OpenQuestion,
    OpenQuestions,
    SessionInfo,
    Stats,
    TakenAnswer,
)
from arcp_client.policy import Buffer, Order, Reconnect, Timeouts
from arcp_client.state import Closed, LinkState
from arcp_client.stores.base import CheckpointStore
from arcp_client.sync._access import LoopAccess
from arcp_client.sync.event_methods import EventMethods
from arcp_client.sync.iterators import LoopObservable
from arcp_client.sync.job import Job, JobHandle, JobView, within
from arcp_client.sync.portal import Portal
from arcp_client.transports.base import Connector

__all__ = ["Client"]


class Client(EventMethods):
    """A blocking client of one agent runtime, for programs without asyncio.

    ::

        with Client("ws://127.0.0.1:7777/arcp", token=TOKEN) as client:
            job = client.submit("code-refactor@2.0.0", {"path": "src/"})
            for event in job:
                print(event)
            print(job.result().value)

    It has the methods, guarantees and errors of `arcp_client.Client`. What is awaited there blocks
    here, while the session runs in a thread of its own, which `connect` starts and `close` ends.

    *Threads*: several threads may share a client, its jobs and its registrations; an iterator
    belongs to one thread at a time. Handlers run in arrival order, in the loop thread or with
    ``on(…, thread=True)`` in one of their own. Iterators in different threads each get every event
    in order; no order holds between threads. A call in a thread that runs an event loop raises
    LocalProtocolError; a blocking call in a handler on the loop thread raises WouldDeadlock.

    *Interruption*: Ctrl-C, or any exception that a signal handler raises, ends a blocking call; the
    client stays usable, and the job continues. An interrupted `connect` closes the client.

    *Forks*: a client that was connected before a fork cannot be used in the child process, and
    raises LocalProtocolError there. A client that was not connected yet can be connected there.

    Handlers may be registered before `connect`, as at import time. Keep a reference to the client:
    if it is garbage-collected without `close`, or still open at the end of the program, it ends,
    and a ResourceWarning reports it (rule D20).

    Args:
        target: as for `arcp_client.Client`. An embedded ``Runtime`` runs in the loop thread.
        token: the bearer token (§6.1), or a function that returns it, sync or async; the function
            is called in the loop thread, and once more when the runtime refuses the token.
        info: the client's identity in ``session.hello``.
        features: the features to offer (§6.2); by default all that this package knows.
        order: the default order of registrations.
        buffer: limits on the events that wait for slow consumers.
        reconnect: delays and limits of reconnecting.
        store: keeps a checkpoint with which another client, in this process or after a restart,
            resumes the session; none by default.
        key: distinguishes sessions with the same target in a store; one client at a time holds it.
        timeouts: limits on every wait.
        dialect: the runtime's dialect; by default it is recognised from the welcome.
        handler_timeout: seconds that one handler call may take; no limit by default.
        telemetry: traces jobs and counts events, such as `arcp_client.otel.OpenTelemetry`.
        portal: the portal whose loop thread the client uses; by default the client makes its own.
    """

    def __init__(
        self,
        target: str | Connector,
        *,
        token: TokenSource = None,
        info: ClientInfo | None = None,
        features: Iterable[str] | None = None,
        order: Order = Order.SESSION,
        buffer: Buffer = Buffer(),  # noqa: B008  frozen
        reconnect: Reconnect = Reconnect(),  # noqa: B008  frozen
        store: CheckpointStore | None = None,
        key: str = "default",
        timeouts: Timeouts = Timeouts(),  # noqa: B008  frozen
        dialect: str | None = None,
        handler_timeout: float | None = None,
        telemetry: Telemetry | None = None,
        portal: Portal | None = None,
    ) -> None:
        check.an_instance("portal", portal, Portal, "a Portal of arcp_client.sync", none=True)
        client = AsyncClient(
            target,
            token=token,
            info=info,
            features=features,
            order=order,
            buffer=buffer,
            reconnect=reconnect,
            store=store,
            key=key,
            timeouts=timeouts,
            dialect=dialect,
            handler_timeout=handler_timeout,
            telemetry=telemetry,
        )
        super().__init__(LoopAccess(portal), client, order)
        self._timeouts = timeouts
        self._handles: weakref.WeakValueDictionary[aio.JobHandle, JobHandle] = (
            weakref.WeakValueDictionary()
        )
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return repr(self._client)

    def _repr_html_(self) -> str:
        return self._client._repr_html_()

    def __del__(self) -> None:
        # The asynchronous client reports that it was not closed, and ends; then the thread ends.
        access = getattr(self, "_access", None)
        if access is not None:
            access.portal.users.pop(self, None)
            del self._client
            access.stop()

    # ------------------------------------------------------------------ lifecycle

    def connect(self) -> None:
        """Open the session; returns once it is live. Concurrent calls wait for the same session.

        With a store, the client resumes the session of an earlier client, and `open_jobs` contains
        its open jobs. If every waiting call is interrupted before the first link is live, the
        client is closed.

        Raises:
            ConnectFailed: no session within ``Timeouts.open``; names the last cause.
            Unauthenticated: the runtime refused the token.
            StoreLocked: another client, in this or another process, holds the checkpoint.
            ClientClosed: the client was closed before.
            LocalProtocolError: this thread runs an event loop, or the process was forked since the
                client was connected.
        """
        if not isinstance(self._client.state, Closed):
            self._access.start(self, partial(self._client.detach, timeout=0))
        try:
            self._access.run(self._client.connect)
        except BaseException:
            if isinstance(self._client.state, Closed):
                self._access.end(self)
            raise

    def connected(self, *, timeout: float | None = None) -> None:
        """Wait until the session is live, for the first time or again.

        Args:
            timeout: seconds to wait; no limit by default.

        Raises:
            ArcpError: the client has ended; the error is the reason.
            TimeoutError: the session is not live in time.
        """
        check.seconds("timeout", timeout, none=True)
        if timeout is None:
            self._access.run(self._client.connected)
        else:
            self._access.run(within, timeout, "the link", self._client.connected)

    def close(self, *, timeout: float | None = None) -> None:
        """End the session (§6.7). Its jobs keep running; see `Job.cancel` to end one.

        Some runtimes end the jobs: `SessionInfo.jobs_run_on` is False there, and a warning names
        the open jobs (rule S21).

        Handlers process the events that have arrived. Then the client sends the goodbye, and ends
        its tasks and its threads. The method is idempotent and may be called from any thread, also
        in a handler with ``thread=True``; it does not wait for that handler. A closed client does
        not connect again. With a store, the checkpoint is deleted.

        Args:
            timeout: seconds that handlers, goodbye and transport share; ``Timeouts.close`` by
                default. Slow handlers leave a quarter of it, at most one second, to the goodbye. A
                slow store may take up to a second longer. If a handler blocks the loop thread, the
                method returns two seconds after the timeout, with a warning in the log.
        """
        self._leave(timeout, partial(self._client.close, timeout=timeout))

    def detach(self, *, timeout: float | None = None) -> None:
        """Drop the link without ending the session, so that it can be resumed within its window.

        With a store, the checkpoint is kept, and the next client resumes from it. Runtimes that end
        jobs in `close` end them here, too (rule S21).

        Args:
            timeout: seconds that all steps share, as in `close`; ``Timeouts.close`` by default.
                With 0 the client does not wait for handlers; with a store, unprocessed events are
                delivered again to the next client.
        """
        self._leave(timeout, partial(self._client.detach, timeout=timeout))

    def _leave(self, timeout: float | None, leave: Any) -> None:
        check.seconds("timeout", timeout, none=True)
        self._access.leave(self, self._timeouts.close if timeout is None else timeout, leave)
        for threads in tuple(self._threads):
            threads.close()

    def drain(self, *, timeout: float | None = None) -> None:
        """Wait until handlers have processed all events that had arrived at the time of the call.

        Called inside a handler, it does not wait for that handler.

        Raises:
            TimeoutError: handlers still run after ``timeout``, by default ``Timeouts.drain``.
        """
        self._access.run(self._client.drain, timeout=timeout)

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._access.portal.forked:  # the block belongs to the parent process
            return
        self._leave(None, partial(self._client.__aexit__, exc_type, exc, traceback))

    # ------------------------------------------------------------------ commands

    def submit(
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
        work_id: str | None = None,
        pause_lease: bool = False,
        retries: int = 0,
        timeout: float | None = None,
    ) -> Job:
        """Start a job; returns once the runtime has accepted it (§7.1).

        Every submit has an idempotency key. After a lost link it is sent again over the next link,
        with the same payload, so the job is neither lost nor started twice. The call copies the
        input. If it is interrupted, the job may run nevertheless: the same idempotency key finds
        it.

        Args:
            agent: ``name`` or ``name@version`` (§7.5).
            input: any JSON value; also dataclasses, pydantic models, datetimes and decimals.
            lease: the operations that the job may perform: patterns by namespace (§9.2).
            expires_at: the end of the lease (§9.5); needs a time zone.
            idempotency_key: the same key with the same parameters returns the same job (§7.2),
                while the runtime knows the key. Runtimes behind one address without a shared log do
                not know each other's keys, and each of them runs the agent.
            max_runtime: seconds after which the runtime ends the job.
            trace_id: W3C trace id, 32 hexadecimal digits (§11); generated by default.
            parent: the parent job, or its id.
            work_id: names the work of the job. A later job of the same agent with the same name
                gets the answers that were given to the questions of the earlier one.
            pause_lease: open questions of the job stop the clock of ``expires_at``.
            retries: how often the job is submitted again if it fails with a retryable error, as
                when its runtime was killed, after a growing pause. Each attempt is a job of its own
                with its own budget, the same ``work_id`` (that of the first: ``work_id``, or else
                the key) and the same trace; `Job` is the handle of all. Its key is the key of the
                submit, ``~`` and its number: after a restart, a submit with the same
                ``idempotency_key`` and ``retries`` finds the present attempt.
            timeout: seconds to wait for the acceptance; ``Timeouts.request`` by default.

        Raises:
            AgentNotFound, AgentVersionNotFound, DuplicateKey, PermissionDenied, InvalidRequest:
                the runtime refused the submit.
            RequestTimeout: no answer in time; the job may run nevertheless.
            ValueError: an argument is invalid for every runtime.
            ClientClosed: the client was closed.
        """
        job = self._access.run(
            self._client.submit,
            agent,
            input,
            lease=lease,
            expires_at=expires_at,
            idempotency_key=idempotency_key,
            max_runtime=max_runtime,
            trace_id=trace_id,
            parent=parent.id if isinstance(parent, JobHandle) else parent,
            work_id=work_id,
            pause_lease=pause_lease,
            retries=retries,
            timeout=timeout,
        )
        return self._job_of(job)

    def watch(
        self,
        job_id: str,
        *,
        history: bool = False,
        from_seq: int | None = None,
        timeout: float | None = None,
    ) -> JobView:
        """Follow a job of another session, or an earlier job of this session (§7.6).

        Watching a job grants no right to cancel it. Watching a job that this client submitted does
        not duplicate its events.

        Args:
            job_id: the job's id.
            history: begin with the events that the runtime still holds; see
                `arcp_client.Client.watch` for a session that was resumed from a store.
            from_seq: with ``history``, only events after this number of the submitting session, as
                in ``last_event_seq`` of `jobs`.
            timeout: seconds to wait for the confirmation; ``Timeouts.request`` by default.

        Raises:
            JobNotFound, PermissionDenied: the runtime refused the subscription.
            FeatureNotNegotiated: the runtime has no subscriptions.
            RequestTimeout: no answer in time.
        """
        view = self._access.run(
            self._client.watch, job_id, history=history, from_seq=from_seq, timeout=timeout
        )
        return JobView(self._access, view)

    def jobs(
        self,
        *,
        status: Iterable[JobStatus] = (),
        agent: str | None = None,
        created_after: datetime | None = None,
        timeout: float | None = None,
    ) -> Generator[JobSummary, None, None]:
        """Iterate over the jobs that this principal may see (§6.6), page by page.

        Args:
            status: only jobs with these statuses, such as ``["pending", "running"]``.
            agent: only jobs of this agent, by name or name@version.
            created_after: only jobs created after this time; needs a time zone.
            timeout: seconds to wait for each page; ``Timeouts.request`` by default.

        Raises:
            ValueError: a status is not one of the specification (§7.3); the message lists them.
            FeatureNotNegotiated: the runtime has no listing.
            RemoteProtocolError: the runtime's pages repeat in a cycle.
            RequestTimeout: no answer in time.
        """
        yield from self._access.iterate(
            self._client.jobs(
                status=status, agent=agent, created_after=created_after, timeout=timeout
            )
        )

    def sse(self, job_id: str, *, last_event_id: str | None = None) -> Generator[bytes, None, None]:
        """Stream a job to a browser by its id, as `JobHandle.sse` does.

        A job of another session is watched with its history, so that a browser continues after a
        restart of this process. Returns once the runtime has confirmed that the job may be watched.

        Args:
            job_id: the job's id, unchecked.
            last_event_id: the header ``Last-Event-ID`` of the request, unchecked.

        Raises:
            JobNotFound, PermissionDenied: the runtime refused the subscription.
            RequestTimeout: no answer in time.
            TooManyStreams: browsers already follow 1,024 jobs of this client.
            ClientClosed: the client was closed.
            FeatureNotNegotiated: the runtime has no subscriptions.
        """
        stream = self._access.run(self._client.sse, job_id, last_event_id=last_event_id)
        return self._access.iterate(stream)

    def end_streams(self) -> None:
        """End the streams of `sse` that are open now; browsers continue with their next request."""
        self._access.call(self._client.end_streams)

    def job(self, job_id: str) -> JobHandle | None:
        """The handle of a job that this session knows, from its first event on; else ``None``."""
        handle = self._access.call(self._client.job, job_id)
        return None if handle is None else self._handle_of(handle)

    def open_jobs(self) -> list[Job]:
        """The jobs of this client whose outcome is not known yet."""
        return [self._job_of(job) for job in self._access.call(self._client.open_jobs)]

    def ping(self, *, timeout: float | None = None) -> float:
        """Send a ping to the runtime (§6.4); returns the round trip in seconds.

        Raises:
            FeatureNotNegotiated: the runtime has no heartbeat.
            RequestTimeout: no answer in time.
        """
        return self._access.run(self._client.ping, timeout=timeout)

    def cancel_job(self, job_id: str, reason: str | None = None) -> None:
        """Ask the runtime to cancel a job by its id (§7.4); see `Job.cancel`.

        Args:
            job_id: the job's id.
            reason: the reason, for the job's record.

        Raises:
            JobNotFound, PermissionDenied: the runtime refused the request.
            RequestTimeout: no answer in time.
        """
        self._access.run(self._client.cancel_job, job_id, reason)

    def answer(
        self,
        job_id: str,
        question_id: str,
        value: Any,
        *,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> TakenAnswer:
        """Answer a question of any job that this principal may answer; see `JobHandle.answer`.

        Args:
            job_id: the job whose agent asks.
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
            self._client.answer,
            job_id,
            question_id,
            value,
            idempotency_key=idempotency_key,
            timeout=timeout,
        )

    def questions(self, *, timeout: float | None = None) -> Generator[OpenQuestion, None, None]:
        """Iterate over the open questions of all jobs that this principal may see, oldest first.

        Args:
            timeout: seconds to wait for each page; ``Timeouts.request`` by default.

        Raises:
            FeatureNotNegotiated: the runtime has no questions.
            RequestTimeout: no answer in time.
        """
        yield from self._access.iterate(self._client.questions(timeout=timeout))

    def inbox(self, *, timeout: float | None = None) -> Generator[OpenQuestions, None, None]:
        """Follow the open questions of all jobs: yields all of them, now and after each change.

        A lost link does not end the iteration; changes that happened meanwhile show after it.

        Args:
            timeout: seconds to wait for each page; ``Timeouts.request`` by default.

        Raises:
            FeatureNotNegotiated: the runtime has no questions.
            RequestTimeout: no answer in time.
            ArcpError: the client was closed (`ClientClosed`), or ended for another reason.
        """
        yield from self._access.iterate(self._client.inbox(timeout=timeout))

    def _job_of(self, job: aio.Job) -> Job:
        handle = self._handle_of(job)
        assert isinstance(handle, Job)
        return handle

    def _handle_of(self, job: aio.JobHandle) -> JobHandle:
        """The handle of a job: the same object while the application holds it."""
        kind = (
            Job
            if isinstance(job, aio.Job)
            else JobView
            if isinstance(job, aio.JobView)
            else JobHandle
        )
        with self._lock:
            handle = self._handles.get(job)
            if handle is None:
                handle = self._handles[job] = kind(self._access, job)
            return handle

    # ------------------------------------------------------------------ state

    @property
    def state(self) -> LinkState:
        """The present state of the link."""
        return self._client.state

    @property
    def states(self) -> Observable[LinkState]:
        """Every state of the link, beginning with the present one; completes after `Closed`.

        Its observers are called in the loop thread; see `LoopObservable`.
        """
        return LoopObservable(self._access, self._client.states)

    @property
    def session(self) -> SessionInfo:
        """The session as negotiated in the last welcome (§6.2).

        Raises:
            LocalProtocolError: the client has not received a welcome yet.
        """
        return self._client.session

    @property
    def resumed(self) -> bool:
        """Whether the present link resumed an earlier session."""
        return self._client.resumed

    def stats(self) -> Stats:
        """Counters since the client was made.

        Raises:
            LocalProtocolError: this thread runs an event loop.
        """
        return self._access.call(self._client.stats)
