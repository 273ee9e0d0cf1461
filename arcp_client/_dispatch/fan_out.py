"""Publishes the events of a session, in arrival order, to every consumer whose filter matches.

A consumer is a lane of handlers, an iterator, or the observers of ``client.notifications``. The
fan-out tracks the progress of all of them: an event is *processed* when it is outstanding in none
(D3).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from arcp_client.events import Event, Gap, sizes

__all__ = ["Consumer", "FanOut"]

_log = logging.getLogger("arcp_client.dispatch")


class Consumer(Protocol):
    """What the fan-out needs of a consumer."""

    def accept(self, events: list[Event], now: float, largest: int, /) -> None:
        """Take those that are wanted; must not block, raise, or change the list.

        Args:
            events: what came, in order.
            now: when.
            largest: bytes of the largest of them.
        """

    def takes(self, gap: Gap, /) -> bool:
        """Whether `accept` gives this gap to code of the user's."""

    @property
    def outstanding(self) -> int:
        """Events taken and not done."""

    def waiting(self) -> Iterator[Event]:
        """Those events, in each lane oldest first."""

    def oldest(self, session_id: str) -> int | None:
        """The lowest number of that session among them."""

    def since(self) -> float | None:
        """When the oldest of them came."""


class FanOut:
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
        self._heaviest = 0
        self._weighed = (0, 0)

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
        """Hand events out. The list belongs to the consumers from then on."""
        self.published += len(events)
        now = asyncio.get_running_loop().time()
        largest = max(sizes(events))
        if largest > self._heaviest:
            self._heaviest = largest
        if Gap in map(type, events):
            self._report_untaken(events)
        for consumer in self._consumers:
            consumer.accept(events, now, largest)
        if self.quiet:
            self.quiet = False
            self._activity()

    def _report_untaken(self, events: list[Event]) -> None:
        """Log the gaps that no consumer takes (S4)."""
        for gap in events:
            if type(gap) is Gap and not any(one.takes(gap) for one in self._consumers):
                _log.warning(
                    "%s, and nothing in this program is told: register a handler of events.Gap"
                    " or of events.Event, or iterate over the job",
                    _description(gap),
                )

    def __iter__(self) -> Iterator[Consumer]:
        return iter(self._consumers)

    # ------------------------------------------------------------------ how far consumers are

    @property
    def backlog(self) -> int:
        """Events that the slowest consumer has outstanding."""
        backlog = 0
        for consumer in self._consumers:
            outstanding = consumer.outstanding
            if outstanding > backlog:
                backlog = outstanding
        if not backlog:
            self._heaviest = 0
            self._weighed = (0, self.published)
        return backlog

    def weight(self, backlog: int, limit: int) -> int:
        """Bytes that the slowest consumer has outstanding, of so many events.

        Exact only from ``limit`` on: below it, the number of events and the largest frame settle
        the matter nearly always.
        """
        at_most = backlog * self._heaviest
        if at_most < limit:
            return at_most
        weight, published = self._weighed
        at_most = weight + (self.published - published) * self._heaviest
        if at_most < limit:
            return at_most
        weight = max((sum(sizes(one.waiting())) for one in self._consumers), default=0)
        self._weighed = (weight, self.published)
        return weight

    def since(self) -> float | None:
        """When the oldest event came that somebody has outstanding."""
        moments = [consumer.since() for consumer in self._consumers if consumer.outstanding]
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def processed(self) -> int:
        """Events that every consumer is done with."""
        return self.published - len({id(event) for event in self._waiting()})

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


def _description(gap: Gap) -> str:
    whose = f"job {gap.job_id}" if gap.job_id is not None else f"session {gap.session_id}"
    if gap.last is None:
        return f"events of {whose} from {gap.first} on are missing ({gap.reason})"
    return f"events {gap.first} to {gap.last} of {whose} are missing ({gap.reason})"
