"""Publishes events as ``client.notifications``, a hot Observable.

See rule D4 in docs/explanation/rules.md.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from reactivex import Observable, abc
from reactivex.disposable import Disposable

from arcp_client import _arguments as check
from arcp_client._dispatch.reader_gate import ReaderGate, report_progress
from arcp_client._rx.delivery import current_here
from arcp_client._tasks import as_exception, pass_on
from arcp_client.events import Event, Gap

__all__ = ["Notifications"]

_log = logging.getLogger("arcp_client.dispatch")


class Notifications(Observable[Event]):
    """``client.notifications``: hot, in arrival order, with independent observers (rule D4).

    An observer behind an operator of `arcp_client.rx` has processed an event when the operator's
    handler has ended. Any other observer has processed it when ``on_next`` has returned.

    Args:
        observed: called for each new observer.
        gate: is told when observers have processed events.
    """

    def __init__(self, observed: Callable[[], None], gate: ReaderGate) -> None:
        super().__init__()
        self._observed = observed
        self._gate = gate
        self._observers: dict[_Observer, None] = {}
        self._changes = 0  # of the observers
        self._pending: dict[_EventDelivery, None] = {}
        self._drained: list[asyncio.Future[None]] = []
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
            LocalProtocolError: called outside the client's event loop.
        """
        self._gate.check_loop()
        observer = _Observer(on_next, on_error, on_completed)
        if self._ended:
            observer.end(self._error)
            return Disposable()
        self._observers[observer] = None
        self._changes += 1
        self._observed()

        def leave() -> None:
            self._remove(observer)

        return Disposable(leave)

    # -- for the fan-out

    def accept(self, events: list[Event], now: float, _largest: int = 0) -> None:
        here, pending = current_here(), self._pending
        callers: list[tuple[_Observer, Callable[[Event], None]]] = []
        changes = -1
        for event in events:
            if changes != self._changes:
                changes = self._changes
                callers = [(observer, observer.caller()) for observer in self._observers]
            for observer, call in callers:
                if changes != self._changes and observer not in self._observers:
                    continue  # an earlier observer of this event has removed it
                delivery = _EventDelivery(self, event, now)
                pending[delivery] = None
                outer, here.token = here.token, delivery
                try:
                    call(event)
                except BaseException as error:  # noqa: BLE001  a user's observer
                    here.token = outer
                    delivery.release()
                    self._failed(observer, error)
                else:
                    here.token = outer
                    delivery.holders -= 1  # as release() does, without a call for each event
                    if not delivery.holders:
                        self.processed(delivery)

    def takes(self, gap: Gap) -> bool:
        return bool(self._observers)

    def _failed(self, observer: _Observer, error: BaseException) -> None:
        pass_on(error)
        self._remove(observer)
        _log.error("an observer of notifications failed and was removed", exc_info=error)
        observer.end(as_exception(error, "an observer"))

    def _remove(self, observer: _Observer) -> None:
        self._observers.pop(observer, None)
        self._changes += 1

    def processed(self, delivery: _EventDelivery) -> None:
        """Count an event as processed by one observer."""
        del self._pending[delivery]
        if not self._pending and self._drained:
            waiting, self._drained = self._drained, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)
        gate = self._gate
        if gate.watching:
            if gate.follower is not None:
                gate.follower(delivery.event)
            if gate.progress_wanted:
                report_progress(gate, len(self._pending))

    async def drained(self) -> None:
        """Wait until all operators of `arcp_client.rx` have processed their events."""
        if self._pending:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._drained.append(future)
            await future

    @property
    def outstanding(self) -> int:
        return len(self._pending)

    def waiting(self) -> Iterator[Event]:
        return (delivery.event for delivery in self._pending)

    def oldest(self, session_id: str) -> int | None:
        for event in self.waiting():
            if event.session_id == session_id and event.seq is not None:
                return event.seq
        return None

    def since(self) -> float | None:
        return next((delivery.arrived for delivery in self._pending), None)

    def end(self, error: Exception | None) -> None:
        """End every present and later observer, with an error if one is given."""
        if self._ended:
            return
        self._ended = True
        self._error = error
        observers, self._observers = self._observers, {}
        self._changes += 1
        for observer in observers:
            observer.end(error)


class _EventDelivery(msgspec.Struct, eq=False):
    """The `Delivery` of one event to one observer."""

    notifications: Notifications
    event: Event
    arrived: float
    holders: int = 1  # the call of the observer

    def hold(self) -> _EventDelivery:
        self.holders += 1
        return self

    def release(self, processed: bool = True) -> None:
        self.holders -= 1
        if not self.holders:
            self.notifications.processed(self)


class _Observer:
    def __init__(
        self,
        on_next: Any,
        on_error: Callable[[Exception], None] | None,
        on_completed: Callable[[], None] | None,
    ) -> None:
        if callable(getattr(on_next, "on_next", None)):
            given = on_next
            on_next, on_error, on_completed = given.on_next, given.on_error, given.on_completed
        else:
            if check.is_coroutine_function(on_next):
                raise TypeError(
                    "on_next is a coroutine function, which Rx never awaits:"
                    " use .pipe(concat_map_async(handler)) or client.on"
                )
            check.a_function("on_next", on_next, none=True)
        self._on_error = on_error
        self._on_completed = on_completed
        self._on_next: Callable[[Event], None] | None = on_next
        self._context = contextvars.copy_context()  # that of the subscription (rule D19)

    def caller(self) -> Callable[[Event], None]:
        """A function that passes events to ``on_next``, for one batch."""
        if self._on_next is None:
            return lambda event: None
        # A copy, because an observer may cause the next batch during the call.
        run: Callable[..., None] = self._context.copy().run
        return functools.partial(run, self._on_next)

    def end(self, error: Exception | None) -> None:
        try:
            self._context.copy().run(self._finish, error)
        except BaseException as failure:  # noqa: BLE001  an observer is user code
            pass_on(failure)
            _log.exception("an observer failed in its terminal event")

    def _finish(self, error: Exception | None) -> None:
        if error is None:
            if self._on_completed is not None:
                self._on_completed()
        elif self._on_error is not None:
            self._on_error(error)
