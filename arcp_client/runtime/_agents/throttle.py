"""Delays an agent that emits faster than its client reads (§6.5), or while the event log is full.

A delay because of a client is bounded. Without a bound it could deadlock, if a handler of the
client waits for another job of the session. A wait for the event log has no bound, because the log
does not depend on clients.
"""

from __future__ import annotations

import asyncio

from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime.limits import Limits

__all__ = ["Throttle"]

_TURN = 64
"""Events of one job before other tasks get their turn."""


class Throttle:
    """Counts and delays the emissions of one job."""

    def __init__(self, job: ServerJob, limits: Limits) -> None:
        self._job = job
        self._limits = limits
        self._count = 0

    def due(self) -> bool:
        """Count an emission; return whether the agent must wait before it continues."""
        self._count += 1
        journal, session = self._job.journal, self._job.owner
        return (
            self._count % _TURN == 0
            or (session is not None and session.crowded)
            or (journal is not None and journal.full)
        )

    async def step(self) -> None:
        """Count an emission, and wait if the agent must."""
        if self.due():
            await self.wait()

    async def wait(self) -> None:
        """Yield to others, wait for room in the event log, and let a slow client catch up."""
        job = self._job
        if job.journal is not None:
            await job.journal.room()
        session = job.owner
        if session is not None and session.outlet is not None:
            if not session.slow and session.lag > self._limits.lag_events:
                session.slow = True
                message = f"consumer lag {session.lag} events"
                job.emit("status", {"phase": "back_pressure", "message": message})
            if session.behind:
                await session.moved(self._limits.lag_delay)
                return
        if self._count % _TURN == 0:
            await asyncio.sleep(0)
