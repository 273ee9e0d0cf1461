"""Keeps the recent events of each job, for iterators that start late.

The buffer of a job keeps its last 1,024 events, but no more than 1 MiB of memory; all buffers of a
client together keep 16 MiB. These events do not count for back-pressure.

See rule D8 in docs/explanation/rules.md.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property
from itertools import count

from arcp_client._wire.build import to_event
from arcp_client._wire.codec import decode_event
from arcp_client.events import Event, Gap

__all__ = ["Kept", "ReplayBuffer", "ReplayMemory"]

Kept = Sequence[Event | bytes]
"""Events in the form in which a buffer keeps them. An envelope takes a third of the memory of the
event that is decoded from it, and it is decoded again for a late iterator.
"""

_EVENTS = 1024
_HISTORY = 65536
_BYTES = 1024 * 1024
_ALL_BYTES = 16 * 1024 * 1024
_OVERHEAD = sys.getsizeof(b"") + 8  # bytes of an object and of its place in the buffer

_ticks = count(1)


class ReplayMemory:
    """Limits the bytes that the replay buffers of one client keep together.

    It tracks an upper bound of the bytes. When that bound exceeds the limit, it measures the
    buffers, and drops events until three quarters of the limit are in use: first those of the jobs
    whose last event is the oldest.

    Args:
        limit: bytes that the buffers may keep together.
    """

    def __init__(self, limit: int = _ALL_BYTES) -> None:
        self._limit = limit
        self._at_most = 0

    @cached_property
    def _buffers(self) -> weakref.WeakSet[ReplayBuffer]:
        return weakref.WeakSet()  # made for the first job

    def share(self, replay_buffer: ReplayBuffer) -> None:
        """Add a buffer to those that share the limit."""
        self._buffers.add(replay_buffer)

    def add(self, count: int, largest: int) -> None:
        """Count arriving events, the largest of which has so many bytes, and enforce the limit."""
        self._at_most += count * (largest + _OVERHEAD)
        if self._at_most > self._limit:
            self._weigh()

    def _weigh(self) -> None:
        kept = sorted(self._buffers, key=lambda one: one.touched)
        self._at_most = sum(one.weigh() for one in kept)
        for replay_buffer in kept:
            self._at_most -= replay_buffer.drop(self._at_most - self._limit * 3 // 4)


class ReplayBuffer:
    """The last events of one job. If earlier events were dropped, the replay begins with a `Gap`.

    Args:
        memory: the limit that all buffers share.
        events: number of events to keep.
        bytes_: bytes to keep.

    Attributes:
        touched: ordinal of the last batch that was added, counted over the batches of all jobs.
    """

    __slots__ = (
        "__weakref__",
        "_bytes",
        "_first",
        "_kept",
        "_light",
        "_limit",
        "_total",
        "touched",
    )

    def __init__(
        self, memory: ReplayMemory | None = None, *, events: int = _EVENTS, bytes_: int = _BYTES
    ) -> None:
        self._kept: deque[Event | bytes] = deque(maxlen=events)
        self._limit = bytes_
        # While no event is larger than `_light`, the limit of events implies the limit of bytes,
        # and nothing is measured. From the first larger one on, `_light` is -1.
        self._light = _quotient(bytes_, events)
        self._bytes = 0
        self._first: int | None = None
        self._total = 0
        self.touched = 0
        if memory is not None:
            memory.share(self)

    def extend(self, events: list[Event], largest: int, kept: Kept | None = None) -> None:
        """Add events, and drop the oldest beyond the limits.

        Args:
            events: the events, oldest first.
            largest: bytes of the largest event, or more.
            kept: for each event, the form in which to keep it; the event itself by default.
        """
        self.touched = next(_ticks)
        if not self._total:
            self._first = events[0].seq
        self._total += len(events)
        items = events if kept is None else kept
        if largest <= self._light:
            self._kept.extend(items)
        else:
            self._weighed(items)

    def append(self, event: Event, largest: int, kept: Event | bytes) -> None:
        """Add one event; see `extend`."""
        if largest > self._light:
            self.extend([event], largest, (kept,))
            return
        self.touched = next(_ticks)
        if not self._total:
            self._first = event.seq
        self._total += 1
        self._kept.append(kept)

    def _weighed(self, items: Kept) -> None:
        kept = self._kept
        held = self._bytes if self._light < 0 else self.weigh()
        for item in items:
            if len(kept) == kept.maxlen:
                held -= _size(kept.popleft())
            kept.append(item)
            held += _size(item)
            while held > self._limit and kept:
                held -= _size(kept.popleft())
        self._bytes = held
        self._light = -1

    def incomplete(self) -> None:
        """Record that earlier events are missing: the replay then begins with a `Gap`."""
        self._first = None
        self._total += 1

    def weigh(self) -> int:
        """The bytes of the kept events."""
        kept = self._kept
        try:
            return sum(map(len, kept)) + len(kept) * _OVERHEAD  # type: ignore[arg-type]
        except TypeError:  # not only envelopes
            return sum(map(_size, kept))

    def drop(self, bytes_: int) -> int:
        """Drop the oldest events until ``bytes_`` bytes are freed, none if it is 0 or less.

        Returns the number of freed bytes.
        """
        if bytes_ <= 0:
            return 0
        freed = self.weigh()
        if freed <= bytes_:
            self._kept.clear()
        else:
            freed = 0
            while freed < bytes_:
                freed += _size(self._kept.popleft())
        self._bytes -= freed
        return freed

    def limit(self, events: int = _EVENTS, bytes_: int = _BYTES) -> None:
        """Change the numbers of events and of bytes to keep."""
        self._kept = deque(self._kept, maxlen=events)
        self._limit = bytes_
        self._light = _quotient(bytes_, events)
        self._bytes = self.weigh()
        if max(map(_size, self._kept), default=0) * events > bytes_:
            self._light = -1
            self.drop(self._bytes - bytes_)

    def keep_history(self) -> None:
        """Keep a history that arrives, within the limit of all buffers, for the first iterator."""
        self.limit(_HISTORY, _ALL_BYTES)

    def keep_recent(self) -> None:
        """Undo `keep_history`: an iterator has the history, or its time is over."""
        if self._limit == _ALL_BYTES:
            self.limit()

    @property
    def newest(self) -> datetime | None:
        """When the newest event happened, by the runtime's clock."""
        return _event(self._kept[-1]).ts if self._kept else None

    @property
    def newest_id(self) -> str:
        """The id of the newest event; empty if no event is kept."""
        return _event(self._kept[-1]).id if self._kept else ""

    def replay(self, job_id: str) -> Iterator[Event]:
        """Iterate over the kept events; a `Gap` comes first if others were dropped."""
        kept = [_event(item) for item in self._kept]
        if self._total > len(kept):
            oldest = kept[0].seq if kept else None
            yield Gap(
                seq=self._first,
                first=self._first or 0,
                last=oldest - 1 if oldest is not None else None,
                reason="not_retained",
                session_id=kept[0].session_id if kept else "",
                job_id=job_id,
            )
        yield from kept


def _quotient(bytes_: int, events: int) -> int:
    """The size of the largest event of which so many take no more than so many bytes."""
    return bytes_ // events - _OVERHEAD


def _size(item: Event | bytes) -> int:
    return (len(item) if isinstance(item, bytes) else item.size) + _OVERHEAD


def _event(item: Event | bytes) -> Event:
    return to_event(decode_event(item), item) if isinstance(item, bytes) else item
