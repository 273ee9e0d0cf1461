"""The session's subject: events in, in arrival order, to every consumer that matches.

A consumer is a lane of handlers, an iterator, or the observers of ``client.notifications``. The
subject knows how far all of them are: an event is *processed* when none has it outstanding (D3).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

from reactivex import Observable, abc
from reactivex.disposable import Disposable

from .._rx.delivery import Delivery, publish
from ..events import Event
from .lanes import Relief

__all__ = ["Consumer", "Notifications", "Subject"]

_log = logging.getLogger("arcp_client.dispatch")


class Consumer(Protocol):
    """What the subject needs of whoever takes events."""

    def accept(self, events: list[Event]) -> None:
        """Take those that are wanted; must not block, raise, or change the list."""

    @property
    def outstanding(self) -> int:
        """Events taken and not done."""

    def oldest(self, session_id: str) -> int | None:
        """The lowest number of that session which is not done."""

    def numbers(self, session_id: str) -> Iterator[int]:
        """Every number of that session which is not done."""


class Subject:
    """Hands events to the consumers, in arrival order, as many at once as were read at once.

    Args:
        activity: called at the first events after somebody set `quiet`.

    Attributes:
        published: how many events there were.
        quiet: no event since this was set.
    """

    def __init__(self, activity: Callable[[], None]) -> None:
        self.quiet = True
        self.published = 0
        self._activity = activity
        self._lanes: list[Consumer] = []
        self._others: list[Consumer] = []
        self._consumers: tuple[Consumer, ...] = ()

    def attach(self, consumer: Consumer, *, first: bool = False) -> None:
        """All later events go to it. Idempotent.

        Args:
            consumer: who takes them.
            first: before all that are not: lanes are, since a job that learns of its end must
                find in them what came before.
        """
        group = self._lanes if first else self._others
        if consumer not in group:
            group.append(consumer)
            self._consumers = (*self._lanes, *self._others)

    def detach(self, consumer: Consumer) -> None:
        """No later event goes to it, and nothing waits for it any more."""
        for group in (self._lanes, self._others):
            if consumer in group:
                group.remove(consumer)
        self._consumers = (*self._lanes, *self._others)

    def publish(self, events: list[Event]) -> None:
        """Hand events out."""
        self.published += len(events)
        for consumer in self._consumers:
            consumer.accept(events)
        if self.quiet:
            self.quiet = False
            self._activity()

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._consumers)

    # ------------------------------------------------------------------ how far everybody is

    @property
    def backlog(self) -> int:
        """Events that the slowest consumer has outstanding."""
        return max((consumer.outstanding for consumer in self._consumers), default=0)

    def mark(self, session_id: str, received: int) -> int:
        """The watermark: every number up to it was processed by every consumer."""
        oldest = received + 1
        for consumer in self._consumers:
            if consumer.outstanding:
                number = consumer.oldest(session_id)
                if number is not None and number < oldest:
                    oldest = number
        return oldest - 1

    def processed_above(self, session_id: str, received: int) -> tuple[tuple[int, int], ...]:
        """Ranges above the mark that every consumer is done with, where lanes finish unevenly."""
        waiting = sorted({n for consumer in self._consumers for n in consumer.numbers(session_id)})
        ranges = []
        for number, following in zip(waiting, [*waiting[1:], received + 1], strict=True):
            if following - number > 1:
                ranges.append((number + 1, following - 1))
        return tuple(ranges)


class Notifications(Observable[Event]):
    """``client.notifications``: hot, in arrival order, each observer on its own (D4).

    An operator of `arcp_client.rx` keeps its event outstanding until its handler ended. Through
    other operators, and for plain observers, an event is done when ``on_next`` returned.

    Args:
        observed: called at every subscription.
        relief: told when an event is done.
    """

    def __init__(self, observed: Callable[[], None], relief: Relief | None = None) -> None:
        super().__init__()
        self._observed = observed
        self._relief = relief
        self._observers: dict[object, _Observer] = {}
        self._pending: dict[int, Event] = {}
        self._drained: list[asyncio.Future[None]] = []
        self._count = 0
        self._ended = False
        self._error: Exception | None = None

    # -- for users

    def subscribe(
        self,
        on_next: abc.ObserverBase[Event] | abc.OnNext[Event] | None = None,
        on_error: abc.OnError | None = None,
        on_completed: abc.OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Observe every event from now on.

        Raises:
            TypeError: ``on_next`` is a coroutine function, which Rx would never await; put
                ``concat_map_async(handler)`` in a pipe, or use ``client.on``.
        """
        observer = _Observer(on_next, on_error, on_completed)
        if self._ended:
            observer.end(self._error)
            return Disposable()
        key = object()
        self._observers[key] = observer
        self._observed()

        def leave() -> None:
            self._observers.pop(key, None)

        return Disposable(leave)

    # -- for the subject

    def accept(self, events: list[Event]) -> None:
        for event in events:
            self._emit(event)

    def _emit(self, event: Event) -> None:
        for key, observer in tuple(self._observers.items()):
            self._count += 1
            number = self._count
            self._pending[number] = event
            try:
                publish(Delivery(partial(self._done, number)), observer.next, event)
            except Exception as error:  # noqa: BLE001  an observer of the user's
                self._observers.pop(key, None)
                _log.exception("an observer of notifications failed and was removed")
                observer.end(error)

    def _done(self, number: int, _processed: bool) -> None:
        event = self._pending.pop(number, None)
        relief = self._relief
        if relief is not None:
            if relief.follower is not None and event is not None:
                relief.follower(event)
            if relief.paused is not None:
                relief.eased()
        if not self._pending and self._drained:
            waiting, self._drained = self._drained, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    async def drained(self) -> None:
        """Wait until the operators of `arcp_client.rx` behind it hold no event."""
        if self._pending:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._drained.append(future)
            await future

    @property
    def outstanding(self) -> int:
        return len(self._pending)

    def oldest(self, session_id: str) -> int | None:
        return min(self.numbers(session_id), default=None)

    def numbers(self, session_id: str) -> Iterator[int]:
        for event in self._pending.values():
            if event.session_id == session_id and event.seq is not None:
                yield event.seq

    def end(self, error: Exception | None) -> None:
        """Complete, or fail, every observer; later ones too."""
        if self._ended:
            return
        self._ended = True
        self._error = error
        observers, self._observers = self._observers, {}
        for observer in observers.values():
            observer.end(error)


class _Observer:
    def __init__(
        self,
        on_next: Any,
        on_error: Callable[[Exception], None] | None,
        on_completed: Callable[[], None] | None,
    ) -> None:
        if callable(getattr(on_next, "on_next", None)):
            self.next: Callable[[Event], None] = on_next.on_next
            self._on_error = on_next.on_error
            self._on_completed = on_next.on_completed
        else:
            if inspect.iscoroutinefunction(on_next):
                raise TypeError(
                    "on_next is a coroutine function, which Rx never awaits:"
                    " use .pipe(concat_map_async(handler)) or client.on"
                )
            self.next = on_next if on_next is not None else lambda _event: None
            self._on_error = on_error
            self._on_completed = on_completed

    def end(self, error: Exception | None) -> None:
        try:
            if error is None:
                if self._on_completed is not None:
                    self._on_completed()
            elif self._on_error is not None:
                self._on_error(error)
        except Exception:  # noqa: BLE001  nobody is behind it
            _log.exception("an observer failed in its terminal event")
