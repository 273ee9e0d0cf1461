"""What was read in, effects out: whom a connection turns to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from arcp_client._wire.codec import ControlFrame
from arcp_client.runtime.session import Session

if TYPE_CHECKING:
    from arcp_client.runtime.connection import Connection

__all__ = ["Desk"]


class Desk(Protocol):
    """What a connection turns to with what it reads."""

    @property
    def handshake_timeout(self) -> float:
        """Seconds until a connection that did not authenticate is closed."""

    @property
    def outbox_bytes(self) -> int:
        """Bytes of unnumbered frames that may wait for a client to take them."""

    @property
    def heartbeat_interval(self) -> float | None:
        """Seconds, ``None`` if this runtime does not use heartbeats."""

    async def greet(self, connection: Connection, frame: ControlFrame) -> bool:
        """Open or resume a session for a first frame; False if the client may try again."""

    def handle(self, connection: Connection, session: Session, frame: ControlFrame) -> None:
        """Act on a frame of an open session; raises RequestError for one that is refused."""

    async def answered(self) -> None:
        """Wait until every request that was read has its answer queued."""

    def left(self, connection: Connection, session: Session) -> None:
        """The connection of a session has ended."""
