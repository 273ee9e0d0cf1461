"""Bounds what a buffer holds in bytes, and lets producers wait for room in it.

A buffer counts what it takes in and gives out; what fills it asks first, or waits afterwards.
"""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["ByteBudget"]


class ByteBudget:
    """The bytes that one buffer may hold.

    There are two ways to fill a buffer. A producer that can be held up *reserves* its bytes before
    it adds them: in the order of the calls, so that a large item is not overtaken for ever by
    small ones. A producer that cannot be held up *adds* them at once and waits for room before it
    goes on, so that the buffer holds at most one item of each such producer beyond its limit.

    An item that is larger than the limit is admitted when the buffer is empty: it would wait for
    ever otherwise. What may not exist at all is the business of another limit.

    A budget belongs to one event loop. Nothing in it takes time, and a cancelled wait leaves
    nothing behind.

    Args:
        limit: bytes.
    """

    __slots__ = ("_queue", "_waiting", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._queue: deque[tuple[asyncio.Future[None], int]] = deque()  # reservations, in order
        self._waiting: dict[asyncio.Future[None], None] = {}  # for room

    def __repr__(self) -> str:
        return f"<ByteBudget {self.used} of {self.limit}>"

    @property
    def over(self) -> bool:
        """Whether more is held than the limit."""
        return self.used > self.limit

    def fits(self, size: int) -> bool:
        """Whether this many bytes could be reserved now, without waiting."""
        return not self._queue and self._fits(size)

    def _fits(self, size: int) -> bool:
        return self.used + size <= self.limit or not self.used

    def add(self, size: int) -> None:
        """Count bytes that are in the buffer already."""
        self.used += size

    def try_reserve(self, size: int) -> bool:
        """Count bytes if there is room for them now; False if there is none."""
        if not self.fits(size):
            return False
        self.used += size
        return True

    async def reserve(self, size: int) -> None:
        """Wait until there is room for this many bytes, and count them.

        A call that is cancelled has reserved nothing.
        """
        if self.try_reserve(size):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = (turn, size)
        self._queue.append(place)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.release(size)  # admitted in the same turn of the loop in which it was ended
            else:
                turn.cancel()
                if place in self._queue:
                    self._queue.remove(place)
                self._admit()  # the next one may be smaller
            raise

    async def room(self) -> None:
        """Wait until no more is held than the limit."""
        while self.over:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[waiter] = None
            try:
                await waiter
            finally:
                self._waiting.pop(waiter, None)

    def release(self, size: int) -> None:
        """Count bytes that have left the buffer."""
        assert 0 <= size <= self.used, "more was released than was taken"
        self.used -= size
        self._admit()

    def clear(self) -> None:
        """The buffer was emptied."""
        self.release(self.used)

    def _admit(self) -> None:
        queue = self._queue
        while queue and self._fits(queue[0][1]):
            turn, size = queue.popleft()
            if not turn.done():  # cancelled, and its task has not run since
                self.used += size
                turn.set_result(None)
        if self._waiting and not self.over:
            for waiter in self._waiting:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiting.clear()
