"""Rx operators whose handlers are coroutines, run in order.

::

    channel = EventChannel(cap=1024)
    channel.observable().pipe(ops.filter(is_progress), concat_map_async(save)).subscribe()
    await channel.push(event)                       # waits while 1,024 are not done

``ops.concat_map`` of RxPY starts all handlers at once unless it is wrapped in ``defer``, has no
bound, lets an error overtake queued items and spends tens of microseconds on each. These operators
keep its type, Observable in and Observable out, and not its machinery: one queue, and one task that
exists while there is work and awaits the handler itself.

A coroutine function given to a plain ``subscribe`` is never awaited by RxPY; the observables of
this module refuse it.
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
from arcp_client._rx.stream import Stream, stream

__all__ = [
    "ChannelStats",
    "EventChannel",
    "OnError",
    "Overflow",
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
    """Handle items one after another: the next handler starts when the one before has ended.

    ::

        source    ──a─b─c───────|
        handler   ──[a····][b··][c·]
        result    ────────A────B───C|     results in order, the end after the last of them

    Guarantees:
        - At most one handler at a time, started in the order of arrival.
        - ``on_next`` downstream is never re-entered, and is called on the event loop that the
          subscription was made on, also if the source sends from other threads.
        - Exactly one terminal event, after the queue is empty, for completion and error alike.
        - ``dispose()`` cancels the running handler, drops the queue, and nothing comes out after
          it. It may be called more than once and from any thread. Called by the handler itself,
          that handler runs on to its end.
        - An observer that raises in ``on_next`` gets that exception as its ``on_error``, and the
          source is unsubscribed.
        - The event loop gets its turn after ``slice_items`` items or ``slice_seconds``, whichever
          comes first. No task and no timer exists while nothing is queued.

    A handler that raises, exceeds ``item_timeout``, or awaits something that gets cancelled has
    failed, and ``on_error`` says what follows. Only ``dispose()``, and cancelling the task that
    runs the handlers, stop the stream.

    The queue has no bound of its own: put an `EventChannel` in front of it. A source that publishes
    delivery tokens learns when each item is done, that is when its handler has ended and whatever
    this package does further down with the result has ended as well.

    Args:
        handler: called with each item; what it returns is awaited if it can be.
        on_error: ``"skip"`` logs the error (logger ``arcp_client.rx``) and goes on. ``"raise"``
            ends the stream with it at once. A callable gets the item and the error, may be async,
            and the stream goes on when it ended; what it raises itself is logged.
        slice_items: items between two turns of the loop.
        slice_seconds: time between two turns of the loop, apart from that of one handler.
        item_timeout: seconds that one handler may take. It is cancelled then, and has failed with
            a TimeoutError. Kept by one timer, which costs next to nothing an item.
        isolate_context: run each handler in a copy of the subscriber's context, and in a task of
            its own, so that context variables set by one are not seen by the next. Without it all
            handlers of one burst share a context. Costs a task an item.

    Returns:
        An operator for ``pipe``. Subscribing to its result needs a running event loop.

    Raises:
        ValueError, TypeError: arguments that make no sense.
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
    """Handle items of one key one after another, and those of different keys side by side.

    ::

        source    ──a1─b1─a2───b2──|
        lane a    ──[a1·····][a2··]
        lane b    ─────[b1·]───[b2·]
        result    ──────────B1─A1─A2─B2|     in order within a key, as they end between keys

    What `concat_map_async` guarantees holds here for each key; ``on_next`` downstream is serialised
    over all of them, and the terminal event follows the last of all handlers. Ready keys take
    turns. A key without work holds no memory.

    With ``lanes`` at most so many handlers run at a time, with one exception against deadlock:
    when all have been running for 100 ms without one of them ending, and keys wait, one more is
    started, and another 100 ms later the next.

    Args:
        key: what decides the lane. If it raises, or its result cannot be hashed, the item has
            failed as if its handler had.
        handler: as in `concat_map_async`.
        lanes: bound on the handlers that run; None lets every key with work run.
        on_error: as in `concat_map_async`.
        slice_items: as in `concat_map_async`, for all keys together.
        slice_seconds: as in `concat_map_async`, for all keys together.
        item_timeout: as in `concat_map_async`.
        isolate_context: as in `concat_map_async`.

    Returns:
        An operator for ``pipe``. Subscribing to its result needs a running event loop.

    Raises:
        ValueError, TypeError: arguments that make no sense.
    """
    check.a_function("key", key, sync=True)
    check.a_number("lanes", lanes, least=1, none=True)
    options = Options(handler, on_error, slice_items, slice_seconds, item_timeout, isolate_context)

    def operator(source: Observable[T]) -> Observable[R]:
        return Piped(source, lambda down: Keyed(key, options, down, lanes))

    return operator
