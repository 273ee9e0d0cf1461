"""Pings a silent connection and reports one that was silent for two intervals (§6.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["Heartbeat"]


class Heartbeat:
    """Watches one connection by one timer.

    Args:
        interval: seconds.
        ping: called when either side has been silent for an interval.
        lost: called once, when nothing was heard for two.

    Attributes:
        heard: when the peer last sent anything; set by the connection.
        said: when a frame was last handed to the link; set by the connection.
    """

    def __init__(
        self, interval: float, *, ping: Callable[[], None], lost: Callable[[], None]
    ) -> None:
        self._interval = interval
        self._ping = ping
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self.heard = self.said = self._asked = self._loop.time()
        self._timer = self._loop.call_later(interval, self._tick)

    def stop(self) -> None:
        """Watch no longer."""
        self._timer.cancel()

    def _tick(self) -> None:
        now = self._loop.time()
        interval = self._interval
        if now - self._timer.when() > interval:
            # The process stood still, or the machine slept: what was sent meanwhile is unread.
            self.heard = now
        silence = now - self.heard
        if silence >= 2 * interval:
            self._lost()
            return
        idle = silence >= interval or now - self.said >= interval
        if idle and now - self._asked >= interval:
            self._asked = now
            self._ping()
        due = self.heard + (2 if silence >= interval else 1) * interval
        due = min(due, max(self.said, self._asked) + interval)
        self._timer = self._loop.call_at(max(due, now + interval / 64), self._tick)
