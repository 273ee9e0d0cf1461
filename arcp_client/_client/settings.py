"""Checks and holds the arguments of a client."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from pydantic import SecretStr

from arcp_client import _arguments as check
from arcp_client._dialects import DIALECTS, recognise
from arcp_client._link.reconnect import TokenSource
from arcp_client._protocol.session import Session
from arcp_client._telemetry import Telemetry
from arcp_client._wire import names as wire
from arcp_client.models import Checkpoint, ClientInfo
from arcp_client.policy import Buffer, Order, Reconnect, Timeouts
from arcp_client.stores.base import CheckpointStore
from arcp_client.version import __version__

__all__ = ["Settings"]

_THIS = ClientInfo(name="arcp-client", version=__version__)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of a client, checked; see `Client`.

    Raises:
        TypeError, ValueError: an argument is not valid; the error names it.
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
    telemetry: Telemetry | None

    def __post_init__(self) -> None:
        check.an_instance("info", self.info, ClientInfo, "a ClientInfo", none=True)
        check.an_instance("order", self.order, Order, "Order.SESSION or Order.JOB")
        check.an_instance("buffer", self.buffer, Buffer, "a Buffer")
        check.an_instance("reconnect", self.reconnect, Reconnect, "a Reconnect")
        check.an_instance("timeouts", self.timeouts, Timeouts, "Timeouts")
        check.an_instance("store", self.store, CheckpointStore, "a CheckpointStore", none=True)
        check.a_text("key", self.key)
        check.an_instance(
            "telemetry",
            self.telemetry,
            Telemetry,
            "an OpenTelemetry of arcp_client.otel",
            none=True,
        )
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
            raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}")
        if self.features is not None:  # an iterator is read once
            features = check.texts("features", self.features)
            msgspec.structs.force_setattr(self, "features", features)

    def __repr__(self) -> str:  # without the token
        return "Settings(…)"

    def new_session(self, checkpoint: Checkpoint | None = None) -> Session:
        """Make a session; with a checkpoint, one that resumes the session of an earlier client."""
        return Session(
            info=self.info or _THIS,
            features=wire.OFFERED if self.features is None else tuple(self.features),
            checkpoint=checkpoint,
            limit=self.buffer.hard,
            recognise=recognise,
            peer=DIALECTS[self.dialect] if self.dialect is not None else None,
            silence=self.timeouts.silence,
        )
