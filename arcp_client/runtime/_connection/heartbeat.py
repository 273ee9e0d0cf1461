"""Runs the heartbeat of one connection by a timer (§6.4).

The protocol's `Heartbeat` decides when a ping is due; the client's session uses the same class.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from arcp_client._protocol.heartbeat import Heartbeat, Pulse

__all__ = ["TimedHeartbeat"]

_RESOLUTION = 64
"""The timer fires at most this often in an interval."""


class TimedHeartbeat(Heartbeat):
    """Watches one connection. The connection sets `heard_at` and `sent_at`.

    Args:
        interval: seconds.
        ping: called when either side was silent for an interval.
        lost: called once, when the peer was silent for two intervals.
    """

    def __init__(
        self, interval: float, *, ping: Callable[[], None], lost: Callable[[], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        super().__init__(interval, self._loop.time())
        self._ping_peer = ping
        self._lost = lost
        self._shortest = interval / _RESOLUTION
        self._timer = self._loop.call_later(interval, self._tick)

    def stop(self) -> None:
        """Cancel the timer."""
        self._timer.cancel()

    def _tick(self) -> None:
        now = self._loop.time()
        pulse = self.look(now)
        if pulse is Pulse.DEAD:
            self._lost()
            return
        deadline = self.deadline
        assert deadline is not None  # it has an interval
        # Before the ping, which may end the connection and stop this timer.
        soonest = now if self.doubtful else now + self._shortest
        self._timer = self._loop.call_at(max(deadline, soonest), self._tick)
        if pulse is Pulse.PING:
            self._ping_peer()
