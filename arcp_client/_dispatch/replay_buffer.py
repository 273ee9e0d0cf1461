"""Keeps the recent events of each job, for iterators that start late (D8).

A job keeps its last 1,024 events or 1 MiB; all jobs of a client keep 16 MiB together. These events
do not count for back-pressure.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

from arcp_client.events import Event, Gap, sizes

__all__ = ["ReplayBuffer", "ReplayMemory"]

_EVENTS = 1024
_BYTES = 1024 * 1024
_ALL_BYTES = 16 * 1024 * 1024


class ReplayMemory:
    """What all jobs of one client keep together.

    Nobody keeps an exact account of every event. What came is added up; when that could be too
    much, everything is weighed, and the oldest is dropped with some room to spare.

    Args:
        limit: bytes that may be kept.

    Attributes:
        listened: whatever has iterators.
    """

    def __init__(self, limit: int = _ALL_BYTES) -> None:
        self._limit = limit
        self._at_most = 0
        self.listened: set[Any] = set()
        self._buffers: weakref.WeakSet[ReplayBuffer] = weakref.WeakSet()

    def share(self, replay_buffer: ReplayBuffer) -> None:
        """It counts as well."""
        self._buffers.add(replay_buffer)

    def came(self, size: int) -> None:
        """So many bytes of events came."""
        self._at_most += size
        if self._at_most > self._limit:
            self._weigh()

    def _weigh(self) -> None:
        kept = sorted(self._buffers, key=lambda one: one.touched)
        self._at_most = sum(one.weigh() for one in kept)
        for replay_buffer in kept:
            if self._at_most <= self._limit * 3 // 4:
                break
            self._at_most -= replay_buffer.forget(self._at_most - self._limit * 3 // 4)


class ReplayBuffer:
    """The last events of one job; what is no longer kept becomes one `Gap` in front.

    Args:
        memory: whose limit it shares.
        events: how many are kept.
        bytes_: how many bytes of them.

    Attributes:
        touched: grows with each event that comes to any job.
    """

    __slots__ = ("__weakref__", "_bytes", "_first", "_kept", "_limit", "_total", "touched")

    _clock = 0

    def __init__(
        self, memory: ReplayMemory | None = None, *, events: int = _EVENTS, bytes_: int = _BYTES
    ) -> None:
        self._kept: deque[Event] = deque(maxlen=events)
        self._limit = bytes_
        # None as long as no frame is larger than the limits' quotient: then their number is
        # bound enough, and nothing is weighed.
        self._bytes: int | None = None
        self._first: int | None = None
        self._total = 0
        self.touched = 0
        if memory is not None:
            memory.share(self)

    def extend(self, events: list[Event], largest: int) -> None:
        """Keep events, and forget the oldest beyond the bounds.

        Args:
            events: what came, oldest first.
            largest: bytes of the largest of them, or more.
        """
        ReplayBuffer._clock += 1
        self.touched = ReplayBuffer._clock
        if not self._total:
            self._first = events[0].seq
        self._total += len(events)
        kept = self._kept
        if self._bytes is None and largest * (kept.maxlen or 1) <= self._limit:
            kept.extend(events)
        else:
            self._weighed(events)

    def _weighed(self, events: list[Event]) -> None:
        kept = self._kept
        held = self.weigh() if self._bytes is None else self._bytes
        for event in events:
            if len(kept) == kept.maxlen:
                held -= kept.popleft().size
            kept.append(event)
            held += event.size
            while held > self._limit and kept:
                held -= kept.popleft().size
        self._bytes = held

    def incomplete(self) -> None:
        """More came than what was given to it: what is kept begins with a `Gap`."""
        self._first = None
        self._total += 1

    def weigh(self) -> int:
        """Bytes that are kept."""
        return sum(sizes(self._kept))

    def forget(self, bytes_: int) -> int:
        """Forget so many bytes, or all; gives how many."""
        freed = 0
        while self._kept and freed < bytes_:
            freed += self._kept.popleft().size
        if self._bytes is not None:
            self._bytes -= freed
        return freed

    def limit(self, events: int = _EVENTS) -> None:
        """Keep fewer from now on, or as many as usual."""
        self._kept = deque(self._kept, maxlen=events)

    def replay(self, job_id: str) -> Iterator[Event]:
        """What is kept, behind a `Gap` for what is not."""
        kept = tuple(self._kept)
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
