"""Keeps the newest events of a job as encoded entries, within a number of bytes, for any reader.

A position contains the id of its event besides the number. So it is also valid in the feed of
another process that has received the event, even if that feed begins with another event. For such a
reader, an offset is added to the numbers, so that the reader gets consecutive ones.
"""

from __future__ import annotations

import secrets as random
from collections import OrderedDict

from arcp_client._feeds import frames
from arcp_client._feeds.frames import Position

__all__ = [
    "BATCH_BYTES",
    "BATCH_EVENTS",
    "PAGE_EVENTS",
    "TAIL_BYTES",
    "TAIL_EVENTS",
    "KeptEvents",
]

BATCH_EVENTS = 500
BATCH_BYTES = 64 * 1024
TAIL_EVENTS = 2000
"""The maximum number of events of a tail."""
PAGE_EVENTS = 1000
"""The maximum number of events of a page of older events."""
TAIL_BYTES = 512 * 1024
"""The maximum size of a tail or of a page; the newest event is in it in any case."""
_NUMBER = 16
"""Bytes that the number of an event takes in a batch, or more."""
_CACHED_BATCHES = 8
_CACHED_SHARE = 8
"""Batches take at most an eighth of the memory, besides the newest one."""


class KeptEvents:
    """The newest events of a job, numbered from 1.

    Args:
        memory: bytes of events to keep; the newest event is kept in any case.

    Attributes:
        epoch: a random id; it stands for events without an id that fits a header.
        entries: the events that are kept, oldest first.
        first: the number of the oldest event that is kept; ``last + 1`` if there is none.
        last: the number of the newest event; 0 before the first one.
    """

    def __init__(self, memory: int) -> None:
        self.epoch = random.token_hex(8)
        self.entries: list[bytes] = []
        self.first = 1
        self.last = 0
        self._mark_before = f"~{self.epoch}"
        self._memory = memory
        self._held = 0
        self._batches: OrderedDict[tuple[int, int], tuple[int, bytes]] = OrderedDict()
        self._batched = 0
        self._numbers: dict[str, int] = {}
        self._numbered = 0

    def add(self, entry: bytes) -> None:
        """Add the next event."""
        self.last += 1
        self.entries.append(entry)
        self._held += len(entry)
        self.limit(self._memory)

    def limit(self, memory: int) -> None:
        """Keep at most this many bytes of events from now on."""
        self._memory = memory
        if self._held > memory:
            self._forget()

    def _forget(self) -> None:
        """Drop an eighth of the memory at once, as removing from the head of a list is slow."""
        spare, forgotten = self._held - self._memory * 7 // 8, 0
        freed = 0
        while freed < spare and forgotten < len(self.entries) - 1:
            freed += len(self.entries[forgotten])
            forgotten += 1
        if forgotten:
            self._mark_before = self.mark(self.first + forgotten - 1)
            self._numbers.clear()
            self._numbered = 0
        del self.entries[:forgotten]
        self._held -= freed
        self.first += forgotten

    def number_of(self, asked: Position) -> int | None:
        """The number in this feed of the event at a position; ``None`` if it is not kept."""
        if self.first - 1 <= asked.n <= self.last and self.mark(asked.n) == asked.mark:
            return asked.n
        return None if asked.mark.startswith("~") else self._find(asked.mark)

    def tail_start(self, most: int, last: int | None = None) -> int:
        """The number after which the newest events begin: at most so many, and `TAIL_BYTES`.

        Args:
            most: the maximum number of events.
            last: the number of the last of these events; the newest event by default.
        """
        end = (self.last if last is None else last) - self.first + 1
        begin, size = end, 0
        while begin > 0 and end - begin < min(most, TAIL_EVENTS):
            size += len(self.entries[begin - 1]) + _NUMBER
            if size > TAIL_BYTES and begin < end:
                break
            begin -= 1
        return begin + self.first - 1

    def mark(self, n: int) -> str:
        """The mark of the event with this number, from ``first - 1`` to ``last``."""
        if n < self.first:
            return self._mark_before
        return frames.mark_of(self.entries[n - self.first]) or f"~{self.epoch}"

    def _find(self, mark: str) -> int | None:
        """The number of the event with this mark, if it is kept or is the last forgotten one."""
        if mark == self._mark_before:
            return self.first - 1
        for n in range(max(self._numbered + 1, self.first), self.last + 1):
            self._numbers[self.mark(n)] = n
        self._numbered = self.last
        return self._numbers.get(mark)

    def read(self, after: int, shift: int = 0) -> tuple[int, bytes] | None:
        """The next batch after a number, with the number of its last event; ``None`` if empty.

        Args:
            after: the number; at least ``first - 1``.
            shift: what is added to the numbers in the batch.
        """
        if after >= self.last:
            return None
        known = self._batches.get((after, shift))
        if known is not None:
            return known
        begin = after - self.first + 1
        size, end = 0, begin
        while end < len(self.entries) and end - begin < BATCH_EVENTS:
            size += len(self.entries[end]) + _NUMBER
            if size > BATCH_BYTES and end > begin:
                break
            end += 1
        last = after + end - begin
        position = Position(self.mark(last), last + shift)
        made = (last, frames.batch(self.entries[begin:end], position))
        self._batches[after, shift] = made
        self._batched += len(made[1])
        while len(self._batches) > _CACHED_BATCHES or (
            len(self._batches) > 1 and self._batched > self._memory // _CACHED_SHARE
        ):
            self._batched -= len(self._batches.popitem(last=False)[1][1])
        return made

    def older(self, asked: Position) -> bytes | None:
        """A page of the events up to a position, as JSON; ``None`` if the position is not kept.

        The page has the numbers of the reader, and the position for the next page.
        """
        last = self.number_of(asked)
        if last is None:
            return None
        after, shift = self.tail_start(PAGE_EVENTS, last), asked.n - last
        entries = self.entries[after - self.first + 1 : last - self.first + 1]
        before = str(Position(self.mark(after), after + shift)) if after >= self.first else None
        return b'{"before":%b,"events":%b}' % (
            frames.encoded(before),
            frames.numbered(entries, last + shift),
        )
