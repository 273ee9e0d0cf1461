"""Events in, numbered and kept; any number still held, out: the log *is* the queue of a session.

A connection has no queue of events of its own: its writer walks the log. So the order on the wire
is the order of the numbers, on the first connection as on any later one, and a slow connection
costs no memory beyond the log's bounds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Protocol, runtime_checkable

from arcp_client import _arguments as check
from arcp_client._wire.stamp import Record
from arcp_client.runtime.entries import Entry, Stored

__all__ = ["EventLog", "History", "MemoryEventLog", "SessionLog"]

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


class SessionLog:
    """The numbered events of one session (§8.3): gap-free from ``floor + 1`` to ``last``.

    Attributes:
        floor: the highest number that is no longer held.
        last: the highest number given.
        settled: the highest number that may be sent.
    """

    def __init__(self, max_events: int, max_bytes: int) -> None:
        self.floor = 0
        self.last = 0
        self.settled = 0
        self._records: deque[Record] = deque()
        self._bytes = 0
        self._max_events = max_events
        self._max_bytes = max_bytes

    def append(self, record: Record) -> int:
        """Give the next number. Evicts the oldest events where the bounds ask for it."""
        self._records.append(record)
        self._bytes += record.size
        self.last += 1
        while len(self._records) > self._max_events or (
            self._bytes > self._max_bytes and len(self._records) > 1
        ):
            self._drop()
        return self.last

    def __getitem__(self, seq: int) -> Record:
        """The event of a number in ``floor + 1 … last``."""
        if seq <= self.floor:
            raise KeyError(seq)
        return self._records[seq - self.floor - 1]

    def __len__(self) -> int:
        return len(self._records)

    @property
    def oldest(self) -> float:
        """When the oldest event that is held was emitted. Not for an empty log."""
        return self._records[0].at

    def restore(self, floor: int) -> None:
        """Start an empty log above a number."""
        self._records.clear()
        self._bytes = 0
        self.floor = self.last = self.settled = floor

    def free(self, upto: int) -> None:
        """Forget what the client has acknowledged."""
        while self.floor < upto and self._records:
            self._drop()

    def free_older(self, moment: float, upto: int) -> None:
        """Forget what was emitted before a moment, as far as ``upto``."""
        while self.floor < upto and self._records[0].at < moment:
            self._drop()

    def bytes_after(self, seq: int) -> int:
        """Bytes of all events above a number."""
        skip = max(seq - self.floor, 0)
        return sum(record.size for record in islice(self._records, skip, None))

    def _drop(self) -> None:
        self._bytes -= self._records.popleft().size
        self.floor += 1


class History:
    """One job's events for its subscribers, by index from 0, the oldest evicted beyond bounds.

    Each is kept with its number in the submitting session, which `job.subscribe` counts in.
    """

    def __init__(self, max_events: int, max_bytes: int) -> None:
        self.floor = 0
        self.bytes = 0
        self._items: deque[tuple[int, Record]] = deque()
        self._max_events = max_events
        self._max_bytes = max_bytes

    @property
    def end(self) -> int:
        """The index of the next event."""
        return self.floor + len(self._items)

    def append(self, seq: int, record: Record) -> None:
        """Add an event and its number in the submitter's space."""
        self._items.append((seq, record))
        self.bytes += record.size
        while len(self._items) > self._max_events or (
            self.bytes > self._max_bytes and len(self._items) > 1
        ):
            _, gone = self._items.popleft()
            self.bytes -= gone.size
            self.floor += 1

    def restore(self, index: int, seq: int, record: Record) -> None:
        """Add an event that was stored; the first one says where the history starts."""
        if not self._items:
            self.floor = index
        if index == self.end:
            self.append(seq, record)

    def __getitem__(self, index: int) -> Record:
        return self._items[index - self.floor][1]

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        return iter(self._items)

    def after(self, seq: int) -> int:
        """The index of the first event above a number of the submitter's space."""
        return self.floor + bisect_right(self._items, seq, key=lambda item: item[0])
