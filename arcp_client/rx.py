"""Rx operators that run async handlers in order.

::

    channel = EventChannel(cap=1024)
    channel.observable().pipe(ops.filter(is_progress), concat_map_async(save)).subscribe()
    await channel.push(event)                       # waits while 1,024 are outstanding

    source = AckedSource(messages, ack=commit)      # any async iterable, acknowledged when handled
    source.observable().pipe(concat_map_async(save)).subscribe()
    await source.join()

RxPY's own ``ops.concat_map`` starts all handlers at once unless its mapper uses ``defer``. It has
no limit, lets an error overtake queued items, and takes tens of microseconds for each item. The
operators of this module have the same type, from Observable to Observable. But each has one queue.
While items are queued, one task takes them in order, and awaits the handler of each. A queue has a
limit if its source is an `EventChannel` or an `AckedSource`.

RxPY never awaits a coroutine function that is passed to ``subscribe``. So the observables of this
module refuse such a function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar, overload

from reactivex import Observable

from arcp_client import _arguments as check
from arcp_client._rx.buffer import ChannelStats, Overflow
from arcp_client._rx.channel import EventChannel
from arcp_client._rx.handling import OnError, Options
from arcp_client._rx.keyed import Keyed
from arcp_client._rx.serial import Serial
from arcp_client._rx.sink import Piped
from arcp_client._rx.source import AckedSource, SourceStats
from arcp_client._rx.stream import Stream, stream

__all__ = [
    "AckedSource",
    "ChannelStats",
    "EventChannel",
    "OnError",
    "Overflow",
    "SourceStats",
    "Stream",
    "concat_map_async",
    "concat_map_async_by",
    "stream",
]

T = TypeVar("T")
R = TypeVar("R")


@overload
def concat_map_async(
    handler: Callable[[T], Awaitable[R]],
    *,
    on_error: OnError[T] = "skip",
    slice_items: int = 64,
    slice_seconds: float = 0.005,
    item_timeout: float | None = None,
    isolate_context: bool = False,
) -> Callable[[Observable[T]], Observable[R]]: ...


@overload
def concat_map_async(
    handler: Callable[[T], R],
    *,
    on_error: OnError[T] = "skip",
    slice_items: int = 64,
    slice_seconds: float = 0.005,
    item_timeout: float | None = None,
    isolate_context: bool = False,
) -> Callable[[Observable[T]], Observable[R]]: ...


def concat_map_async(
    handler: Callable[[T], Awaitable[R] | R],
    *,
    on_error: OnError[T] = "skip",
    slice_items: int = 64,
    slice_seconds: float = 0.005,
    item_timeout: float | None = None,
    isolate_context: bool = False,
) -> Callable[[Observable[T]], Observable[R]]:
    """Handle items sequentially: each handler starts after the previous one has ended.

    ::

        source    ──a─b─c───────|
        handler   ──[a····][b··][c·]
        result    ────────A────B───C|     results in order, the end after the last one

    Guarantees:
        - At most one handler runs at a time; handlers start in the order of arrival.
        - ``on_next`` downstream is never re-entered, and is called on the event loop of the
          subscription, also if the source sends from other threads.
        - Exactly one terminal event, after the queue is empty, for completion and error alike.
        - ``dispose()`` cancels the running handler and drops the queue; nothing is emitted after
          it. It may be called more than once and from any thread. If the handler itself calls it,
          the handler runs to its end.
        - An observer that raises in ``on_next`` gets that exception in its ``on_error``, and the
          source is unsubscribed.
        - The event loop runs other tasks after ``slice_items`` items or ``slice_seconds``,
          whichever comes first. No task and no timer exists while nothing is queued.

    A handler fails if it raises, exceeds ``item_timeout``, or awaits something that is cancelled.
    Then ``on_error`` applies. Only ``dispose()``, a cancellation of the task that runs the
    handlers, or ``on_error="raise"`` stops the stream before its source ends.

    The queue has no limit: put an `EventChannel` in front of it. An item is processed when its
    handler has ended and the operators of this package further downstream have processed its
    result. At that time an `EventChannel`, or the client's ``notifications``, as the source counts
    the item as processed.

    Args:
        handler: called with each item; an awaitable result is awaited.
        on_error: ``"skip"`` logs the error (logger ``arcp_client.rx``) and continues. ``"raise"``
            ends the stream with the error at once. A callable, which may be async, gets the item
            and the error, and the stream continues when the callable has ended; exceptions of the
            callable are logged.
        slice_items: items between two yields to the loop.
        slice_seconds: seconds between two yields to the loop, plus the time of one handler.
        item_timeout: seconds after which a handler is cancelled and fails with TimeoutError. One
            timer serves all items, so the cost of each is negligible.
        isolate_context: run each handler in a copy of the subscriber's context, and in a task of
            its own, so that handlers do not see each other's context variables. Costs one task for
            each item. By default all handlers of a burst share a context.

    Returns:
        An operator for ``pipe``. Subscribing to its result needs a running event loop.

    Raises:
        ValueError, TypeError: an argument is invalid.
    """
    options = Options(handler, on_error, slice_items, slice_seconds, item_timeout, isolate_context)

    def operator(source: Observable[T]) -> Observable[R]:
        return Piped(source, lambda down: Serial(options, down))

    return operator


@overload
def concat_map_async_by(
    key: Callable[[T], Hashable],
    handler: Callable[[T], Awaitable[R]],
    *,
    lanes: int | None = None,
    on_error: OnError[T] = "skip",
    slice_items: int = 64,
    slice_seconds: float = 0.005,
    item_timeout: float | None = None,
    isolate_context: bool = False,
) -> Callable[[Observable[T]], Observable[R]]: ...


@overload
def concat_map_async_by(
    key: Callable[[T], Hashable],
    handler: Callable[[T], R],
    *,
    lanes: int | None = None,
    on_error: OnError[T] = "skip",
    slice_items: int = 64,
    slice_seconds: float = 0.005,
    item_timeout: float | None = None,
    isolate_context: bool = False,
) -> Callable[[Observable[T]], Observable[R]]: ...


def concat_map_async_by(
    key: Callable[[T], Hashable],
    handler: Callable[[T], Awaitable[R] | R],
    *,
    lanes: int | None = None,
    on_error: OnError[T] = "skip",
    slice_items: int = 64,
    slice_seconds: float = 0.005,
    item_timeout: float | None = None,
    isolate_context: bool = False,
) -> Callable[[Observable[T]], Observable[R]]:
    """Handle items of one key sequentially, and items of different keys concurrently.

    ::

        source    ──a1─b1─a2───b2──|
        lane a    ──[a1·····][a2··]
        lane b    ─────[b1·]───[b2·]
        result    ──────────B1─A1─A2─B2|     in order within a key, by completion between keys

    The guarantees of `concat_map_async` hold for each key; ``on_next`` downstream is serialised
    over all keys, and the terminal event follows the last handler of all keys. Ready keys take
    turns. A key without queued items holds no memory.

    With ``lanes``, at most that many handlers run at a time, with one exception, which prevents
    deadlocks: if all lanes are busy, keys wait, and no handler has ended for 100 ms, one more
    handler is started, and a further one every 100 ms as long as this lasts.

    Args:
        key: returns the key of an item. If it raises, or its result is not hashable, the item fails
            as if its handler had raised.
        handler: as in `concat_map_async`.
        lanes: limit of concurrent handlers; None for no limit.
        on_error: as in `concat_map_async`.
        slice_items: as in `concat_map_async`, for all keys together.
        slice_seconds: as in `concat_map_async`, for all keys together.
        item_timeout: as in `concat_map_async`.
        isolate_context: as in `concat_map_async`.

    Returns:
        An operator for ``pipe``. Subscribing to its result needs a running event loop.

    Raises:
        ValueError, TypeError: an argument is invalid.
    """
    check.a_function("key", key, sync=True)
    check.a_number("lanes", lanes, least=1, none=True)
    options = Options(handler, on_error, slice_items, slice_seconds, item_timeout, isolate_context)

    def operator(source: Observable[T]) -> Observable[R]:
        return Piped(source, lambda down: Keyed(key, options, down, lanes))

    return operator
