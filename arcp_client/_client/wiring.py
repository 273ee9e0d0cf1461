"""Makes the parts of one client, and gives each what it needs of the others.

::

    Client ─┬─ Consumers      handlers, iterators, Observables, and how far each is
            ├─ JobTable       what is known of each job
            ├─ States         how the link stands
            ├─ SessionEngine  the session, the link that carries it, the checkpoint
            ├─ Lifecycle      connect, close, detach
            └─ Commands       submit, watch, list, ping, cancel
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import msgspec
from pydantic import SecretStr

from arcp_client import _arguments as check
from arcp_client._client.commands import Commands
from arcp_client._client.consumers import Consumers
from arcp_client._client.engine import SessionEngine
from arcp_client._client.jobs import JobTable
from arcp_client._client.lifecycle import Lifecycle
from arcp_client._client.states import States
from arcp_client._dialects import DIALECTS, recognise
from arcp_client._jobrecord import JobOwner
from arcp_client._link.reconnect import TokenSource
from arcp_client._protocol.session import Session
from arcp_client._wire import names as wire
from arcp_client.models import ClientInfo
from arcp_client.policy import Buffer, Order, Reconnect, Timeouts
from arcp_client.stores.base import CheckpointStore
from arcp_client.transports.base import Connector
from arcp_client.version import __version__

__all__ = ["Settings", "Wiring"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a client was asked to be; see `Client`.

    Raises:
        TypeError, ValueError: one of them makes no sense; says which.
    """

    token: TokenSource
    info: ClientInfo | None
    features: Iterable[str] | None
    order: Order
    buffer: Buffer
    reconnect: Reconnect
    store: CheckpointStore | None
    key: str
    timeouts: Timeouts
    dialect: str | None
    handler_timeout: float | None

    def __post_init__(self) -> None:
        check.an_instance("info", self.info, ClientInfo, "a ClientInfo", none=True)
        check.an_instance("order", self.order, Order, "Order.SESSION or Order.JOB")
        check.an_instance("buffer", self.buffer, Buffer, "a Buffer")
        check.an_instance("reconnect", self.reconnect, Reconnect, "a Reconnect")
        check.an_instance("timeouts", self.timeouts, Timeouts, "Timeouts")
        check.an_instance("store", self.store, CheckpointStore, "a CheckpointStore", none=True)
        check.a_text("key", self.key)
        check.seconds("handler_timeout", self.handler_timeout, above=True, none=True)
        check.an_instance(
            "token",
            self.token,
            (str, SecretStr, Callable),
            "a string, a SecretStr, or a function that returns one",
            none=True,
            secret=True,
        )
        if callable(self.token):
            check.a_function("token", self.token)
        if self.dialect is not None and self.dialect not in DIALECTS:
            raise ValueError(f"dialect is one of {', '.join(DIALECTS)}")

    def __repr__(self) -> str:  # the token is among them
        return "Settings(…)"

    def new_session(self) -> Callable[..., Session]:
        """What makes the session."""
        chosen = self.features
        return partial(
            Session,
            info=self.info or ClientInfo(name="arcp-client", version=__version__),
            features=wire.FEATURES if chosen is None else check.texts("features", chosen),
            limit=self.buffer.hard,
            recognise=recognise,
            peer=DIALECTS[self.dialect] if self.dialect is not None else None,
            silence=self.timeouts.silence,
        )


class Wiring:
    """The parts of one client.

    What one tells another that is made after it goes through a function that looks it up.

    Args:
        connector: leads to the runtime.
        settings: what the client was asked to be.
    """

    def __init__(self, connector: Connector, settings: Settings) -> None:
        timeouts = settings.timeouts
        self.consumers = Consumers(
            order=settings.order,
            buffer=settings.buffer,
            timeouts=timeouts,
            handler_timeout=settings.handler_timeout,
            asked=lambda: self.engine.asks,
            held=lambda: self.engine.held,
            active=lambda: self.engine.active(),
            check_loop=lambda: self.lifecycle.check_loop(),
            failed=lambda cause: self.engine.stop(cause),
        )
        self.states = States()
        self.jobs = JobTable(self._job_owner())
        self.consumers.route(self.jobs.streams)
        self.engine = SessionEngine(
            settings.new_session(),
            connector,
            token=settings.token,
            buffer=settings.buffer,
            reconnect=settings.reconnect,
            timeouts=timeouts,
            store=settings.store,
            key=settings.key,
            consumers=self.consumers,
            jobs=self.jobs,
            states=self.states,
            ended=lambda cause: self.lifecycle.end(cause),
        )
        self.lifecycle = Lifecycle(
            self.engine,
            consumers=self.consumers,
            jobs=self.jobs,
            states=self.states,
            timeouts=timeouts,
        )
        self.commands = Commands(
            self.engine, lifecycle=self.lifecycle, jobs=self.jobs, timeouts=timeouts
        )

    def _job_owner(self) -> JobOwner:
        consumers = self.consumers
        return JobOwner(
            notifications=consumers.notifications,
            gate=consumers.back_pressure,
            check_loop=lambda: self.lifecycle.check_loop(),
            wait_graph=consumers.wait_graph,
            barriers=consumers.barriers,
            own_call=consumers.own_call,
            chunk_log=lambda job_id: self.engine.chunk_log(job_id),
            exact_sizes=lambda: self.engine.exact_sizes(),
            lossy=lambda: self.engine.lossy(),
            cancel=lambda job_id, reason: self.commands.cancel(job_id, reason),
            unwatch=lambda job_id: self.commands.unwatch(job_id),
        )
