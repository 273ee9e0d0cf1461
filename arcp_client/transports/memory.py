"""A pair of connected transports inside one event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from arcp_client._budget import ByteBudget
from arcp_client.errors import LinkLost, LocalProtocolError
from arcp_client.transports._ending import again, closed_here
from arcp_client.transports.base import LARGE, MAX_FRAME

__all__ = ["MemoryTransport", "memory_pair"]

_HELD = 8 * 1024 * 1024
"""Bytes that one direction holds; a larger frame is held alone."""


class _Lane:
    """One direction: a bounded queue with one receiver and any number of waiting senders."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.frames: deque[bytes] = deque()
        self.held = ByteBudget(_HELD)
        # Frames that wait because the queue is full, in call order, each with its sender's future.
        self.waiting: deque[tuple[asyncio.Future[None], bytes]] = deque()
        self.receiver: asyncio.Future[None] | None = None

    async def put(self, frame: bytes) -> None:
        if not self.waiting and len(self.frames) < self.capacity and self.held.fits(len(frame)):
            self.held.add(len(frame))
            self.frames.append(frame)
            self.wake()
            return
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((sent, frame))
        await sent

    def put_all(self, frames: Sequence[bytes]) -> bool:
        """Put these frames if there is room for all of them now."""
        size = sum(map(len, frames))
        free = self.capacity - len(self.frames)
        if self.waiting or len(frames) > free or not self.held.fits(size):
            return False
        self.held.add(size)
        self.frames.extend(frames)
        self.wake()
        return True

    def take(self, most: int = 1) -> list[bytes]:
        """Take the next frames, at most so many; one that is large is the last one."""
        taken: list[bytes] = []
        while self.frames and len(taken) < most:
            taken.append(self.frames.popleft())
            if len(taken[-1]) > LARGE:
                break
        self.held.release(sum(map(len, taken)))
        while self.waiting:
            sent, late = self.waiting[0]
            if not sent.done():  # a cancelled sender withdraws its frame
                if len(self.frames) >= self.capacity or not self.held.fits(len(late)):
                    break
                self.held.add(len(late))
                self.frames.append(late)
                sent.set_result(None)
            self.waiting.popleft()
        return taken

    async def arrival(self) -> None:
        self.receiver = asyncio.get_running_loop().create_future()
        try:
            await self.receiver
        finally:
            self.receiver = None

    def wake(self) -> None:
        if self.receiver is not None and not self.receiver.done():
            self.receiver.set_result(None)

    def refuse(self, error: LinkLost) -> None:
        """Stop receiving: waiting senders get an error for their frames."""
        while self.waiting:
            sent, _ = self.waiting.popleft()
            if not sent.done():
                sent.set_exception(again(error))


class MemoryTransport:
    """One end of a `memory_pair`. Behaves like a socket, even when it is closed.

    Frames that were sent before a close still reach the other end, which then gets LinkLost. The
    end that closed gets LinkLost immediately.
    """

    def __init__(self, incoming: _Lane, outgoing: _Lane, *, peer: str, max_frame: int) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._peer = peer
        self._max_frame = max_frame
        self._other: MemoryTransport | None = None
        self._lost: LinkLost | None = None  # sending is closed
        self._closed = False  # receiving is closed too

    def __repr__(self) -> str:
        return f"<MemoryTransport to {self._peer}>"

    async def send(self, frame: bytes) -> None:
        """Pass one frame to the other end, in call order; waits while its queue is full.

        A call that is cancelled while it waits does not send the frame.

        Raises:
            LinkLost: either end closed the link.
            LocalProtocolError: the frame is larger than ``max_frame``.
        """
        if self._lost is not None:
            raise again(self._lost)
        if len(frame) > self._max_frame:
            raise LocalProtocolError(
                f"a frame of {len(frame)} bytes is over this side's limit of"
                f" {self._max_frame} bytes"
            )
        await self._outgoing.put(frame)

    async def send_many(self, frames: Sequence[bytes]) -> None:
        """Pass several frames to the other end, in order; like `send` for each."""
        if (
            self._lost is None
            and max(map(len, frames), default=0) <= self._max_frame
            and self._outgoing.put_all(frames)
        ):
            return
        for frame in frames:
            await self.send(frame)

    async def receive(self) -> bytes:
        """Return the next frame. A cancelled call loses no frame.

        Raises:
            LinkLost: this end closed the link, or the other end did and all its frames were
                received.
        """
        incoming = self._incoming
        while not self._closed:
            if incoming.frames:
                return incoming.take()[0]
            if self._lost is not None:
                break
            if incoming.receiver is not None:
                raise RuntimeError("another task is already inside receive()")
            await incoming.arrival()
        assert self._lost is not None
        raise again(self._lost)

    async def receive_many(self, limit: int) -> list[bytes]:
        """Wait for a frame; return it and those after it that have arrived, up to ``limit``."""
        frames = [await self.receive()]
        if len(frames[0]) <= LARGE:
            frames += self._incoming.take(limit - 1)
        return frames

    async def close(self, *, timeout: float = 5.0) -> None:
        """Close the link. Idempotent, from any task, completes at once; ``timeout`` is not used."""
        if self._closed:
            return
        self._closed = True
        self._lost = self._lost or closed_here(self._peer)
        self._incoming.frames.clear()
        self._incoming.held.clear()
        self._incoming.wake()
        self._outgoing.refuse(self._lost)
        if self._other is not None:
            self._other.peer_closed()

    def peer_closed(self) -> None:
        """Note that the other end has closed. Its frames can still be received; sending fails."""
        if self._lost is None:
            self._lost = LinkLost(f"{self._peer} closed the link")
        self._outgoing.refuse(self._lost)
        self._incoming.wake()

    def join(self, other: MemoryTransport) -> None:
        """Connect the two ends."""
        self._other = other


def memory_pair(
    *, capacity: int = 1024, max_frame: int = MAX_FRAME
) -> tuple[MemoryTransport, MemoryTransport]:
    """Make two connected transports: frames sent by one are received by the other.

    Both must be used in one event loop.

    Args:
        capacity: frames queued in each direction, at most 8 MiB; senders wait while the queue is
            full.
        max_frame: bytes; larger frames are refused.
    """
    if capacity < 1:
        raise ValueError("capacity must be at least 1")
    there, back = _Lane(capacity), _Lane(capacity)
    near = MemoryTransport(back, there, peer="the other end", max_frame=max_frame)
    far = MemoryTransport(there, back, peer="the other end", max_frame=max_frame)
    near.join(far)
    far.join(near)
    return near, far
