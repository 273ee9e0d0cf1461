"""One link of a scripted runtime: sends frames in order, delays some, and reads requests."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Any

from arcp_client.errors import LinkLost
from arcp_client.testing._played import Frame
from arcp_client.transports.base import Transport

__all__ = ["ScriptedLink"]


class ScriptedLink:
    """One link of a scripted runtime. Subclasses handle the received frames.

    Args:
        transport: the link.
        note: called for every frame, with ``heard`` or ``said``.
    """

    def __init__(self, transport: Transport, note: Callable[[str, Any], None]) -> None:
        self._transport = transport
        self._note = note
        self._out: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._held: list[tuple[int, Callable[[], None]]] = []
        self._over = False

    def _take(self, frame: Frame) -> None:
        """Handle a received frame."""
        raise NotImplementedError

    def _left(self) -> None:
        """Handle the end of the link."""
        raise NotImplementedError

    async def read(self) -> None:
        """Receive frames until the link ends."""
        try:
            while True:
                frame = json.loads(await self._transport.receive())
                if not self._over:
                    self._note("heard", frame)
                    self._take(frame)
        except LinkLost:
            self._leave()

    async def write(self) -> None:
        """Send queued frames until the link ends."""
        try:
            while self._out or not self._over:
                while self._out:
                    await self._transport.send(self._out.popleft())
                self._news.clear()
                if not self._over:
                    await self._news.wait()
        except LinkLost:
            self._leave()
        finally:
            await self._transport.close()

    def send(self, frame: Frame | bytes) -> None:
        """Queue a frame."""
        if self._over:
            return
        self._note("said", frame)
        self._out.append(frame if isinstance(frame, bytes) else json.dumps(frame).encode())
        self._news.set()
        held, self._held = self._held, []
        self._held = [(left - 1, send) for left, send in held if left > 1]
        for left, send in held:
            if left <= 1:
                send()

    def later(self, by: int, send: Callable[[], None]) -> None:
        """Call ``send`` once ``by`` further frames have been queued."""
        self._held.append((by, send))

    def drop(self) -> None:
        """End the link. Queued frames are still sent."""
        self._leave()

    def _leave(self) -> None:
        if not self._over:
            self._over = True
            self._news.set()
            self._left()
