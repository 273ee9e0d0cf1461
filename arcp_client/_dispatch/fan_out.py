"""Publishes the events of a session, in its order, to every consumer.

A consumer is a registration (`HandlerRegistration`), an iterator, or the observers of
``client.notifications``. It accepts the events that match its filter. An event is *outstanding* in
a consumer from `Consumer.accept` until the consumer has finished with it, and *processed* when it
is outstanding in no consumer (rule D3 in docs/explanation/rules.md). The watermark is the number up
to which all events are processed.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator
from typing import Protocol

from arcp_client._log_fields import log_fields
from arcp_client._protocol.actions import EventRun
from arcp_client.events import Event, Gap, sizes

__all__ = ["Consumer", "FanOut"]

_log = logging.getLogger("arcp_client.dispatch")


class Consumer(Protocol):
    """The interface of a consumer."""

    def accept(self, events: list[Event], now: float, largest: int, /) -> None:
        """Accept the events that match its filter. Must not block, raise, or change the list.

        Args:
            events: the events, in order.
            now: their arrival time.
            largest: bytes of the largest event.
        """

    def takes(self, gap: Gap, /) -> bool:
        """Whether `accept` would pass this gap to user code."""

    @property
    def outstanding(self) -> int:
        """The number of outstanding events."""

    def waiting(self) -> Iterator[Event]:
        """The outstanding events, oldest first. A registration yields them lane by lane."""

    def oldest(self, session_id: str) -> int | None:
        """The lowest ``event_seq`` of that session among the outstanding events."""

    def since(self) -> float | None:
        """Arrival time of the oldest outstanding event."""


class FanOut:
    """Publishes batches of events to the consumers, in arrival order.

    Args:
        activity: called if `published` has reached `active_at`, after the first handlers of the
            batch have begun. It must set `active_at` for its next call.

    Attributes:
        published: number of events published.
        active_at: the value of `published` at which ``activity`` is called; with 0, it is called
            after the next batch.
    """

    def __init__(self, activity: Callable[[], None]) -> None:
        self.active_at: float = 0
        self.published = 0
        self._activity = activity
        self._lanes: tuple[Consumer, ...] = ()
        self._others: tuple[Consumer, ...] = ()
        self._consumers: tuple[Consumer, ...] = ()
        self._heaviest = 0
        self._weighed = (0, 0)

    def attach(self, consumer: Consumer, *, first: bool = False) -> None:
        """Publish all events from now on to a consumer. Idempotent.

        Args:
            consumer: the consumer.
            first: publish to this consumer before the others. Registrations come first: when the
                end of a job reaches the others, the lanes already contain the job's earlier events.
        """
        if consumer in self._consumers:
            return
        if first:
            self._lanes += (consumer,)
        else:
            self._others += (consumer,)
        self._consumers = self._lanes + self._others

    def detach(self, consumer: Consumer) -> None:
        """Publish no more events to a consumer, and ignore its outstanding events."""
        self._lanes = tuple(one for one in self._lanes if one is not consumer)
        self._others = tuple(one for one in self._others if one is not consumer)
        self._consumers = self._lanes + self._others

    def publish(self, events: list[Event]) -> None:
        """Publish a batch of events. The caller must not change the list afterwards."""
        self.published += len(events)
        loop = asyncio.get_running_loop()
        now = loop.time()
        envelopes = events.envelopes if type(events) is EventRun else None
        if envelopes is not None:
            largest = max(map(len, envelopes))
        else:
            largest = max(sizes(events))
            if Gap in map(type, events):
                self._report_untaken(events)
        if largest > self._heaviest:
            self._heaviest = largest
        for consumer in self._consumers:
            consumer.accept(events, now, largest)
        if self.published >= self.active_at:
            self.active_at = math.inf
            loop.call_soon(self._activity)

    def _report_untaken(self, events: list[Event]) -> None:
        """Log the gaps that no consumer takes (rule S4)."""
        for gap in events:
            if type(gap) is Gap and not any(one.takes(gap) for one in self._consumers):
                _log.warning(
                    "%s, and no consumer gets the gap: register a handler for events.Gap"
                    " or events.Event, or iterate over the job",
                    _description(gap),
                    extra=log_fields(session=gap.session_id, job=gap.job_id, seq=gap.first),
                )

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._consumers)

    # ------------------------------------------------------------------ progress of the consumers

    @property
    def backlog(self) -> int:
        """The number of outstanding events of the slowest consumer."""
        backlog = 0
        for consumer in self._consumers:
            outstanding = consumer.outstanding
            if outstanding > backlog:
                backlog = outstanding
        if not backlog:
            self._heaviest = 0
        return backlog

    def weight(self, backlog: int, limit: int) -> int:
        """Bytes of the events that are outstanding in the slowest consumer.

        A result of ``limit`` or more is exact. A lower one may be an upper bound, computed from the
        number of events and the largest frame.
        """
        at_most = backlog * self._heaviest
        if at_most < limit:
            return at_most
        weight, published = self._weighed
        at_most = weight + (self.published - published) * self._heaviest
        if at_most < limit:
            return at_most
        weight = max((_bytes_of(one.waiting()) for one in self._consumers), default=0)
        self._weighed = (weight, self.published)
        return weight

    def since(self) -> float | None:
        """Arrival time of the oldest event that is outstanding in any consumer."""
        moments = [consumer.since() for consumer in self._consumers if consumer.outstanding]
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def processed(self) -> int:
        """The number of events that every consumer has processed."""
        return self.published - len({id(event) for event in self._waiting()})

    def mark(self, session_id: str, received: int) -> int:
        """The watermark: the number up to which every consumer has processed all events."""
        oldest = received + 1
        for consumer in self._consumers:
            if consumer.outstanding:
                number = consumer.oldest(session_id)
                if number is not None and number < oldest:
                    oldest = number
        return oldest - 1

    def processed_above(self, session_id: str, received: int) -> tuple[tuple[int, int], ...]:
        """The ranges of processed events above the watermark."""
        waiting = sorted(
            {
                event.seq
                for event in self._waiting()
                if event.session_id == session_id and event.seq is not None
            }
        )
        if not waiting:
            return ()
        ranges = []
        for number, following in zip(waiting, [*waiting[1:], received + 1], strict=True):
            if following - number > 1:
                ranges.append((number + 1, following - 1))
        return tuple(ranges)

    def _waiting(self) -> Iterator[Event]:
        for consumer in self._consumers:
            if consumer.outstanding:
                yield from consumer.waiting()


def _bytes_of(events: Iterator[Event]) -> int:
    """Bytes of events. One that waits in several iterators of a consumer counts once."""
    return sum(sizes({id(event): event for event in events}.values()))


def _description(gap: Gap) -> str:
    whose = f"job {gap.job_id}" if gap.job_id is not None else f"session {gap.session_id}"
    if gap.last is None:
        return f"events of {whose} from {gap.first} on are missing ({gap.reason})"
    return f"events {gap.first} to {gap.last} of {whose} are missing ({gap.reason})"
