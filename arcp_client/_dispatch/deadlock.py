"""Finds the handler call that running code belongs to, and detects deadlocks between calls (D10).

Two context variables hold the lane and the ordinal of the current handler call. Tasks that a
handler starts inherit them. A task that outlives the call belongs to no call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextvars import Context, ContextVar
from typing import Any, Protocol

import msgspec

from arcp_client._wait_graph import waits_for
from arcp_client.errors import WouldDeadlock
from arcp_client.events import Event

__all__ = [
    "HandlerCall",
    "HandlerLane",
    "LaneOwner",
    "WaitEdge",
    "WaitGraph",
    "calling",
    "number_call",
    "numbered",
    "set_lane",
    "would_deadlock",
]


class LaneOwner(Protocol):
    """The registration whose handlers a lane runs.

    Attributes:
        name: the handler's, for messages.
        barrier: results of jobs wait for it.
    """

    name: str
    barrier: bool

    def drains(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether this task is one that runs the handlers themselves."""


class HandlerLane(Protocol):
    """An ordered queue of handler calls, one of which runs at a time.

    Attributes:
        registration: whose it is.
        done: calls that have ended; also the number of the running one.
        edges: what the running handler, or tasks that it started, wait for.
    """

    registration: LaneOwner
    done: int
    edges: list[WaitEdge]

    @property
    def running(self) -> Event | None:
        """The event whose handler runs, or is next to run."""

    def runs(self, number: int) -> bool:
        """Whether the call of that number has not ended."""

    def reached(self, count: int) -> asyncio.Future[None]:
        """Resolves when so many calls have ended, or none will run any more."""


_lane: ContextVar[HandlerLane | None] = ContextVar("arcp_client_lane", default=None)
_number: ContextVar[int] = ContextVar("arcp_client_call", default=-1)

number_call = _number.set
"""The present task goes on to the call of this number. Bound once: it is called for every event."""


def numbered(context: Context, lane: HandlerLane, number: int) -> None:
    """The next drain that starts in this context begins with that call."""
    context.run(_lane.set, lane)
    context.run(_number.set, number)


def set_lane(lane: HandlerLane) -> None:
    """The present task goes on to the next call of this lane."""
    _lane.set(lane)
    _number.set(lane.done)


class HandlerCall(msgspec.Struct, frozen=True):
    """One call of a handler that has not ended.

    Attributes:
        lane: where it runs.
        number: which call of that lane it is.
        direct: the code in question is the handler's own, not that of a task which it started.
    """

    lane: HandlerLane
    number: int
    direct: bool

    @property
    def running(self) -> bool:
        """Whether it still has not ended."""
        return self.lane.runs(self.number)


def calling() -> HandlerCall | None:
    """The running handler that this code belongs to, directly or through tasks that it started."""
    lane = _lane.get()
    if lane is None:
        return None
    number = _number.get()
    if not lane.runs(number):
        return None
    return HandlerCall(lane, number, lane.registration.drains(asyncio.current_task()))


class WaitEdge(msgspec.Struct, frozen=True, eq=False):
    """A call waits until another lane has come to a count."""

    call: HandlerCall
    goal: HandlerLane


class WaitGraph:
    """Waits for lanes, but not in a circle.

    The edges stand in the lanes, so that a circle through the handlers of two clients is found.

    Args:
        patience: seconds after which a wait of a handler's child task counts as the handler's own.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience

    async def wait_for(
        self, barriers: Iterable[tuple[HandlerLane, int]], what: str, *, but_own: bool = False
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
                await self._wait_in(call, lane, count, what)

    async def _wait_in(self, call: HandlerCall, lane: HandlerLane, count: int, what: str) -> None:
        if call.direct and _circular(lane, call.lane, direct=True):
            raise would_deadlock(call, what)
        reached = lane.reached(count)
        edge = WaitEdge(call, lane)
        call.lane.edges.append(edge)
        try:
            await self.guarded(reached, call, lambda: _circular(lane, call.lane), what)
        finally:
            call.lane.edges.remove(edge)
            reached.cancel()

    async def guarded(
        self,
        future: asyncio.Future[None],
        call: HandlerCall,
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


def _circular(start: HandlerLane, goal: HandlerLane, *, direct: bool = False) -> bool:
    """Whether the running handler of one lane waits for another lane, directly or not.

    Args:
        start: the first lane.
        goal: the other one.
        direct: only by waits of handlers' own code. A task that a handler started may have no
            waiter at all.
    """

    def waiting(lane: HandlerLane) -> Iterable[HandlerLane]:
        edges = lane.edges
        return (e.goal for e in edges if e.call.running and (e.call.direct or not direct))

    return waits_for(start, goal, waiting)


def would_deadlock(call: HandlerCall, what: str) -> WouldDeadlock:
    """The error for a wait that could never end."""
    return WouldDeadlock(
        f"waiting for {what} here would wait for handler {call.lane.registration.name}, which is"
        " waiting itself: register it with barrier=False, or wait in a task that outlives it"
    )
