"""Closes a transport once, within a time limit, for any number of callers."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine
from typing import Any

from arcp_client._tasks import TaskOwner, cancel_and_wait
from arcp_client.errors import LinkLost

__all__ = ["Ending", "again", "closed_here"]


class Ending:
    """Runs one teardown for every caller of ``close()``.

    Args:
        owner: owns the teardown's task.
        teardown: ends the link in good order; given the first closer's timeout, in seconds, to
            plan with. It may take longer; then it is aborted.
        abort: ends the link at once, so that the teardown comes to its end; must not raise.
    """

    def __init__(
        self,
        owner: TaskOwner,
        *,
        teardown: Callable[[float], Coroutine[Any, Any, None]],
        abort: Callable[[], None],
    ) -> None:
        self._owner = owner
        self._teardown = teardown
        self._abort = abort
        self._task: asyncio.Task[None] | None = None

    @property
    def begun(self) -> bool:
        """Whether anybody has asked for the end yet."""
        return self._task is not None

    async def reach(self, *, timeout: float) -> None:
        """Wait until the link has ended; abort it after ``timeout`` seconds.

        A cancelled caller also aborts: it leaves with nothing left open behind it.
        """
        if self._task is None:
            self._task = self._owner.spawn(self._teardown(timeout), name="close")
        task = self._task
        try:
            # Not wait_for: the teardown belongs to every closer, so no closer may cancel it.
            await asyncio.wait({task}, timeout=max(timeout, 0.0))
        finally:
            if not task.done():
                self._abort()
                # The abort wakes what the teardown waits for; the cancellation is the backstop.
                await asyncio.wait({task}, timeout=1.0)
                await cancel_and_wait([task])


def closed_here(peer: str) -> LinkLost:
    """What calls raise after this side closed the link."""
    return LinkLost(f"the link to {peer} was closed by this side")


def again(error: LinkLost) -> LinkLost:
    """The same error as a new object: one that is raised twice would collect both tracebacks."""
    fresh = copy.copy(error)
    fresh.__cause__ = error.__cause__
    return fresh
