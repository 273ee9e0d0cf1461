"""Wakes the readers of a value that changes, at a limited rate.

A `Signal` merges many changes into few wake-ups. A `SharedFrame` is a signal with a frame. The
frame is built once for each revision, and all readers share it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["SharedFrame", "Signal"]


class Signal:
    """Wakes its listeners after a change, at most once per interval.

    Args:
        interval: the least number of seconds between two wake-ups; the first one is immediate.

    Attributes:
        revision: a number that grows with each wake-up.
        interval: as above; a change counts from the next wake-up on.
    """

    def __init__(self, interval: float = 0.0) -> None:
        self.interval = interval
        self._listeners: set[asyncio.Event] = set()
        self._last = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self.revision = 1

    @property
    def has_listeners(self) -> bool:
        """Whether there is a listener."""
        return bool(self._listeners)

    @contextmanager
    def waking(self, wake: asyncio.Event) -> Iterator[None]:
        """Set this event at each wake-up, for the duration of the block."""
        self._listeners.add(wake)
        try:
            yield
        finally:
            self._listeners.discard(wake)

    def notify(self) -> None:
        """Report a change: wake the listeners now, or at the end of the interval."""
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        wait = self._last + self.interval - loop.time()
        if wait <= 0:
            self.notify_now()
        else:
            self._timer = loop.call_later(wait, self.notify_now)

    def notify_now(self) -> None:
        """Report a change and wake the listeners, without regard to the interval."""
        self.close()
        self._last = asyncio.get_running_loop().time()
        self.revision += 1
        for wake in self._listeners:
            wake.set()

    def close(self) -> None:
        """Cancel the pending wake-up."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class SharedFrame(Signal):
    """A frame that is built once for each revision and sent to all readers.

    Args:
        build: returns the current frame.
        interval: the least number of seconds between two revisions.
    """

    def __init__(self, build: Callable[[], bytes], interval: float) -> None:
        super().__init__(interval)
        self._build = build
        self._built: tuple[int, bytes] = (0, b"")

    @property
    def frame(self) -> bytes:
        """The frame of this revision."""
        if self._built[0] != self.revision:
            self._built = (self.revision, self._build())
        return self._built[1]
