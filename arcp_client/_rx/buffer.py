"""Queues the items of one consumer within limits, without Rx.

An item is *outstanding* from its acceptance until it is processed: while it is queued, while the
consumer handles it, and while the item's `Delivery` has holders.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, cast

from reactivex import abc

from arcp_client._rx.delivery import Delivery, Held, HolderCount
from arcp_client.errors import BufferFull

__all__ = ["BufferConsumer", "ChannelBuffer", "ChannelStats", "Inbox", "Overflow"]

Overflow: TypeAlias = Literal["wait", "drop_oldest", "drop_newest", "error", "coalesce"]


@dataclass(frozen=True, slots=True)
class ChannelStats:
    """Counts of a channel. ``outstanding`` is the sum of the sizes if the channel has ``size``.

    Attributes:
        outstanding: items accepted and not yet processed, including the one that is being handled.
        queued: items in the channel's own queue, which may still be dropped or merged.
        waiting: calls of ``push`` that wait for room.
        accepted: items accepted, including those dropped or merged later.
        dropped: items dropped by ``drop_oldest`` or ``drop_newest``.
        merged: items replaced by a later one of the same key.
        refused: items pushed after the channel had ended or the subscriber had unsubscribed.
        pauses: calls of ``push`` that had to wait.
    """

    outstanding: int
    queued: int
    waiting: int
    accepted: int
    dropped: int
    merged: int
    refused: int
    pauses: int


class BufferConsumer(Protocol):
    """The consumer of a buffer: takes the items out of it."""

    def wake(self) -> None:
        """Start to take items. The buffer has set ``idle`` to False."""

    def on_error(self, error: Exception) -> None:
        """The source failed; the queued items are the last ones."""

    def on_completed(self) -> None:
        """The source completed; the queued items are the last ones."""


class Inbox:
    """A queue in front of one consumer.

    ``take`` removes and returns the oldest entry, or raises IndexError. ``idle`` is True while the
    consumer runs no task that takes entries. The code that adds an entry to an idle inbox sets
    ``idle`` to False and wakes the consumer.
    """

    evicts = False  # whether queued items may still be dropped or replaced
    take: Callable[[], Any]

    def __init__(self) -> None:
        self.queue: Any = deque()
        self.take = self.queue.popleft
        self.idle = True

    def new_slot(self) -> Delivery | None:
        """A `Delivery` for all items of one drain task that have none of their own."""
        return None

    def clear(self) -> None:
        """Drop every queued item."""
        while self.queue:
            entry = self.take()
            if type(entry) is Held:
                entry.token.release(False)


_NOTHING = object()
_TURN = 64  # pushes off the fast path between two iterations of the loop


def _weight_of(entry: Any) -> int:
    return cast(_Weighed, entry.token).weight if type(entry) is Held else 1


class _InHand(HolderCount):
    # The delivery of the item that the consumer is handling. Few items are held further downstream,
    # so one object serves all items, and `hold` makes a real delivery.

    __slots__ = ("_buffer", "_lent")

    def __init__(self, buffer: ChannelBuffer) -> None:
        super().__init__(buffer.returned)
        self._buffer = buffer
        self._lent: Delivery | None = None

    def hold(self) -> Delivery:
        if self._lent is None:
            self._buffer.lent += 1
            self._lent = HolderCount(self._done).hold()
        return self._lent.hold()

    def release(self, processed: bool = True) -> None:
        lent = self._lent
        if lent is not None:
            self._lent = None
            lent.release(processed)
            return
        buffer = self._buffer
        buffer.outstanding -= 1
        if buffer.waiters and buffer.outstanding <= buffer.low:
            buffer.grant()


class _Weighed(HolderCount):
    __slots__ = ("_buffer", "weight")

    def __init__(self, buffer: ChannelBuffer, weight: int) -> None:
        super().__init__(buffer.returned)
        self._buffer = buffer
        self.weight = weight

    def release(self, processed: bool = True) -> None:
        self._holders -= 1
        if not self._holders:
            self._buffer.returned(weight=self.weight)


class ChannelBuffer(Inbox, abc.DisposableBase):
    """The queue and the counts of one channel. The consumer disposes of it when it unsubscribes."""

    def __init__(
        self,
        cap: int,
        low: int,
        hard: int,
        overflow: Overflow,
        key: Callable[[Any], Hashable] | None,
        size: Callable[[Any], int] | None,
    ) -> None:
        super().__init__()
        self.cap, self.low, self.hard = cap, low, hard
        self.overflow = overflow
        self.evicts = overflow in ("drop_oldest", "coalesce")
        self.waits = overflow in ("wait", "coalesce")
        self._key, self._size = key, size
        self.outstanding = 0
        self.lent = 0
        self.blocked = False
        self.claimed = False
        self.ended = False
        self.gone = False
        self.error: Exception | None = None
        self.consumer: BufferConsumer | None = None
        self.waiters: deque[tuple[asyncio.Future[None], int]] = deque()
        self._reserved = 0
        self.accepted = self._dropped = self._merged = self._refused = self._pauses = 0
        self._calls = 0
        if key is not None:
            self.queue = OrderedDict()
            self.take = self._take_first
        elif size is not None:
            self.take = self._take_weighed
        self.idle = False  # until a consumer is attached
        self.gate = -1
        self._regate()

    # ------------------------------------------------------------------ the consumer's side

    def attach(self, consumer: BufferConsumer) -> bool:
        """Attach the only consumer. False if there is or was another one."""
        if self.claimed:
            return False
        self.claimed = True
        self.consumer = consumer
        self.idle = True
        return True

    def start(self) -> None:
        """Deliver the items that were pushed, and the end, before the consumer was attached."""
        consumer = self.consumer
        if consumer is None:
            return
        if self.queue and self.idle:
            self.idle = False
            consumer.wake()
        if self.ended and not self.gone:
            self._end(consumer)

    def new_slot(self) -> Delivery | None:
        return _InHand(self) if self._size is None else None

    def dispose(self) -> None:
        """Detach the consumer: drop the queue, end waiting pushes, refuse further items."""
        if self.gone:
            return
        self.gone = True
        self.consumer = None
        queued = self.queue if self._key is None else self.queue.values()
        self.outstanding -= sum(map(_weight_of, queued))
        self.queue.clear()
        self.grant()

    def _take_first(self) -> Any:
        try:
            entry = self.queue.popitem(last=False)[1]
        except KeyError:
            raise IndexError from None
        if type(entry) is Held:
            self.lent += 1
        return entry

    def _take_weighed(self) -> Any:
        entry = self.queue.popleft()
        self.lent += 1
        return entry

    def returned(self, _: bool = True, *, weight: int = 1) -> None:
        """Count an item as processed that the consumer has taken from the queue."""
        self.lent -= 1
        self.settle(weight)
        if self.blocked and self.consumer is not None:
            self.blocked = False
            self.consumer.wake()

    def settle(self, weight: int) -> None:
        """Reduce ``outstanding``, and let waiting pushes continue if there is room."""
        self.outstanding -= weight
        if self.waiters and self.outstanding <= self.low:
            self.grant()

    # ------------------------------------------------------------------ the producer's side

    async def push(self, item: Any) -> bool:
        """Accept an item; under an overflow policy that waits, wait for room."""
        self._calls += 1
        if not self._calls % _TURN:
            await asyncio.sleep(0)  # otherwise pushes that never wait would starve the consumer
        taken = self.offer(item, self.cap)
        if taken is not None:
            return taken
        weight = self._weight(item)
        room = asyncio.get_running_loop().create_future()
        entry = (room, weight)
        self.waiters.append(entry)
        self._pauses += 1
        self._regate()
        try:
            await room
        except asyncio.CancelledError:
            if room.done() and not room.cancelled():
                self._reserved -= weight
                self.grant()
            elif entry in self.waiters:
                self.waiters.remove(entry)
                self._regate()
            raise
        self._reserved -= weight
        self._regate()
        if self.ended or self.gone:
            self._refused += 1
            return False
        self._admit(item, weight)
        return True

    def put(self, item: Any) -> None:
        """Accept an item. The caller has checked that ``outstanding < gate``."""
        self.outstanding += 1
        self.accepted += 1
        self.queue.append(item)
        if self.idle:
            self.rouse()

    def rouse(self) -> None:
        """Wake the consumer."""
        if self.consumer is not None:
            self.idle = False
            self.consumer.wake()

    def offer(self, item: Any, limit: int) -> bool | None:
        """Accept or refuse an item at once; None if it must wait for room."""
        if self.ended or self.gone:
            self._refused += 1
            return False
        weight = self._weight(item)
        old = _NOTHING if self._key is None else self.queue.get(self._key(item), _NOTHING)
        freed = 0 if old is _NOTHING else _weight_of(old)
        first = freed or not self.waiters or limit > self.cap
        if first and self._fits(weight - freed, limit):
            self._admit(item, weight)
            return True
        if self.waits:
            return None
        if self.overflow == "error":
            raise BufferFull(f"{self.outstanding} of {limit} outstanding")
        if self.overflow == "drop_oldest":
            while self.queue and not self._fits(weight, limit):
                entry = self.queue.popleft()
                self._dropped += 1
                self.settle(_weight_of(entry))
            if self._fits(weight, limit):
                self._admit(item, weight)
                return True
        self._dropped += 1
        return False

    def end(self, error: Exception | None) -> None:
        """Refuse further items; deliver the queued ones, then the end."""
        if self.ended:
            return
        self.ended = True
        self.error = error
        self.grant()
        if self.consumer is not None:
            self._end(self.consumer)

    def grant(self) -> None:
        """Give free room to waiting pushes, in the order of the calls."""
        while self.waiters:
            room, weight = self.waiters[0]
            if not (self.ended or self.gone or self._fits(weight, self.cap)):
                break
            self.waiters.popleft()
            if not room.done():
                self._reserved += weight
                room.set_result(None)
        self._regate()

    def stats(self) -> ChannelStats:
        """The current counters."""
        return ChannelStats(
            outstanding=self.outstanding,
            queued=len(self.queue),
            waiting=len(self.waiters),
            accepted=self.accepted,
            dropped=self._dropped,
            merged=self._merged,
            refused=self._refused,
            pauses=self._pauses,
        )

    # ------------------------------------------------------------------ both

    def _weight(self, item: Any) -> int:
        return 1 if self._size is None else self._size(item)

    def _fits(self, weight: int, limit: int) -> bool:
        held = self.outstanding + self._reserved
        # An item larger than the whole limit is accepted alone; otherwise it would wait for ever.
        return held + weight <= limit or held == 0 or weight <= 0

    def _admit(self, item: Any, weight: int) -> None:
        entry = item if self._size is None else Held(item, _Weighed(self, weight).hold())
        self.outstanding += weight
        if self._key is None:
            self.queue.append(entry)
        else:
            key = self._key(item)
            old = self.queue.pop(key, _NOTHING)
            if old is not _NOTHING:
                self._merged += 1
                self.settle(_weight_of(old))
            self.queue[key] = entry  # at the end, so items leave in the order of their pushes
        self.accepted += 1
        if self.idle:
            self.rouse()

    def _end(self, consumer: BufferConsumer) -> None:
        if self.error is None:
            consumer.on_completed()
        else:
            consumer.on_error(self.error)

    def _regate(self) -> None:
        # The fast path of push compares `outstanding` with the gate; -1 disables the fast path.
        plain = self._size is None and self._key is None
        open_ = not (self.ended or self.gone or self.waiters)
        self.gate = self.cap - self._reserved if plain and open_ else -1
