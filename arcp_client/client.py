"""`Client`: connects to a runtime, submits jobs and delivers events.

`_client.event_methods` has the methods that receive events, and `_client.command_methods` those
that send commands. These methods call the parts of the client, which are in ``_client`` too;
``_client.wiring`` connects the parts.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from reactivex import Observable

from arcp_client import _arguments as check
from arcp_client import transports
from arcp_client._client.command_methods import CommandMethods
from arcp_client._client.event_methods import EventMethods
from arcp_client._client.settings import Settings
from arcp_client._client.wiring import Wiring
from arcp_client._html import table
from arcp_client._link.reconnect import TokenSource
from arcp_client._notebook import leave_earlier
from arcp_client._telemetry import Telemetry
from arcp_client.errors import LocalProtocolError
from arcp_client.models import ClientInfo, SessionInfo, Stats
from arcp_client.policy import Buffer, Order, Reconnect, Timeouts
from arcp_client.state import LinkState
from arcp_client.stores.base import CheckpointStore
from arcp_client.transports.base import Connector

__all__ = ["Client"]


class Client(EventMethods, CommandMethods):
    """A client of one agent runtime, with one session over successive links.

    ::

        async with Client("ws://127.0.0.1:7777/arcp", token=TOKEN) as client:
            job = await client.submit("code-refactor@2.0.0", {"path": "src/"})
            async for event in job:
                print(event)
            print((await job.result()).value)

    Guarantees: every consumer gets every event once and in order; after a lost link the client
    reconnects and resumes the session after the last received event; events that cannot be
    delivered are reported by a `Gap`; only processed events are acknowledged.

    Use a client in one event loop; calls from another loop raise LocalProtocolError. A client may
    be made outside of a loop, so that handlers can be registered at import time. Handlers run with
    the context variables of the code that registers them (rule D19). Keep a reference to the
    client: if it is garbage-collected without `close`, it is ended, with a ResourceWarning (rule
    D20). The page "The rules" of the documentation has the rules.

    Args:
        target: a ``ws://`` or ``wss://`` URL, a `Connector`, or an embedded ``Runtime``.
        token: the bearer token (§6.1), or a sync or async function that returns it. The function is
            called again if the runtime refuses the token.
        info: the client's identity in ``session.hello``.
        features: the features to offer (§6.2); by default all that this package knows.
        order: the default order of registrations.
        buffer: limits on the events that wait for slow consumers.
        reconnect: delays and limits of reconnecting.
        store: keeps a checkpoint with which another client, in this process or after a restart,
            resumes the session; none by default.
        key: distinguishes sessions with the same target in a store. One client at a time can use a
            key.
        timeouts: limits on every wait.
        dialect: the runtime's dialect; by default it is recognised from the welcome.
        handler_timeout: seconds that one handler call may take; no limit by default.
        telemetry: traces jobs and counts events, such as `arcp_client.otel.OpenTelemetry`.
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
    ) -> None:
        connector = _connector_for(target)
        parts = Wiring(
            connector,
            Settings(
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
            ),
        )
        EventMethods.__init__(self, parts.consumers)
        CommandMethods.__init__(self, parts.commands, parts.jobs)
        self._states = parts.states
        self._engine = parts.engine
        self._parts = parts
        self._lifecycle = parts.lifecycle
        self._target = connector.target
        self._timeouts = timeouts

    def __repr__(self) -> str:
        return f"<Client {self._target} {type(self._states.now).__name__}>"

    def _repr_html_(self) -> str:
        info = self._engine.info
        rows: list[tuple[str, object]] = [
            ("target", self._target),
            ("state", str(self._states.now)),
            ("session", None if info is None else info.id),
            ("runtime", None if info is None else f"{info.runtime.name} {info.runtime.version}"),
        ]
        rows += [(f"job {job.id}", f"{job.agent} {job.status}") for job in self.open_jobs()[:20]]
        return table("Client", rows)

    def __del__(
        self,
        _warn: Callable[..., None] = warnings.warn,
        _log: logging.Logger = logging.getLogger("arcp_client.client"),  # noqa: B008
    ) -> None:
        # Missing if the constructor raised.
        lifecycle = getattr(self, "_lifecycle", None)
        if lifecycle is not None and lifecycle.unclosed:
            _warn(f"{self!r} was dropped without close()", ResourceWarning, source=self)
            _log.warning("%r was dropped without close(), which ends it", self)
            lifecycle.abandon()

    # ------------------------------------------------------------------ lifecycle

    async def connect(self) -> None:
        """Open the session; returns once it is live. Concurrent calls wait for the same session.

        With a store, the client resumes the session of an earlier client, and `open_jobs` contains
        its open jobs. If every waiting call is cancelled before the first link is live, the client
        is closed.

        Raises:
            ConnectFailed: no session within ``Timeouts.open``; names the last cause.
            Unauthenticated: the runtime refused the token.
            StoreLocked: another client, in this or another process, holds the checkpoint.
            ClientClosed: the client was closed before.
            LocalProtocolError: the client belongs to another event loop.
        """
        if "ipykernel" in sys.modules:
            await leave_earlier(self, self._has_ended, self._leave_cell)
        await self._lifecycle.connect()

    def _has_ended(self) -> bool:
        return self._states.closed

    async def _leave_cell(self) -> str:
        """Leave because the cell of a notebook that connected this client is run again."""
        durable = self._engine.durable
        await self._lifecycle.leave(None, drain=False, tell=not durable)
        return "detached" if durable else "closed"

    async def connected(self) -> None:
        """Wait until the session is live, for the first time or again.

        Raises:
            ArcpError: the client has ended; the error is the reason.
        """
        await self._lifecycle.connected()

    async def close(self, *, timeout: float | None = None) -> None:
        """End the session (§6.7). Its jobs keep running; see `Job.cancel` to end one.

        Some runtimes end the jobs too. With such a runtime, `SessionInfo.jobs_run_on` is False, and
        a warning names the open jobs (rule S21).

        Handlers process the events that have arrived. Then the client sends the goodbye and ends
        all its tasks. The method is idempotent and may be called from any task. Called inside a
        handler, it does not wait for that handler. A closed client does not connect again. With a
        store, the checkpoint is deleted.

        Args:
            timeout: seconds that handlers, goodbye and transport share; ``Timeouts.close`` by
                default. A quarter of it, at most one second, is kept for the goodbye if handlers
                are slow. A slow store may take up to a second longer.
        """
        check.seconds("timeout", timeout, none=True)
        await self._lifecycle.leave(timeout, drain=True, tell=True)

    async def detach(self, *, timeout: float | None = None) -> None:
        """Drop the link without ending the session, so that it can be resumed within its window.

        With a store, the checkpoint is kept, and the next client resumes from it. Runtimes that end
        jobs at a `close` end them at a `detach` too (rule S21).

        Args:
            timeout: seconds that all steps share, as in `close`; ``Timeouts.close`` by default.
                With 0 the client does not wait for handlers; with a store, unprocessed events are
                delivered again to the next client.
        """
        check.seconds("timeout", timeout, none=True)
        await self._lifecycle.leave(timeout, drain=timeout != 0, tell=False)

    async def drain(self, *, timeout: float | None = None) -> None:
        """Wait until handlers have processed all events that had arrived at the time of the call.

        Called inside a handler, it does not wait for that handler.

        Raises:
            TimeoutError: handlers still run after ``timeout``, by default ``Timeouts.drain``.
        """
        check.seconds("timeout", timeout, none=True)
        await self._lifecycle.drain(self._timeouts.drain if timeout is None else timeout)

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # After an exception in the block, waiting events are not handled.
        failed = exc_type is not None
        keep = failed and self._engine.durable
        await self._lifecycle.leave(None, drain=not failed, tell=not keep)

    # ------------------------------------------------------------------ browsers

    async def sse(
        self, job_id: str, *, last_event_id: str | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Stream a job to a browser by its id, as `JobHandle.sse` does.

        The client watches a job of another session with its history. So a browser can continue
        after a restart of this process, and in another process. For this, the runtime must still
        hold the events of the job, and give them the same ids in every session. Otherwise the
        browser is told ``reset``. See the page "Stream jobs to browsers".

        Returns once the runtime has confirmed that the job may be watched, so that a refusal can
        still set the status of the response.

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
        check.a_text("job_id", job_id)
        check.a_text("last_event_id", last_event_id, none=True, empty=True)
        self._lifecycle.usable()
        return await self._parts.streams.open(job_id, last_event_id)

    def end_streams(self) -> None:
        """End the streams of `sse` that are open now; browsers continue with their next request.

        For a server that is told to end in another way than by SIGINT or SIGTERM, before it waits
        for open responses.
        """
        streams = self._parts.made_streams()
        if streams is not None:
            streams.stop()

    # ------------------------------------------------------------------ state

    @property
    def state(self) -> LinkState:
        """The present state of the link."""
        return self._states.now

    @property
    def states(self) -> Observable[LinkState]:
        """Every state of the link, beginning with the present one; completes after `Closed`."""
        return self._states.observable

    def on_state(self, hook: Callable[[LinkState], Awaitable[Any] | Any]) -> Any:
        """Call this function, sync or async, at every change of state; usable as a decorator.

        Calls run one after another. The client does not wait for the calls, so the function may use
        the client.
        """
        self._states.hooks.add(hook)
        return hook

    @property
    def session(self) -> SessionInfo:
        """The session as negotiated in the last welcome (§6.2).

        Raises:
            LocalProtocolError: the client has not received a welcome yet.
        """
        info = self._engine.info
        if info is None:
            raise LocalProtocolError("there is no session yet: call connect() first")
        return info

    @property
    def resumed(self) -> bool:
        """Whether the present link resumed an earlier session."""
        return self._engine.resumed

    def stats(self) -> Stats:
        """Counts since the client was made, and what each open job is doing.

        Raises:
            LocalProtocolError: the client belongs to another event loop.
        """
        self._lifecycle.check_loop()
        return replace(self._engine.stats(), verdicts=self._parts.verdicts.open())


def _connector_for(target: str | Connector) -> Connector:
    if isinstance(target, str):
        return transports.WebSocketConnector(target)
    if isinstance(target, Connector):
        return target
    raise TypeError(
        "target must be a ws:// or wss:// URL, a Connector or a Runtime, not"
        f" {type(target).__name__}"
    )
