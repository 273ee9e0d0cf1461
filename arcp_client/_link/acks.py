"""Acknowledges processed events, at most every 250 ms (§6.5).

See rule S1 in docs/explanation/rules.md.
"""

from __future__ import annotations

from collections.abc import Callable

from arcp_client._dispatch.fan_out import FanOut
from arcp_client._link.driver import Driver

__all__ = ["Acknowledger"]

EVERY = 0.25


class Acknowledger:
    """Acknowledges the processed events of one client.

    Args:
        driver: runs the session.
        fan_out: provides the watermark.
        safe: maps the watermark to the number up to which the store, if there is one, permits an
            acknowledgement.
    """

    def __init__(self, driver: Driver, fan_out: FanOut, *, safe: Callable[[int], int]) -> None:
        self._driver = driver
        self._fan_out = fan_out
        self._safe = safe
        self._acked = 0
        self._stopped = False

    @property
    def mark(self) -> int:
        """The highest number that may be acknowledged; ``safe`` is not considered."""
        session = self._driver.session
        return session.ackable(self._fan_out.mark(session.session_id or "", session.received))

    def plan(self) -> None:
        """Schedule an acknowledgement, because events may have been processed."""
        if not self._stopped:
            self._driver.plan(EVERY, self.now)

    def now(self) -> None:
        """Acknowledge all processed events."""
        if self._stopped:
            return
        driver = self._driver
        mark = self._safe(self.mark)
        if mark > self._acked and driver.session.ack(mark, driver.now):
            self._acked = mark
            driver.carry_out()
        if mark < driver.session.received:
            self.plan()
        else:
            self._fan_out.quiet = True

    def renewed(self) -> None:
        """Start again at 0, because the numbers of a new session begin at 1."""
        self._acked = 0

    def stop(self) -> None:
        """Send no more acknowledgements."""
        self._stopped = True
