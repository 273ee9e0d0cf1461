"""Acknowledges processed events, at most every 250 ms (S1, §6.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from arcp_client._dispatch.fan_out import FanOut
from arcp_client._link.driver import Driver

__all__ = ["Acknowledger"]

EVERY = 0.25


class Acknowledger:
    """Acknowledges what was processed, of one client.

    Args:
        driver: carries the session.
        fan_out: knows what was processed.
        safe: what of a mark may be acknowledged: all of it, or only what was saved.
    """

    def __init__(self, driver: Driver, fan_out: FanOut, *, safe: Callable[[int], int]) -> None:
        self._driver = driver
        self._fan_out = fan_out
        self._safe = safe
        self._acked = 0
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    @property
    def mark(self) -> int:
        """Every number up to it was processed by every consumer."""
        session = self._driver.session
        return session.ackable(self._fan_out.mark(session.session_id or "", session.received))

    def plan(self) -> None:
        """Something may have been processed."""
        if self._timer is None and not self._stopped:
            self._timer = asyncio.get_running_loop().call_later(EVERY, self._due)

    def _due(self) -> None:
        self._timer = None
        self.now()

    def now(self) -> None:
        """Acknowledge what there is."""
        if self._stopped:
            return
        driver = self._driver
        driver.flush()  # what was read in this turn is received, and with nobody yet
        mark = self._safe(self.mark)
        if mark > self._acked and driver.session.ack(mark, driver.now):
            self._acked = mark
            driver.carry()
        if mark < driver.session.received:
            self.plan()
        else:
            self._fan_out.quiet = True

    def renewed(self) -> None:
        """A new session numbers from 1 again."""
        self._acked = 0
        self.plan()

    def stop(self) -> None:
        """Acknowledge nothing more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
