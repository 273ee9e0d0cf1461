"""Connecting, states, and the three ways to leave (S8, S9): the living half of `Client`.

One task takes hold of the checkpoint, runs the reconnect manager and lets go again; another one
says goodbye. Everybody else only waits for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from reactivex import Observable
from reactivex.subject import BehaviorSubject

from ._dispatch.calls import calling
from ._dispatch.hooks import Hooks
from ._dispatch.registration import HandlerRegistration
from ._link.acks import Acknowledger
from ._link.driver import Driver
from ._link.durability import Durability
from ._link.intake import Intake
from ._link.reconnect import ReconnectManager
from ._protocol.session import Session
from ._requesting import Requesting, reject
from ._tasks import TaskOwner, cancel_and_wait
from .errors import ArcpError, ClientClosed, ConnectFailed, LinkLost, LocalProtocolError
from .models import Checkpoint
from .policy import Buffer, Order, Timeouts
from .state import Closed, Connecting, LinkState, Live

__all__ = ["Living"]

_log = logging.getLogger("arcp_client.client")

_GRACE = 1.0


class Living(Requesting):
    """Connecting, states, and the end.

    Args:
        session: see `Requesting`, as all others.
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
            session,
            order=order,
            buffer=buffer,
            timeouts=timeouts,
            handler_timeout=handler_timeout,
            activity=activity,
        )
        self._durability: Durability | None = None
        self._intake: Intake | None = None
        self._acks: Acknowledger | None = None
        self._driver: Driver | None = None
        self._state_hooks: Hooks[LinkState] = Hooks("on_state")
        self._states: BehaviorSubject[LinkState] = BehaviorSubject(Connecting(0))
        self._state: LinkState = Connecting(0)
        self._owner = TaskOwner("arcp_client", on_failure=self._broke)
        self._running: asyncio.Task[None] | None = None
        self._changes: list[asyncio.Future[None]] = []
        self._connecting = 0
        self._handed_over = False
        self._closing: asyncio.Task[None] | None = None
        self._leaving: set[HandlerRegistration] = set()

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
            LocalProtocolError: it lives in another event loop.
        """
        if self._running is None and not isinstance(self._state, Closed):
            self._running = self._owner.spawn(self._run(), name="reconnect")
        running = self._running
        self._at_home()
        self._connecting += 1
        try:
            await self.connected()
        except ArcpError:
            if running is not None and not running.done():
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
        except asyncio.CancelledError:
            self._cut_off()
            raise
        except Exception as error:  # noqa: BLE001  a store of the user's may raise anything
            self._end(error if isinstance(error, ArcpError) else _store_failed(error))
            return
        try:
            await self._assemble(checkpoint).run()
        except asyncio.CancelledError:
            self._cut_off()
            raise
        finally:
            if self._driver is not None:
                self._driver.stop()
            if durability is not None and self._closing is None:
                await durability.close(forget=False)

    def _at_home(self) -> None:
        """Whoever waits in another event loop would not be woken."""
        running = self._running
        if running is None or running.done():
            return
        if running.get_loop() is not asyncio.get_running_loop():
            raise LocalProtocolError("the client lives in another event loop: use it there")

    def _assemble(self, checkpoint: Checkpoint | None) -> ReconnectManager:
        """Put together what keeps the session on a link."""
        raise NotImplementedError

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

    # ------------------------------------------------------------------ the end

    async def _leave(self, timeout: float | None, *, drain: bool, tell: bool) -> None:
        """Close or detach, once; every caller waits until it is done."""
        if self._running is None:
            self._end(None)
            return
        self._at_home()
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
        failed = isinstance(self._state, Closed)  # then this is not what ends the session
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
            await self._durability.close(forget=tell and not failed)

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
        self._fail(cause)

    def _cut_off(self) -> None:
        """The task that keeps the link is cancelled: if nobody here did it, this is the end."""
        if self._closing is None:
            self._fail(LinkLost("the client's task was cancelled from outside"))

    def _fail(self, cause: ArcpError) -> None:
        self._session.end(cause)
        if self._driver is not None:
            self._driver.carry()
        else:
            self._end(cause)

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
            reject(request, self._closed_error())
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


def _store_failed(error: Exception) -> ArcpError:
    # Its text may quote what is kept.
    failure = ConnectFailed(f"the store failed: {type(error).__name__}", permanent=True)
    failure.__cause__ = error
    return failure
