"""Acknowledges processed events: after 750 ms, or from 250 ms on if there are many (§6.5).

At the low rates of most agents, acknowledgements would cost more than the events. At high rates the
runtime should soon hear of the events: it keeps them until then, and may slow its jobs down. See
rule S1 in docs/explanation/rules.md.
"""

from __future__ import annotations

from collections.abc import Callable

from arcp_client._dispatch.fan_out import FanOut
from arcp_client._link.driver import Driver

__all__ = ["Acknowledger"]

EVERY = 0.75
"""Seconds from an event to its acknowledgement."""
SOON = 0.25
"""Seconds from the first waiting event to the acknowledgement, at least."""
MANY = 700
"""Number of waiting events that are acknowledged as soon as `SOON` has passed. Above 1000, our
runtime slows jobs down (``Limits.lag_events``), and other runtimes report that the client lags. At
1000 events a second, an acknowledgement by number comes before that by time: right after an event,
when the next one is furthest away.
"""


class Acknowledger:
    """Acknowledges the processed events of one client.

    Args:
        driver: runs the session.
        fan_out: provides the watermark.
        safe: maps the watermark to the number up to which the store permits an acknowledgement;
            ``None`` without a store.
        every: seconds from the first event to the acknowledgement.
    """

    def __init__(
        self,
        driver: Driver,
        fan_out: FanOut,
        *,
        safe: Callable[[int], int] | None = None,
        every: float = EVERY,
    ) -> None:
        self._driver = driver
        self._fan_out = fan_out
        self._safe = safe
        self._every = every
        self._acked = 0
        self._settled = 0  # `FanOut.published`, less the events that wait for an acknowledgement
        self._since: float | None = None  # when the first of these came, or the last frame was sent
        self._mark: int | None = None  # to be acknowledged with the next event
        self._stopped = False

    def plan(self, now: float) -> None:
        """Schedule an acknowledgement: when `FanOut` reports activity."""
        if self._stopped:
            return
        driver, fan_out = self._driver, self._fan_out
        if self._since is None:
            self._since = now
        left = MANY - (fan_out.published - self._settled)
        if left > 0:
            fan_out.active_at = fan_out.published + left
            driver.plan(now + self._every, now, self.acknowledge)
        elif now < self._since + SOON:
            driver.plan(self._since + SOON, now, self.acknowledge)
        elif left == 0 and self._mark is None:
            # Events arrive one by one. The frame follows after the next of them, so that none
            # waits for all of an acknowledgement: see `ActionQueue.ack`.
            self._mark = self._processed()
            fan_out.active_at = fan_out.published + 1
        else:
            driver.plan(now, now, self._send)

    def acknowledge(self, now: float) -> None:
        """Acknowledge all processed events."""
        if not self._stopped:
            self._mark = None
            self._send(now)

    def _processed(self) -> int:
        session = self._driver.session
        mark = self._fan_out.mark(session.session_id or "", session.received)
        mark = session.peer.ackable(mark)
        return mark if self._safe is None else self._safe(mark)

    def _send(self, now: float) -> None:
        mark = self._processed() if self._mark is None else self._mark
        self._mark = None
        driver, fan_out = self._driver, self._fan_out
        if mark > self._acked and driver.acknowledge(mark, now):
            self._acked = mark
        unprocessed = driver.session.received - mark
        self._settled = fan_out.published - unprocessed
        self._since = None
        fan_out.active_at = 0
        if unprocessed > 0:
            self.plan(now)

    def renewed(self) -> None:
        """Start again at 0, because the numbers of a new session begin at 1."""
        self._acked = 0
        self._mark = None

    def stop(self) -> None:
        """Send no more acknowledgements."""
        self._stopped = True
