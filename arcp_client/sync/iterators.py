"""Blocking iterators over events, and Observables that any thread may subscribe to.

The reading thread gets events from the loop thread in batches, because each change between threads
is slow. The loop thread checks every 50 ms how many events the reading thread has processed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import Disposable

from arcp_client._attempts import AttemptsIterator
from arcp_client._dispatch.streams import EventIterator as AsyncEventIterator
from arcp_client._dispatch.streams import Iteration
from arcp_client.events import Event
from arcp_client.sync._access import LoopAccess

__all__ = ["EventIterator", "LoopObservable"]

E = TypeVar("E", bound=Event)
T = TypeVar("T")

_BATCH = 256
_EVERY = 0.05


class EventIterator(Iterator[E], Generic[E]):
    """An iterator over events. Iterators are independent: each gets every event that matches.

    Made by ``events()`` of a client or a job, and by ``for event in job``. Use it in one thread at
    a time. Requesting the next item marks the previous one as processed; the client notices this
    within 50 ms. An iterator over a job begins with the job's replay buffer and ends after its
    terminal event; an iterator over the session begins with the next event. An iterator that is no
    longer referenced ends. After an interruption, as by Ctrl-C, it continues with the next item.

    The events of the replay buffer count as processed, because they arrived before the iterator was
    made: a client with a store does not get them again after a crash. An iterator over the session
    that is made before ``connect()`` has no such events.

    Raises:
        ArcpError: from the iteration, after the client has ended: ClientClosed, or the reason.
        WouldDeadlock, LocalProtocolError: from the iteration, where the caller must not block.
    """

    def __init__(self, access: LoopAccess, source: AsyncEventIterator[E]) -> None:
        assert isinstance(source, Iteration | AttemptsIterator)
        self._access = access
        self._progress = _Progress(source)
        self._batch: list[E] = []
        self._start = 0

    def __iter__(self) -> EventIterator[E]:
        return self

    def __next__(self) -> E:
        progress, batch = self._progress, self._batch
        at = progress.given - self._start
        if at >= len(batch):
            batch = self._refill()
            at = 0
        progress.given += 1
        if progress.unwatched:
            try:
                self._access.portal.post(progress.watch)
            except BaseException:  # interrupted: the item was not given
                progress.given -= 1
                raise
        return batch[at]

    def _refill(self) -> list[E]:
        progress = self._progress
        try:
            batch: list[E] = self._access.run(progress.take, _BATCH)
        except StopAsyncIteration:
            raise StopIteration from None
        # Nothing can interrupt between these assignments, since they call nothing.
        self._batch, self._start = batch, progress.given
        return batch

    def close(self) -> None:
        """End the iterator. Idempotent, from any thread; a waiting ``next`` ends."""
        self._access.call(self._progress.close)
        self._batch = []

    def __del__(self) -> None:
        progress = getattr(self, "_progress", None)
        if progress is not None:
            self._access.portal.post(progress.drop)


class _Progress:
    """How far the reading thread has come in an iterator of the loop.

    Attributes:
        given: number of items that were given to the caller, all of which but the last are
            processed. Set by the reading thread.
        unwatched: no timer looks at `given`, so the reading thread starts one. Set by the loop.
    """

    __slots__ = ("_source", "_timer", "given", "unwatched")

    def __init__(self, source: Iteration[Any] | AttemptsIterator) -> None:
        # The only lasting reference, which `drop` removes in the loop thread.
        self._source: Iteration[Any] | AttemptsIterator | None = source
        self._timer: asyncio.TimerHandle | None = None
        self.given = 0
        self.unwatched = True

    async def take(self, most: int) -> list[Any]:
        """Wait for the next items; those that were given are processed."""
        source = self._source
        if source is None:
            raise StopAsyncIteration
        items = await source.batch(self.given, most)
        self.watch()
        return items

    def close(self) -> None:
        """End the iterator."""
        if self._source is not None:
            self._source.close()

    def drop(self) -> None:
        """End the iterator, whose reading thread no longer refers to it."""
        self._source = None
        if self._timer is not None:
            self._timer.cancel()

    def watch(self) -> None:
        """Look at the reading thread again after a while."""
        if self.unwatched:
            self.unwatched = False
            self._timer = asyncio.get_running_loop().call_later(_EVERY, self._look)

    def _look(self) -> None:
        self.unwatched = True  # first: the reading thread looks at it after it has continued
        if self._source is not None and self._source.settle(self.given - 1):
            self.watch()


class LoopObservable(Observable[T]):
    """An Observable of a client, to which any thread may subscribe.

    Observers are called in the loop thread, so they must not block. A pipeline with operators that
    need a running loop, such as those of `arcp_client.rx`, is subscribed to in that thread:
    ``portal.call(pipeline.subscribe)``.

    Args:
        access: the way into the loop.
        source: the Observable in the loop.
    """

    def __init__(self, access: LoopAccess, source: Observable[T]) -> None:
        super().__init__()
        self._access = access
        self._source = source

    def subscribe(
        self,
        on_next: abc.ObserverBase[T] | abc.OnNext[T] | None = None,
        on_error: abc.OnError | None = None,
        on_completed: abc.OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Observe in the loop thread.

        Raises:
            TypeError: ``on_next`` is a coroutine function, which Rx would never await.
            LocalProtocolError: this thread runs an event loop.
        """
        subscription: Any = self._access.call(
            self._source.subscribe, on_next, on_error, on_completed, scheduler=scheduler
        )
        return Disposable(lambda: self._access.call(subscription.dispose))
