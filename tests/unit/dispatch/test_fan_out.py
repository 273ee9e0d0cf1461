"""In which order consumers get events, and how many bytes the slowest one has outstanding."""

from __future__ import annotations

from collections.abc import Iterator

from arcp_client._dispatch.fan_out import FanOut
from arcp_client.events import Event, Gap
from tests.unit.dispatch.kit import SESSION
from tests.unit.dispatch.test_streams import sized


class Slow:
    """A consumer that processes nothing by itself, and counts how often its events are read."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.read = 0

    def accept(self, events: list[Event], now: float, largest: int) -> None:
        self.events += events

    def takes(self, gap: Gap) -> bool:
        return True

    @property
    def outstanding(self) -> int:
        return len(self.events)

    def waiting(self) -> Iterator[Event]:
        self.read += 1
        return iter(self.events)

    def oldest(self, session_id: str) -> int | None:
        return self.events[0].seq if self.events else None

    def since(self) -> float | None:
        return 0.0 if self.events else None


def published_to(consumer: Slow) -> FanOut:
    fan_out = FanOut(lambda: None)
    fan_out.active_at = float("inf")
    fan_out.attach(consumer)
    return fan_out


def weight(fan_out: FanOut, limit: int) -> int:
    return fan_out.weight(fan_out.backlog, limit)


def test_registrations_get_events_before_the_consumers_that_came_earlier() -> None:
    """So that the end of a job finds the job's earlier events in the lanes."""
    fan_out = FanOut(lambda: None)
    iterator, later_iterator, registration, later_registration = (Slow() for _ in range(4))
    fan_out.attach(iterator)
    fan_out.attach(registration, first=True)
    fan_out.attach(later_iterator)
    fan_out.attach(later_registration, first=True)
    fan_out.attach(iterator)
    assert list(fan_out) == [registration, later_registration, iterator, later_iterator]
    fan_out.detach(registration)
    fan_out.detach(later_iterator)
    assert list(fan_out) == [later_registration, iterator]


async def test_the_bytes_are_counted_only_if_no_upper_bound_is_below_the_limit() -> None:
    """The limit is checked every few frames, and to count the bytes takes time for each event."""
    consumer = Slow()
    fan_out = published_to(consumer)
    fan_out.publish([sized(1, 1000), *(sized(seq, 10) for seq in range(2, 21))])
    assert weight(fan_out, 20_001) == 20_000  # as if all were as large as the largest
    assert consumer.read == 0
    assert weight(fan_out, 20_000) == 1190
    assert consumer.read == 1
    fan_out.publish([sized(21, 10), sized(22, 10)])
    assert weight(fan_out, 3191) == 3190  # what was counted, and a bound for the later ones
    assert consumer.read == 1
    assert weight(fan_out, 3190) == 1210
    assert consumer.read == 2


async def test_a_consumer_that_has_caught_up_once_begins_with_no_bytes() -> None:
    consumer = Slow()
    fan_out = published_to(consumer)
    fan_out.publish([sized(seq, 1000) for seq in range(1, 11)])
    assert weight(fan_out, 1) == 10_000
    consumer.events.clear()
    assert weight(fan_out, 1) == 0
    fan_out.publish([sized(seq, 10) for seq in range(11, 16)])
    assert weight(fan_out, 51) == 50  # the large events before do not count
    assert consumer.read == 1


async def test_a_gap_counts_as_an_event_of_the_session() -> None:
    consumer = Slow()
    fan_out = published_to(consumer)
    fan_out.publish([Gap(seq=3, session_id=SESSION, first=1, last=3), sized(4, 10)])
    assert fan_out.mark(SESSION, 4) == 2
    assert fan_out.processed_above(SESSION, 6) == ((5, 6),)
