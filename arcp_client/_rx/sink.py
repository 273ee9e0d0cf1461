"""The base of every subscriber of this package: a `Sink`, which belongs to one event loop.

Items that arrive from another thread are handed to the loop's thread. A sink ends exactly once, and
emits nothing after `Sink.dispose`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, cast

from reactivex import Observable, abc
from reactivex.disposable import Disposable

from arcp_client import _arguments as check
from arcp_client._rx.buffer import ChannelBuffer, Inbox
from arcp_client._rx.delivery import Delivery, Held, current_here, emit
from arcp_client._tasks import as_exception, pass_on
from arcp_client.errors import LocalProtocolError

__all__ = ["Downstream", "Emitter", "Piped", "Sink", "Unicast", "log"]

T = TypeVar("T")
R = TypeVar("R")
T_out = TypeVar("T_out", covariant=True)

log = logging.getLogger("arcp_client.rx")


class Downstream(Generic[T]):
    """The callbacks of one ``subscribe``, given as an observer or as functions."""

    __slots__ = ("on_completed", "on_error", "on_next")

    def __init__(
        self,
        on_next: abc.ObserverBase[T] | abc.OnNext[T] | None = None,
        on_error: abc.OnError | None = None,
        on_completed: abc.OnCompleted | None = None,
    ) -> None:
        self.on_next: abc.OnNext[T] | None
        if on_next is not None and (
            isinstance(on_next, abc.ObserverBase) or callable(getattr(on_next, "on_next", None))
        ):  # a first event would wait for the slow check of None against an abstract class
            observer: Any = on_next
            self.on_next = observer.on_next
            self.on_error: abc.OnError | None = observer.on_error
            self.on_completed: abc.OnCompleted | None = observer.on_completed
        else:
            if on_next is not None and check.is_coroutine_function(on_next):
                raise TypeError("on_next is a coroutine function: use concat_map_async")
            check.a_function("on_next", on_next, none=True)
            self.on_next = on_next
            self.on_error = on_error
            self.on_completed = on_completed

    def end(self, error: Exception | None) -> None:
        """Deliver the terminal event. Exceptions of the observer are logged."""
        try:
            if error is None:
                if self.on_completed is not None:
                    self.on_completed()
            elif self.on_error is not None:
                self.on_error(error)
            else:
                log.error("a stream ended with an unhandled error", exc_info=error)
        except BaseException as failure:  # an observer is user code
            pass_on(failure)
            if failure is error:  # RxPY's default on_error raises it
                log.error("a stream ended with an unhandled error", exc_info=error)
            else:
                log.error("an observer failed in its terminal event", exc_info=failure)


class Sink(abc.DisposableBase, Generic[T]):
    """Queues the items of one subscription. Subclasses implement `wake`, which takes them.

    Attributes:
        inbox: items that have arrived and that no handler has started.
        ended: the source has ended. Earlier items may still be queued.
        stopped: the sink has ended or was disposed. It emits nothing more.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._upstream: abc.DisposableBase | None = None
        self.here = current_here()
        self.inbox = Inbox()
        self.ended = False
        self.stopped = False
        self.error: Exception | None = None

    # ------------------------------------------------------------------ for the subclass

    def wake(self) -> None:
        """Start to take items from the inbox. The caller has set ``inbox.idle`` to False."""
        raise NotImplementedError

    def exhausted(self) -> None:
        """Called when the source ends while no item is queued or being handled."""
        raise NotImplementedError

    def pending(self) -> bool:
        """Whether items are queued."""
        return bool(self.inbox.queue)

    def halt(self) -> None:
        """Cancel running handlers, except in the caller's own task. Idempotent."""

    # ------------------------------------------------------------------ the source's side

    def connect(
        self, source: Observable[T], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        """Subscribe to the source. Returns this sink."""
        upstream: abc.DisposableBase
        if isinstance(source, Unicast) and source.backing.attach(self):
            self.inbox = upstream = source.backing
            self._upstream = upstream
            source.backing.start()
        else:
            upstream = source.subscribe(
                self.on_next, self.on_error, self.on_completed, scheduler=scheduler
            )
            self._upstream = upstream
        if self.stopped:
            self._detach()
        return self

    def on_next(self, item: T) -> None:
        """Queue one item, and hold its `Delivery`."""
        if threading.get_ident() != self._thread:
            if not self.stopped:
                self._loop.call_soon_threadsafe(self.on_next, item)
            return
        if self.ended or self.stopped:
            return
        token = self.here.token
        inbox = self.inbox
        inbox.queue.append(item if token is None else Held(item, token.hold()))
        if inbox.idle:
            inbox.idle = False
            self.wake()

    def feed(self, items: Iterable[T]) -> None:
        """Queue many items at once, on the loop's thread and without a `Delivery`."""
        if self.ended or self.stopped:
            return
        inbox = self.inbox
        inbox.queue.extend(items)
        if inbox.idle:
            inbox.idle = False
            self.wake()

    def on_error(self, error: Exception) -> None:
        """Record the source's error, which is passed on after all earlier items are processed."""
        self._source_ended(error)

    def on_completed(self) -> None:
        """Record the source's end, which is passed on after all earlier items are processed."""
        self._source_ended(None)

    def _source_ended(self, error: Exception | None) -> None:
        if threading.get_ident() != self._thread:
            if not self.stopped:
                self._loop.call_soon_threadsafe(self._source_ended, error)
            return
        if self.ended or self.stopped:
            return
        self.ended = True
        self.error = error
        if self.inbox.idle:
            self.exhausted()

    # ------------------------------------------------------------------ the end

    def dispose(self) -> None:
        """Unsubscribe, drop the queue, cancel running handlers. Idempotent, from any thread."""
        self.stopped = True
        if threading.get_ident() == self._thread:
            self._dispose()
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed, so no handler runs
            self._loop.call_soon_threadsafe(self._dispose)

    def _dispose(self) -> None:
        try:
            self.stop()
            self.halt()
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def stop(self) -> None:
        """Unsubscribe and drop the queue; running handlers continue."""
        self.stopped = True
        self._detach()
        self.drop()

    def drop(self) -> None:
        """Drop the queued items. The queue of a channel is dropped by `ChannelBuffer.dispose`."""
        self.inbox.clear()

    def _detach(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.dispose()


class Emitter(Sink[T], Generic[T, R]):
    """A sink that passes its results to an observer."""

    def __init__(self, down: Downstream[R]) -> None:
        super().__init__()
        self.down = down

    def exhausted(self) -> None:
        self.finish(self.error)

    def finish(self, error: Exception | None) -> None:
        """Stop, then pass the end or the error to the observer."""
        if self.stopped:
            return
        try:
            self.stop()
            self.halt()
        finally:
            self.down.end(error)


class _Relay(Emitter[T, T]):
    # Passes a channel's items to any observer. If the overflow policy drops or merges queued items,
    # an item is passed only when the previous one is processed, because an item that has left the
    # buffer can no longer be dropped or merged.

    _slot: Delivery | None = None

    def wake(self) -> None:
        buffer = cast(ChannelBuffer, self.inbox)
        slot = self._slot = self._slot or buffer.new_slot()
        on_next = self.down.on_next
        while not self.stopped:
            if buffer.evicts and buffer.lent:
                buffer.blocked = True
                return
            try:
                item = buffer.take()
            except IndexError:
                if self.ended:
                    self.finish(self.error)
                buffer.idle = True
                return
            token = slot
            if type(item) is Held:
                token, item = item.token, item.item
            assert token is not None
            try:
                if on_next is not None:
                    emit(self.here, token, on_next, item)
            except BaseException as error:  # noqa: BLE001  # an observer is user code
                pass_on(error)
                self.finish(as_exception(error, "an observer"))
            finally:
                token.release()


class Unicast(Observable[T_out]):
    """The observable of one channel: the first subscriber gets all items, others an error."""

    def __init__(self, buffer: ChannelBuffer) -> None:
        super().__init__()
        self.backing = buffer

    def subscribe(
        self,
        on_next: abc.ObserverBase[T_out] | abc.OnNext[T_out] | None = None,
        on_error: abc.OnError | None = None,
        on_completed: abc.OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Attach the one subscriber, on the running event loop.

        Raises:
            LocalProtocolError: there is or was a subscriber, and ``on_error`` is not given.
        """
        down = Downstream(on_next, on_error, on_completed)
        if not self.backing.claimed:
            return _Relay(down).connect(self, scheduler)
        error = LocalProtocolError(
            "an EventChannel has one subscriber; put ops.share() behind it for more"
        )
        if down.on_error is None:
            raise error
        down.on_error(error)
        return Disposable()


class Piped(Observable[T_out]):
    """An operator's output: each subscription connects a new sink to the source."""

    def __init__(
        self, source: Observable[Any], sink: Callable[[Downstream[T_out]], Sink[Any]]
    ) -> None:
        super().__init__()
        self._source = source
        self._sink = sink

    def subscribe(
        self,
        on_next: abc.ObserverBase[T_out] | abc.OnNext[T_out] | None = None,
        on_error: abc.OnError | None = None,
        on_completed: abc.OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Start to handle the source's items on the running event loop."""
        sink = self._sink(Downstream(on_next, on_error, on_completed))
        return sink.connect(self._source, scheduler)
