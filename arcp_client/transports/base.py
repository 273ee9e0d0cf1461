"""The interface of transports, which send and receive whole frames.

A *Connector* opens a link; a *Transport* is one open link. The link layer of the client, the
runtime and the fault injectors of ``arcp_client.testing`` use only this interface.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from arcp_client.errors import LinkLost

__all__ = [
    "LARGE",
    "MAX_FRAME",
    "Connector",
    "ErrorOutput",
    "FrameRefused",
    "LineTransport",
    "ManyReceiver",
    "Transport",
    "stderr_of",
]

MAX_FRAME = 16 * 1024 * 1024
"""The largest frame, in bytes, that a transport carries unless it is told otherwise."""


LARGE = 64 * 1024
"""Bytes of a frame after which a reader looks at once how much its consumers have to do."""


class FrameRefused(LinkLost):
    """The peer closed the link for a frame from this side that is longer than it takes."""


@runtime_checkable
class Transport(Protocol):
    """One open link that carries whole frames, each one JSON text encoded as UTF-8.

    One task receives, any task may send or close. A transport never reconnects.
    """

    async def send(self, frame: bytes) -> None:
        """Hand one frame to the link, in call order; waits while the peer takes no more.

        That it returns does not mean that the frame has arrived. If it is cancelled while it
        waits, the frame may still go out; other senders and the receiver are not disturbed.

        Raises:
            LinkLost: the link has ended. What arrived before can still be received.
            LocalProtocolError: the frame is larger than this link carries; the link lives on.
        """

    async def receive(self) -> bytes:
        """The next frame. Safe to cancel: a cancelled call loses no frame.

        What arrived before the peer closed or was lost is received first. It may return without
        suspending, any number of times in a row.

        Raises:
            LinkLost: the link has ended, with what is known of the reason; again at every call.
            RemoteProtocolError: one frame was dropped (too large, not text); call again.
        """

    async def close(self, *, timeout: float = 5.0) -> None:
        """End the link and free what it holds, within about ``timeout`` seconds.

        Needed after LinkLost as well. Idempotent; a cancelled call ends the link without waiting
        for the peer. Afterwards `send` and `receive` raise LinkLost.
        """


@runtime_checkable
class ManyReceiver(Protocol):
    """A transport that can give several frames for one call; no transport needs to."""

    async def receive_many(self, take: Callable[[bytes], object], limit: int) -> None:
        """As ``receive`` up to ``limit`` times; returns after a frame larger than `LARGE`."""


@runtime_checkable
class LineTransport(Protocol):
    """A transport that says whether it sends each frame as a line; no transport needs to.

    Some runtimes read only short lines, so a client that knows refuses what they could not read.
    """

    @property
    def lines(self) -> bool:
        """Whether frames are lines of text, as over pipes, rather than messages."""


@runtime_checkable
class ErrorOutput(Protocol):
    """A transport to a process that says on the side what is wrong; no transport needs to."""

    @property
    def stderr(self) -> str:
        """The last of it so far."""


def stderr_of(transport: Transport) -> str:
    """The last that the peer wrote to its standard error, if it has one."""
    return transport.stderr if isinstance(transport, ErrorOutput) else ""


@runtime_checkable
class Connector(Protocol):
    """Makes links to one peer, as often as asked. An embedded ``Runtime`` is one, structurally."""

    @property
    def target(self) -> str:
        """Who is connected to, without secrets: names the peer in messages and checkpoints."""

    async def connect(self) -> Transport:
        """Open a new link.

        Raises:
            ConnectFailed: with ``permanent=True`` where another try cannot help.
        """
