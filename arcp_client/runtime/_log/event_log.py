"""The `EventLog` interface, and the one that keeps nothing beyond the process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from arcp_client import _arguments as check
from arcp_client.runtime._log.entries import Entry, Stored

__all__ = ["EventLog", "MemoryEventLog"]

MIB = 1024 * 1024


@runtime_checkable
class EventLog(Protocol):
    """Where a runtime keeps what a client may come back for."""

    @property
    def max_events(self) -> int:
        """Events kept for one session."""

    @property
    def max_bytes(self) -> int:
        """Bytes of events kept for one session."""

    @property
    def durable(self) -> bool:
        """It outlives the process. Then nothing is sent before `write` has returned for it."""

    async def open(self) -> Stored:
        """Make it ready; what it kept."""

    async def write(self, entries: Sequence[Entry]) -> None:
        """Keep entries, all or none; called again with the same ones if it raised."""

    async def close(self) -> None:
        """Free what it holds. Idempotent."""


class MemoryEventLog:
    """Keeps each session's events in memory, within bounds. Nothing survives the process.

    What a session must hold for a resume is freed when its client acknowledges it (§6.5), when
    the session ends, and where a bound forces it: then the oldest go, and a resume that needs one
    of them is refused with RESUME_WINDOW_EXPIRED (§6.3), never cut short in silence.

    Args:
        max_events: events kept for one session.
        max_bytes: bytes of events kept for one session.
    """

    def __init__(self, *, max_events: int = 100_000, max_bytes: int = 64 * MIB) -> None:
        check.a_number("max_events", max_events, least=1)
        check.a_number("max_bytes", max_bytes, least=1)
        self.max_events = max_events
        self.max_bytes = max_bytes

    durable = False

    async def open(self) -> Stored:
        """Nothing was kept."""
        return Stored()

    async def write(self, entries: Sequence[Entry]) -> None:
        """Nothing is kept but what the runtime holds itself."""

    async def close(self) -> None:
        """Nothing is to be freed."""
