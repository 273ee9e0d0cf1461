"""Sends several frames in one write, where a transport supports it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from arcp_client.transports.base import Transport

__all__ = ["Batching", "send_many"]


@runtime_checkable
class Batching(Protocol):
    """A transport that takes several frames at once."""

    async def send_many(self, frames: Sequence[bytes]) -> None:
        """Like `Transport.send` for each of the frames, in their order.

        Raises:
            LinkLost: the link has ended.
            LocalProtocolError: a frame is larger than this link carries; those before it were sent.
        """


async def send_many(transport: Transport, frames: Sequence[bytes]) -> None:
    """Send frames in their order, at once if the transport can do that; raises as `send` does."""
    if len(frames) > 1 and isinstance(transport, Batching):
        await transport.send_many(frames)
    else:
        for frame in frames:
            await transport.send(frame)
