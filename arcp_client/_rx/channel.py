"""`EventChannel`: a bounded queue that is the source of an Rx operator.

A producer awaits ``push`` when the queue is full. Rx itself cannot make a producer wait, because
``on_next`` is not awaitable.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar, get_args

from reactivex import Observable

from arcp_client import _arguments as check
from arcp_client._rx.buffer import ChannelBuffer, ChannelStats, Overflow
from arcp_client._rx.sink import Unicast

__all__ = ["EventChannel"]

T = TypeVar("T")


class EventChannel(Generic[T]):
    """A bounded queue that emits its items from an observable, and tracks their processing.

    ::

        push          ──a─b─c─d····──e──     cap=3, low=2: the push of d waits until a is done
        observable()  ──a─b─c─────d──e──
        done          ────────────a─b─c─d    a handler ended, or on_next returned

    An item is *outstanding* from its acceptance until it is done: while it is queued, while a
    handler runs for it, and while a later `concat_map_async`, `concat_map_async_by` or `stream` in
    the pipe queues or handles it. At most ``cap`` items are outstanding.

    ``overflow`` selects the treatment of an item for which there is no room:

    ============== ==============================================================================
    wait           ``push`` waits until no more than ``low`` are outstanding, in the order of the
                   calls; ``push_nowait`` accepts up to ``hard_cap`` and then returns False
    drop_oldest    the oldest item that no handler has started is dropped
    drop_newest    the item itself is dropped
    error          ``push`` and ``push_nowait`` raise BufferFull
    coalesce       as wait; but an item replaces the queued one of the same ``key``, at any time,
                   and moves to the end. The order stays that of the pushes, and a key that is
                   pushed without pause may be late for ever: for progress and metrics only
    ============== ==============================================================================

    With ``drop_oldest`` and ``coalesce`` an item leaves the queue only when its handler can start.
    If the subscriber is not an operator of this package, an item leaves the queue only when the
    previous one is done.

    A handler must not await ``push`` on its own channel: when the channel is full, it would wait
    for itself for ever. Use ``push_nowait`` there.

    The observable is *unicast*: it accepts one subscriber in its lifetime. That subscriber also
    gets the items that were pushed before it came. After it has unsubscribed, pushes return False.
    All methods must be called on the event loop of the subscriber; other threads use
    ``loop.call_soon_threadsafe(channel.push_nowait, item)``.

    Args:
        cap: limit of outstanding items, or of their total ``size``.
        low: waiting pushes continue when no more than this is outstanding; half of ``cap`` by
            default.
        hard_cap: limit for ``push_nowait`` under ``wait`` and ``coalesce``; ``cap`` by default.
        overflow: see above.
        key: computes the key of an item for ``coalesce``; required with ``coalesce`` and rejected
            otherwise.
        size: computes the size of an item. An item that is larger than ``cap`` is accepted when
            nothing is outstanding.

    Raises:
        ValueError: the limits contradict each other, or ``key`` is given without ``coalesce``.
    """

    def __init__(
        self,
        cap: int = 1024,
        *,
        low: int | None = None,
        hard_cap: int | None = None,
        overflow: Overflow = "wait",
        key: Callable[[T], Hashable] | None = None,
        size: Callable[[T], int] | None = None,
    ) -> None:
        check.a_number("cap", cap, least=1)
        check.a_number("low", low, least=0, none=True)
        check.a_number("hard_cap", hard_cap, least=1, none=True)
        check.a_function("key", key, none=True, sync=True)
        check.a_function("size", size, none=True, sync=True)
        low = cap // 2 if low is None else low
        hard_cap = cap if hard_cap is None else hard_cap
        if overflow not in get_args(Overflow):
            raise ValueError(f"overflow must be one of {get_args(Overflow)}, not {overflow!r}")
        if not 0 <= low < cap <= hard_cap:
            raise ValueError(f"not 0 <= low < cap <= hard_cap: {low}, {cap}, {hard_cap}")
        if (key is not None) != (overflow == "coalesce"):
            raise ValueError("overflow='coalesce' requires key, and key requires it")
        self._buffer = ChannelBuffer(cap, low, hard_cap, overflow, key, size)

    async def push(self, item: T) -> bool:
        """Accept an item; with ``wait`` and ``coalesce``, wait for room.

        If the call is cancelled, the item is not accepted.

        Returns:
            False if the item was not accepted: it was dropped, the channel has ended, or its
            subscriber has unsubscribed. `stats` counts such items.

        Raises:
            BufferFull: there is no room and ``overflow="error"``.
        """
        buffer = self._buffer
        if buffer.outstanding < buffer.gate:
            buffer.outstanding += 1
            buffer.accepted += 1
            buffer.queue.append(item)
            if buffer.idle:
                buffer.rouse()
            return True
        return await buffer.push(item)

    def push_nowait(self, item: T) -> bool:
        """Accept an item at once or not at all; with ``wait`` and ``coalesce``, up to ``hard_cap``.

        Returns:
            False if the item was not accepted; see `push`.

        Raises:
            BufferFull: there is no room and ``overflow="error"``.
        """
        buffer = self._buffer
        if buffer.outstanding < buffer.gate:
            buffer.put(item)
            return True
        return buffer.offer(item, buffer.hard) or False

    def complete(self) -> None:
        """End the observable after the accepted items. Waiting pushes return False. Idempotent."""
        self._buffer.end(None)

    def fail(self, error: Exception) -> None:
        """End the observable with an error, after the accepted items; else like `complete`."""
        self._buffer.end(error)

    def observable(self) -> Observable[T]:
        """The pushed items, for one subscriber. Subscribe on a running event loop.

        A second subscriber gets a LocalProtocolError: by its ``on_error``, or from ``subscribe`` if
        it has no ``on_error``. Use ``ops.share()`` for several subscribers.
        """
        return Unicast(self._buffer)

    def stats(self) -> ChannelStats:
        """The channel's current counts."""
        return self._buffer.stats()
