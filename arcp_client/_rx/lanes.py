"""Handles the items of each lane in order, one handler at a time, and different lanes concurrently.

A lane here is a queue of items. A lane with items and without a running handler is in ``_ready``,
the queue from which workers take lanes. A worker is a task that calls handlers one after the other;
while a handler is suspended, its worker is too. The callback ``_tick`` runs once in each iteration
of the event loop. If lanes are ready and all workers are suspended in handlers, it starts more
workers.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Coroutine, Iterable
from typing import Any, Protocol, TypeVar

from arcp_client._rx.handling import HandlerSink, Options
from arcp_client._rx.sink import Downstream

__all__ = ["LaneSink", "RunQueue"]

T = TypeVar("T")
R = TypeVar("R")

_STALL = 0.1  # seconds until one more handler starts if none ends, all lanes run and lanes wait
_MOST = 64  # workers started in one iteration of the loop


class RunQueue(Protocol):
    """The interface of a lane."""

    def begin(self) -> Any:
        """The next item. Called in the task that calls the handler, immediately before."""

    def end(self) -> bool:
        """Count the item as handled. Returns whether the lane has another one."""


class LaneSink(HandlerSink[T, R]):
    """The sink that calls the handlers of lanes.

    Args:
        options: how handlers run.
        down: gets their results.
        bound: how many handlers may run at the same time; no limit by default.
    """

    def __init__(
        self, options: Options[T, R], down: Downstream[R], bound: int | None = None
    ) -> None:
        super().__init__(options, down)
        self._bound = sys.maxsize if bound is None else bound
        self._limit = self._bound  # the bound, raised during a stall
        self._ready: deque[Any] = deque()  # of `RunQueue`
        self._workers: set[asyncio.Task[None]] = set()
        self._awake = 0  # workers that will take from _ready on their own
        self._running = 0  # handlers
        self._progress = False  # a handler has ended since the last tick
        self._growth = 1
        self._tick_due = False
        self._left, self._until = 0, 0.0  # rest of this iteration's slice, for all workers
        self._stall: asyncio.TimerHandle | None = None
        self._last_end = 0.0

    def run(self, lanes: Iterable[RunQueue]) -> None:
        """Handle the items of these lanes, which had none before."""
        if self.stopped:
            return
        self._ready.extend(lanes)
        if not self._awake and not self._tick_due:
            self._staff(1)

    # ------------------------------------------------------------------ a worker

    async def _work(self) -> None:
        ready = self._ready
        slice_items, slice_seconds = self.options.slice_items, self.options.slice_seconds
        clock = time.monotonic
        watchdog = self.watchdog()
        evicts, slot = self.inbox.evicts, self.inbox.new_slot()
        lane: Any = None

        def take() -> Any:
            nonlocal lane
            if not ready or self._running >= self._limit:
                raise IndexError
            if not self._tick_due:
                self._tick_due = True
                self._left = slice_items
                self._until = clock() + slice_seconds
                self._loop.call_soon(self._tick)
            elif self._left <= 0 or clock() >= self._until:
                raise IndexError
            self._left -= 1
            self._running += 1
            lane = ready.popleft()
            if evicts and not ready:
                self.wake()
            return lane.begin()

        def after() -> None:
            nonlocal lane
            self._running -= 1
            self._progress = True
            if self._limit != self._bound or self._stall is not None:
                self._relax()
            if not self.stopped and lane.end():
                ready.append(lane)
            lane = None  # so that a waiting worker does not keep it alive

        self._awake -= 1
        await self.drain(take, self._dry, slot=slot, watchdog=watchdog, after=after)
        if watchdog is not None:
            watchdog.close()

    async def _dry(self) -> bool:
        # End this worker if another one is awake or the limit is reached. Otherwise continue after
        # one iteration of the loop.
        if self._awake or self._running >= self._limit:
            self._staff(0)
            return False
        self._awake += 1
        await self.pause()
        self._awake -= 1
        return bool(self._ready)

    def _relax(self) -> None:
        # A handler ended: lower the limit again, down to the bound.
        self._limit = max(self._bound, min(self._limit, self._running))
        self._last_end = self._loop.time()

    # ------------------------------------------------------------------ how many workers

    def _staff(self, wanted: int) -> None:
        # Start workers for ready lanes, within the limit.
        room = self._limit - self._running - self._awake
        for _ in range(min(wanted, room, len(self._ready))):
            self._awake += 1
            self._add(self._work())
        if self._ready and self._running >= self._limit and self._stall is None:
            self._stall = self._loop.call_later(_STALL, self._stalled)

    def _add(self, work: Coroutine[Any, Any, None]) -> None:
        self._workers.add(self.spawn(work))

    def drained(self, task: asyncio.Task[None]) -> None:
        self._workers.discard(task)
        super().drained(task)

    def release_task(self, task: asyncio.Task[None]) -> None:
        self._workers.discard(task)
        super().release_task(task)

    def _tick(self) -> None:
        self._tick_due = False
        if not self._ready or self._awake or self.stopped:
            return
        # If no handler ended since the last tick, handlers are slow: start workers faster.
        self._growth = 1 if self._progress else min(self._growth * 2, _MOST)
        self._progress = False
        self._staff(self._growth)

    def _stalled(self) -> None:
        self._stall = None
        if not self._ready or self._running < self._limit or self.stopped:
            return
        now = self._loop.time()
        if now >= self._last_end + _STALL:
            self._last_end = now
            self._limit += 1
            self._staff(1)
        self._stall = self._loop.call_at(self._last_end + _STALL, self._stalled)

    def _no_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    # ------------------------------------------------------------------ the end

    def pending(self) -> bool:
        return bool(self._ready)

    def drop(self) -> None:
        self._ready.clear()

    def halt(self) -> None:
        for task in tuple(self._workers):
            if self.cancel(task):
                self._workers.discard(task)
        self._no_stall()
