"""Calls the handler of one registration for its events, lane by lane.

A *lane* is a queue of events, and a *sink* takes events from lanes and calls the handler. A sink
starts the next call for a lane after the previous one has ended. The sinks are those of the public
Rx operators:

- Under `Order.SESSION`, a registration has one `SessionLane` and the sink `Serial`, as
  ``rx.concat_map_async`` has.
- A handler of batches has a `BatchLane` and the sink `Batches`.
- Under `Order.JOB`, a registration has a lane for each job (`JobLanes`) and the sink `LaneSink`,
  whose workers take events from several lanes concurrently, as in ``rx.concat_map_async_by``.

A registration passes events to its sink directly, without an Observable.

See rules D1 and D2 in docs/explanation/rules.md.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Literal, cast

from arcp_client._dispatch.event_filter import EventFilter
from arcp_client._dispatch.job_lanes import JobLanes
from arcp_client._dispatch.lanes import BatchLane, Lane, SessionLane
from arcp_client._dispatch.reader_gate import ReaderGate
from arcp_client._rx.buffer import Inbox
from arcp_client._rx.handling import HandlerSink, Options, name_of
from arcp_client._rx.lanes import LaneSink
from arcp_client._rx.serial import Batches, Serial
from arcp_client._rx.sink import Downstream
from arcp_client.errors import ArcpError
from arcp_client.events import Event, Gap
from arcp_client.policy import Batch, Order

__all__ = ["Handler", "HandlerRegistration", "OnError", "Registration"]

_log = logging.getLogger("arcp_client.dispatch")

_SLICE = 0.001
"""Seconds of handler calls after which a lane yields to the event loop. An event of another lane
passes several tasks from the socket to its handler, and may wait for this lane at each of them.
"""

Handler = Callable[[Any], Awaitable[Any] | Any]
OnError = Literal["skip", "stop"] | Callable[[Any, Exception], Awaitable[None] | None]
Failure = Callable[["HandlerRegistration", Event | list[Event], Exception], Awaitable[None] | None]


class Registration:
    """A handler that was registered with ``client.on`` or ``client.subscribe``.

    The handler is called for one event at a time (`Order.SESSION`), for one event of each job at a
    time (`Order.JOB`), or for one `Batch` of events at a time, in arrival order. Registrations do
    not wait for each other.

    Attributes:
        name: the handler's name, for messages.
    """

    name: str

    @property
    def lag(self) -> int:
        """The number of events that wait or are being handled."""
        raise NotImplementedError

    def dispose(self) -> None:
        """Accept no more events, cancel the running handler and drop waiting events.

        A call from inside the registration's own handler lets that handler run to its end.
        Idempotent.

        Raises:
            LocalProtocolError: called outside the client's event loop.
        """
        raise NotImplementedError


class HandlerRegistration(Registration):
    """A `Registration` as a consumer of the fan-out."""

    def __init__(
        self,
        handler: Handler,
        event_filter: EventFilter,
        *,
        order: Order = Order.SESSION,
        batch: Batch | None = None,
        on_error: OnError = "skip",
        barrier: bool,
        timeout: float | None = None,
        transactional: bool = False,
        gate: ReaderGate,
        failed: Failure,
        ended: Callable[[HandlerRegistration], None],
        timed: Callable[[str, Handler], Callable[[], Handler]] | None = None,
    ) -> None:
        self.event_filter = event_filter
        self.on_error = on_error
        self.barrier = barrier
        self.name = name_of(handler)
        self.transactional = transactional
        self._gate = gate
        self._failed = failed
        self._ended = ended
        # Made here, because the first event would wait for the checks of the options.
        self._options = Options[Any, Any](
            handler,
            self._on_error,
            slice_seconds=_SLICE,
            item_timeout=timeout,
            pick=None if timed is None else timed(self.name, handler),
        )
        # Handlers run in the context of the code that registered them, not of connect() (rule D19).
        self._context = contextvars.copy_context()
        self._admits = event_filter.by_class
        self._exact = event_filter.exact
        self._wants_all = event_filter.everything
        self._sink: HandlerSink[Event, Any] | None = None
        self._disposed = False
        self._frozen = False
        self.failure: ArcpError | None = None
        self._lane: SessionLane | None = None
        self._batches: BatchLane | None = None
        self._by_job: JobLanes | None = None
        self._lanes: SessionLane | JobLanes
        if batch is not None:
            self._lanes = self._lane = self._batches = BatchLane(self, gate, batch)
        elif order is Order.SESSION:
            self._lanes = self._lane = SessionLane(self, gate)
        else:
            self._lanes = self._by_job = JobLanes(self, gate)

    # -- for users

    @property
    def lag(self) -> int:
        return self.outstanding

    def dispose(self) -> None:
        if self._disposed:
            return
        self._gate.check_loop()
        self._disposed = True
        self._ended(self)
        self._halt()
        self._lanes.abandon()
        self._gate.progress()

    def freeze(self, failure: ArcpError | None = None) -> None:
        """Run no more handlers, because of ``failure``. Outstanding events stay unprocessed."""
        if not self._frozen:
            self._frozen = True
            self.failure = failure
            self._halt()
            for lane in self.lanes:
                lane.stop()

    def stop_lingering(self) -> None:
        """End the task of the handler once no events are left, because the client has ended."""
        if isinstance(self._sink, Serial):
            self._sink.stop_lingering()

    def _halt(self) -> None:
        if self._sink is not None:
            self._sink.dispose()

    def flush_batches(self) -> None:
        """Let a handler of batches get the events that wait."""
        if self._batches is not None:
            self._batches.flush()

    # -- for the fan-out

    def accept(self, events: list[Event], now: float, _largest: int = 0) -> None:
        wanted = events if self._wants_all else self._wanted(events)
        if not wanted:
            return
        if self._sink is None:
            self._sink = self._context.run(self._start)
            if self._frozen:
                self._sink.dispose()
        if self._lane is not None:
            self._lane.add(wanted, now)
            self._sink.feed(wanted)
        elif self._by_job is not None:
            self._by_job.add(wanted, now, cast("LaneSink[Event, Any]", self._sink))

    def takes(self, gap: Gap) -> bool:
        return not self._frozen and self.event_filter.matches(gap)

    def _wanted(self, events: list[Event]) -> list[Event]:
        admits = self._admits
        if self._exact:
            return [event for event in events if admits[type(event)]]
        matches = self.event_filter.matches
        return [event for event in events if admits[type(event)] and matches(event)]

    @property
    def outstanding(self) -> int:
        lanes = self._lanes
        return lanes.accepted - lanes.done

    @property
    def lanes(self) -> Iterator[Lane]:
        """The lanes with outstanding events; under `Order.SESSION`, the only lane."""
        if self._lane is not None:
            return iter((self._lane,))
        return iter(self._by_job or ())

    def waiting(self) -> Iterator[Event]:
        for lane in self.lanes:
            yield from lane.waiting()

    def oldest(self, session_id: str) -> int | None:
        heads = [_first(lane.waiting(), session_id) for lane in self.lanes]
        return min((number for number in heads if number is not None), default=None)

    def since(self) -> float | None:
        moments = [lane.since() for lane in self.lanes]
        return min((moment for moment in moments if moment is not None), default=None)

    # -- for results

    def barriers(self, job_id: str) -> Iterator[tuple[Lane, int]]:
        """The lane with outstanding events of a job, if there are any.

        It comes with the count that its `Lane.done` reaches once these events are processed.
        """
        lane = self._lane if self._by_job is None else self._by_job.get(job_id)
        count = None if lane is None else lane.last_of(job_id)
        if lane is not None and count is not None:
            yield lane, count

    def drains(self, task: asyncio.Task[Any] | None) -> bool:
        """Whether this task calls the handler."""
        return self._sink is not None and task is not None and self._sink.runs_in(task)

    # -- running handlers

    def _start(self) -> HandlerSink[Event, Any]:
        sink: HandlerSink[Event, Any]
        if self._lane is not None:
            operator: type[Serial[Event, Any]] = Batches if self._batches is not None else Serial
            sink = operator(self._options, Downstream(on_error=self._interrupted))
            sink.inbox = cast("Inbox", self._lane)  # has the same methods, and counts events
            sink.lingers = True
            self._lane.attach(sink)
        else:
            sink = LaneSink(self._options, Downstream(on_error=self._interrupted))
        # A handler may cancel its own task; the client disposes of the lanes when it ends.
        sink.outlives_cancel = True
        return sink

    async def _on_error(self, event: Event, error: Exception) -> None:
        batch = self._batches
        outcome = self._failed(self, event if batch is None else [*batch.current()], error)
        if outcome is not None:
            await outcome
        if self._frozen:
            raise asyncio.CancelledError  # so that the operator counts the event as unprocessed

    def _interrupted(self, error: Exception) -> None:
        """Dispose of the registration, because the task of its handlers was cancelled."""
        _log.warning("handler %s is not called any more: %s", self.name, error)
        self.dispose()


def _first(events: Iterator[Event], session_id: str) -> int | None:
    for event in events:
        if event.session_id == session_id and event.seq is not None:
            return event.seq
    return None
