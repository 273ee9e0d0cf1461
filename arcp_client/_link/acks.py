"""Acknowledges processed events: after 750 ms, or from 250 ms on if there are many (§6.5).

At the low rates of most agents, acknowledgements would cost more than the events. At high rates the
runtime should soon hear of the events: it keeps them until then, and may slow its jobs down. See
rule S1 in docs/explanation/rules.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from arcp_client._dispatch.fan_out import FanOut
from arcp_client._link.driver import Driver

__all__ = ["Acknowledger"]

EVERY = 0.75
"""Seconds from an event to its acknowledgement."""
SOON = 0.25
"""Seconds from the first waiting event to the acknowledgement, at least."""
MANY = 750
"""Number of waiting events that are acknowledged as soon as `SOON` has passed. Above 1000, our
runtime slows jobs down (``Limits.lag_events``), and other runtimes report that the client lags.
"""


class Acknowledger:
    """Acknowledges the processed events of one client.

    Args:
        driver: runs the session.
        fan_out: provides the watermark.
        safe: maps the watermark to the number up to which the store, if there is one, permits an
            acknowledgement.
        every: seconds from the first event to the acknowledgement.
    """

    def __init__(
        self,
        driver: Driver,
        fan_out: FanOut,
        *,
        safe: Callable[[int], int],
        every: float = EVERY,
    ) -> None:
        self._driver = driver
        self._fan_out = fan_out
        self._safe = safe
        self._every = every
        self._acked = 0
        self._settled = 0  # `FanOut.published`, less the events that wait for an acknowledgement
        self._since: float | None = (
            None  # when the first of these came, or the last acknowledgement
        )
        self._stopped = False

    @property
    def mark(self) -> int:
        """The highest number that may be acknowledged; ``safe`` is not considered."""
        session = self._driver.session
        return session.ackable(self._fan_out.mark(session.session_id or "", session.received))

    def active(self) -> None:
        """Schedule an acknowledgement: when `FanOut` reports activity.

        The handlers of the events begin before that, because they do not wait for it.
        """
        self._fan_out.active_at = math.inf
        self._driver.soon(self._plan)

    def _plan(self) -> None:
        if self._stopped:
            return
        driver, fan_out = self._driver, self._fan_out
        now = driver.now
        if self._since is None:
            self._since = now
        left = MANY - (fan_out.published - self._settled)
        fan_out.active_at = fan_out.published + left if left > 0 else math.inf
        driver.plan(self._every if left > 0 else self._since + SOON - now, self.now)

    def now(self) -> None:
        """Acknowledge all processed events."""
        if self._stopped:
            return
        driver, fan_out = self._driver, self._fan_out
        mark = self._safe(self.mark)
        if mark > self._acked and driver.acknowledge(mark):
            self._acked = mark
        unprocessed = driver.session.received - mark
        self._settled = fan_out.published - unprocessed
        self._since = None
        fan_out.active_at = 0
        if unprocessed > 0:
            self._plan()

    def renewed(self) -> None:
        """Start again at 0, because the numbers of a new session begin at 1."""
        self._acked = 0

    def stop(self) -> None:
        """Send no more acknowledgements."""
        self._stopped = True
