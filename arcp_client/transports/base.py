"""The interface of transports, which send and receive whole frames.

A *Connector* opens a link; a *Transport* is one open link. The link layer of the client, the
runtime and the fault injectors of ``arcp_client.testing`` use only this interface.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from arcp_client.errors import LinkLost

__all__ = [
    "LARGE",
    "MAX_FRAME",
    "BoundedCloser",
    "Connector",
    "ErrorOutput",
    "FrameRefused",
    "ImmediateSender",
    "LineTransport",
    "ManyReceiver",
    "Transport",
    "stderr_of",
]

MAX_FRAME = 16 * 1024 * 1024
"""Default limit for a frame, in bytes."""


LARGE = 64 * 1024
"""Size in bytes from which a frame makes a reader check the backlog of its consumers immediately.
"""


class FrameRefused(LinkLost):
    """The peer closed the link because a frame from this side exceeded its limit."""


@runtime_checkable
class Transport(Protocol):
    """One open link that carries whole frames, each one JSON text encoded as UTF-8.

    One task receives, any task may send or close. A transport never reconnects.
    """

    async def send(self, frame: bytes) -> None:
        """Pass one frame to the link, in call order; waits while the peer does not read.

        A return does not mean that the frame has arrived. A call that is cancelled while it waits
        may still send the frame; other senders and the receiver are not affected.

        Raises:
            LinkLost: the link has ended. Frames that arrived before can still be received.
            LocalProtocolError: the frame exceeds the limit of this link; the link stays open.
        """

    async def receive(self) -> bytes:
        """Return the next frame. Safe to cancel: a cancelled call loses no frame.

        Frames that arrived before the link ended are received first. Calls may return without
        suspending, any number of times in a row.

        Raises:
            LinkLost: the link has ended; carries the known reason; raised again by every later
                call.
            RemoteProtocolError: one frame was dropped (too large or not text); call again.
        """

    async def close(self, *, timeout: float = 5.0) -> None:
        """Close the link and release its resources, within about ``timeout`` seconds.

        Required after LinkLost as well. Idempotent. A cancelled call closes the link without
        waiting for the peer. Afterwards `send` and `receive` raise LinkLost.
        """


@runtime_checkable
class ManyReceiver(Protocol):
    """Optional interface of a transport that can return several frames in one call."""

    async def receive_many(self, limit: int) -> list[bytes]:
        """Wait for a frame; return it and the frames after it that have arrived, in order.

        Args:
            limit: how many frames to return at most; a frame larger than `LARGE` is the last one.

        Raises:
            LinkLost, RemoteProtocolError: as `Transport.receive`, instead of any frame.
        """


@runtime_checkable
class ImmediateSender(Protocol):
    """Optional interface of a transport that can send a frame without suspending its caller."""

    def send_now(self, frame: bytes) -> bool:
        """Send a frame if the link takes it at once; otherwise return False, and call `send`.

        A frame that `send` would refuse is left to `send`, too. Never raises.
        """


@runtime_checkable
class BoundedCloser(Protocol):
    """Optional interface of a transport whose ``close`` ends by itself, whatever the peer does.

    Its owner need not watch the call from another task.
    """

    @property
    def close_is_bounded(self) -> bool:
        """Whether ``close`` takes at most a few seconds more than its timeout."""


@runtime_checkable
class LineTransport(Protocol):
    """Optional interface of a transport that states whether it sends each frame as a line.

    Some runtimes read only short lines; a client uses this to refuse frames that they could not
    read.
    """

    @property
    def lines(self) -> bool:
        """Whether frames are lines of text, as over pipes, instead of messages."""


@runtime_checkable
class ErrorOutput(Protocol):
    """Optional interface of a transport to a process with an error output."""

    @property
    def stderr(self) -> str:
        """Return the last part of the error output so far."""


def stderr_of(transport: Transport) -> str:
    """Return the last part of the peer's standard error, if it has one."""
    return transport.stderr if isinstance(transport, ErrorOutput) else ""


@runtime_checkable
class Connector(Protocol):
    """Opens links to one peer, any number of times. A ``Runtime`` satisfies it structurally."""

    @property
    def target(self) -> str:
        """The name of the peer in messages and checkpoints, without secrets."""

    async def connect(self) -> Transport:
        """Open a new link.

        Raises:
            ConnectFailed: the link cannot be opened; with ``permanent=True`` if a retry cannot
                help.
        """
