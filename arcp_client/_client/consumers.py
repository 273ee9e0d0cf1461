"""Registers the consumers of a session's events: handlers, iterators and Observables.

`Consumers` owns the fan-out (`FanOut`), the back-pressure on the reader (`BackPressure`), and the
graph of waits between handlers (`WaitGraph`).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

from arcp_client._client.settings import Settings
from arcp_client._client.transactions import TransactionHandlers
from arcp_client._dispatch.back_pressure import BackPressure
from arcp_client._dispatch.deadlock import HandlerCall, WaitGraph, calling, would_deadlock
from arcp_client._dispatch.event_filter import EventFilter
from arcp_client._dispatch.fan_out import FanOut
from arcp_client._dispatch.hooks import Hooks
from arcp_client._dispatch.jobstreams import JobStreams
from arcp_client._dispatch.lanes import Lane
from arcp_client._dispatch.notifications import Notifications
from arcp_client._dispatch.registration import Handler, HandlerRegistration, OnError
from arcp_client._dispatch.slow_consumers import Episode, SlowConsumers
from arcp_client._dispatch.streams import EventIterator, Iteration, Tap
from arcp_client._log_fields import log_fields
from arcp_client._telemetry import ClientTelemetry
from arcp_client.errors import ArcpError, HandlerError, HandlerFailed
from arcp_client.events import Event
from arcp_client.policy import Batch, Order
from arcp_client.stores.base import TransactionsEnded

__all__ = ["Consumers"]

_log = logging.getLogger("arcp_client.dispatch")


class Consumers:
    """The consumers of the events of one client.

    Args:
        settings: the arguments of the client.
        target: the address of the runtime.
        request_pending: returns whether a request waits for its answer.
        held: returns the number of events that wait for a checkpoint and have not reached the
            fan-out.
        active: called with the first event after a time without events.
        check_loop: raises LocalProtocolError unless the caller is in the client's event loop.
        failed: called when a handler with ``on_error="stop"`` raised, to end the client.
        telemetry: measures handlers.

    Attributes:
        fan_out: publishes events to the consumers, and knows which events they have processed.
        back_pressure: pauses the reader.
        held: the argument.
        order: the default order of registrations.
        errors: the ``on_error`` hooks.
        slow: the ``on_slow`` hooks.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        target: str = "",
        request_pending: Callable[[], bool],
        held: Callable[[], int],
        active: Callable[[], None],
        check_loop: Callable[[], None],
        failed: Callable[[ArcpError], None],
        telemetry: ClientTelemetry | None = None,
    ) -> None:
        self._telemetry = telemetry
        self._settings = settings
        self._target = target
        self.order = settings.order
        self.held = held
        self._check_loop = check_loop
        self._failed = failed
        self._registrations: list[HandlerRegistration] = []
        self._exempt: dict[HandlerRegistration, None] = {}
        self._streams: JobStreams | None = None
        self.fan_out = FanOut(active)
        self.errors: Hooks[HandlerError] = Hooks("on_error")
        self.slow: Hooks[Episode] = Hooks("on_slow")
        slow_consumers = SlowConsumers(settings.buffer.soft, self._registrations, self.slow.emit)
        self.back_pressure = BackPressure(
            settings.buffer,
            self,
            request_pending=request_pending,
            stall=settings.timeouts.stall,
            check_slow=slow_consumers.check,
            check_loop=check_loop,
        )

    # Most clients of a process may be idle; these are made at the first use.

    @cached_property
    def notifications(self) -> Notifications:
        """Every event as a hot Observable."""
        return Notifications(lambda: self.fan_out.attach(self.notifications), self.back_pressure)

    @cached_property
    def wait_graph(self) -> WaitGraph:
        """Waits for lanes, and detects deadlocks."""
        return WaitGraph(self._settings.timeouts.deadlock)

    @cached_property
    def transactions(self) -> TransactionHandlers:
        """The handlers that are called in transactions."""
        settings = self._settings
        return TransactionHandlers(
            settings.store, self._target, settings.key, settings.handler_timeout
        )

    @cached_property
    def _tap(self) -> Tap:
        return Tap(self.back_pressure)

    # ------------------------------------------------------------------ for the back-pressure

    @property
    def backlog(self) -> int:
        """The number of events that wait for the slowest consumer."""
        return self.fan_out.backlog + self.held()

    def weight(self, backlog: int, limit: int) -> int:
        """See `FanOut.weight`."""
        return self.fan_out.weight(backlog, limit)

    def flush_batches(self) -> None:
        """Let handlers of batches get the events that wait, because no further ones come."""
        for registration in self._registrations:
            registration.flush_batches()

    def iterators(self) -> Iterator[Iteration[Event]]:
        """The iterators that are in use."""
        yield from self._tap.iterators()
        if self._streams is not None:
            yield from self._streams.iterators()

    # ------------------------------------------------------------------ registering

    def register(
        self,
        handler: Handler,
        event_filter: EventFilter,
        *,
        order: Order | None,
        batch: Batch | None,
        on_error: OnError,
        barrier: bool,
        tx: Any = None,
    ) -> HandlerRegistration:
        """Register a handler for the events that match a filter."""
        self._check_loop()
        timeout, store = self._settings.handler_timeout, self._settings.store
        if tx is not None:
            handler = self.transactions.wrap(handler, tx, batch=batch is not None)
            timeout = None  # it limits each call of the handler; a transaction may be made again
        if batch is not None and store is not None:
            # A crash repeats a whole batch, and the store bounds what a crash repeats.
            batch = replace(batch, count=min(batch.count, store.every))
        registration = HandlerRegistration(
            handler,
            event_filter,
            order=order or self.order,
            batch=batch,
            on_error=on_error,
            barrier=barrier,
            timeout=timeout,
            transactional=tx is not None,
            gate=self.back_pressure,
            failed=self._handler_failed,
            ended=self._registration_ended,
            timed=None if self._telemetry is None else self._telemetry.timed,
        )
        self._registrations.append(registration)
        self.fan_out.attach(registration, first=True)
        return registration

    def _registration_ended(self, registration: HandlerRegistration) -> None:
        self.fan_out.detach(registration)
        if registration.transactional:
            self.transactions.release(registration.name)
        if registration in self._registrations:
            self._registrations.remove(registration)

    def iterate(self, event_filter: EventFilter) -> EventIterator[Any]:
        """Make an iterator over the events of the session that match a filter."""
        self._check_loop()
        iterator: Iteration[Event] = Iteration(event_filter, gate=self.back_pressure)
        self._tap.add(iterator)
        self.fan_out.attach(self._tap)
        return iterator

    def route(self, streams: JobStreams) -> None:
        """Publish the events of each job to the job's stream as well."""
        self._streams = streams
        self.fan_out.attach(streams)

    def slowest(self) -> str:
        """The consumer with the most outstanding events, in words."""
        slowest = max(self.fan_out, key=lambda one: one.outstanding, default=None)
        if slowest is None or not slowest.outstanding:
            return ""
        name = "an iterator or observer"
        if isinstance(slowest, HandlerRegistration):
            name = f"handler {slowest.name}"
        count = slowest.outstanding
        return f"{name} has {count:,} event{'' if count == 1 else 's'} to process"

    # ------------------------------------------------------------------ handlers that fail

    def _handler_failed(
        self, registration: HandlerRegistration, given: Event | list[Event], error: Exception
    ) -> Awaitable[None] | None:
        if isinstance(error, TransactionsEnded):
            cause = error.__cause__
            assert isinstance(cause, ArcpError)
            registration.freeze(cause)
            self._failed(cause)
            return None
        events = given if isinstance(given, list) else [given]
        failure = HandlerError(
            f"handler {registration.name} failed on {_described(events)}: {type(error).__name__}",
            event=events[0],
            handler=registration.name,
        )
        failure.__cause__ = error
        if callable(registration.on_error):
            return registration.on_error(given, error)
        if len(self.errors):
            self.errors.emit(failure)
        else:
            first = events[0]
            fields = log_fields(session=first.session_id, job=first.job_id, seq=first.seq)
            _log.error("%s", failure, exc_info=error, extra=fields)
        if registration.on_error == "stop":
            stopped = HandlerFailed(str(failure))
            stopped.__cause__ = error
            registration.freeze(stopped)
            self._failed(stopped)
        return None

    # ------------------------------------------------------------------ waits between handlers

    def barriers(self, job_id: str) -> Iterator[tuple[Lane, int]]:
        """The lanes that the job's result waits for, each with its count; see `WaitGraph`."""
        for registration in self._registrations:
            if registration.barrier:
                yield from registration.barriers(job_id)

    def own_call(self, job_id: str) -> HandlerCall | None:
        """The calling handler, if the end of this job waits for it; else ``None``.

        Raises:
            WouldDeadlock: the caller is that handler itself, and not one of its child tasks.
        """
        call = calling()
        if call is None or not call.lane.registration.barrier:
            return None
        if all(event.job_id != job_id or event.terminal for event in call.lane.current()):
            return None
        if call.direct:
            raise would_deadlock(call, f"the result of job {job_id}")
        return call

    def exempt_caller(self) -> HandlerRegistration | None:
        """Exempt the calling handler, if there is one, from waits and cancellation."""
        call = calling()
        if call is None:
            return None
        own = (one for one in self._registrations if one is call.lane.registration)
        registration = next(own, None)  # None: a handler of another client calls
        if registration is not None:
            self._exempt[registration] = None
        return registration

    def _not_exempt(self) -> list[HandlerRegistration]:
        return [one for one in self._registrations if one not in self._exempt]

    # ------------------------------------------------------------------ the end

    async def drained(self) -> None:
        """Wait until handlers, except the calling one, have processed the published events."""
        for registration in self._not_exempt():
            reached = [(lane, lane.accepted) for lane in registration.lanes]
            await self.wait_graph.wait_for(reached, "handlers", but_own=True)
        await self.notifications.drained()

    def end(self, error: Callable[[], ArcpError], cause: ArcpError | None) -> None:
        """End all consumers: iterators raise, each an exception of its own, and Observables end."""
        self._tap.end(error)
        for registration in self._not_exempt():
            registration.freeze()
        for registration in self._exempt:
            registration.stop_lingering()
        self.notifications.end(cause)
        self.errors.close()
        self.slow.close()


def _described(events: list[Event]) -> str:
    """The events of one handler call, for a message."""
    first, last = events[0], events[-1]
    if len(events) == 1:
        return f"{type(first).__name__} {first.seq}"
    return (
        f"{len(events)} events, from {type(first).__name__} {first.seq}"
        f" to {type(last).__name__} {last.seq}"
    )
