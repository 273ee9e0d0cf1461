"""How far consumers are behind in, "stop reading" out: back-pressure on the reader (D6).

At the soft bound the reader stops, and TCP holds the peer, unless something that only the reader
can bring is awaited: the answer to a request, or what a running handler waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ..events import Event
from .lanes import calling_lane

__all__ = ["Pressure"]


class Pressure:
    """The bound between the reader and the consumers of one client.

    Args:
        soft: events outstanding at which the reader stops.
        backlog: how many are outstanding.
        asked: whether a request waits for its answer.

    Attributes:
        paused: what the reader waits for, while it does.
        low: events outstanding at which it reads on.
        pauses: how often it has paused.
        follower: told of every event that a consumer is done with, and with ``None`` when more
            may be asked for; nobody by default.
    """

    def __init__(self, *, soft: int, backlog: Callable[[], int], asked: Callable[[], bool]) -> None:
        self.paused: asyncio.Future[None] | None = None
        self._soft = soft
        self.low = max(soft // 2, 1)
        self._backlog = backlog
        self._asked = asked
        self._wanting = 0
        self.pauses = 0
        self.follower: Callable[[Event | None], None] | None = None

    def room(self) -> Awaitable[None] | None:
        """What the reader must wait for; ``None`` if it may read on."""
        if self._backlog() < self._soft or self._must_read():
            return None
        self.pauses += 1
        self.paused = asyncio.get_running_loop().create_future()
        return self._wait(self.paused)

    async def _wait(self, paused: asyncio.Future[None]) -> None:
        try:
            await paused
        finally:
            self.paused = None

    def eased(self) -> None:
        """A consumer finished something, or something is awaited now: perhaps read on.

        Costs next to nothing while nobody is paused; callers look at `paused` first.
        """
        if self.follower is not None:
            self.follower(None)
        paused = self.paused
        if (
            paused is not None
            and not paused.done()
            and (self._must_read() or self._backlog() <= self.low)
        ):
            paused.set_result(None)

    @property
    def urgent(self) -> bool:
        """Whether a running handler waits for what only later events bring."""
        return self._wanting > 0

    def _must_read(self) -> bool:
        return self._wanting > 0 or self._asked()

    async def wanted(self, future: asyncio.Future[None]) -> None:
        """Wait for what only the link can bring; in a handler, the reader reads on for it."""
        if calling_lane() is None:
            await future
            return
        self._wanting += 1
        self.eased()
        try:
            await future
        finally:
            self._wanting -= 1
