"""Handles the items of each key in order, one handler at a time, and different keys concurrently.

A lane here is the queue of one key. ``_lanes`` has an entry for each key that has items. While no
handler of a key runs, the key's next item is in ``_ready``, the queue from which workers take
items. A worker is a task that calls handlers one after the other; while a handler is suspended, its
worker is too. The callback ``_tick`` runs once in each iteration of the event loop. If items are
ready and all workers are suspended in handlers, it starts more workers.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar

from arcp_client._rx.buffer import ChannelBuffer
from arcp_client._rx.delivery import Held
from arcp_client._rx.handling import HandlerSink, Options
from arcp_client._rx.sink import Downstream
from arcp_client._tasks import pass_on

__all__ = ["Keyed"]

T = TypeVar("T")
R = TypeVar("R")

_STALL = 0.1  # seconds until one more handler starts if none ends, all lanes run and keys wait
_LONG = 16  # a longer backlog is a deque: an empty deque takes 600 bytes, list.pop(0) is O(n)
_MOST = 64  # workers started in one iteration of the loop


class Keyed(HandlerSink[T, R]):
    """The sink of one subscription to ``concat_map_async_by``.

    Args:
        key: gives the lane of an item.
        options: how handlers run.
        down: gets their results.
        lanes: the most handlers that run at the same time; no limit by default.
        begin: called with an item before its handler, in the task that calls the handler.
        end: called with an item after its handler, also after a failed one.
    """

    def __init__(
        self,
        key: Callable[[T], Hashable],
        options: Options[T, R],
        down: Downstream[R],
        lanes: int | None = None,
        *,
        begin: Callable[[T], None] | None = None,
        end: Callable[[T], None] | None = None,
    ) -> None:
        super().__init__(options, down)
        self._key = key
        self._begin = begin
        self._end = end
        self._bound: float = math.inf if lanes is None else lanes
        self._limit = self._bound  # the bound, raised during a stall
        self._lanes: dict[Hashable, list[Any] | deque[Any] | None] = {}
        self._ready: deque[Any] = deque()  # key, item, key, item: two slots are less than a tuple
        self._workers: set[asyncio.Task[None]] = set()
        self._behind = 0  # items in all backlogs
        self._awake = 0  # workers that will take from _ready on their own
        self._running = 0  # handlers
        self._ends = 0  # handler calls that have ended
        self._ends_seen = 0
        self._growth = 1
        self._tick_due = False
        self._left, self._until = 0, 0.0  # rest of this iteration's slice, for all workers
        self._stall: asyncio.TimerHandle | None = None
        self._last_end = 0.0

    # ------------------------------------------------------------------ arrival

    def on_next(self, item: T) -> None:
        if threading.get_ident() != self._thread:
            if not self.stopped:
                self._loop.call_soon_threadsafe(self.on_next, item)
            return
        if self.ended or self.stopped:
            return
        token = self.here.token
        self._accept(item, item if token is None else Held(item, token.hold()))

    def wake(self) -> None:
        # An item that has left an evicting buffer can no longer be dropped or merged. So items are
        # taken only when their handlers can start; at most one waits here.
        inbox, ready = self.inbox, self._ready
        while inbox.queue and not (inbox.evicts and (ready or self._behind)):
            entry = inbox.take()
            self._accept(entry.item if type(entry) is Held else entry, entry)
        inbox.idle = not inbox.queue

    def _accept(self, item: T, entry: Any) -> None:
        try:
            key = self._key(item)
            known = key in self._lanes
        except BaseException as error:  # noqa: BLE001  # a key function is user code
            pass_on(error)
            key = object()  # a lane of its own
            self._lanes[key] = [entry]
            self._add(self._refuse(key, item, entry, error))
            return
        if known:
            self._queue_behind(key, entry)
            return
        self._lanes[key] = None
        self._ready.append(key)
        self._ready.append(entry)
        if not self._awake and not self._tick_due:
            self._staff(1)

    def _queue_behind(self, key: Hashable, entry: Any) -> None:
        self._behind += 1
        backlog = self._lanes[key]
        if backlog is None:
            self._lanes[key] = [entry]
            return
        if len(backlog) == _LONG and type(backlog) is list:
            backlog = self._lanes[key] = deque(backlog)
        backlog.append(entry)

    async def _refuse(self, key: object, item: T, entry: Any, error: BaseException) -> None:
        done = await self.failed(item, error)
        if not self.stopped:
            self._release(entry, done)
            self._forget(key)

    def _release(self, entry: Any, done: bool) -> None:
        if type(entry) is Held:
            entry.token.release(done)
        elif isinstance(self.inbox, ChannelBuffer):
            self.inbox.settle(1)

    # ------------------------------------------------------------------ a worker

    async def _work(self) -> None:
        ready = self._ready
        slice_items, slice_seconds = self.options.slice_items, self.options.slice_seconds
        clock = time.monotonic
        watchdog = self.watchdog()
        evicts, slot = self.inbox.evicts, self.inbox.new_slot()
        begin, end = self._begin, self._end
        key: Hashable = None
        entry: Any = None

        def take() -> Any:
            nonlocal key, entry
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
            key = ready.popleft()
            entry = ready.popleft()
            if evicts and not ready:
                self.wake()
            if begin is not None:
                begin(entry)
            return entry

        def after() -> None:
            nonlocal entry
            if end is not None:
                end(entry)
            entry = None  # so that a waiting worker does not keep it alive
            self._running -= 1
            self._ends += 1
            if self._limit != self._bound or self._stall is not None:
                self._relax()
            if not self.stopped:
                backlog = self._lanes[key]
                if backlog is None:
                    self._forget(key)
                else:
                    self._next_of(key, backlog)

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

    def _next_of(self, key: Hashable, backlog: list[Any] | deque[Any]) -> None:
        self._behind -= 1
        self._ready.append(key)
        self._ready.append(backlog.popleft() if isinstance(backlog, deque) else backlog.pop(0))
        if not backlog:
            self._lanes[key] = None

    def _relax(self) -> None:
        # A handler ended: lower the limit again, down to the bound.
        self._limit = max(self._bound, min(self._limit, self._running))
        self._last_end = self._loop.time()

    def _forget(self, key: Hashable) -> None:
        self._lanes.pop(key, None)
        if not self._lanes:
            self._lanes.clear()  # frees the table, which pop() keeps
            self._no_stall()
            if self.ended:
                self.exhausted()

    # ------------------------------------------------------------------ how many workers

    def _staff(self, wanted: int) -> None:
        # Start workers for ready keys, within the limit.
        room = self._limit - self._running - self._awake
        for _ in range(int(min(wanted, room, len(self._ready) // 2))):
            self._awake += 1
            self._add(self._work())
        if self._ready and self._running >= self._limit and self._stall is None:
            self._last_end = self._loop.time()
            self._stall = self._loop.call_later(_STALL, self._stalled)

    def _add(self, work: Coroutine[Any, Any, None]) -> None:
        self._workers.add(self.spawn(work))

    def drained(self, task: asyncio.Task[None]) -> None:
        self._workers.discard(task)
        super().drained(task)

    def _tick(self) -> None:
        self._tick_due = False
        if not self._ready or self._awake or self.stopped:
            return
        # If no handler ended since the last tick, handlers are slow: start workers faster.
        slow = self._ends_seen == self._ends
        self._ends_seen = self._ends
        self._growth = min(self._growth * 2, _MOST) if slow else 1
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

    def exhausted(self) -> None:
        if not self._lanes and not self.inbox.queue:
            self.finish(self.error)

    def pending(self) -> bool:
        return bool(self._ready)

    def drop(self) -> None:
        for entry in list(self._ready)[1::2]:
            self._release(entry, False)
        for backlog in self._lanes.values():
            for entry in backlog or ():
                self._release(entry, False)
        self._ready.clear()
        self._lanes.clear()

    def halt(self) -> None:
        for task in tuple(self._workers):
            if self.cancel(task):
                self._workers.discard(task)
        self._no_stall()
