"""Shares one deadline among all steps of a close.

Each step gets the time that is left, so the steps together take no longer than the caller allowed.
"""

from __future__ import annotations

import asyncio
import math

__all__ = ["SLACK", "Deadline"]

SLACK = 0.1
"""Seconds beyond a deadline for a cancelled task to end: a few iterations of the loop."""


class Deadline:
    """A point in time on the running loop's clock.

    Args:
        seconds: from now; a negative number counts as 0.
    """

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time() + max(seconds, 0.0)

    @property
    def left(self) -> float:
        """Seconds until the deadline; 0 after it."""
        return max(self._at - self._loop.time(), 0.0)

    def share(self, at_most: float = math.inf) -> float:
        """Seconds for one step: the time left, limited to ``at_most``."""
        return max(min(self.left, at_most), 0.0)

    def timeout(self, at_most: float = math.inf) -> asyncio.Timeout:
        """Like ``asyncio.timeout``, for one step.

        A step that never suspends always completes. For a step that may suppress its cancellation,
        use `arcp_client._tasks.cancel_and_wait`, because this context would wait for the step.
        """
        return asyncio.timeout(self.share(at_most))
