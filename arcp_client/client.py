"""The client: where session, link and delivery are put together, and the verbs of users.

A frame goes from the link's reader through the session to the subject in one synchronous step;
from there each consumer takes its own time. See the page "How an event travels" in the docs.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterable
from functools import partial
from typing import Any

from ._dispatch.assembler import Log
from ._link.acks import Acknowledger
from ._link.driver import Driver
from ._link.durability import Durability
from ._link.intake import Intake
from ._link.link import Link
from ._link.reconnect import ReconnectManager, TokenSource
from ._living import Living
from ._protocol import effects
from ._protocol.requests import Request
from ._protocol.session import Session
from ._requesting import reject
from ._wire import dialect as wire
from ._wire.dialect import DIALECTS
from .errors import LocalProtocolError
from .models import Checkpoint, ClientInfo, OpenJob, SessionInfo, Stats
from .policy import Buffer, Order, Reconnect, Timeouts
from .state import Closed, Live
from .stores.base import CheckpointStore
from .transports.base import Connector
from .transports.websocket import WebSocketConnector
from .version import __version__

__all__ = ["Client"]

_log = logging.getLogger("arcp_client.client")


class Client(Living):
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
        self._manager: ReconnectManager | None = None
        self._resumed = False

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
        self._at_home()
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
                reject(request, error)
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

    def _chunk_log(self, job_id: str) -> Log | None:
        return self._durability.log_for(job_id) if self._durability is not None else None


def _connector_for(target: str | Connector) -> Connector:
    if isinstance(target, str):
        return WebSocketConnector(target)
    if isinstance(target, Connector):
        return target
    raise TypeError(
        f"target is a ws:// or wss:// URL, a Connector or a Runtime, not {type(target).__name__}"
    )


def _resolve(request: Request, value: Any) -> None:
    answer: asyncio.Future[Any] = request.token
    if not answer.done():
        answer.set_result(value)
