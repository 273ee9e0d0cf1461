"""`EventChannel`: a bounded source in front of an operator.

The limit is in front of Rx because ``on_next`` cannot wait.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar, get_args

from reactivex import Observable

from arcp_client import _arguments as check
from arcp_client._rx.buffer import Buffer, ChannelStats, Overflow
from arcp_client._rx.sink import Unicast

__all__ = ["EventChannel"]

T = TypeVar("T")


class EventChannel(Generic[T]):
    """A bounded queue whose items come out of an observable, and which waits until they are done.

    ::

        push          ──a─b─c─d····──e──     cap=3, low=2: the push of d waits until a is done
        observable()  ──a─b─c─────d──e──
        done          ────────────a─b─c─d    a handler ended, or on_next returned

    *Outstanding* is what was accepted and is not done: queued, in a handler, or held further down
    by `concat_map_async`, `concat_map_async_by` or `stream`. It never exceeds ``cap``.

    What happens to an item for which there is no room:

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

    With ``drop_oldest`` and ``coalesce`` an item leaves the queue only when it can start. Behind
    other operators than this package's, that means one item at a time.

    A handler that awaits ``push`` on the channel it is fed from waits for itself once that is full:
    it uses ``push_nowait``.

    The observable is *unicast*: one subscriber, ever; what was pushed before it came is kept for
    it. Once it has gone, pushes return False. Everything but construction happens on the event loop
    of the subscriber; other threads use ``loop.call_soon_threadsafe(channel.push_nowait, item)``.

    Args:
        cap: bound on what is outstanding, in items, or in units of ``size``.
        low: where waiting pushes go on; half of ``cap`` by default.
        hard_cap: bound for ``push_nowait`` under ``wait`` and ``coalesce``; ``cap`` by default.
        overflow: see above.
        key: what ``coalesce`` goes by; required there and refused elsewhere.
        size: the size of an item. One that is larger than ``cap`` is let through alone.

    Raises:
        ValueError: bounds that contradict each other, or ``key`` without ``coalesce``.
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
            raise ValueError(f"overflow is one of {get_args(Overflow)}, not {overflow!r}")
        if not 0 <= low < cap <= hard_cap:
            raise ValueError(f"not 0 <= low < cap <= hard_cap: {low}, {cap}, {hard_cap}")
        if (key is not None) != (overflow == "coalesce"):
            raise ValueError("key belongs to overflow='coalesce', and the other way round")
        self._buffer = Buffer(cap, low, hard_cap, overflow, key, size)

    async def push(self, item: T) -> bool:
        """Accept an item, waiting for room if the channel waits. Safe to cancel: then not accepted.

        Returns:
            False if the item was not taken: it was dropped, the channel has ended, or its
            subscriber has gone. Such items are counted in `stats`.

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
        """Accept an item at once or not at all; under ``wait`` up to ``hard_cap``.

        Returns:
            False if the item was not taken; see `push`.

        Raises:
            BufferFull: there is no room and ``overflow="error"``.
        """
        buffer = self._buffer
        if buffer.outstanding < buffer.gate:
            buffer.put(item)
            return True
        return buffer.offer(item, buffer.hard) or False

    def complete(self) -> None:
        """End the observable after what was accepted. Waiting pushes return False. Idempotent."""
        self._buffer.end(None)

    def fail(self, error: Exception) -> None:
        """End the observable with an error, after what was accepted; else as `complete`."""
        self._buffer.end(error)

    def observable(self) -> Observable[T]:
        """What was pushed, for one subscriber. Subscribe on a running event loop.

        A second subscriber gets a LocalProtocolError in its ``on_error``, or raised from
        ``subscribe`` if it has none; put ``ops.share()`` behind the first for more.
        """
        return Unicast(self._buffer)

    def stats(self) -> ChannelStats:
        """What was accepted, dropped and is outstanding, as of now."""
        return self._buffer.stats()
