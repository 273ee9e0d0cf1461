"""A connector whose frames can be changed, one by one, while a link is up."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any

from arcp_client.transports.base import Connector, Transport

Change = Callable[[bytes], list[bytes]]


def unchanged(frame: bytes) -> list[bytes]:
    return [frame]


def kind_of(frame: bytes) -> str:
    return str(json.loads(frame)["type"])


class Tamper:
    """Puts itself between a connector and who uses it.

    Attributes:
        incoming: what becomes of each frame that is received.
        outgoing: what becomes of each frame that is sent.
        links: how many were made.
        sent: how many frames of each kind went out.
        changed: called when one goes out.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self.incoming: Change = unchanged
        self.outgoing: Change = unchanged
        self.links = 0
        self.sent: dict[str, int] = {}
        self.changed: Callable[[], None] = lambda: None

    @property
    def target(self) -> str:
        return self._connector.target

    async def connect(self) -> Transport:
        transport: Any = _Tampered(await self._connector.connect(), self)
        self.links += 1
        return transport  # type: ignore[no-any-return]


class _Tampered:
    def __init__(self, transport: Transport, tamper: Tamper) -> None:
        self._transport = transport
        self._tamper = tamper
        self._ready: deque[bytes] = deque()

    async def send(self, frame: bytes) -> None:
        for changed in self._tamper.outgoing(frame):
            kind = kind_of(changed)
            self._tamper.sent[kind] = self._tamper.sent.get(kind, 0) + 1
            self._tamper.changed()
            await self._transport.send(changed)

    async def receive(self) -> bytes:
        while not self._ready:
            self._ready.extend(self._tamper.incoming(await self._transport.receive()))
        return self._ready.popleft()

    async def close(self, *, timeout: float = 5.0) -> None:
        await self._transport.close(timeout=timeout)
