"""Changes in, wake-ups out: many changes, few wake-ups, and what is shown is made once for all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Shown", "Signal"]


class Signal:
    """Something changed: whoever listens looks again, at most so often.

    Args:
        every: seconds that lie at least between two turns; the first one comes at once.

    Attributes:
        turn: grows by one whenever listeners are woken.
    """

    def __init__(self, every: float = 0.0) -> None:
        self._every = every
        self._listeners: set[asyncio.Event] = set()
        self._last = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self.turn = 1

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    @contextmanager
    def to(self, wake: asyncio.Event) -> Iterator[None]:
        """Set this event at each turn, for as long as the block lasts."""
        self._listeners.add(wake)
        try:
            yield
        finally:
            self._listeners.discard(wake)

    def tell(self) -> None:
        """Something changed."""
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        wait = self._last + self._every - loop.time()
        if wait <= 0:
            self.now()
        else:
            self._timer = loop.call_later(wait, self.now)

    def now(self) -> None:
        """Wake everybody up at once."""
        self.close()
        self._last = asyncio.get_running_loop().time()
        self.turn += 1
        for wake in self._listeners:
            wake.set()

    def close(self) -> None:
        """Drop a turn that is due: no timer is left."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Shown(Signal):
    """A frame that changes with each turn, made when it is first asked for and shared by all.

    Args:
        make: gives the frame as of now.
        every: seconds that lie at least between two turns.
    """

    def __init__(self, make: Callable[[], bytes], every: float) -> None:
        super().__init__(every)
        self._make = make
        self._made: tuple[int, bytes] = (0, b"")

    @property
    def frame(self) -> bytes:
        """What to show in this turn."""
        if self._made[0] != self.turn:
            self._made = (self.turn, self._make())
        return self._made[1]
