"""`AckedSource`: an async iterable as an observable whose items are acknowledged when processed.

The source takes an item when there is room for it, publishes it with a `Delivery`, and learns from
the delivery when the last operator has processed it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import Disposable

from arcp_client import _arguments as check
from arcp_client._rx.delivery import HolderCount, current_here, emit
from arcp_client._rx.sink import Downstream
from arcp_client._tasks import TaskOwner, as_exception, pass_on
from arcp_client.errors import LocalProtocolError

__all__ = ["AckedSource", "SourceStats"]

T = TypeVar("T")

_log = logging.getLogger("arcp_client.rx")
_TURN = 64  # items taken without a wait between two iterations of the loop


@dataclass(frozen=True, slots=True)
class SourceStats:
    """Counts of an `AckedSource`.

    Attributes:
        taken: items taken from the iterable.
        processed: items that every operator has processed.
        acknowledged: items for which the acknowledgement has returned.
        outstanding: items taken and not yet acknowledged; the sum of their sizes with ``size``.
    """

    taken: int
    processed: int
    acknowledged: int
    outstanding: int


class _Item(HolderCount):
    # One taken item: its own delivery, so that an item costs one object.

    __slots__ = ("_source", "item", "settled", "weight")

    def __init__(self, source: _Intake[Any], item: Any, weight: int) -> None:
        super().__init__(source.ignore)
        self._source = source
        self.item = item
        self.weight = weight
        self.settled = False

    @property
    def processed(self) -> bool:
        return self._processed

    def release(self, processed: bool = True) -> None:
        if not processed:
            self._processed = False
        self._holders -= 1
        if not self._holders:
            self.settled = True
            self._source.settle(self)


class _Intake(abc.DisposableBase, Generic[T]):
    """Takes, publishes and acknowledges the items, for one subscriber.

    Attributes:
        disposed: the subscriber has unsubscribed.
        failure: what ended the source other than its end: an exception of the iterable, of the
            acknowledgement, or of the observer.
    """

    def __init__(
        self,
        items: AsyncIterable[T],
        ack: Callable[[Sequence[T]], Awaitable[None] | None],
        cap: int,
        low: int,
        size: Callable[[T], int] | None,
        in_order: bool,
        ack_timeout: float | None,
    ) -> None:
        self._items, self._ack = items, ack
        self._cap, self._low, self._size = cap, low, size
        self._in_order, self._ack_timeout = in_order, ack_timeout
        self._owner = TaskOwner("arcp_client.rx")
        self._reader: asyncio.Task[None] | None = None
        self._down: Downstream[T] | None = None
        self._taken: deque[_Item] = deque()  # unprocessed, and processed ones behind them
        self._ready: list[_Item] = []  # to be acknowledged next
        self._unsettled = 0
        self._room: asyncio.Future[None] | None = None
        self._watchers: set[asyncio.Future[None]] = set()
        self._acking = False
        self._closing = False
        self._ack_failed = False
        self._counts = [0, 0, 0]  # taken, processed, acknowledged
        self._outstanding = 0
        self.ended = False
        self.disposed = False
        self.failure: Exception | None = None

    # ------------------------------------------------------------------ the subscriber's side

    @property
    def claimed(self) -> bool:
        return self._down is not None

    def start(self, down: Downstream[T]) -> None:
        """Begin to take items, on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._context = contextvars.copy_context()
        self._down = down
        if self._closing:
            self._end(None)
        else:
            self._reader = self._owner.spawn(self._read())

    def dispose(self) -> None:
        """Stop taking items. Idempotent, from any thread."""
        self.disposed = True
        if threading.get_ident() == self._thread:
            self._stop_reading()
            self._notify()
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing is taken
            self._loop.call_soon_threadsafe(self.dispose)

    def close(self) -> None:
        """Take no more items; the subscriber gets the end after those that were taken."""
        self._closing = True
        if self._down is not None:
            self._stop_reading()
            self._end(None)

    def _stop_reading(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and reader is not _current_task():
            reader.cancel()

    # ------------------------------------------------------------------ taking

    async def _read(self) -> None:
        error: Exception | None = None
        iterator: AsyncIterator[T] | None = None
        task = asyncio.current_task()
        turn = 0
        try:
            iterator = aiter(self._items)
            while not self._over():
                if self._outstanding >= self._cap:
                    await self._wait_for_room()
                    continue
                self._publish(await anext(iterator))
                turn += 1
                if not turn % _TURN:
                    await asyncio.sleep(0)
        except StopAsyncIteration:
            pass
        except BaseException as failure:  # noqa: BLE001  # the iterable is user code
            if isinstance(failure, asyncio.CancelledError) and not self._over():
                self._end(LocalProtocolError("the task that takes items was cancelled"))
            pass_on(failure, task)
            error = as_exception(failure, "the source")
        finally:
            if inspect.isasyncgen(iterator):
                await iterator.aclose()
        self._end(error)

    def _over(self) -> bool:
        return self.disposed or self.ended or self._closing

    async def _wait_for_room(self) -> None:
        self._room = self._loop.create_future()
        try:
            await self._room
        finally:
            self._room = None

    def _publish(self, item: T) -> None:
        assert self._down is not None
        weight = 1 if self._size is None else self._size(item)
        one = _Item(self, item, weight)
        one.hold()
        self._counts[0] += 1
        self._outstanding += weight
        self._unsettled += 1
        if self._in_order:
            self._taken.append(one)
        done = False
        on_next = self._down.on_next
        try:
            if not self.disposed:
                if on_next is not None:
                    emit(current_here(), one, on_next, item)
                done = True
        except BaseException as error:  # noqa: BLE001  # an observer is user code
            pass_on(error)
            self._end(as_exception(error, "an observer"))
        finally:
            one.release(done)

    # ------------------------------------------------------------------ acknowledging

    def ignore(self, _processed: bool) -> None:
        """Do nothing: `settle` gets the item itself."""

    def settle(self, one: _Item) -> None:
        """Count an item that no operator holds any more; acknowledge what is due."""
        self._unsettled -= 1
        if one.processed:
            self._counts[1] += 1
        if not self._in_order:
            if one.processed:
                self._ready.append(one)
            else:
                self._free(one.weight)
        else:
            taken = self._taken
            while taken and taken[0].settled and taken[0].processed:
                self._ready.append(taken.popleft())
            if taken and taken[0].settled and not (self.disposed or self.ended):
                self._fail(
                    LocalProtocolError(
                        "a subscriber dropped an item that it had not processed, so nothing after"
                        " it can be acknowledged in order; use one subscriber, or in_order=False"
                    )
                )
        if self._ready and not self._acking and not self._ack_failed:
            self._acking = True
            self._context.copy().run(self._owner.spawn, self._acknowledge())
        elif not self._unsettled:
            self._notify()

    async def _acknowledge(self) -> None:
        task = asyncio.current_task()
        try:
            while self._ready:
                batch, self._ready = self._ready, []
                async with asyncio.timeout(self._ack_timeout):
                    result = self._ack([one.item for one in batch])
                    if inspect.isawaitable(result):
                        await result
                self._counts[2] += len(batch)
                self._free(sum(one.weight for one in batch))
        except BaseException as error:  # noqa: BLE001  # the function is user code
            pass_on(error, task)
            self._ack_failed = True
            self._fail(as_exception(error, "the acknowledgement"))
        finally:
            self._acking = False
            self._notify()

    def _free(self, weight: int) -> None:
        self._outstanding -= weight
        if self._outstanding <= self._low and self._room is not None and not self._room.done():
            self._room.set_result(None)

    # ------------------------------------------------------------------ the end

    def _fail(self, error: Exception) -> None:
        self._stop_reading()
        if self.ended or self.disposed:
            self.failure = self.failure or error
            _log.error("acknowledging failed after the source had ended", exc_info=error)
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        if self.ended:
            return
        self.ended = True
        self.failure = error
        if self._down is not None and not self.disposed:
            self._down.end(error)
        self._notify()

    def _notify(self) -> None:
        if self.finished():
            for watcher in self._watchers:
                if not watcher.done():
                    watcher.set_result(None)

    def finished(self) -> bool:
        """Whether nothing is taken, handled or acknowledged any more."""
        if not (self.ended or self.disposed) or self._unsettled or self._acking:
            return False
        return not self._ready or self._ack_failed

    async def wait(self) -> None:
        """Wait until `finished`."""
        while not self.finished():
            watcher = asyncio.get_running_loop().create_future()
            self._watchers.add(watcher)
            try:
                await watcher
            finally:
                self._watchers.discard(watcher)

    def stats(self) -> SourceStats:
        """The current counts."""
        taken, processed, acknowledged = self._counts
        return SourceStats(taken, processed, acknowledged, self._outstanding)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


class _Acked(Observable[T]):
    """The observable of one source: the first subscriber gets all items, others an error."""

    def __init__(self, intake: _Intake[T]) -> None:
        super().__init__()
        self._intake = intake

    def subscribe(
        self,
        on_next: abc.ObserverBase[T] | abc.OnNext[T] | None = None,
        on_error: abc.OnError | None = None,
        on_completed: abc.OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        down = Downstream(on_next, on_error, on_completed)
        if not self._intake.claimed:
            self._intake.start(down)
            return self._intake
        error = LocalProtocolError("an AckedSource has one subscriber in its lifetime")
        if down.on_error is None:
            raise error
        down.on_error(error)
        return Disposable()


class AckedSource(Generic[T]):
    """Takes items from an async iterable, and acknowledges those that are processed.

    ::

        source = AckedSource(messages, ack=commit, cap=256)
        source.observable().pipe(concat_map_async_by(key_of, save)).subscribe()
        await source.join()

    ::

        taken      ──a─b─c─d───────────      cap=4: the next one when there is room
        handled    ──[a····]                 two lanes of concat_map_async_by
                     ─[b·][c·]──[d·]
        ack        ────────[a b c]──[d]      in_order: b and c wait for a

    An item is *processed* when its handler has ended and the operators of this package further
    downstream have processed its result; if no operator of this package gets it (after a filter,
    for example), when ``on_next`` has returned. A handler whose exception ``on_error`` has taken
    has ended; one whose exception ended the stream (``on_error="raise"``) or that was cancelled has
    not processed its item.

    Guarantees:
        - ``ack`` gets each processed item at most once. Calls do not overlap; while one runs,
          further items gather for the next call.
        - With ``in_order``, the items of all calls together are a beginning of what the iterable
          returned: an item is acknowledged after all earlier ones. Its last one is a *watermark*,
          as for the offsets of Kafka. Without, an item is acknowledged when it is processed.
        - At most ``cap`` items are taken and not acknowledged. The next item is requested when
          there is room, so the iterable is paused by not being asked.
        - An item that is not processed is never acknowledged: after a crash, a cancellation or
          ``dispose()``, the broker delivers it again. Handlers get such items a second time.

    If ``ack`` raises or exceeds its time, the source ends with that error: nothing more is taken
    or acknowledged, queued items are still handled, and then ``on_error`` is called. To tolerate a
    failed acknowledgement, catch it in ``ack``.

    The observable accepts one subscriber in its lifetime, on a running event loop. Disposing of the
    subscription stops the source; items that the operators have not handled are dropped.

    Args:
        items: any async iterable; an async generator is closed at the end.
        ack: called with a list of items, in the order in which they were taken (with
            ``in_order=False``: in which they were processed); may be async.
        cap: limit of items that are taken and not acknowledged, or of their total ``size``. With
            ``size``, one item may exceed the limit.
        low: the source continues to take items when no more than this is outstanding; half of
            ``cap`` by default.
        size: computes the size of an item, such as its number of bytes.
        in_order: see above.
        ack_timeout: seconds for one call of ``ack``; None for no limit.

    Raises:
        ValueError, TypeError: an argument is invalid.
    """

    def __init__(
        self,
        items: AsyncIterable[T],
        ack: Callable[[Sequence[T]], Awaitable[None] | None],
        *,
        cap: int = 1024,
        low: int | None = None,
        size: Callable[[T], int] | None = None,
        in_order: bool = True,
        ack_timeout: float | None = 30.0,
    ) -> None:
        check.an_instance("items", items, AsyncIterable, "an async iterable")
        check.a_function("ack", ack)
        check.a_number("cap", cap, least=1)
        check.a_number("low", low, least=0, none=True)
        check.a_function("size", size, none=True, sync=True)
        check.a_flag("in_order", in_order)
        check.seconds("ack_timeout", ack_timeout, above=True, none=True)
        low = cap // 2 if low is None else low
        if low >= cap:
            raise ValueError(f"low must be below cap: {low}, {cap}")
        self._intake = _Intake(items, ack, cap, low, size, in_order, ack_timeout)

    def observable(self) -> Observable[T]:
        """The items, for one subscriber.

        A second subscriber gets a LocalProtocolError: by its ``on_error``, or from ``subscribe`` if
        it has no ``on_error``.
        """
        return _Acked(self._intake)

    async def join(self) -> None:
        """Wait until the source has ended, and all processed items are acknowledged.

        The source ends with its iterable, by `aclose`, or when its subscriber unsubscribes.

        Raises:
            Exception: what ended the source: the error of the iterable or of ``ack``.
            LocalProtocolError: the source has no subscriber, so it would never end.
        """
        if not self._intake.claimed:
            raise LocalProtocolError("the source has no subscriber: subscribe before join()")
        await self._intake.wait()
        if self._intake.failure is not None:
            raise self._intake.failure

    async def aclose(self, *, timeout: float | None = None) -> None:
        """Take no more items; wait until those taken are handled and acknowledged.

        An ``anext`` of the iterable that is in progress is cancelled. Idempotent.

        Args:
            timeout: seconds to wait; None for no limit. After it, the handlers continue; to cancel
                them, dispose of the subscription.

        Raises:
            TimeoutError: the time is over.
            Exception: as `join`.
        """
        check.seconds("timeout", timeout, none=True)
        self._intake.close()
        if self._intake.claimed:
            async with asyncio.timeout(timeout):
                await self.join()

    def stats(self) -> SourceStats:
        """The source's current counts."""
        return self._intake.stats()
