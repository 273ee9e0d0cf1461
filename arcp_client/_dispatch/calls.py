"""Finds the handler call that running code belongs to, and detects deadlocks between calls (D10).

Two context variables hold the lane and the ordinal of the current handler call. Tasks that a
handler starts inherit them. A task that outlives the call belongs to no call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING

import msgspec

from arcp_client._wait_graph import waits_for
from arcp_client.errors import WouldDeadlock

if TYPE_CHECKING:
    from arcp_client._dispatch.lanes import Lane

__all__ = [
    "Call",
    "Edge",
    "Waits",
    "calling",
    "number_call",
    "numbered",
    "set_lane",
    "would_deadlock",
]

_lane: ContextVar[Lane | None] = ContextVar("arcp_client_lane", default=None)
_number: ContextVar[int] = ContextVar("arcp_client_call", default=-1)

number_call = _number.set
"""The present task goes on to the call of this number. Bound once: it is called for every event."""


def numbered(context: Context, lane: Lane, number: int) -> None:
    """The next drain that starts in this context begins with that call."""
    context.run(_lane.set, lane)
    context.run(_number.set, number)


def set_lane(lane: Lane) -> None:
    """The present task goes on to the next call of this lane."""
    _lane.set(lane)
    _number.set(lane.done)


class Call(msgspec.Struct, frozen=True):
    """One call of a handler that has not ended.

    Attributes:
        lane: where it runs.
        number: which call of that lane it is.
        direct: the code in question is the handler's own, not that of a task which it started.
    """

    lane: Lane
    number: int
    direct: bool

    @property
    def running(self) -> bool:
        """Whether it still has not ended."""
        return self.lane.runs(self.number)


def calling() -> Call | None:
    """The running handler that this code belongs to, directly or through tasks that it started."""
    lane = _lane.get()
    if lane is None:
        return None
    number = _number.get()
    if not lane.runs(number):
        return None
    return Call(lane, number, lane.registration.drains(asyncio.current_task()))


class Edge(msgspec.Struct, frozen=True, eq=False):
    """A call waits until another lane has come to a count."""

    call: Call
    goal: Lane


class Waits:
    """Waiting for lanes without waiting in a circle.

    Args:
        patience: seconds after which a wait of a handler's child task counts as the handler's own.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience

    async def lanes(
        self, barriers: Iterable[tuple[Lane, int]], what: str, *, but_own: bool = False
    ) -> None:
        """Wait until each lane has come to its count.

        Args:
            barriers: lanes and counts.
            what: what is waited for, for the error.
            but_own: do not wait for the lane of the calling handler.

        Raises:
            WouldDeadlock: called inside a handler that one of them, directly or not, waits for.
        """
        call = calling()
        for lane, count in barriers:
            if lane.done >= count or (but_own and call is not None and lane is call.lane):
                continue
            if call is None:
                await lane.reached(count)
            else:
                await self._from(call, lane, count, what)

    async def _from(self, call: Call, lane: Lane, count: int, what: str) -> None:
        if call.direct and _circular(lane, call.lane, direct=True):
            raise would_deadlock(call, what)
        reached = lane.reached(count)
        edge = Edge(call, lane)
        call.lane.edges.append(edge)
        try:
            await self.guarded(reached, call, lambda: _circular(lane, call.lane), what)
        finally:
            call.lane.edges.remove(edge)
            reached.cancel()

    async def guarded(
        self,
        future: asyncio.Future[None],
        call: Call,
        circular: Callable[[], bool],
        what: str,
        wait: Awaitable[None] | None = None,
    ) -> None:
        """Wait for a future; it fails if the wait still is circular when patience has ended.

        Args:
            future: what is waited for.
            call: the handler call that waits, or one of whose tasks does.
            circular: whether the future needs the end of that call.
            what: what is waited for, for the error.
            wait: how to wait, if not by awaiting the future.
        """

        def look() -> None:
            if not future.done() and call.running and circular():
                future.set_exception(would_deadlock(call, what))

        timer = asyncio.get_running_loop().call_later(self._patience, look)
        try:
            await (future if wait is None else wait)
        finally:
            timer.cancel()


def _circular(start: Lane, goal: Lane, *, direct: bool = False) -> bool:
    """Whether the running handler of one lane waits for another lane, directly or not.

    Args:
        start: the first lane.
        goal: the other one.
        direct: only by waits of handlers' own code. A task that a handler started may be waited
            for by nobody.
    """

    def waiting(lane: Lane) -> Iterable[Lane]:
        edges = lane.edges
        return (e.goal for e in edges if e.call.running and (e.call.direct or not direct))

    return waits_for(start, goal, waiting)


def would_deadlock(call: Call, what: str) -> WouldDeadlock:
    """The error for a wait that could never end."""
    return WouldDeadlock(
        f"waiting for {what} here would wait for handler {call.lane.registration.name}, which is"
        " waiting itself: register it with barrier=False, or wait in a task that outlives it"
    )
