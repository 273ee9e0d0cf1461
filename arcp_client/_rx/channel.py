"""`EventChannel`: a bounded source in front of an operator.

The limit is in front of Rx because ``on_next`` cannot wait.
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

    An item is *outstanding* from its acceptance until it is done: while it is queued, in a handler,
    or held further downstream by `concat_map_async`, `concat_map_async_by` or `stream`. At most
    ``cap`` are outstanding.

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
    If another operator than those of this package subscribes, items leave one at a time.

    A handler that awaits ``push`` on the channel that feeds it deadlocks when the channel is full;
    use ``push_nowait`` there.

    The observable is *unicast*: it accepts one subscriber in its lifetime, which also gets the
    items pushed before. After that subscriber has unsubscribed, pushes return False. All methods
    must be called on the event loop of the subscriber; other threads use
    ``loop.call_soon_threadsafe(channel.push_nowait, item)``.

    Args:
        cap: limit of outstanding items, or of their total ``size``.
        low: outstanding items at which waiting pushes continue; half of ``cap`` by default.
        hard_cap: limit for ``push_nowait`` under ``wait`` and ``coalesce``; ``cap`` by default.
        overflow: see above.
        key: the key function of ``coalesce``; required there and rejected elsewhere.
        size: the size of an item. One that is larger than ``cap`` is accepted alone.

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

        A cancelled call has not accepted the item.

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
        """Accept an item at once or not at all; with ``wait`` and ``coalesce`` up to ``hard_cap``.

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
        """End the observable with an error, after the accepted items; otherwise like `complete`."""
        self._buffer.end(error)

    def observable(self) -> Observable[T]:
        """The pushed items, for one subscriber. Subscribe on a running event loop.

        A second subscriber gets a LocalProtocolError in its ``on_error``, or from ``subscribe`` if
        it has none; use ``ops.share()`` for several subscribers.
        """
        return Unicast(self._buffer)

    def stats(self) -> ChannelStats:
        """The channel's current counters."""
        return self._buffer.stats()
