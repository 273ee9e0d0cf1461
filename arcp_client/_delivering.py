"""Events of one session in, every consumer served: what `Client` hands events out with.

It owns the subject, the bound between consumers and the reader, and whatever knows how far each
consumer is. Handlers are registered one layer up, in ``_observing``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar, overload

from reactivex import Observable

from ._dispatch.calls import Call, Waits, calling, would_deadlock
from ._dispatch.hooks import Hooks
from ._dispatch.lanes import Lane
from ._dispatch.notifications import Notifications
from ._dispatch.pressure import Pressure
from ._dispatch.registration import HandlerRegistration
from ._dispatch.selection import Kind, Selection
from ._dispatch.slowness import Episode, Slowness
from ._dispatch.streams import EventIterator, Tap
from ._dispatch.subject import Subject
from .errors import HandlerError
from .events import Event, Unknown
from .policy import Buffer, Timeouts

__all__ = ["Delivering"]

E1 = TypeVar("E1", bound=Event)
E2 = TypeVar("E2", bound=Event)
E3 = TypeVar("E3", bound=Event)
E4 = TypeVar("E4", bound=Event)


class Delivering:
    """Consumers of one session's events.

    Args:
        buffer: how much may wait for slow consumers.
        timeouts: how long a wait may look circular, and an iterator be stuck.
        asked: whether a request waits for its answer.
        activity: called at the first event after a quiet time.
    """

    def __init__(
        self,
        *,
        buffer: Buffer,
        timeouts: Timeouts,
        asked: Callable[[], bool],
        activity: Callable[[], None],
    ) -> None:
        self._subject = Subject(activity)
        self._registrations: list[HandlerRegistration] = []
        self._errors: Hooks[HandlerError] = Hooks("on_error")
        self._slow: Hooks[Episode] = Hooks("on_slow")
        self._slowness = Slowness(buffer.soft, self._registrations, self._slow.tell)
        self._pressure = Pressure(
            buffer,
            _Crowd(self._subject, self._iterators, self._waiting),
            asked=asked,
            stall=timeouts.stall,
            behind=self._slowness.look,
        )
        self._waits = Waits(timeouts.deadlock)
        # Iterators and Rx observers join the subject when there are any.
        self._notifications = Notifications(
            lambda: self._subject.attach(self._notifications), self._pressure
        )
        self._session_tap = Tap(self._pressure)

    def _waiting(self) -> int:
        """Events that wait for the slowest consumer."""
        return self._subject.backlog

    def _iterators(self) -> Iterator[EventIterator[Event]]:
        """All iterators that are in use."""
        yield from self._session_tap.iterators()

    # ------------------------------------------------------------------ iterators, Rx

    @overload
    def events(self) -> EventIterator[Event]: ...
    @overload
    def events(self, k1: type[E1], /) -> EventIterator[E1]: ...
    @overload
    def events(self, k1: type[E1], k2: type[E2], /) -> EventIterator[E1 | E2]: ...
    @overload
    def events(
        self, k1: type[E1], k2: type[E2], k3: type[E3], /
    ) -> EventIterator[E1 | E2 | E3]: ...
    @overload
    def events(
        self, k1: type[E1], k2: type[E2], k3: type[E3], k4: type[E4], /
    ) -> EventIterator[E1 | E2 | E3 | E4]: ...
    @overload
    def events(self, kind: str, /, *kinds: str) -> EventIterator[Unknown]: ...
    @overload
    def events(self, *kinds: Kind) -> EventIterator[Any]: ...
    def events(self, *kinds: Any) -> EventIterator[Any]:
        """Iterate over the events of the whole session from now on, in arrival order.

        A `Gap` is given in any case. Each iterator is independent; leaving the loop unregisters
        it. It ends with ClientClosed when the client is closed.

        Raises:
            TypeError: a kind is neither a class nor a vendor's name.
        """
        iterator: EventIterator[Event] = EventIterator(Selection(kinds), relief=self._pressure)
        self._session_tap.add(iterator)
        self._subject.attach(self._session_tap)
        return iterator

    @property
    def notifications(self) -> Observable[Event]:
        """Every event of the session as a hot Observable, in arrival order (D4).

        ::

            client.notifications.pipe(ops.filter(is_progress), concat_map_async(save)).subscribe()

        It completes when the client is closed and errors when it failed for good. An observer
        that raises is removed; the others, and the link, go on.
        """
        return self._notifications

    # ------------------------------------------------------------------ for jobs

    def _barriers(self, job_id: str) -> Iterator[tuple[Lane, int]]:
        """The lanes that have events of the job, each with the count it must come to."""
        for registration in self._registrations:
            if registration.barrier:
                yield from registration.barriers(job_id)

    def _own_call(self, job_id: str) -> Call | None:
        """The calling handler, if the end of this job would wait for it.

        Raises:
            WouldDeadlock: it is the handler itself that would wait, and not a task of it.
        """
        call = calling()
        if call is None or not call.lane.registration.barrier:
            return None
        event = call.lane.running
        if event is None or event.job_id != job_id or event.terminal:
            return None
        if call.direct:
            raise would_deadlock(call, f"the result of job {job_id}")
        return call


class _Crowd:
    """All consumers, as `Pressure` sees them."""

    def __init__(
        self,
        subject: Subject,
        iterators: Callable[[], Iterator[EventIterator[Event]]],
        backlog: Callable[[], int],
    ) -> None:
        self.iterators = iterators
        self.weight = subject.weight
        self.backlog = backlog
