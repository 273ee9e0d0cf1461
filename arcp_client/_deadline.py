"""Shares one point in time among all steps of a close.

Each step gets what the steps before it left over, so the whole is bounded by what the caller asked.
"""

from __future__ import annotations

import asyncio
import math

__all__ = ["SLACK", "Deadline"]

SLACK = 0.1
"""Seconds beyond a deadline for what was told to end at once: a few turns of the loop."""


class Deadline:
    """A moment on the running loop's clock.

    Args:
        seconds: from now; less than none counts as none.
    """

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time() + max(seconds, 0.0)

    @property
    def left(self) -> float:
        """Seconds until then; 0 once it has passed."""
        return max(self._at - self._loop.time(), 0.0)

    def share(self, at_most: float = math.inf) -> float:
        """Seconds for one step: what is left, and not more than ``at_most``."""
        return max(min(self.left, at_most), 0.0)

    def timeout(self, at_most: float = math.inf) -> asyncio.Timeout:
        """As ``asyncio.timeout`` for one step.

        What never suspends is done in any case. A step that may swallow its cancellation needs
        `arcp_client._tasks.cancel_and_wait` instead: this one waits for it.
        """
        return asyncio.timeout(self.share(at_most))
