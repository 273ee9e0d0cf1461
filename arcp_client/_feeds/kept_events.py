"""Keeps the newest events of a job, within a number of bytes, for any reader.

An event is kept as it was received (`Unencoded`), and encoded as an entry for pages when it is
first read: of a long history most events are never read.

A position contains the id of its event besides the number. So it is also valid in the feed of
another process that has received the event, even if that feed begins with another event. For such a
reader, an offset is added to the numbers, so that the reader gets consecutive ones.
"""

from __future__ import annotations

import secrets as random
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

import msgspec

from arcp_client._feeds import frames
from arcp_client._feeds.frames import Position
from arcp_client._wire.build import to_event
from arcp_client._wire.codec import decode_event
from arcp_client.events import Event

__all__ = [
    "BATCH_BYTES",
    "BATCH_EVENTS",
    "PAGE_EVENTS",
    "TAIL_BYTES",
    "TAIL_EVENTS",
    "KeptEvents",
    "Unencoded",
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


class Unencoded(msgspec.Struct, frozen=True, gc=False):
    """An event as it was received, which takes a third of the memory of an `Event`.

    Attributes:
        at: the time of its receipt in milliseconds.
        seq: its number; some runtimes number an event otherwise than its envelope says.
        envelope: its envelope.
    """

    at: int
    seq: int | None
    envelope: bytes

    def event(self) -> Event:
        """The event, decoded again."""
        frame = decode_event(self.envelope)
        frame.event_seq = self.seq
        return to_event(frame, self.envelope)


class KeptEvents:
    """The newest events of a job, numbered from 1.

    Args:
        memory: bytes of events to keep; the newest event is kept in any case.
        encode: makes an entry of an event.

    Attributes:
        epoch: a random id; it stands for events without an id that fits a header.
        first: the number of the oldest event that is kept; ``last + 1`` if there is none.
        last: the number of the newest event; 0 before the first one.
    """

    def __init__(self, memory: int, encode: Callable[[Unencoded], bytes]) -> None:
        self.epoch = random.token_hex(8)
        self._encode = encode
        self._items: list[bytes | Unencoded] = []
        self.first = 1
        self.last = 0
        self._mark_before = f"~{self.epoch}"
        self._memory = memory
        self._held = 0
        self._batches: OrderedDict[tuple[int, int], tuple[int, bytes]] = OrderedDict()
        self._batched = 0
        self._numbers: dict[str, int] = {}
        self._numbered = 0

    def extend(self, items: Sequence[bytes | Unencoded]) -> None:
        """Add the next events, encoded or not."""
        self.last += len(items)
        self._items.extend(items)
        self._held += sum(map(_weight, items))
        self.limit(self._memory)

    def entries(self) -> Iterator[bytes]:
        """The entries of the events that are kept now, oldest first."""
        for item in tuple(self._items):
            yield item if isinstance(item, bytes) else self._encode(item)

    def entry(self, n: int) -> bytes:
        """The entry of the event with this number, from ``first`` to ``last``."""
        index = n - self.first
        item = self._items[index]
        if not isinstance(item, bytes):
            entry = self._items[index] = self._encode(item)
            self._held += len(entry) - _weight(item)
            return entry
        return item

    def limit(self, memory: int) -> None:
        """Keep at most this many bytes of events from now on."""
        self._memory = memory
        if self._held > memory:
            self._forget()

    def _forget(self) -> None:
        """Drop an eighth of the memory at once, as removing from the head of a list is slow."""
        spare, forgotten = self._held - self._memory * 7 // 8, 0
        while spare > 0 and forgotten < len(self._items) - 1:
            spare -= _weight(self._items[forgotten])
            forgotten += 1
        if forgotten:
            self._mark_before = self.mark(self.first + forgotten - 1)
            self._numbers.clear()
            self._numbered = 0
        self._held -= sum(map(_weight, self._items[:forgotten]))
        del self._items[:forgotten]
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
        end = self.last if last is None else last
        after, size = end, 0
        while after >= self.first and end - after < min(most, TAIL_EVENTS):
            size += len(self.entry(after)) + _NUMBER
            if size > TAIL_BYTES and after < end:
                break
            after -= 1
        return after

    def mark(self, n: int) -> str:
        """The mark of the event with this number, from ``first - 1`` to ``last``."""
        if n < self.first:
            return self._mark_before
        return frames.mark_of(self.entry(n)) or f"~{self.epoch}"

    def _find(self, mark: str) -> int | None:
        """The number of the event with this mark, if it is kept or is the last forgotten one."""
        if mark == self._mark_before:
            return self.first - 1
        for n in range(max(self._numbered + 1, self.first), self.last + 1):
            item = self._items[n - self.first]
            known = self.mark(n) if isinstance(item, bytes) else frames.id_of(item.envelope)
            self._numbers[known] = n
        self._numbered = self.last
        found = self._numbers.get(mark)
        return found if found is None or self.mark(found) == mark else None

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
        entries: list[bytes] = []
        size = 0
        for n in range(after + 1, min(after + BATCH_EVENTS, self.last) + 1):
            entry = self.entry(n)
            size += len(entry) + _NUMBER
            if size > BATCH_BYTES and entries:
                break
            entries.append(entry)
        last = after + len(entries)
        position = Position(self.mark(last), last + shift)
        made = (last, frames.batch(entries, position))
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
        entries = [self.entry(n) for n in range(after + 1, last + 1)]
        before = str(Position(self.mark(after), after + shift)) if after >= self.first else None
        return b'{"before":%b,"events":%b}' % (
            frames.encoded(before),
            frames.numbered(entries, last + shift),
        )


def _weight(item: bytes | Unencoded) -> int:
    """The bytes of an entry, or of the envelope that it is made of, which has about as many."""
    return len(item) if isinstance(item, bytes) else len(item.envelope)
