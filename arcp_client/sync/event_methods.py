"""The methods of the blocking client that receive events: handlers, iterators, Observables, hooks.

They wrap the methods of the asynchronous client, which keeps the registrations.
"""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal, TypeVar, overload

from reactivex import Observable

from arcp_client import _arguments as check
from arcp_client._dispatch import registration as aio
from arcp_client._dispatch.event_filter import EventFilter, Kind
from arcp_client._dispatch.registration import OnError
from arcp_client.client import Client as AsyncClient
from arcp_client.errors import HandlerError
from arcp_client.events import Event, Unknown
from arcp_client.policy import Batch, Order
from arcp_client.state import LinkState
from arcp_client.sync._access import LoopAccess
from arcp_client.sync._threads import HandlerThreads
from arcp_client.sync.iterators import EventIterator, LoopObservable
from arcp_client.sync.job import JobHandle

__all__ = ["EventMethods", "Registration"]

E1 = TypeVar("E1", bound=Event)
E2 = TypeVar("E2", bound=Event)
E3 = TypeVar("E3", bound=Event)
E4 = TypeVar("E4", bound=Event)
R = TypeVar("R")


class Registration:
    """A handler that was registered with ``client.on`` or ``client.subscribe``.

    The handler runs for one event at a time (`Order.SESSION`), for one event of each job at a time
    (`Order.JOB`), or for one `Batch` of events at a time, in arrival order. With ``thread=True`` it
    runs concurrently with the handlers of all other registrations.

    Attributes:
        name: the handler's name, for messages.
    """

    def __init__(
        self, access: LoopAccess, registration: aio.Registration, threads: HandlerThreads | None
    ) -> None:
        self.name = registration.name
        self._access = access
        self._registration = registration
        self._threads = threads

    @property
    def lag(self) -> int:
        """The number of events that wait or are being handled."""
        return self._registration.lag

    def dispose(self) -> None:
        """Accept no more events and drop waiting events. Idempotent.

        A running handler in a thread runs to its end, and an async one is cancelled, unless it
        calls this method itself.

        Raises:
            LocalProtocolError: this thread runs an event loop.
        """
        self._access.call(self._registration.dispose)
        if self._threads is not None:
            self._threads.close()


class EventMethods:
    """The methods of `Client` that receive events.

    Args:
        access: runs the methods of the client.
        client: the asynchronous client.
        order: the default order of registrations.
    """

    def __init__(self, access: LoopAccess, client: AsyncClient, order: Order) -> None:
        self._access = access
        self._client = client
        self._order = order
        self._threads: weakref.WeakSet[HandlerThreads] = weakref.WeakSet()
        self._registrations: weakref.WeakValueDictionary[aio.Registration, Registration] = (
            weakref.WeakValueDictionary()
        )

    # ------------------------------------------------------------------ handlers

    @overload
    def on(
        self,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[False] = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Callable[[Callable[[Event], R]], Callable[[Event], R]]: ...
    @overload
    def on(
        self,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[True] | Batch,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Callable[[Callable[[list[Event]], R]], Callable[[list[Event]], R]]: ...
    @overload
    def on(
        self,
        k1: type[E1],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[False] = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Callable[[Callable[[E1], R]], Callable[[E1], R]]: ...
    @overload
    def on(
        self,
        k1: type[E1],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[True] | Batch,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Callable[[Callable[[list[E1]], R]], Callable[[list[E1]], R]]: ...
    @overload
    def on(
        self,
        k1: type[E1],
        k2: type[E2],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[False] = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Callable[[Callable[[E1 | E2], R]], Callable[[E1 | E2], R]]: ...
    @overload
    def on(
        self,
        k1: type[E1],
        k2: type[E2],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[True] | Batch,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Callable[[Callable[[list[E1 | E2]], R]], Callable[[list[E1 | E2]], R]]: ...
    @overload
    def on(
        self,
        k1: type[E1],
        k2: type[E2],
        k3: type[E3],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[False] = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Callable[[Callable[[E1 | E2 | E3], R]], Callable[[E1 | E2 | E3], R]]: ...
    @overload
    def on(
        self,
        k1: type[E1],
        k2: type[E2],
        k3: type[E3],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[True] | Batch,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Callable[[Callable[[list[E1 | E2 | E3]], R]], Callable[[list[E1 | E2 | E3]], R]]: ...
    @overload
    def on(
        self,
        k1: type[E1],
        k2: type[E2],
        k3: type[E3],
        k4: type[E4],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[False] = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Callable[[Callable[[E1 | E2 | E3 | E4], R]], Callable[[E1 | E2 | E3 | E4], R]]: ...
    @overload
    def on(
        self,
        k1: type[E1],
        k2: type[E2],
        k3: type[E3],
        k4: type[E4],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[True] | Batch,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Callable[
        [Callable[[list[E1 | E2 | E3 | E4]], R]], Callable[[list[E1 | E2 | E3 | E4]], R]
    ]: ...
    @overload
    def on(
        self,
        kind: str,
        /,
        *kinds: str,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[False] = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Callable[[Callable[[Unknown], R]], Callable[[Unknown], R]]: ...
    @overload
    def on(
        self,
        kind: str,
        /,
        *kinds: str,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[True] | Batch,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Callable[[Callable[[list[Unknown]], R]], Callable[[list[Unknown]], R]]: ...
    @overload
    def on(
        self,
        *kinds: Kind,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: bool | Batch = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Callable[[Callable[[Any], R]], Callable[[Any], R]]: ...
    @overload
    def on(
        self,
        k1: type[E1],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[False] = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        tx: Any,
        thread: bool = ...,
    ) -> Callable[[Callable[[E1, Any], R]], Callable[[E1, Any], R]]: ...
    @overload
    def on(
        self,
        k1: type[E1],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[True] | Batch,
        on_error: OnError = ...,
        barrier: bool = ...,
        tx: Any,
        thread: bool = ...,
    ) -> Callable[[Callable[[list[E1], Any], R]], Callable[[list[E1], Any], R]]: ...
    @overload
    def on(
        self,
        *kinds: Kind,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: bool | Batch = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        tx: Any,
        thread: bool = ...,
    ) -> Callable[[Callable[[Any, Any], R]], Callable[[Any, Any], R]]: ...
    def on(
        self,
        *kinds: Any,
        job: JobHandle | str | None = None,
        order: Order | None = None,
        batch: bool | Batch = False,
        on_error: OnError = "skip",
        barrier: bool = True,
        tx: Any = None,
        thread: bool = False,
    ) -> Callable[[Any], Any]:
        """Register a handler for events of some kinds; without kinds, for all.

        ::

            @client.on(events.ToolCall, events.ToolResult, thread=True)
            def record(event): ...

        Its calls run one after another in arrival order: the next starts when the previous one
        has finished (rule D1). Each registration has a lane of its own (rule D2). An event is
        acknowledged to the runtime only after its handlers have ended (rule D3). Handlers do not
        get the history of a watched job.

        By default the handler runs in the client's loop thread. There it must return quickly,
        because the client does nothing else meanwhile, and must not make blocking calls of the
        client, which raise WouldDeadlock. It may be a coroutine function. With ``thread=True`` the
        handler runs in a thread of the registration, where it may block and use the client. The
        registration has one thread, or under `Order.JOB` one for each job whose handler runs.

        Args:
            kinds: event classes; a str selects a vendor kind, which arrives as `Unknown`.
            job: only the events of this job.
            order: `Order.SESSION`, or `Order.JOB` to handle jobs concurrently; the client's by
                default.
            batch: whether each call gets a list of events, in arrival order: ``True``, or a `Batch`
                with limits. A call that fails has failed for all events of its list (rule D21).
            on_error: ``"skip"`` reports to the client's ``on_error`` hooks and continues;
                ``"stop"`` closes the client with HandlerFailed; a function of event (or list) and
                exception is called before the next event, in the thread of the handler, or if it is
                a coroutine function in the loop thread.
            barrier: whether ``job.result()`` waits for this handler.
            thread: whether the handler runs in a thread of the registration. Such a handler cannot
                be interrupted: after ``handler_timeout`` it counts as failed, and the next event
                waits until it has returned.
            tx: refused: connections of asyncpg belong to one event loop, and handlers with ``tx``
                to the asynchronous client. With another driver, insert the id of each event in
                the same transaction as its effects, and skip an event whose id is there.

        Returns:
            A decorator that returns the function unchanged.

        Raises:
            TypeError: used without parentheses, or a kind is neither an event class nor the name
                of a vendor kind, or a coroutine function is to run in a thread.
            ValueError: ``batch`` together with `Order.JOB`, or ``tx`` is given.
            LocalProtocolError: this thread runs an event loop.
        """
        if len(kinds) == 1 and callable(kinds[0]) and not isinstance(kinds[0], type):
            raise TypeError("write @client.on() or @client.on(events.Log), with parentheses")
        EventFilter(kinds)
        check.a_flag("thread", thread)
        _no_transactions(tx)
        options = {
            "job": _id_of(job),
            "order": order,
            "batch": batch,
            "on_error": on_error,
            "barrier": barrier,
        }
        self._client.on(*kinds, **options)  # checks them

        def register(handler: Any) -> Any:
            self._register(handler, kinds, options, thread)
            return handler

        return register

    @overload
    def subscribe(
        self,
        handler: Callable[[Event], Any],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[False] = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Registration: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[list[Event]], Any],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[True] | Batch,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Registration: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[E1], Any],
        k1: type[E1],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[False] = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Registration: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[list[E1]], Any],
        k1: type[E1],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[True] | Batch,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Registration: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[E1 | E2], Any],
        k1: type[E1],
        k2: type[E2],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[False] = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Registration: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[list[E1 | E2]], Any],
        k1: type[E1],
        k2: type[E2],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[True] | Batch,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Registration: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[E1 | E2 | E3], Any],
        k1: type[E1],
        k2: type[E2],
        k3: type[E3],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[False] = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Registration: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[list[E1 | E2 | E3]], Any],
        k1: type[E1],
        k2: type[E2],
        k3: type[E3],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[True] | Batch,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Registration: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[E1 | E2 | E3 | E4], Any],
        k1: type[E1],
        k2: type[E2],
        k3: type[E3],
        k4: type[E4],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[False] = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Registration: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[list[E1 | E2 | E3 | E4]], Any],
        k1: type[E1],
        k2: type[E2],
        k3: type[E3],
        k4: type[E4],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[True] | Batch,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Registration: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[Unknown], Any],
        kind: str,
        /,
        *kinds: str,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[False] = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Registration: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[list[Unknown]], Any],
        kind: str,
        /,
        *kinds: str,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[True] | Batch,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Registration: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[Any], Any],
        kind: str,
        /,
        *kinds: Kind,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: bool | Batch = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Registration: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[Any], Any],
        k1: type[Event],
        k2: type[Event],
        k3: type[Event],
        k4: type[Event],
        k5: type[Event],
        /,
        *kinds: Kind,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: bool | Batch = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        thread: bool = ...,
    ) -> Registration: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[E1, Any], Any],
        k1: type[E1],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[False] = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        tx: Any,
        thread: bool = ...,
    ) -> Registration: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[list[E1], Any], Any],
        k1: type[E1],
        /,
        *,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: Literal[True] | Batch,
        on_error: OnError = ...,
        barrier: bool = ...,
        tx: Any,
        thread: bool = ...,
    ) -> Registration: ...
    @overload
    def subscribe(
        self,
        handler: Callable[[Any, Any], Any],
        /,
        *kinds: Kind,
        job: JobHandle | str | None = ...,
        order: Order | None = ...,
        batch: bool | Batch = ...,
        on_error: OnError = ...,
        barrier: bool = ...,
        tx: Any,
        thread: bool = ...,
    ) -> Registration: ...
    def subscribe(
        self,
        handler: Callable[..., Any],
        /,
        *kinds: Any,
        job: JobHandle | str | None = None,
        order: Order | None = None,
        batch: bool | Batch = False,
        on_error: OnError = "skip",
        barrier: bool = True,
        tx: Any = None,
        thread: bool = False,
    ) -> Registration:
        """Register a handler like `on`; returns the registration, with which to dispose of it.

        Raises:
            TypeError: a kind is neither an event class nor the name of a vendor kind, or the
                handler is not callable, or a coroutine function is to run in a thread.
            ValueError: ``batch`` together with `Order.JOB`, or ``tx`` is given.
            LocalProtocolError: this thread runs an event loop.
        """
        check.a_flag("thread", thread)
        _no_transactions(tx)
        options = {
            "job": _id_of(job),
            "order": order,
            "batch": batch,
            "on_error": on_error,
            "barrier": barrier,
        }
        return self._register(handler, kinds, options, thread)

    def _register(
        self, handler: Any, kinds: tuple[Any, ...], options: dict[str, Any], thread: bool
    ) -> Registration:
        threads = None
        if thread:
            check.a_function("a handler with thread=True", handler, sync=True)
            threads = HandlerThreads(
                handler, options["order"] or self._order, batch=bool(options["batch"])
            )
            on_error = options["on_error"]
            if callable(on_error) and not check.is_coroutine_function(on_error):
                options = {**options, "on_error": partial(_failed, threads, on_error)}
            self._threads.add(threads)
        registration = self._access.call(
            self._client.subscribe, threads or handler, *kinds, **options
        )
        found = Registration(self._access, registration, threads)
        self._registrations[registration] = found
        return found

    # ------------------------------------------------------------------ hooks

    def on_error(self, hook: Callable[[HandlerError], Awaitable[Any] | Any]) -> Any:
        """Call this function when a handler raised; usable as a decorator.

        The function gets a `HandlerError` with the event and, as ``__cause__``, the exception.
        Without such a function, the client logs failures as errors. Like all hooks, it is called in
        the loop thread, so it must not block.
        """
        self._access.call(self._client.on_error, hook)
        return hook

    def on_slow(self, hook: Callable[[Registration, int, float], Awaitable[Any] | Any]) -> Any:
        """Call this function when a registration falls behind; usable as a decorator.

        The function gets the registration, the number of its outstanding events, and the seconds
        for which the oldest one has waited. It is called once for each episode, in the loop thread.
        An episode begins at ``Buffer.soft`` outstanding events, at which the reader pauses, and
        ends when the reader may continue.
        """
        check.a_function("the hook of on_slow", hook)

        known, access = self._registrations, self._access  # without a reference to the client

        def slow(registration: aio.Registration, lag: int, seconds: float) -> Any:
            found = known.get(registration)
            return hook(found or Registration(access, registration, None), lag, seconds)

        self._access.call(self._client.on_slow, slow)
        return hook

    def on_state(self, hook: Callable[[LinkState], Awaitable[Any] | Any]) -> Any:
        """Call this function at every change of state; usable as a decorator.

        Calls run one after another in the loop thread. The client does not wait for them.
        """
        self._access.call(self._client.on_state, hook)
        return hook

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

        A `Gap` is always given. Each iterator is independent; leaving the loop unregisters it. It
        raises ClientClosed when the client is closed. With a store, make the iterator before
        ``connect()``, so that it gets the unprocessed events of an earlier process.

        Raises:
            TypeError: a kind is neither an event class nor the name of a vendor kind.
            LocalProtocolError: this thread runs an event loop.
        """
        return EventIterator(self._access, self._access.call(self._client.events, *kinds))

    @property
    def notifications(self) -> Observable[Event]:
        """Every event of the session as a hot Observable, in arrival order (rule D4).

        Any thread may subscribe; observers are called in the loop thread, see `LoopObservable`. It
        completes when the client is closed, and ends with an error when the client fails. An
        observer that raises is removed; other observers and the link are not affected.
        """
        return LoopObservable(self._access, self._client.notifications)


def _id_of(job: Any) -> Any:
    return job.id if isinstance(job, JobHandle) else job


async def _failed(
    threads: HandlerThreads,
    on_error: Callable[..., object],
    given: Event | list[Event],
    error: Exception,
) -> None:
    await threads.run(given, on_error, given, error)


def _no_transactions(tx: Any) -> None:
    if tx is not None:
        raise ValueError(
            "tx is for handlers of arcp_client.Client: connections of asyncpg belong to one event"
            " loop, and here that of the client is private"
        )
