"""The client: where session, link and delivery are put together, and the verbs of users.

A frame goes from the link's reader through the session to the subject in one synchronous step;
from there each consumer takes its own time. See the page "How an event travels" in the docs.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Any, Self

from reactivex import Observable
from reactivex.subject import BehaviorSubject

from ._dispatch.assembler import Log
from ._dispatch.calls import calling
from ._dispatch.hooks import Hooks
from ._dispatch.registration import Registration
from ._link.acks import Acknowledger
from ._link.driver import Driver
from ._link.durability import Durability
from ._link.intake import Intake
from ._link.link import Link
from ._link.reconnect import ReconnectManager, TokenSource
from ._protocol import effects
from ._protocol.requests import Request
from ._protocol.session import Session
from ._requesting import Requesting
from ._tasks import TaskOwner, cancel_and_wait
from ._wire import dialect as wire
from ._wire.dialect import DIALECTS
from .errors import (
    ArcpError,
    ClientClosed,
    ConnectFailed,
    LinkLost,
    LocalProtocolError,
)
from .models import Checkpoint, ClientInfo, OpenJob, SessionInfo, Stats
from .policy import Buffer, Order, Reconnect, Timeouts
from .state import Closed, Connecting, LinkState, Live
from .stores.base import CheckpointStore
from .transports.base import Connector
from .transports.websocket import WebSocketConnector
from .version import __version__

__all__ = ["Client"]

_log = logging.getLogger("arcp_client.client")

_GRACE = 1.0


class Client(Requesting):
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

    Use it from one event loop. It may be made outside of one, so that handlers can be registered
    at import time.

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
        if handler_timeout is not None and not handler_timeout > 0:
            raise ValueError("handler_timeout is a number of seconds above 0")
        if dialect is not None and dialect not in DIALECTS:
            raise ValueError(f"dialect is one of {', '.join(DIALECTS)}")
        self._new_session = partial(
            Session,
            info=info or ClientInfo(name="arcp-client", version=__version__),
            features=tuple(features) if features is not None else wire.FEATURES,
            limit=buffer.hard,
            spoken=DIALECTS[dialect] if dialect is not None else None,
        )
        super().__init__(
            self._new_session(),
            order=order,
            buffer=buffer,
            timeouts=timeouts,
            handler_timeout=handler_timeout,
            activity=self._active,
        )
        self._connector = _connector_for(target)
        self._durability: Durability | None = None
        if store is not None:
            self._durability = Durability(
                store,
                self._connector.target,
                key,
                subject=self._subject,
                pressure=self._pressure,
            )
        self._token = token
        self._policy = reconnect
        self._buffer = buffer
        self._intake: Intake | None = None
        self._state_hooks: Hooks[LinkState] = Hooks("on_state")
        self._states: BehaviorSubject[LinkState] = BehaviorSubject(Connecting(0))
        self._state: LinkState = Connecting(0)
        self._owner = TaskOwner("arcp_client", on_failure=self._broke)
        self._driver: Driver | None = None
        self._manager: ReconnectManager | None = None
        self._running: asyncio.Task[None] | None = None
        self._changes: list[asyncio.Future[None]] = []
        self._acks: Acknowledger | None = None
        self._connecting = 0
        self._handed_over = False
        self._closing: asyncio.Task[None] | None = None
        self._leaving: set[Registration] = set()
        self._resumed = False

    # ------------------------------------------------------------------ life

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
        """
        if self._running is None and not isinstance(self._state, Closed):
            self._running = self._owner.spawn(self._run(), name="reconnect")
        running = self._running
        self._connecting += 1
        try:
            await self.connected()
        except ArcpError:
            if running is not None:
                await asyncio.wait({running})  # it lets go of the store
            raise
        except asyncio.CancelledError:
            if self._connecting == 1 and not self._handed_over:
                await self._leave(0.0, drain=False, tell=False)
            raise
        else:
            self._handed_over = True
        finally:
            self._connecting -= 1

    async def _run(self) -> None:
        """Take hold of the checkpoint, keep the session on a link, let go of the checkpoint."""
        durability = self._durability
        try:
            checkpoint = await durability.open() if durability is not None else None
        except Exception as error:  # noqa: BLE001  a store of the user's may raise anything
            self._end(error if isinstance(error, ArcpError) else _store_failed(error))
            return
        try:
            await self._assemble(checkpoint).run()
        finally:
            if self._driver is not None:
                self._driver.stop()
            if durability is not None and self._closing is None:
                await durability.close(forget=False)

    def _assemble(self, checkpoint: Checkpoint | None) -> ReconnectManager:
        """Put together what keeps the session on a link."""
        durability = self._durability
        publish = self._subject.publish if durability is None else durability.offer
        if checkpoint is not None:
            self._session = self._new_session(checkpoint=checkpoint)
        self._driver = driver = Driver(self._session, publish=publish, tell=self._tell)
        self._intake = Intake(
            driver, self._pressure, spill=self._buffer.spill, keep=self._buffer.bytes
        )
        self._manager = ReconnectManager(
            self._connector,
            driver,
            token=self._token,
            policy=self._policy,
            timeouts=self._timeouts,
            intake=self._intake,
            changed=self._change,
        )
        self._acks = Acknowledger(driver, self._subject, safe=self._safe_mark)
        if durability is not None:
            for job in checkpoint.jobs if checkpoint is not None else ():
                self._jobs.resume(job, durability.log_for(job.job_id) or ())
            durability.start(driver)
        return self._manager

    async def connected(self) -> None:
        """Wait until the session is live, whether for the first time or again.

        Raises:
            ArcpError: it has ended; the reason.
        """
        while not isinstance(self._state, Live):
            if isinstance(self._state, Closed):
                raise self._closed_error()
            if self._running is None:
                raise LocalProtocolError("the client is not connected: call connect() first")
            change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._changes.append(change)
            await change

    async def close(self, *, timeout: float | None = None) -> None:
        """End the session (§6.7). Its jobs run on; see `Job.cancel` to end one.

        Running handlers get until ``timeout`` to finish what arrived; then the runtime is told,
        and everything here ends. Idempotent, from any task, also inside a handler, which is then
        not waited for. Nothing connects afterwards. With a store, the checkpoint is deleted.

        Args:
            timeout: seconds for all of it; ``Timeouts.close`` by default.
        """
        await self._leave(timeout, drain=True, tell=True)

    async def detach(self, *, timeout: float | None = None) -> None:
        """Drop the link without ending the session, so that it can be resumed within its window.

        With a store, the checkpoint is kept: the next client goes on from it.

        Args:
            timeout: seconds for handlers to finish what arrived; ``Timeouts.close`` by default.
        """
        await self._leave(timeout, drain=True, tell=False)

    async def drain(self, *, timeout: float | None = None) -> None:
        """Wait until every handler is done with what had arrived when this was called.

        Inside a handler, that handler is not waited for.

        Raises:
            TimeoutError: handlers still run after ``timeout``, by default ``Timeouts.drain``.
        """
        async with asyncio.timeout(self._timeouts.drain if timeout is None else timeout):
            await self._drained()

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
        keep = failed and self._durability is not None and self._durability.durable
        await self._leave(None, drain=not failed, tell=not keep)

    # ------------------------------------------------------------------ state

    @property
    def state(self) -> LinkState:
        """Where the link stands now."""
        return self._state

    @property
    def states(self) -> Observable[LinkState]:
        """Every change of `state`, beginning with the present one; completes at the end."""
        return self._states

    def on_state(self, hook: Callable[[LinkState], Awaitable[Any] | Any]) -> Any:
        """Call this function, sync or async, at every change of state; usable as a decorator.

        Calls come one after another; nothing waits for them, so a hook may use the client.
        """
        self._state_hooks.add(hook)
        return hook

    @property
    def session(self) -> SessionInfo:
        """What the last welcome agreed on (§6.2).

        Raises:
            LocalProtocolError: there was none yet.
        """
        if self._session.info is None:
            raise LocalProtocolError("there is no session yet: call connect() first")
        return self._session.info

    @property
    def resumed(self) -> bool:
        """Whether the present link went on with an earlier session."""
        return self._resumed

    def stats(self) -> Stats:
        """Counters since the client was made."""
        session, subject, manager = self._session, self._subject, self._manager
        if self._driver is None:
            return Stats()
        self._driver.flush()
        now = self._driver.now
        since = subject.since()
        return Stats(
            received=subject.published,
            processed=subject.processed,
            queued=self._waiting(),
            spilled=self._intake.spilled if self._intake is not None else 0,
            repeated=session.repeated,
            gaps=session.gaps,
            reconnects=max(manager.links - 1, 0) if manager is not None else 0,
            lag=now - since if since is not None else 0.0,
            last_message=now - session.heard_at if session.heard_at else None,
            last_disconnect=manager.last_failure if manager is not None else None,
        )

    # ------------------------------------------------------------------ for requests

    def _open(self) -> Driver:
        if isinstance(self._state, Closed) or self._closing is not None:
            raise self._closed_error()
        if self._driver is None:
            raise LocalProtocolError("the client is not connected: call connect() first")
        return self._driver

    @property
    def _link(self) -> Link | None:
        return self._manager.link if self._manager is not None else None

    # ------------------------------------------------------------------ effects of the session

    def _tell(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Answered(request, value):
                _resolve(request, value)
            case effects.Refused(request, error):
                _reject(request, error)
            case effects.JobKnown():
                self._job_known(effect)
            case effects.JobGone():
                if self._durability is not None:
                    self._durability.after(partial(self._job_gone, effect))
                else:
                    self._job_gone(effect)
            case effects.Rotated(job_id, name, value):
                self._jobs.record(job_id).rotate(name, value)
            case effects.Opened(_, resumed):
                self._opened(resumed)
            case effects.Ended(cause):
                self._end(cause)
            case effects.Report(message, _):
                _log.warning("%s", message)
            case _:
                raise AssertionError(f"an effect without a place: {effect!r}")

    def _job_known(self, effect: effects.JobKnown) -> None:
        told = effect.job
        record = self._jobs.known(told, mine=effect.mine)
        if effect.mine and not record.over:
            if self._session.jobs.has_ended(told.job_id):
                self._session.wanted(told.job_id, self._open().now)
            request = effect.request
            if self._durability is not None and request is not None:
                payload = hashlib.sha256(memoryview(request.payload)).hexdigest()
                self._durability.opened(
                    OpenJob(told.job_id, record.agent, request.key or "", payload)
                )

    def _job_gone(self, effect: effects.JobGone) -> None:
        self._jobs.record(effect.job_id).lose(lambda: effect.error, status=effect.status)
        self._jobs.forget(effect.job_id)
        if self._durability is not None:
            self._durability.gone(effect.job_id)

    def _opened(self, resumed: bool) -> None:
        assert self._manager is not None
        assert self._acks is not None
        self._manager.opened()
        self._resumed = resumed
        if not resumed:
            self._acks.renewed()
        # Whoever waits for this state runs first, before an event of the replay is delivered: so
        # a handler registered there, or a look at the open jobs, comes in time.
        self._change(Live(resumed))
        if self._durability is not None:
            self._durability.renewed(self._session.session_id or "", fresh=not resumed)

    def _change(self, state: LinkState) -> None:
        if isinstance(self._state, Closed):
            return
        self._state = state
        self._states.on_next(state)
        self._state_hooks.tell(state)
        changes, self._changes = self._changes, []
        for change in changes:
            if not change.done():
                change.set_result(None)

    # ------------------------------------------------------------------ what is processed (S1)

    def _active(self) -> None:
        """The first event after a quiet time."""
        if self._acks is not None:
            self._acks.plan()
        if self._durability is not None:
            self._durability.changed()

    def _safe_mark(self, mark: int) -> int:
        return mark if self._durability is None else min(mark, self._durability.mark)

    async def _kept(self) -> None:
        if self._durability is not None:
            await self._durability.flush()

    def _waiting(self) -> int:
        held = self._durability.held if self._durability is not None else 0
        return self._subject.backlog + held

    def chunk_log(self, job_id: str) -> Log | None:
        """Where the chunks of a job's result outlive the process; ``None`` if nowhere."""
        return self._durability.log_for(job_id) if self._durability is not None else None

    # ------------------------------------------------------------------ the end

    async def _leave(self, timeout: float | None, *, drain: bool, tell: bool) -> None:
        """Close or detach, once; every caller waits until it is done."""
        if self._running is None:
            self._end(None)
            return
        call = calling()
        mine = call.lane.registration if call is not None else None
        if mine is not None:
            # The handler that calls this cannot be waited for, nor cancelled: it waits here.
            self._leaving.add(mine)
        if self._closing is None:
            seconds = self._timeouts.close if timeout is None else timeout
            self._closing = self._owner.spawn(
                self._farewell(seconds, drain=drain, tell=tell), name="close"
            )
        await asyncio.shield(self._closing)
        if mine is not None:
            mine.dispose()

    async def _farewell(self, seconds: float, *, drain: bool, tell: bool) -> None:
        driver, running = self._driver, self._running
        assert running is not None
        if driver is None:  # the store has not answered yet
            self._end(None)
            await cancel_and_wait([running])
            if self._durability is not None:
                await self._durability.close(forget=False)
            return
        if drain:
            try:
                async with asyncio.timeout(seconds):
                    await self._drained()
            except TimeoutError:
                _log.warning(
                    "closed while handlers still ran: %d events were not handled",
                    self._waiting(),
                )
        if not tell:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE):
                    await self._kept()
        if self._acks is not None:
            self._acks.now()
        if tell:
            self._session.close(driver.now)
            driver.carry()
        elif self._link is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE):
                    await self._link.flushed()
        if tell and self._link is not None:  # else there is nobody to tell, nor to wait for
            await asyncio.wait({running}, timeout=max(min(seconds, _GRACE), 0.0))
        await cancel_and_wait([running])
        self._session.end(None)
        driver.carry()
        if self._durability is not None:
            await self._durability.close(forget=tell)

    async def _drained(self) -> None:
        passed = self._durability.passed() if self._durability is not None else None
        if passed is not None:
            await self._pressure.wanted(passed)
        for registration in tuple(self._registrations):
            if registration not in self._leaving:
                reached = [(lane, lane.taken) for lane in registration.lanes]
                await self._waits.lanes(reached, "handlers", but_own=True)
        await self._notifications.drained()

    def _stop(self, cause: ArcpError) -> None:
        """A handler failed for good: what it did not handle must not count as handled."""
        if self._acks is not None:
            self._acks.stop()
        self._session.end(cause)
        if self._driver is not None:
            self._driver.carry()

    def _broke(self, error: BaseException) -> None:
        cause = LinkLost(f"the client failed unexpectedly: {type(error).__name__}: {error}")
        cause.__cause__ = error
        self._session.end(cause)
        if self._driver is not None:
            self._driver.carry()

    def _end(self, cause: ArcpError | None) -> None:
        """The session is over: everybody who waits is told, nothing runs on."""
        if isinstance(self._state, Closed):
            return
        if self._acks is not None:
            self._acks.stop()
        if self._durability is not None:
            self._durability.freeze()
        if self._driver is not None:
            self._driver.stop()
        self._change(Closed(cause))
        for request in self._session.requests:
            _reject(request, self._closed_error())
        self._jobs.close(self._closed_error)
        self._session_tap.end(self._closed_error)
        for registration in tuple(self._registrations):
            if registration not in self._leaving:
                registration.freeze()
        if self._intake is not None:
            self._intake.close()
        self._notifications.end(cause)
        self._states.on_completed()
        self._state_hooks.close()
        self._errors.close()
        self._slow.close()

    def _closed_error(self) -> ArcpError:
        """A new exception for each caller: a shared one would collect their tracebacks."""
        cause = self._state.cause if isinstance(self._state, Closed) else None
        if isinstance(cause, ArcpError):
            error = copy.copy(cause)
            error.__cause__ = cause.__cause__
            return error
        return ClientClosed("the client was closed")


def _connector_for(target: str | Connector) -> Connector:
    if isinstance(target, str):
        return WebSocketConnector(target)
    if isinstance(target, Connector):
        return target
    raise TypeError(
        f"target is a ws:// or wss:// URL, a Connector or a Runtime, not {type(target).__name__}"
    )


def _store_failed(error: Exception) -> ArcpError:
    # Its text may quote what is kept.
    failure = ConnectFailed(f"the store failed: {type(error).__name__}", permanent=True)
    failure.__cause__ = error
    return failure


def _resolve(request: Request, value: Any) -> None:
    answer: asyncio.Future[Any] = request.token
    if not answer.done():
        answer.set_result(value)


def _reject(request: Request, error: ArcpError) -> None:
    answer = request.token
    if isinstance(answer, asyncio.Future) and not answer.done():
        answer.set_exception(error)
