"""Async iterators over the updates of a session, each with its own bounded queue."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Generic, TypeAlias, TypeVar

from arcp_client.acp._base import Again, Gap, Origin, Update
from arcp_client.acp._decode import update_of

__all__ = ["At", "UpdateHistory", "UpdateStreams", "Updates"]

U = TypeVar("U", bound=Update)

At: TypeAlias = "tuple[bytes, Origin] | tuple[bytes, Origin, Again]"
"""The line of an update, its position, and in version 2 how it was read."""


def _again(at: At) -> Update:
    return update_of(at) if len(at) == 2 else at[2](at[0], at[1])


class UpdateHistory:
    """The latest updates of a session, undecoded, for iterators that start late."""

    def __init__(self, limit: int, limit_bytes: int) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._kept: deque[At] = deque()
        self._bytes = 0
        self.dropped = 0

    def keep(self, at: At) -> None:
        """Append an update; drop the oldest ones beyond the limits."""
        kept = self._kept
        kept.append(at)
        self._bytes += len(at[0])
        while len(kept) > self._limit or (self._bytes > self._limit_bytes and len(kept) > 1):
            self._bytes -= len(kept.popleft()[0])
            self.dropped += 1

    def __iter__(self) -> Iterator[Update]:
        return map(_again, tuple(self._kept))


class _Queue:
    """The updates that one iterator has not yielded.

    The session refers to this and not to the iterator, so an abandoned iterator is collected.
    """

    def __init__(
        self,
        kinds: tuple[type[Update], ...],
        limit: int,
        limit_bytes: int,
        check_loop: Callable[[], None],
    ) -> None:
        self.check_loop = check_loop
        self.kinds = kinds
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self.items: deque[Update] = deque()
        self.ended = False
        self.error: Exception | None = None
        self.gone = False
        self.arrival: asyncio.Future[None] | None = None
        self.room: asyncio.Future[None] | None = None
        self.pulled = 0

    def put(self, update: Update) -> None:
        if isinstance(update, (*self.kinds, Gap)):
            self.items.append(update)
            self._bytes += _size(update)
            self.wake()

    @property
    def full(self) -> bool:
        return len(self.items) >= self._limit or self._bytes > self._limit_bytes

    def take(self) -> Update:
        self.pulled += 1
        update = self.items.popleft()
        self._bytes -= _size(update)
        if len(self.items) <= self._limit // 2 and self._bytes <= self._limit_bytes // 2:
            self.has_room()
        return update

    def cut(self) -> None:
        """Replace the queued updates by a `Gap`."""
        gap = Gap(missed=len(self.items), reason="overflow")
        self.items.clear()
        self._bytes = 0
        self.put(gap)

    def wake(self) -> None:
        if self.arrival is not None and not self.arrival.done():
            self.arrival.set_result(None)

    def has_room(self) -> None:
        if self.room is not None and not self.room.done():
            self.room.set_result(None)

    def end(self, error: Exception | None) -> None:
        if not self.ended:
            self.ended, self.error = True, error
            self.wake()
            self.has_room()

    def leave(self) -> None:
        self.gone = True
        self.items.clear()
        self._bytes = 0
        self.wake()
        self.has_room()


def _size(update: Update) -> int:
    return len(update.__dict__["at"][0]) if "at" in update.__dict__ else 0


class Updates(AsyncIterator[U], Generic[U]):
    """An async iterator over a session's updates; made by ``session.updates``.

    An iterator is independent of handlers and of other iterators, and ends when it is no longer
    referenced.
    """

    def __init__(self, queue: _Queue) -> None:
        self._queue = queue
        weakref.finalize(self, queue.leave).atexit = False

    def __aiter__(self) -> Updates[U]:
        return self

    async def __anext__(self) -> U:
        queue = self._queue
        queue.check_loop()
        while not queue.items:
            if queue.gone:
                raise StopAsyncIteration
            if queue.ended:
                error, queue.error = queue.error, None
                if error is not None:
                    raise error
                raise StopAsyncIteration
            if queue.arrival is not None:
                raise RuntimeError("another task is already waiting for the next update")
            queue.arrival = asyncio.get_running_loop().create_future()
            try:
                await queue.arrival
            finally:
                queue.arrival = None
        return queue.take()  # type: ignore[return-value]

    async def aclose(self) -> None:
        """End the iteration, also for a task that is waiting in it."""
        self._queue.leave()


class UpdateStreams:
    """All iterators of one session.

    Args:
        limit: maximum number of updates in one iterator.
        limit_bytes: maximum bytes of updates in one iterator.
        stall: seconds that a full iterator may block the session without being advanced.
        history: updates kept for iterators that start late.
        history_bytes: bytes of those updates.
        check_loop: raises unless the caller is in the connection's event loop.
    """

    def __init__(
        self,
        *,
        limit: int,
        limit_bytes: int,
        stall: float,
        history: int,
        history_bytes: int,
        check_loop: Callable[[], None],
    ) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._at_home = check_loop
        self._stall = stall
        self._history = UpdateHistory(history, history_bytes)
        self._queues: list[_Queue] = []
        self._ended = False
        self._error: Exception | None = None

    def new(self, kinds: tuple[type[Update], ...], *, history: bool) -> Updates[Update]:
        """Create an iterator."""
        queue = _Queue(kinds or (Update,), self._limit, self._limit_bytes, self._at_home)
        if history:
            if self._history.dropped:
                queue.put(Gap(missed=self._history.dropped, reason="not_retained"))
            for update in self._history:
                queue.put(update)
        if self._ended:
            queue.end(self._error)
        else:
            self._queues.append(queue)
        return Updates(queue)

    def offer(self, update: Update, at: At) -> bool:
        """Queue an update for each iterator. False if `wait_for_room` must be awaited first."""
        self._history.keep(at)
        if not self._queues:
            return True
        fine = True
        for queue in self._queues:
            if queue.gone:
                continue
            queue.put(update)
            if queue.full:
                fine = False
        return fine

    async def wait_for_room(self) -> None:
        """Wait until no iterator is full. A stalled iterator loses its queued updates."""
        self._queues = [queue for queue in self._queues if not queue.gone]
        for queue in list(self._queues):
            while queue.full and not (queue.gone or queue.ended):
                seen = queue.pulled
                queue.room = asyncio.get_running_loop().create_future()
                await asyncio.wait({queue.room}, timeout=self._stall)
                queue.room = None
                if queue.pulled == seen and queue.full:
                    queue.cut()

    def end(self, error: Exception | None) -> None:
        """End all iterators; they raise ``error``, if given, after the last update."""
        if not self._ended:
            self._ended, self._error = True, error
            for queue in self._queues:
                queue.end(error)
            self._queues.clear()
