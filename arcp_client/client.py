"""The client: the verbs of users, and the parts that do the work put together.

Each part has its own state and is told of the others by what it needs of them:

::

    Client ─┬─ Consumers      handlers, iterators, Observables, and how far each is
            ├─ JobTable       what is known of each job
            ├─ States         how the link stands
            ├─ Conversation   the session, the link that carries it, the checkpoint
            ├─ Life           connect, close, detach
            └─ Requester      submit, watch, list, ping, cancel
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self

from pydantic import SecretStr
from reactivex import Observable

from arcp_client import _arguments as check
from arcp_client._client.consumers import Consumers
from arcp_client._client.conversation import Conversation
from arcp_client._client.jobs import JobTable
from arcp_client._client.life import Life
from arcp_client._client.observing import Observing
from arcp_client._client.requester import Requester
from arcp_client._client.states import States
from arcp_client._client.submission import Submission
from arcp_client._jobrecord import JobOwner
from arcp_client._link.reconnect import TokenSource
from arcp_client._protocol.session import Session
from arcp_client._wire import dialect as wire
from arcp_client._wire.dialect import DIALECTS
from arcp_client._wire.ids import is_trace_id
from arcp_client.errors import LocalProtocolError
from arcp_client.job import Job, JobHandle, JobView
from arcp_client.models import ClientInfo, JobSummary, Lease, SessionInfo, Stats
from arcp_client.policy import Buffer, Order, Reconnect, Timeouts
from arcp_client.state import LinkState
from arcp_client.stores.base import CheckpointStore
from arcp_client.transports.base import Connector
from arcp_client.transports.websocket import WebSocketConnector
from arcp_client.version import __version__

__all__ = ["Client"]


class Client(Observing):
    """A client of one agent runtime, over as many links as it takes.

    ::

        async with Client("ws://127.0.0.1:7777/arcp", token=TOKEN) as client:
            job = await client.submit("code-refactor@2.0.0", {"path": "src/"})
            async for event in job:
                print(event)
            print((await job.result()).value)

    Guarantees: every consumer gets every event once and in order; a lost link is made anew and
    the session resumed from the last event received; what cannot be delivered arrives as a `Gap`;
    only what was handled is acknowledged.

    Use it from one event loop; what another one asks is refused. It may be made outside of one,
    so that handlers can be registered at import time.

    Args:
        target: a ``ws://`` or ``wss://`` URL, a `Connector`, or an embedded ``Runtime``.
        token: the bearer token (§6.1), or a function that gives it, sync or async; the function
            is asked once more when the runtime refuses the token.
        info: who the client says it is.
        features: what to offer (§6.2); all that this package knows by default.
        order: the order of registrations that do not choose one.
        buffer: how much may wait for slow consumers.
        reconnect: delays and limits of reconnecting.
        store: where to keep what lets another client, in this process or after a restart, go on
            with the session; nowhere by default.
        key: which of several sessions with the same target it is; one client at a time holds it.
        timeouts: bounds on every wait.
        dialect: the runtime's dialect, where it must not be recognised from its welcome.
        handler_timeout: seconds that one handler call may take; no limit by default.
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
    ) -> None:
        check.an_instance("info", info, ClientInfo, "a ClientInfo", none=True)
        check.an_instance("order", order, Order, "Order.SESSION or Order.JOB")
        check.an_instance("buffer", buffer, Buffer, "a Buffer")
        check.an_instance("reconnect", reconnect, Reconnect, "a Reconnect")
        check.an_instance("timeouts", timeouts, Timeouts, "Timeouts")
        check.an_instance("store", store, CheckpointStore, "a CheckpointStore", none=True)
        check.a_text("key", key)
        check.seconds("handler_timeout", handler_timeout, above=True, none=True)
        check.an_instance(
            "token",
            token,
            (str, SecretStr, Callable),
            "a text, a SecretStr, or a function that gives one",
            none=True,
            secret=True,
        )
        if dialect is not None and dialect not in DIALECTS:
            raise ValueError(f"dialect is one of {', '.join(DIALECTS)}")
        offered = wire.FEATURES if features is None else check.texts("features", features)
        self._timeouts = timeouts
        super().__init__(
            Consumers(
                order=order,
                buffer=buffer,
                timeouts=timeouts,
                handler_timeout=handler_timeout,
                asked=lambda: self._conversation.asks,
                held=lambda: self._conversation.held,
                active=lambda: self._conversation.active(),
                at_home=lambda: self._life.at_home(),
                failed=lambda cause: self._conversation.stop(cause),
            )
        )
        self._states = States()
        self._jobs = JobTable(
            JobOwner(
                notifications=self._consumers.notifications,
                relief=self._consumers.pressure,
                at_home=lambda: self._life.at_home(),
                waits=self._consumers.waits,
                barriers=self._consumers.barriers,
                own_call=self._consumers.own_call,
                chunk_log=lambda job_id: self._conversation.chunk_log(job_id),
                cancel=lambda job_id, reason: self._requester.cancel(job_id, reason),
                unwatch=lambda job_id: self._requester.unwatch(job_id),
            )
        )
        self._consumers.route(self._jobs.streams)
        self._conversation = Conversation(
            partial(
                Session,
                info=info or ClientInfo(name="arcp-client", version=__version__),
                features=offered,
                limit=buffer.hard,
                spoken=DIALECTS[dialect] if dialect is not None else None,
            ),
            _connector_for(target),
            token=token,
            buffer=buffer,
            reconnect=reconnect,
            timeouts=timeouts,
            store=store,
            key=key,
            consumers=self._consumers,
            jobs=self._jobs,
            states=self._states,
            ended=lambda cause: self._life.end(cause),
        )
        self._life = Life(
            self._conversation,
            consumers=self._consumers,
            jobs=self._jobs,
            states=self._states,
            timeouts=timeouts,
        )
        self._requester = Requester(
            self._conversation, life=self._life, jobs=self._jobs, timeouts=timeouts
        )

    # ------------------------------------------------------------------ its life

    async def connect(self) -> None:
        """Open the session; returns once it is live. Further calls wait for the same.

        With a store, the session of an earlier client is gone on with, and its open jobs are in
        `open_jobs`. When nobody waits for the first link any more, because every call was
        cancelled, the client is closed and nothing connects.

        Raises:
            ConnectFailed: no session within ``Timeouts.open``; names the last cause.
            Unauthenticated: the runtime refused the token.
            StoreLocked: another client, in this or another process, holds the checkpoint.
            ClientClosed: the client was closed before.
            LocalProtocolError: it lives in another event loop.
        """
        await self._life.connect()

    async def connected(self) -> None:
        """Wait until the session is live, whether for the first time or again.

        Raises:
            ArcpError: it has ended; the reason.
        """
        await self._life.connected()

    async def close(self, *, timeout: float | None = None) -> None:
        """End the session (§6.7). Its jobs run on; see `Job.cancel` to end one.

        Running handlers get until ``timeout`` to finish what arrived; then the runtime is told,
        and everything here ends. Idempotent, from any task, also inside a handler, which is then
        not waited for. Nothing connects afterwards. With a store, the checkpoint is deleted.

        Args:
            timeout: seconds for all of it; ``Timeouts.close`` by default.
        """
        check.seconds("timeout", timeout, none=True)
        await self._life.leave(timeout, drain=True, tell=True)

    async def detach(self, *, timeout: float | None = None) -> None:
        """Drop the link without ending the session, so that it can be resumed within its window.

        With a store, the checkpoint is kept: the next client goes on from it.

        Args:
            timeout: seconds for handlers to finish what arrived; ``Timeouts.close`` by default.
                With 0 nobody is waited for: with a store, what is not finished comes again.
        """
        check.seconds("timeout", timeout, none=True)
        await self._life.leave(timeout, drain=timeout != 0, tell=False)

    async def drain(self, *, timeout: float | None = None) -> None:
        """Wait until every handler is done with what had arrived when this was called.

        Inside a handler, that handler is not waited for.

        Raises:
            TimeoutError: handlers still run after ``timeout``, by default ``Timeouts.drain``.
        """
        check.seconds("timeout", timeout, none=True)
        await self._life.drain(self._timeouts.drain if timeout is None else timeout)

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # After an exception nobody is interested in what handlers would still do.
        failed = exc_type is not None
        keep = failed and self._conversation.durable
        await self._life.leave(None, drain=not failed, tell=not keep)

    # ------------------------------------------------------------------ how it stands

    @property
    def state(self) -> LinkState:
        """Where the link stands now."""
        return self._states.now

    @property
    def states(self) -> Observable[LinkState]:
        """Every change of `state`, beginning with the present one; completes at the end."""
        return self._states.observable

    def on_state(self, hook: Callable[[LinkState], Awaitable[Any] | Any]) -> Any:
        """Call this function, sync or async, at every change of state; usable as a decorator.

        Calls come one after another; nothing waits for them, so a hook may use the client.
        """
        self._states.hooks.add(hook)
        return hook

    @property
    def session(self) -> SessionInfo:
        """What the last welcome agreed on (§6.2).

        Raises:
            LocalProtocolError: there was none yet.
        """
        info = self._conversation.info
        if info is None:
            raise LocalProtocolError("there is no session yet: call connect() first")
        return info

    @property
    def resumed(self) -> bool:
        """Whether the present link went on with an earlier session."""
        return self._conversation.resumed

    def stats(self) -> Stats:
        """Counters since the client was made.

        Raises:
            LocalProtocolError: the client lives in another event loop.
        """
        self._life.at_home()
        return self._conversation.stats()

    # ------------------------------------------------------------------ requests

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
        return await self._requester.submit(submission, trace_id=trace_id, timeout=timeout)

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
        return await self._requester.watch(
            job_id, history=history, from_seq=from_seq, timeout=timeout
        )

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
        check.a_text("agent", agent, none=True)
        check.a_moment("created_after", created_after, none=True)
        check.seconds("timeout", timeout, none=True)
        found = self._requester.list_jobs(
            status=check.texts("status", status),
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
        return await self._requester.ping(timeout=timeout)

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
        await self._requester.cancel(job_id, reason)


def _connector_for(target: str | Connector) -> Connector:
    if isinstance(target, str):
        return WebSocketConnector(target)
    if isinstance(target, Connector):
        return target
    raise TypeError(
        f"target is a ws:// or wss:// URL, a Connector or a Runtime, not {type(target).__name__}"
    )
