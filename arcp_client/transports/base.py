"""The seam between bytes that move and everything else: whole frames in, whole frames out.

A *Connector* makes a link; a *Transport* is one open link. The client's link layer, the runtime
and the fault injectors of ``arcp_client.testing`` all speak only this.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["Connector", "Transport"]


@runtime_checkable
class Transport(Protocol):
    """One open link that carries whole frames, each one JSON text encoded as UTF-8.

    One task receives, any task may send. A transport never reconnects.
    """

    async def send(self, frame: bytes) -> None:
        """Hand one frame to the link, in call order; waits while the peer takes no more.

        Raises:
            LinkLost: the link has ended.
            LocalProtocolError: the frame is larger than this link carries; the link lives on.
        """

    async def receive(self) -> bytes:
        """The next frame. Safe to cancel: a cancelled call loses no frame.

        Raises:
            LinkLost: the link has ended, with what is known of the reason; again at every call.
            RemoteProtocolError: one frame was dropped (too large, not text); call again.
        """

    async def close(self, *, timeout: float = 5.0) -> None:
        """End the link and free what it holds, within about ``timeout`` seconds. Idempotent."""


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
