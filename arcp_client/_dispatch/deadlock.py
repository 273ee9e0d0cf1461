"""Finds the handler call that code runs in, and detects deadlocks between calls.

A handler that waits for its own end, directly or through other handlers, would wait for ever. To
find such waits, a context variable holds which call of which lane is running. The tasks that a
handler starts, its *child tasks*, inherit the variable. A task that outlives the call belongs to no
call.

See rule D10 in docs/explanation/rules.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextvars import Context, ContextVar
from itertools import chain
from typing import Any, Protocol

import msgspec

from arcp_client._wait_graph import waits_for
from arcp_client.errors import ArcpError, WouldDeadlock
from arcp_client.events import Event

__all__ = [
    "HandlerCall",
    "HandlerLane",
    "LaneOwner",
    "WaitEdge",
    "WaitGraph",
    "calling",
    "own_turn",
    "present_lane",
    "set_call",
    "set_first_call",
    "would_deadlock",
]


class LaneOwner(Protocol):
    """The registration whose handlers a lane runs.

    Attributes:
        name: the handler's name, for messages.
        barrier: whether results of jobs wait for its handlers.
        failure: the error that stopped its handlers for good, if any.
    """

    name: str
    barrier: bool
    failure: ArcpError | None

    def drains(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether this task calls the handlers."""


class HandlerLane(Protocol):
    """An ordered queue of handler calls, one of which runs at a time.

    Attributes:
        registration: the registration that owns the lane.
        done: number of events whose calls have ended, and so the ordinal of the running call, which
            is that of its first event.
        edges: the waits of the running handler and of its child tasks.
    """

    registration: LaneOwner
    done: int
    edges: list[WaitEdge]

    def current(self) -> Sequence[Event]:
        """The events of the handler call that runs, or runs next; empty if none is outstanding."""

    def waiting(self) -> Iterator[Event]:
        """The outstanding events, those of the running call first."""

    def runs(self, number: int) -> bool:
        """Whether the call with that ordinal has not ended."""

    def reached(self, count: int) -> asyncio.Future[None]:
        """A future that resolves when `done` has reached the count, or the lane has stopped."""

    def blockers(self, count: int) -> Sequence[HandlerLane]:
        """Other lanes whose present events are handled before `done` can reach the count."""


_call: ContextVar[tuple[HandlerLane, int] | None] = ContextVar("arcp_client_call", default=None)

set_call = _call.set
"""Set the present task's handler call: its lane, and its ordinal in the lane. Called for every
event, so bound once.
"""


def set_first_call(context: Context, lane: HandlerLane, number: int) -> None:
    """Set the handler call in a context, from which tasks are started."""
    context.run(_call.set, (lane, number))


class HandlerCall(msgspec.Struct, frozen=True):
    """One call of a handler that has not ended.

    Attributes:
        lane: the lane of the call.
        number: the ordinal of the call in its lane.
        direct: whether the calling code runs in the handler itself, and not in a child task.
    """

    lane: HandlerLane
    number: int
    direct: bool

    @property
    def running(self) -> bool:
        """Whether the call has still not ended."""
        return self.lane.runs(self.number)


def calling() -> HandlerCall | None:
    """The handler call that this code belongs to, directly or as a child task; else ``None``."""
    call = _call.get()
    if call is None:
        return None
    lane, number = call
    if not lane.runs(number):
        return None
    return HandlerCall(lane, number, lane.registration.drains(asyncio.current_task()))


def present_lane() -> HandlerLane | None:
    """The lane of the handler call whose context this code has; the call may have ended."""
    call = _call.get()
    return None if call is None else call[0]


async def own_turn() -> None:
    """Wait until the calling handler's turn has come, if its thread runs ahead of its lane."""
    call = _call.get()
    if call is not None:
        lane, number = call
        if lane.done < number:
            await lane.reached(number)


class WaitEdge(msgspec.Struct, frozen=True, eq=False):
    """A handler call waits for a lane to reach a count."""

    call: HandlerCall
    lane: HandlerLane
    count: int

    @property
    def goals(self) -> tuple[HandlerLane, ...]:
        """The lanes that the call waits for."""
        return (self.lane, *self.lane.blockers(self.count))

    def closes_cycle(self, *, direct: bool = False) -> bool:
        """Whether a lane that the call waits for waits, directly or indirectly, for the call.

        Args:
            direct: follow only waits of handlers themselves, since a handler need not wait for its
                child tasks.
        """

        def waiting(lane: HandlerLane) -> Iterable[HandlerLane]:
            edges = (e for e in lane.edges if e.call.running and (e.call.direct or not direct))
            return chain.from_iterable(edge.goals for edge in edges)

        return any(waits_for(goal, self.call.lane, waiting) for goal in self.goals)


class WaitGraph:
    """Waits for lanes, and detects cycles of waits.

    Each lane stores its own edges. So cycles through the handlers of two clients are found too.

    Args:
        patience: seconds after which a wait of a child task counts as a wait of its handler.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience

    async def wait_for(
        self, barriers: Iterable[tuple[HandlerLane, int]], what: str, *, but_own: bool = False
    ) -> None:
        """Wait until each lane has reached its count.

        Args:
            barriers: lanes and counts.
            what: the awaited object, for the error.
            but_own: leave out the lane of the calling handler.

        Raises:
            WouldDeadlock: the handler of one of the lanes waits, directly or indirectly, for the
                calling handler.
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
        edge = WaitEdge(call, lane, count)
        if call.direct and edge.closes_cycle(direct=True):
            raise would_deadlock(call, what)
        reached = lane.reached(count)
        call.lane.edges.append(edge)
        try:
            await self.guarded(reached, call, edge.closes_cycle, what)
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
        """Wait for a future. After ``patience`` seconds, fail if the wait closes a cycle.

        Args:
            future: the future to wait for.
            call: the handler call that waits, itself or through a child task.
            circular: returns whether the future depends on the end of that call.
            what: the awaited object, for the error.
            wait: awaited instead of the future, if given.

        Raises:
            WouldDeadlock: the wait closes a cycle.
        """

        def look() -> None:
            if not future.done() and call.running and circular():
                future.set_exception(would_deadlock(call, what))

        timer = asyncio.get_running_loop().call_later(self._patience, look)
        try:
            await (future if wait is None else wait)
        finally:
            timer.cancel()


def would_deadlock(call: HandlerCall, what: str) -> WouldDeadlock:
    """Make the error for a wait that would never end."""
    return WouldDeadlock(
        f"waiting for {what} here would wait for handler {call.lane.registration.name}, which is"
        " waiting itself: register it with barrier=False, or wait in a task that outlives it"
    )
