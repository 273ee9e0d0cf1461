"""Sends several frames in one write, where a transport supports it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from arcp_client.transports.base import Transport

__all__ = ["Batching", "send_many"]


@runtime_checkable
class Batching(Protocol):
    """Optional interface of a transport that sends several frames at once."""

    async def send_many(self, frames: Sequence[bytes]) -> None:
        """Like `Transport.send` for each frame, in order.

        Raises:
            LinkLost: the link has ended.
            LocalProtocolError: a frame exceeds the limit of this link; the frames before it were
                sent.
        """


async def send_many(transport: Transport, frames: Sequence[bytes]) -> None:
    """Send frames in order, with one write if the transport supports it. Raises like `send`."""
    together = getattr(transport, "send_many", None)  # isinstance(…, Batching) takes far longer
    if len(frames) > 1 and together is not None:
        await together(frames)
    else:
        for frame in frames:
            await transport.send(frame)
