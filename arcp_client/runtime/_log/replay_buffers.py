"""Keeps recent events of each session and job in memory, for sending, resumes and observers.

A connection has no queue of events: its writer reads the session's buffer by number. So each
connection sends events in the order of their numbers, and a slow connection needs no more memory
than the buffer has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from arcp_client._wire.stamp import Record

__all__ = ["JobHistory", "SessionLog"]


class SessionLog:
    """The numbered events of one session (§8.3): gap-free from ``floor + 1`` to ``last``.

    Attributes:
        floor: the highest number that is no longer held.
        last: the highest assigned number.
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
        """Append an event and return its number. Evicts the oldest events beyond the bounds."""
        records = self._records
        records.append(record)
        self._bytes += record.size
        self.last += 1
        while len(records) > self._max_events or (
            self._bytes > self._max_bytes and len(records) > 1
        ):
            self._drop()
        return self.last

    def __getitem__(self, seq: int) -> Record:
        """Return the event with a number in ``floor + 1 … last``."""
        if seq <= self.floor:
            raise KeyError(seq)
        return self._records[seq - self.floor - 1]

    def __len__(self) -> int:
        return len(self._records)

    def restore(self, floor: int) -> None:
        """Start an empty log above a number."""
        self._records.clear()
        self._bytes = 0
        self.floor = self.last = self.settled = floor

    def free(self, upto: int, most: int) -> bool:
        """Drop the events up to a number, but no more than ``most``; return whether some remain."""
        count = min(upto - self.floor, most, len(self._records))
        for _ in range(count):
            self._drop()
        return self.floor < upto and bool(self._records)

    def free_older(self, moment: float, upto: int) -> None:
        """Drop events older than a time, but none above ``upto``. The log must not be empty."""
        while self._records[0].at < moment and self.floor < upto:
            self._drop()

    def bytes_after(self, seq: int) -> int:
        """Return the bytes of all events above a number."""
        skip = max(seq - self.floor, 0)
        return sum(record.size for record in islice(self._records, skip, None))

    def _drop(self) -> None:
        self._bytes -= self._records.popleft().size
        self.floor += 1


class JobHistory:
    """The recent events of one job for its subscribers, indexed from 0; the oldest are evicted.

    Each event has its number in the submitting session, which `job.subscribe` refers to.

    Attributes:
        floor: the index of the oldest held event.
        end: the index of the next event.
        bytes: the approximate size of the events.
    """

    def __init__(self, max_events: int, max_bytes: int) -> None:
        self.floor = 0
        self.end = 0
        self.bytes = 0
        self._items: deque[tuple[int, Record]] = deque()
        self._max_events = max_events
        self._max_bytes = max_bytes

    @property
    def is_at_end(self) -> bool:
        """Whether no event of an ended job follows: it ends with the terminal, or is empty."""
        return not self._items or self._items[-1][1].terminal

    def append(self, seq: int, record: Record) -> None:
        """Append an event and its number in the submitting session."""
        items = self._items
        items.append((seq, record))
        self.end += 1
        self.bytes += record.size
        while len(items) > self._max_events or (self.bytes > self._max_bytes and len(items) > 1):
            _, gone = items.popleft()
            self.bytes -= gone.size
            self.floor += 1

    def restore(self, index: int, seq: int, record: Record) -> None:
        """Restore a stored event. A missing index empties the history, which then starts here."""
        if index != self.end:
            self.start_at(index)
        self.append(seq, record)

    def start_at(self, index: int) -> None:
        """Empty the history, which then starts at an index."""
        self._items.clear()
        self.bytes = 0
        self.floor = self.end = index

    def prepend(self, earlier: Sequence[tuple[int, Record]]) -> None:
        """Add the events before the floor, in order, as far as the bounds allow."""
        for seq, record in reversed(earlier):
            if len(self._items) >= self._max_events or self.bytes + record.size > self._max_bytes:
                return
            self._items.appendleft((seq, record))
            self.bytes += record.size
            self.floor -= 1

    def __getitem__(self, index: int) -> Record:
        return self._items[index - self.floor][1]

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        return iter(self._items)

    def after(self, seq: int) -> int:
        """Return the index of the first event above a number of the submitting session."""
        return self.floor + bisect_right(self._items, seq, key=lambda item: item[0])
