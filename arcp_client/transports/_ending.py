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
        teardown: closes the link in an orderly way. It is called with the timeout of the first
            caller, in seconds, and aborted if it takes longer.
        abort: ends the link at once, so that the teardown finishes; must not raise.
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
        """Whether ``close()`` was called."""
        return self._task is not None

    async def reach(self, *, timeout: float) -> None:
        """Wait until the link has ended; abort it after ``timeout`` seconds.

        If a caller is cancelled, the link is aborted too, so that nothing stays open.
        """
        if self._task is None:
            self._task = self._owner.spawn(self._teardown(timeout), name="close")
        task = self._task
        try:
            # Not wait_for: all callers share the teardown, so no single caller may cancel it.
            await asyncio.wait({task}, timeout=max(timeout, 0.0))
        finally:
            if not task.done():
                self._abort()
                # The abort completes whatever the teardown awaits; the cancellation is the
                # fallback.
                await asyncio.wait({task}, timeout=1.0)
                await cancel_and_wait([task])


def closed_here(peer: str) -> LinkLost:
    """Make the error that calls raise after this side closed the link."""
    return LinkLost(f"the link to {peer} was closed by this side")


def again(error: LinkLost) -> LinkLost:
    """Copy an error, because one object that is raised twice would collect both tracebacks."""
    fresh = copy.copy(error)
    fresh.__cause__ = error.__cause__
    return fresh
