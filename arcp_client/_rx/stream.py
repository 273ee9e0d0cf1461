"""Makes a bounded async iterator from an observable.

The iterator and the source refer to the sink, but the sink does not refer to the iterator. So when
a loop over the iterator is left with ``break``, the iterator is garbage-collected, and this ends
its subscription.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Generic, TypeVar, cast

from reactivex import Observable

from arcp_client import _arguments as check
from arcp_client._rx.delivery import Delivery, Held
from arcp_client._rx.sink import Sink
from arcp_client.errors import BufferFull, LocalProtocolError

__all__ = ["Stream", "stream"]

T = TypeVar("T")


class _StreamSink(Sink[T], Generic[T]):
    def __init__(self, maxsize: int) -> None:
        super().__init__()
        self._maxsize = maxsize
        self._waiter: asyncio.Future[None] | None = None
        self._slot: Delivery | None = None
        self._in_hand: Delivery | None = None

    def on_next(self, item: T) -> None:
        here = threading.get_ident() == self._thread
        if here and not self.ended and len(self.inbox.queue) >= self._maxsize:
            self._overflow()
        else:
            super().on_next(item)

    def _overflow(self) -> None:
        token = self.here.token
        if token is not None:
            token.hold().release(False)
        self.error = BufferFull(f"{self._maxsize} items wait and none is requested")
        self.ended = True
        self._detach()

    def wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def exhausted(self) -> None:
        self.wake()

    def halt(self) -> None:
        self.error = None
        self._release_current(processed=False)
        self.wake()

    async def next(self) -> T:
        """Return the next item; the call marks the previous one as processed."""
        if self._waiter is not None:
            raise LocalProtocolError("another task already waits for the next item")
        self._release_current(processed=True)
        inbox = self.inbox
        while not self.stopped:
            try:
                entry = inbox.take()
            except IndexError:
                if self.ended:
                    break
                inbox.idle = True
                await self._arrival()
                continue
            if type(entry) is Held:
                self._in_hand = entry.token
                return cast(T, entry.item)
            if self._slot is None:
                self._slot = inbox.new_slot()
            self._in_hand = self._slot
            return cast(T, entry)
        error, self.error = self.error, None
        self.stop()
        if error is not None:
            raise error
        raise StopAsyncIteration

    async def _arrival(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _release_current(self, *, processed: bool) -> None:
        token, self._in_hand = self._in_hand, None
        if token is not None:
            token.release(processed)


class Stream(AsyncIterator[T]):
    """An async iterator over an observable; see `stream`."""

    def __init__(self, observable: Observable[T], maxsize: int) -> None:
        self._sink: _StreamSink[T] = _StreamSink(maxsize)
        self._sink.connect(observable)
        weakref.finalize(self, self._sink.dispose).atexit = False

    def __aiter__(self) -> Stream[T]:
        return self

    async def __anext__(self) -> T:
        return await self._sink.next()

    async def aclose(self) -> None:
        """Unsubscribe. Buffered items are dropped, and a waiting ``__anext__`` ends."""
        self._sink.dispose()

    async def __aenter__(self) -> Stream[T]:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


def stream(observable: Observable[T], *, maxsize: int = 1024) -> Stream[T]:
    """Iterate over an observable; the subscription starts here, not at the first ``await``.

    ::

        source        ──a─b────c──|
        async for     ──a····b···c|      each item when it is requested

    Guarantees: every item in order, or an error. At most ``maxsize`` items wait. An item is
    processed when the next one is requested; until then, an `EventChannel` or the client's
    ``notifications`` counts it for back-pressure. Directly on an `EventChannel` the stream has no
    buffer of its own, and the channel's limit applies.

    The subscription ends when the iterator is no longer referenced (as after a ``break``), with
    ``aclose()``, and at the end of ``async with``. A cancelled ``__anext__`` loses no item. After
    the end, and after ``aclose()``, iteration stops.

    Args:
        observable: any observable; its items may arrive from other threads.
        maxsize: number of waiting items above which the stream ends with BufferFull.

    Raises:
        BufferFull: from the iteration, after the buffered items, if more than ``maxsize`` items
            waited. The subscription has ended.
        Exception: from the iteration, after all earlier items: the error of the source.
        LocalProtocolError: from the iteration, if two tasks request the next item at once.
        ValueError: ``maxsize`` is below 1.
    """
    check.an_instance("observable", observable, Observable, "an Observable")
    check.a_number("maxsize", maxsize, least=1)
    return Stream(observable, maxsize)
