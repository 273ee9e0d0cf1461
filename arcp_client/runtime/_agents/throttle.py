"""Delays an agent that emits faster than its client reads (§6.5), or while the event log is full.

A delay for a client is bounded: a handler of that client may wait for another job of the same
session, so waiting without a bound could deadlock. The event log depends on no client; a job may
wait for it without a bound.
"""

from __future__ import annotations

import asyncio

from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._sessions.session import ServerSession
from arcp_client.runtime.limits import Limits

__all__ = ["Throttle"]

_TURN = 32
_UNSENT = 512


class Throttle:
    """The emissions of one job."""

    def __init__(self, job: ServerJob, limits: Limits) -> None:
        self._job = job
        self._limits = limits
        self._count = 0

    async def step(self) -> None:
        """After each emission: let others run now and then, and let a slow client catch up."""
        self._count += 1
        if self._job.behind:
            await self._job.room()
        session = self._job.owner
        if session is not None and session.outlet is not None:
            if session.unsent > _UNSENT:
                await session.moved(self._limits.lag_delay)
                return
            if session.lag > self._limits.lag_events:
                await self._hold(session)
                return
        if self._count % _TURN == 0:
            await asyncio.sleep(0)

    async def _hold(self, session: ServerSession) -> None:
        if not session.slow:
            session.slow = True
            self._job.emit(
                "status",
                {"phase": "back_pressure", "message": f"consumer lag {session.lag} events"},
            )
        if not session.acked:
            return  # it may never acknowledge, as many clients do: it is told, and not slowed
        loop = asyncio.get_running_loop()
        until = loop.time() + self._limits.lag_delay
        while session.outlet is not None and session.lag > self._limits.lag_events:
            left = until - loop.time()
            if left <= 0:
                return
            await session.moved(left)
