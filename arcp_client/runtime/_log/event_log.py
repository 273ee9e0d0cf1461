"""The `EventLog` interface, and its implementation in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from arcp_client import _arguments as check
from arcp_client.runtime._log.entries import Entry, Stored

__all__ = ["EventLog", "MemoryEventLog"]

MIB = 1024 * 1024


@runtime_checkable
class EventLog(Protocol):
    """Stores the state that clients may resume."""

    @property
    def max_events(self) -> int:
        """Events kept for one session."""

    @property
    def max_bytes(self) -> int:
        """Bytes of events kept for one session."""

    @property
    def durable(self) -> bool:
        """Whether the log outlives the process. If so, events are stored before they are sent."""

    async def open(self) -> Stored:
        """Open the log; return its content."""

    async def write(self, entries: Sequence[Entry]) -> None:
        """Store entries atomically. If this raises, it is called again with the same entries."""

    async def close(self) -> None:
        """Release its resources. Idempotent."""


class MemoryEventLog:
    """Keeps each session's events in memory, within bounds. Nothing survives the process.

    Events kept for a resume are freed when the client acknowledges them (§6.5), when the session
    ends, and when a bound is exceeded. If a bound is exceeded, the oldest events are freed. A
    resume that needs one of these is refused with RESUME_WINDOW_EXPIRED (§6.3), so no event is
    dropped silently.

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
        """Return an empty content."""
        return Stored()

    async def write(self, entries: Sequence[Entry]) -> None:
        """Does nothing: the runtime itself holds the events."""

    async def close(self) -> None:
        """Does nothing."""
