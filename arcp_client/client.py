"""`Client`: connects to a runtime, submits jobs and delivers events.

The parts in ``_client`` do the work, and ``_client.wiring`` joins them.

`_client.event_methods` has the methods that receive events, `_client.command_methods` those that
send commands.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Self

from reactivex import Observable

from arcp_client import _arguments as check
from arcp_client._client.command_methods import CommandMethods
from arcp_client._client.event_methods import EventMethods
from arcp_client._client.wiring import Settings, Wiring
from arcp_client._link.reconnect import TokenSource
from arcp_client.errors import LocalProtocolError
from arcp_client.models import ClientInfo, SessionInfo, Stats
from arcp_client.policy import Buffer, Order, Reconnect, Timeouts
from arcp_client.state import LinkState
from arcp_client.stores.base import CheckpointStore
from arcp_client.transports.base import Connector
from arcp_client.transports.websocket import WebSocketConnector

__all__ = ["Client"]


class Client(EventMethods, CommandMethods):
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
    so that handlers can be registered at import time. Handlers see the context variables of the
    code that registers them (D19). Keep a reference to it: one that is dropped without `close` is
    reported with a ResourceWarning and ended (D20).

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
            ),
        )
        EventMethods.__init__(self, parts.consumers)
        CommandMethods.__init__(self, parts.commands, parts.jobs)
        self._states = parts.states
        self._engine = parts.engine
        self._lifecycle = parts.lifecycle
        self._target = connector.target
        self._timeouts = timeouts

    def __repr__(self) -> str:
        return f"<Client {self._target} {type(self._states.now).__name__}>"

    def __del__(
        self,
        _warn: Callable[..., None] = warnings.warn,
        _log: logging.Logger = logging.getLogger("arcp_client.client"),  # noqa: B008
    ) -> None:
        # There is none if the arguments made no sense.
        lifecycle = getattr(self, "_lifecycle", None)
        if lifecycle is not None and lifecycle.forgotten:
            _warn(f"{self!r} was dropped without close()", ResourceWarning, source=self)
            _log.warning("%r was dropped without close(), which ends it", self)
            lifecycle.abandon()

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
        await self._lifecycle.connect()

    async def connected(self) -> None:
        """Wait until the session is live, whether for the first time or again.

        Raises:
            ArcpError: it has ended; the reason.
        """
        await self._lifecycle.connected()

    async def close(self, *, timeout: float | None = None) -> None:
        """End the session (§6.7). Its jobs run on; see `Job.cancel` to end one.

        Some runtimes end them: `SessionInfo.jobs_run_on` is False there, and a warning names the
        jobs that are open (S21).

        Running handlers may finish what arrived; then the runtime is told, and everything here
        ends. Idempotent, from any task, also inside a handler, which is then not waited for.
        Nothing connects afterwards. With a store, the checkpoint is deleted.

        Args:
            timeout: seconds for all of it, ``Timeouts.close`` by default: handlers, goodbye and
                transport share it. Slow handlers leave a quarter of it, at most one second, to the
                goodbye. A store that does not let go in time is waited for up to a second more.
        """
        check.seconds("timeout", timeout, none=True)
        await self._lifecycle.leave(timeout, drain=True, tell=True)

    async def detach(self, *, timeout: float | None = None) -> None:
        """Drop the link without ending the session, so that it can be resumed within its window.

        With a store, the checkpoint is kept: the next client continues from it. Runtimes that end
        jobs in `close` end them here, too (S21).

        Args:
            timeout: seconds for all of it, shared as in `close`; ``Timeouts.close`` by default.
                With 0 no handler is waited for: with a store, what is not finished comes again.
        """
        check.seconds("timeout", timeout, none=True)
        await self._lifecycle.leave(timeout, drain=timeout != 0, tell=False)

    async def drain(self, *, timeout: float | None = None) -> None:
        """Wait until every handler is done with what had arrived when this was called.

        Inside a handler, that handler is not waited for.

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
        # After an exception nobody is interested in what handlers would still do.
        failed = exc_type is not None
        keep = failed and self._engine.durable
        await self._lifecycle.leave(None, drain=not failed, tell=not keep)

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
        info = self._engine.info
        if info is None:
            raise LocalProtocolError("there is no session yet: call connect() first")
        return info

    @property
    def resumed(self) -> bool:
        """Whether the present link went on with an earlier session."""
        return self._engine.resumed

    def stats(self) -> Stats:
        """Counters since the client was made.

        Raises:
            LocalProtocolError: the client lives in another event loop.
        """
        self._lifecycle.check_loop()
        return self._engine.stats()


def _connector_for(target: str | Connector) -> Connector:
    if isinstance(target, str):
        return WebSocketConnector(target)
    if isinstance(target, Connector):
        return target
    raise TypeError(
        f"target is a ws:// or wss:// URL, a Connector or a Runtime, not {type(target).__name__}"
    )
