"""Decides when to ping the runtime, and when its link counts as dead (§6.4).

Each link gets a new `Heartbeat`.
"""

from __future__ import annotations

import enum
from typing import Final

__all__ = ["Heartbeat", "Pulse"]

DOUBTS: Final = 10
"""Iterations of the loop in which a frame that has arrived passes from the socket through the tasks
of the transport to the reader of the link. With uvicorn and websockets it takes five.
"""
SHORTEST: Final = 0.01
"""The shortest interval in seconds; a shorter one would fill the link with pings."""


class Pulse(enum.Enum):
    """The action that is due."""

    QUIET = "quiet"
    PING = "ping"
    DEAD = "dead"


class Heartbeat:
    """Watches one link.

    Args:
        interval: seconds of the negotiated heartbeat. ``None`` if none was negotiated: then nothing
            is due, and only the times of messages are recorded.
        now: the time at which the link began.

    Attributes:
        heard_at: the time of the last message; the reader of the link sets it.
        sent_at: the time when the last message of any kind was sent; the sender sets it.
    """

    def __init__(self, interval: float | None, now: float) -> None:
        self.heard_at = now
        self._interval = interval if interval is None else max(interval, SHORTEST)
        self.sent_at = now
        self._probed_at: float | None = None
        self._paused_at: float | None = None
        self._looked_at = now
        self._doubts = 0

    def pause(self, now: float) -> None:
        """Stop counting silence, because the reader is paused."""
        if self._paused_at is None:
            self._paused_at = now

    def unpause(self, now: float) -> None:
        """Count silence again; the time since `pause` does not count."""
        if self._paused_at is not None:
            self.heard_at += now - self._paused_at
            self._paused_at = None

    @property
    def paused(self) -> bool:
        """Whether reading is paused."""
        return self._paused_at is not None

    @property
    def deadline(self) -> float | None:
        """The time at which `look` must be called next; ``None`` without a heartbeat."""
        if self._interval is None:
            return None
        ping_at = self._next_ping()
        if self._paused_at is not None:
            return ping_at
        return min(ping_at, self.heard_at + 2 * self._interval)

    @property
    def doubtful(self) -> bool:
        """Whether the peer was silent at the last look, and the next look must come at once."""
        return self._doubts > 0

    def look(self, now: float) -> Pulse:
        """The action that is due now.

        A silent peer counts as dead after `DOUBTS` further calls, in the next iterations of the
        loop: if the loop was blocked, it reads meanwhile what has arrived.
        """
        interval = self._interval
        if interval is None:
            return Pulse.QUIET
        overslept = now - self._looked_at > 1.5 * interval
        self._looked_at = now
        if self._paused_at is None and now >= self.heard_at + 2 * interval:
            if not overslept:
                self._doubts += 1
                return Pulse.DEAD if self._doubts > DOUBTS else Pulse.QUIET
            # The machine slept or the loop was blocked: the peer may have spoken meanwhile.
            # Ask once more before calling it dead.
            self.heard_at = now - interval
            self._doubts = 0
            return self._ping(now)
        self._doubts = 0
        if now >= self._next_ping():
            return self._ping(now)
        return Pulse.QUIET

    def _next_ping(self) -> float:
        """The time of the next ping: when one side has sent nothing for an interval."""
        assert self._interval is not None
        due = self.sent_at + self._interval
        # A ping and its answer may bear the same reading of a clock.
        answered = self._probed_at is None or self._probed_at <= self.heard_at
        if self._paused_at is None and answered:
            due = min(due, self.heard_at + self._interval)
        return due

    def _ping(self, now: float) -> Pulse:
        self._probed_at = now
        self.sent_at = now
        return Pulse.PING
