"""Limits the connections of a server: their number, and the bytes and time until a request.

The runtime's WebSocket server and the dashboard use this module, through `_listener`. aiohttp
accepts any number of connections, and waits without a limit for the first request of each. So
clients that send incomplete requests could occupy all file descriptors of the process.

A new connection is *opening* until its first complete request (dashboard) or until the welcome
(runtime). The number, bytes and time of opening connections are limited, and a new one may replace
a stalled one.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from arcp_client._security import client_address

if sys.platform != "win32":
    import resource

__all__ = ["ConnectionLimits", "ConnectionTable", "LimitedProtocol", "limited"]

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)
_TOO_BIG = b"\x88\x02\x03\xf1"
"""A WebSocket close frame with code 1009."""
_GOODBYE = 1.0

FRESH = 2.0
"""Age in seconds from which an opening connection counts as stalled and may be replaced.

A handshake takes milliseconds, or about a second if a thousand clients connect at once. So a burst
of clients is admitted.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits on the connections of a server.

    Attributes:
        total: connections at a time. At the limit, a further connection replaces an opening one, of
            the address that has most opening connections; if there is none, it is answered with
            HTTP 503.
        per_address: connections of one client address at a time.
        opening: opening connections at a time. At the limit, a further connection replaces the
            oldest opening one of the address that has most. If that one is younger than two
            seconds, it stays, and only ``total`` and ``per_address`` apply.
        opening_per_address: opening connections of one address at a time, by the same rule.
        opening_bytes: bytes that an opening connection may send before its request is complete, and
            again between a WebSocket's upgrade and its welcome.
        request_timeout: seconds within which the first request must be complete.
    """

    total: int = 1024
    per_address: int = 1024
    opening: int = 512
    opening_per_address: int = 256
    opening_bytes: int = 64 * 1024
    request_timeout: float = 30.0

    def within_descriptors(self) -> ConnectionLimits:
        """These limits, lowered so that file descriptors remain for the rest of the process."""
        most = descriptors()
        if most is None:
            return self
        total, opening = max(16, most * 3 // 4), max(8, most // 4)
        return ConnectionLimits(
            total=min(self.total, total),
            per_address=min(self.per_address, total),
            opening=min(self.opening, opening),
            opening_per_address=min(self.opening_per_address, opening),
            opening_bytes=self.opening_bytes,
            request_timeout=self.request_timeout,
        )


def descriptors() -> int | None:
    """The number of file descriptors that the process may open; ``None`` without a limit."""
    if sys.platform == "win32":
        return None
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if most == resource.RLIM_INFINITY else most


class _ConnectionSlot:
    __slots__ = ("address", "drop", "ended", "since")

    def __init__(self, address: str, drop: Callable[[], None], since: float) -> None:
        self.address = address
        self.drop = drop
        self.since = since
        self.ended = False


class ConnectionTable:
    """Counts the connections of a server, in total and by address.

    Args:
        limits: the limits to enforce.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._total = 0
        self._of: Counter[str] = Counter()
        self._opening: dict[str, dict[_ConnectionSlot, None]] = {}
        self._opening_total = 0

    def __len__(self) -> int:
        return self._total

    @property
    def opening(self) -> int:
        """The number of opening connections."""
        return self._opening_total

    def admit(
        self, address: str, drop: Callable[[], None], *, now: float
    ) -> _ConnectionSlot | None:
        """Count an opening connection; return its slot, or ``None`` if the limits allow none.

        Args:
            address: the address of its client.
            drop: closes the connection at once; called when another one needs its slot.
            now: the loop's time.
        """
        limits = self.limits
        while len(self._opening.get(address, ())) >= limits.opening_per_address:
            if not self._drop(address, now):
                break
        while self._opening_total >= limits.opening:
            if not self._drop(self._busiest(), now):
                break
        if self._of[address] >= limits.per_address:
            self._drop(address, now)
        if self._total >= limits.total and self._opening_total:
            busiest = self._busiest()
            # One address cannot displace another one, however fast it connects.
            self._drop(busiest, now, fresh=busiest != address)
        if self._total >= limits.total or self._of[address] >= limits.per_address:
            if not self._of[address]:
                del self._of[address]
            return None
        slot = _ConnectionSlot(address, drop, now)
        self._total += 1
        self._of[address] += 1
        self._opening.setdefault(address, {})[slot] = None
        self._opening_total += 1
        return slot

    def settled(self, slot: _ConnectionSlot) -> None:
        """Keep the slot beyond the opening, because the client of the connection is known."""
        theirs = self._opening.get(slot.address)
        if theirs is not None and slot in theirs:
            del theirs[slot]
            self._opening_total -= 1
            if not theirs:
                del self._opening[slot.address]

    def ended(self, slot: _ConnectionSlot) -> None:
        """Free the slot of a connection that has ended. Idempotent."""
        if slot.ended:
            return
        slot.ended = True
        self.settled(slot)
        self._total -= 1
        self._of[slot.address] -= 1
        if not self._of[slot.address]:
            del self._of[slot.address]

    def _busiest(self) -> str:
        return max(self._opening, key=lambda address: len(self._opening[address]))

    def _drop(self, address: str, now: float, *, fresh: bool = False) -> bool:
        """Drop the oldest opening connection of an address; False if none may be dropped.

        Args:
            address: the address.
            now: the loop's time.
            fresh: whether a connection that is not stalled may be dropped too.
        """
        slot = next(iter(self._opening.get(address, ())), None)
        if slot is None or not (fresh or now - slot.since >= FRESH):
            return False
        self.ended(slot)
        slot.drop()
        return True


class LimitedProtocol(asyncio.Protocol):
    """Wraps the HTTP protocol of a connection and enforces the limits.

    Args:
        table: counts the connection.
        make: makes the HTTP protocol.
        secure: starts TLS on the connection after it has been counted; ``None`` for plain HTTP.
    """

    def __init__(
        self,
        table: ConnectionTable,
        make: Callable[[], asyncio.Protocol],
        secure: Callable[[asyncio.Transport, LimitedProtocol], None] | None = None,
    ) -> None:
        self._table = table
        self._make = make
        self._secure = secure
        self._early: list[bytes] = []
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.Transport | None = None
        self._slot: _ConnectionSlot | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._room = table.limits.opening_bytes
        self._opening = True
        self._refused = False
        self._upgraded = False

    def __repr__(self) -> str:
        return f"<LimitedProtocol {self._inner!r}>"

    # ------------------------------------------------------------------ called by the server

    def upgrade(self) -> bool:
        """Count a complete request that becomes a WebSocket. False if the limits do not allow it.

        The request timeout ends here, because the WebSocket has a deadline of its own.
        """
        if self._slot is None or self._slot.ended:
            return False
        self._upgraded = True
        self._room = self._table.limits.opening_bytes
        self._stop_timer()
        return True

    def settle(self) -> None:
        """Lift the limits of opening connections, because the client is known. Idempotent."""
        self._opening = False
        self._stop_timer()
        if self._slot is not None:
            self._table.settled(self._slot)

    def adopt(self, transport: asyncio.Transport) -> None:
        """Wrap the protocol of a connection that another server accepted."""
        self._inner = transport.get_protocol()  # type: ignore[assignment]
        self._transport = transport
        self._slot = self._admitted(transport)
        if self._slot is not None:
            transport.set_protocol(self)

    def _admitted(self, transport: asyncio.BaseTransport) -> _ConnectionSlot | None:
        now = asyncio.get_running_loop().time()
        return self._table.admit(client_address(transport), self._drop, now=now)

    # ------------------------------------------------------------------ called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection, or answer that there are too many."""
        self._transport = writing = cast(asyncio.Transport, transport)
        self._slot = self._admitted(transport)
        if self._slot is None:
            writing.write(_FULL)
            writing.close()
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._table.limits.request_timeout, self._drop)
        if self._secure is None:
            self.begin(writing)
        else:
            writing.pause_reading()
            self._secure(writing, self)

    def begin(self, transport: asyncio.Transport) -> None:
        """Pass the connection to the HTTP protocol, after the TLS handshake if there is one."""
        self._transport = transport
        self._inner = inner = self._make()
        inner.connection_made(transport)
        early, self._early = self._early, []
        for data in early:
            inner.data_received(data)

    def pass_early(self) -> None:
        """Pass on, to TLS, data that was received before TLS began.

        There may be such data, because uvloop reads although `connection_made` has paused the
        transport.
        """
        assert self._transport is not None
        early, self._early = b"".join(self._early), []
        self._room += len(early)
        while early:
            tls = cast(asyncio.BufferedProtocol, self._transport.get_protocol())
            buffer = memoryview(tls.get_buffer(len(early)))
            size = min(len(buffer), len(early))
            buffer[:size] = early[:size]
            tls.buffer_updated(size)
            early = early[size:]

    def data_received(self, data: bytes) -> None:
        """Pass data on to the HTTP protocol, within ``opening_bytes``."""
        if self._opening:
            if self._refused:
                return
            self._room -= len(data)
            if self._room < 0:
                self._refuse()
                return
        if self._inner is not None:
            self._inner.data_received(data)
        else:  # before TLS begins, or together with the end of its handshake
            self._early.append(data)

    def eof_received(self) -> bool | None:
        """Tell the HTTP protocol that the client sends no more."""
        return None if self._inner is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        """Tell the HTTP protocol to stop writing."""
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Tell the HTTP protocol to write again."""
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the slot."""
        self._stop_timer()
        self._early.clear()
        if self._slot is not None:
            self._table.ended(self._slot)
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.connection_lost(exc)

    # ------------------------------------------------------------------ closing the connection

    def _refuse(self) -> None:
        """Answer that the client sent too much, then discard input until it disconnects.

        Closing a connection with unread data resets it, and the answer would be lost.
        """
        assert self._transport is not None
        self._refused = True
        self._transport.write(_TOO_BIG if self._upgraded else _TOO_LARGE)
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(_GOODBYE, self._drop)

    def _drop(self) -> None:
        self._stop_timer()
        if self._transport is not None:
            self._transport.abort()

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


def limited(transport: asyncio.BaseTransport | None, table: ConnectionTable) -> LimitedProtocol:
    """The `LimitedProtocol` of a connection; a new one if another server accepted it."""
    made = LimitedProtocol(table, asyncio.Protocol)
    if transport is None:  # the connection was lost meanwhile
        return made
    # No isinstance: the transports of uvloop are not subclasses of asyncio's.
    stream = cast(asyncio.Transport, transport)
    protocol = stream.get_protocol()
    if isinstance(protocol, LimitedProtocol):
        return protocol
    made.adopt(stream)
    return made
