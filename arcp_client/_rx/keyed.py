"""Handles the items of each key in order, and those of different keys concurrently.

Each key that has items has a lane, which the workers of `LaneSink` empty.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from arcp_client._rx.buffer import ChannelBuffer
from arcp_client._rx.delivery import Held
from arcp_client._rx.handling import Options
from arcp_client._rx.lanes import LaneSink
from arcp_client._rx.sink import Downstream
from arcp_client._tasks import pass_on

__all__ = ["Keyed"]

T = TypeVar("T")
R = TypeVar("R")

_LONG = 16  # a longer backlog is a deque: an empty deque takes 600 bytes, list.pop(0) is O(n)
_TAKEN: Any = object()


class _KeyLane:
    # The queue of one key. Most keys have one item at a time, which needs no list.

    __slots__ = ("_backlog", "_head", "_key", "_sink")

    def __init__(self, sink: Keyed[Any, Any], key: Hashable, entry: Any) -> None:
        self._sink = sink
        self._key = key
        self._head = entry
        self._backlog: list[Any] | deque[Any] | None = None

    def append(self, entry: Any) -> None:
        self._sink.behind += 1
        backlog = self._backlog
        if backlog is None:
            self._backlog = [entry]
            return
        if len(backlog) == _LONG and type(backlog) is list:
            backlog = self._backlog = deque(backlog)
        backlog.append(entry)

    def begin(self) -> Any:
        head, self._head = self._head, _TAKEN  # so that the lane does not keep the item alive
        return head

    def end(self) -> bool:
        backlog = self._backlog
        if backlog is None:
            self._sink.forget(self._key)
            return False
        self._sink.behind -= 1
        self._head = backlog.popleft() if isinstance(backlog, deque) else backlog.pop(0)
        if not backlog:
            self._backlog = None
        return True

    def entries(self) -> list[Any]:
        head = [] if self._head is _TAKEN else [self._head]
        return [*head, *(self._backlog or ())]


class Keyed(LaneSink[T, R]):
    """The sink of one subscription to ``concat_map_async_by``.

    Attributes:
        behind: number of items that wait for an earlier one of their key.

    Args:
        key: gives the key of an item.
        options: how handlers run.
        down: gets their results.
        lanes: how many handlers may run at the same time; no limit by default.
    """

    def __init__(
        self,
        key: Callable[[T], Hashable],
        options: Options[T, R],
        down: Downstream[R],
        lanes: int | None = None,
    ) -> None:
        super().__init__(options, down, lanes)
        self._key = key
        self._lanes: dict[Hashable, _KeyLane] = {}
        self.behind = 0

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
        while inbox.queue and not (inbox.evicts and (ready or self.behind)):
            entry = inbox.take()
            self._accept(entry.item if type(entry) is Held else entry, entry)
        inbox.idle = not inbox.queue

    def _accept(self, item: T, entry: Any) -> None:
        try:
            key = self._key(item)
            lane = self._lanes.get(key)
        except BaseException as error:  # noqa: BLE001  # a key function is user code
            pass_on(error)
            key = object()  # a lane of its own
            self._lanes[key] = _KeyLane(self, key, entry)
            self._add(self._refuse(key, item, entry, error))
            return
        if lane is not None:
            lane.append(entry)
            return
        lane = self._lanes[key] = _KeyLane(self, key, entry)
        self.run((lane,))

    async def _refuse(self, key: object, item: T, entry: Any, error: BaseException) -> None:
        done = await self.failed(item, error)
        if not self.stopped:
            self._release(entry, done)
            self.forget(key)

    def _release(self, entry: Any, done: bool) -> None:
        if type(entry) is Held:
            entry.token.release(done)
        elif isinstance(self.inbox, ChannelBuffer):
            self.inbox.settle(1)

    # ------------------------------------------------------------------ the end

    def forget(self, key: Hashable) -> None:
        """Drop the lane of a key that has no more items."""
        self._lanes.pop(key, None)
        if not self._lanes:
            self._lanes.clear()  # frees the table, which pop() keeps
            self._no_stall()
            if self.ended:
                self.exhausted()

    def exhausted(self) -> None:
        if not self._lanes and not self.inbox.queue:
            self.finish(self.error)

    def drop(self) -> None:
        super().drop()
        for lane in self._lanes.values():
            for entry in lane.entries():
                self._release(entry, False)
        self._lanes.clear()
