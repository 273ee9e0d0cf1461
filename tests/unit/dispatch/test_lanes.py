"""The lane of a registration under `Order.SESSION`."""

from __future__ import annotations

import sys

from tests.unit.dispatch.kit import Hub, Tape, log, turns


async def test_each_event_of_several_batches_is_reported_once_as_processed() -> None:
    hub, tape = Hub(), Tape()
    followed: list[int | None] = []
    hub.back_pressure.follower = lambda event: followed.append(event.seq if event else None)
    hub.on()(tape.handle)
    hub.publish(log(1), log(2))
    hub.publish(log(3))
    hub.publish(log(4), log(5))
    for seq in range(1, 6):
        tape.let_go(seq)
        await turns()
        assert [one for one in followed if one is not None] == list(range(1, seq + 1))


async def test_a_disposed_registration_keeps_no_event_in_memory() -> None:
    hub, tape = Hub(), Tape()
    registration = hub.subscribe(tape.handle)
    event = log(2)
    references = sys.getrefcount(event)
    hub.publish(log(1), event)
    await turns()
    assert registration.lag == 2
    registration.dispose()
    await turns()
    assert (registration.lag, sys.getrefcount(event)) == (0, references)


async def test_a_lane_keeps_no_event_that_its_handler_has_processed() -> None:
    hub, tape = Hub(), Tape()
    hub.on()(tape.handle)
    first, last = log(1), log(4)
    references = sys.getrefcount(first)
    hub.publish(first)
    hub.publish(log(2))
    tape.let_go(1)
    await turns()
    hub.publish(log(3))  # it is never idle
    hub.publish(last)
    assert sys.getrefcount(first) == references
    tape.let_go(2, 3, 4)
    await turns()
    assert tape.ends == [1, 2, 3, 4]
    assert sys.getrefcount(last) == references  # it is idle
