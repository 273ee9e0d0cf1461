"""Limits the bytes in a buffer, and lets producers wait for room.

Each buffer has a `ByteBudget`. A producer either reserves room before it adds an item, or waits for
room after it.
"""

from __future__ import annotations

import asyncio

__all__ = ["ByteBudget"]


class ByteBudget:
    """Counts the bytes in one buffer, and limits them.

    A producer that can wait *reserves* its bytes before it adds an item. Reservations are granted
    in the order of the calls, so small items cannot overtake a large one for ever. A producer that
    cannot wait *adds* its bytes at once and waits for room before its next item, so the buffer
    exceeds its limit by at most one item of each such producer.

    An item that is larger than the limit is admitted when the buffer is empty; otherwise it would
    wait for ever. Limits on the size of single items are checked elsewhere.

    A budget belongs to one event loop. A cancelled wait changes nothing.

    Args:
        limit: bytes.
    """

    __slots__ = ("_queue", "_waiting", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._queue: dict[asyncio.Future[None], int] = {}  # reservations, in order
        self._waiting: dict[asyncio.Future[None], None] = {}  # for room

    def __repr__(self) -> str:
        return f"<ByteBudget {self.used} of {self.limit}>"

    @property
    def over(self) -> bool:
        """Whether the buffer holds more than the limit."""
        return self.used > self.limit

    def fits(self, size: int) -> bool:
        """Whether this many bytes could be reserved now, without waiting."""
        return not self._queue and self._fits(size)

    def _fits(self, size: int) -> bool:
        return self.used + size <= self.limit or not self.used

    def add(self, size: int) -> None:
        """Count bytes that have been added to the buffer."""
        self.used += size

    def try_reserve(self, size: int) -> bool:
        """Count bytes if there is room for them now; otherwise return False."""
        if not self.fits(size):
            return False
        self.used += size
        return True

    async def reserve(self, size: int) -> None:
        """Wait until there is room for this many bytes, and count them.

        A cancelled call reserves nothing.
        """
        if self.try_reserve(size):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue[turn] = size
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.release(size)  # admitted and cancelled in the same loop iteration
            else:
                turn.cancel()
                self._queue.pop(turn, None)
                self._admit()  # the next one may be smaller
            raise

    async def room(self) -> None:
        """Wait until the buffer holds no more than the limit."""
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
        """Count the buffer as empty."""
        self.release(self.used)

    def _admit(self) -> None:
        queue = self._queue
        while queue:
            turn, size = next(iter(queue.items()))
            if not self._fits(size):
                break
            del queue[turn]
            if not turn.done():  # cancelled, and its task has not run since
                self.used += size
                turn.set_result(None)
        if self._waiting and not self.over:
            for waiter in self._waiting:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiting.clear()
