"""The methods of `Client` that receive events: handlers, iterators, Observables, hooks.

They hold no state: `Consumers` keeps the registrations. Most lines here are type overloads.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeVar, overload

from reactivex import Observable

from arcp_client import _arguments as check
from arcp_client._client.consumers import Consumers
from arcp_client._dispatch.event_filter import EventFilter, Kind
from arcp_client._dispatch.registration import Handler, OnError, Registration
from arcp_client._dispatch.streams import EventIterator
from arcp_client.errors import HandlerError
from arcp_client.events import Event, Unknown
from arcp_client.job import JobHandle
from arcp_client.policy import Batch, Order

__all__ = ["EventMethods"]

E1 = TypeVar("E1", bound=Event)
E2 = TypeVar("E2", bound=Event)
E3 = TypeVar("E3", bound=Event)
E4 = TypeVar("E4", bound=Event)
R = TypeVar("R")


class EventMethods:
    """The methods of `Client` that receive events.

    Args:
        consumers: keeps the registrations.
    """

    def __init__(self, consumers: Consumers) -> None:
        self._consumers = consumers

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
    ) -> Callable[[Any], Any]:
        """Register a sync or async handler for events of some kinds; for all without ``kinds``.

        ::

            @client.on(events.ToolCall, events.ToolResult)
            async def record(event): ...

        The handler's calls run one after another in arrival order: the next call starts when the
        previous one has finished (rule D1). Registrations do not wait for each other (rule D2). An
        event is acknowledged to the runtime only after all its handlers have ended (rule D3). The
        history of a watched job reaches handlers as well (see ``history`` of `watch`).

        Args:
            kinds: event classes; a str selects a vendor kind, which arrives as `Unknown`.
            job: only the events of this job.
            order: `Order.SESSION`, or `Order.JOB` to handle the events of different jobs
                concurrently; the client's ``order`` by default.
            batch: whether each call gets a list of events, in arrival order: ``True``, or a `Batch`
                with limits. A call that fails has failed for all events of its list (rule D21).
            on_error: ``"skip"`` reports an exception to the client's ``on_error`` hooks and
                continues; ``"stop"`` closes the client with HandlerFailed; a function is called
                with the event (or the list) and the exception, and awaited, before the next event.
            barrier: whether ``job.result()`` waits for this handler.
            tx: an asyncpg pool for the database of the client's `PostgresStore`. The handler, a
                coroutine function, also gets a connection. What it writes over this connection is
                committed together with the record that it has handled the event, so it takes
                effect exactly once (rule D22).

        Returns:
            A decorator that returns the function unchanged.

        Raises:
            TypeError: used without parentheses, or a kind is neither an event class nor the name
                of a vendor kind; or ``tx`` is no pool, or its handler no coroutine function.
            ValueError: ``batch`` together with `Order.JOB`; or ``tx`` without a `PostgresStore`, or
                for two handlers with one name.
        """
        if len(kinds) == 1 and callable(kinds[0]) and not isinstance(kinds[0], type):
            raise TypeError("write @client.on() or @client.on(events.Log), with parentheses")
        EventFilter(kinds)
        self._check(job, order, batch, on_error, barrier, tx)

        def register(handler: Handler) -> Handler:
            self._register(
                handler,
                kinds,
                job=job,
                order=order,
                batch=batch,
                on_error=on_error,
                barrier=barrier,
                tx=tx,
            )
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
    ) -> Registration:
        """Register a handler like `on`; return the registration, whose ``dispose`` ends it.

        Raises:
            TypeError: a kind is neither an event class nor the name of a vendor kind, or the
                handler is not callable; or ``tx`` is no pool, or its handler no coroutine function.
            ValueError: ``batch`` together with `Order.JOB`; or ``tx`` without a `PostgresStore`, or
                for two handlers with one name.
        """
        return self._register(
            handler,
            kinds,
            job=job,
            order=order,
            batch=batch,
            on_error=on_error,
            barrier=barrier,
            tx=tx,
        )

    def _register(
        self,
        handler: Handler,
        kinds: tuple[Any, ...],
        *,
        job: JobHandle | str | None,
        order: Order | None,
        batch: bool | Batch,
        on_error: OnError,
        barrier: bool,
        tx: Any,
    ) -> Registration:
        check.a_function("a handler", handler)
        self._check(job, order, batch, on_error, barrier, tx)
        job_id = job.id if isinstance(job, JobHandle) else job
        limits = batch if isinstance(batch, Batch) else Batch() if batch else None
        return self._consumers.register(
            handler,
            EventFilter(kinds, job_id),
            order=order,
            batch=limits,
            on_error=on_error,
            barrier=barrier,
            tx=tx,
        )

    def _check(
        self, job: Any, order: Any, batch: Any, on_error: Any, barrier: Any, tx: Any
    ) -> None:
        if not isinstance(job, JobHandle):
            check.an_instance("job", job, str, "a job or the id of one", none=True)
            check.a_text("job", job, none=True)
        check.an_instance("order", order, Order, "Order.SESSION or Order.JOB", none=True)
        check.an_instance("batch", batch, (bool, Batch), "True, False or a Batch")
        if batch and (order or self._consumers.order) is Order.JOB:
            raise ValueError(
                "a handler of batches keeps the order of the session: register it with"
                " order=Order.SESSION, or without batch"
            )
        check.a_flag("barrier", barrier)
        if callable(on_error):
            check.a_function("on_error", on_error)
        elif on_error not in ("skip", "stop"):
            raise TypeError(f'on_error must be "skip", "stop" or a function, not {on_error!r}')
        self._consumers.transactions.check_argument(tx)

    def on_error(self, hook: Callable[[HandlerError], Awaitable[Any] | Any]) -> Any:
        """Call this function, sync or async, when a handler raised; usable as a decorator.

        The function gets a `HandlerError` with the event and, as ``__cause__``, the exception.
        Without such a function, exceptions of handlers are logged as errors.
        """
        self._consumers.errors.add(hook)
        return hook

    def on_slow(self, hook: Callable[[Registration, int, float], Awaitable[Any] | Any]) -> Any:
        """Call this function, sync or async, when a registration falls behind; also a decorator.

        The function gets the registration, the number of its outstanding events, and the seconds
        for which the oldest of them has waited. A registration has fallen behind when it has
        ``Buffer.soft`` outstanding events; the reader then pauses. The next call for this
        registration comes after it has caught up and has fallen behind again.
        """
        check.a_function("the hook of on_slow", hook)
        self._consumers.slow.add(lambda episode: hook(*episode))
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

        A `Gap` is always included. Iterators are independent, and leaving the loop unregisters one.
        The iteration raises ClientClosed when the client is closed. With a store, make the iterator
        before ``connect()``, so that it gets the unprocessed events of an earlier process.

        Raises:
            TypeError: a kind is neither an event class nor the name of a vendor kind.
        """
        return self._consumers.iterate(EventFilter(kinds))

    @property
    def notifications(self) -> Observable[Event]:
        """Every event of the session as a hot Observable, in arrival order (rule D4).

        ::

            client.notifications.pipe(ops.filter(is_progress), concat_map_async(save)).subscribe()

        It completes when the client is closed, and ends with an error when the client fails. An
        observer that raises is removed; other observers and the link are not affected.
        """
        return self._consumers.notifications
