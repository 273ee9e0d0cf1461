"""Wakes the followers of open questions when the runtime reports a change, or after a new link."""

from __future__ import annotations

import asyncio

__all__ = ["QuestionNews"]


class QuestionNews:
    """Counts the reported changes; followers wait for the next one."""

    def __init__(self) -> None:
        self.count = 0
        self._waiters: dict[asyncio.Future[None], None] = {}  # an empty set is three times as large

    def report(self) -> None:
        """Note that the open questions may have changed, or that the client has ended."""
        self.count += 1
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def after(self, count: int) -> None:
        """Wait until more than ``count`` changes were reported."""
        if self.count > count:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)
