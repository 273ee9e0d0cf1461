"""A connector whose peer sends numbers digit by digit, and that keeps the bytes sent to it."""

from __future__ import annotations

import re

from arcp_client.transports import Connector, Transport

NUMBERS = (
    "9007199254740993",
    "12345678901234567.89",
    "12345678901234567890",
    "-0",
    "1.50",
    "1e22",
    "0.1000000000000000055511151231257827",
)
"""Numbers that a double, or what is written for it, would change."""
MORE_NUMBERS = (*NUMBERS, "12345678901234567890.5", "1e+22", "5E-324", "0.0", "-0.0")


def digits(text: str) -> str:
    """What a script has in place of a number: on the wire it is the number itself."""
    return f"@{text}@"


class ExactConnector:
    """Takes a peer's ``"@1.50@"`` for ``1.50``.

    Attributes:
        sent: the frames of the client.
        received: the frames of the peer, with its numbers.
    """

    def __init__(self, peer: Connector) -> None:
        self._peer = peer
        self.sent: list[bytes] = []
        self.received: list[bytes] = []

    @property
    def target(self) -> str:
        return self._peer.target

    async def connect(self) -> Transport:
        return _ExactTransport(await self._peer.connect(), self.sent, self.received)


class _ExactTransport:
    def __init__(self, transport: Transport, sent: list[bytes], received: list[bytes]) -> None:
        self._transport = transport
        self._sent = sent
        self._received = received

    async def send(self, frame: bytes) -> None:
        self._sent.append(frame)
        await self._transport.send(frame)

    async def receive(self) -> bytes:
        frame = re.sub(rb'"@([^"@]*)@"', rb"\1", await self._transport.receive())
        self._received.append(frame)
        return frame

    async def close(self, *, timeout: float = 5.0) -> None:
        await self._transport.close(timeout=timeout)
