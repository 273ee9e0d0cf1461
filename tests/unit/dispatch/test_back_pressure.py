"""When a paused reader continues, and what it asks of consumers meanwhile (D6)."""

from __future__ import annotations

import asyncio

import pytest

from arcp_client import Buffer, Order
from arcp_client._dispatch.back_pressure import LONE, Reading
from arcp_client._dispatch.slow_consumers import SLOW_AFTER
from arcp_client.errors import BufferFull, LocalProtocolError
from arcp_client.events import Event
from arcp_client.testing import VirtualClock
from tests.unit.dispatch.kit import FakeConsumer, Hub, Tape, log, turns
from tests.unit.dispatch.test_streams import sized


@pytest.mark.parametrize("order", list(Order))
async def test_a_reader_that_paused_for_bytes_continues_with_the_event_that_makes_room(
    order: Order,
) -> None:
    hub, tape = Hub(order=order, buffer=Buffer(soft=100, bytes=2500)), Tape()
    gate = hub.back_pressure
    hub.on()(tape.handle)
    hub.publish(sized(1, 1000), sized(2, 1000), sized(3, 1000))
    assert gate.decide() is Reading.HELD
    reader = asyncio.create_task(gate.caught_up())
    await turns()
    assert not reader.done()
    assert gate.heavy
    tape.let_go(1)
    await turns()
    assert reader.done()
    assert not gate.heavy  # the next pause may be for the number of events
    tape.let_go(2, 3)
    await turns()


@pytest.mark.parametrize(
    ("soft", "waiting", "frames"),
    [(1000, 0, 128), (1000, 1, 64), (100, 0, 100), (100, 1, 64), (8, 0, 64), (8, 1, 64)],
)
def test_the_reader_takes_more_frames_at_a_time_while_no_event_waits(
    soft: int, waiting: int, frames: int
) -> None:
    consumers = FakeConsumer()
    consumers.outstanding = waiting
    pressure = consumers.back_pressure(Buffer(soft=soft))
    pressure.decide()
    assert pressure.turn == frames


@pytest.mark.parametrize(
    ("buffer", "waiting", "frames"),
    [
        (Buffer(), 0, 63),
        (Buffer(), 1, 62),
        (Buffer(), 63, 0),
        (Buffer(soft=8), 0, 7),
        (Buffer(soft=8), 7, 0),
        (Buffer(soft=8), 8, 0),
        (Buffer(soft=1), 0, 0),
        (Buffer(bytes=20 * LONE), 0, 19),
        (Buffer(bytes=20 * LONE - 1), 0, 18),
        (Buffer(bytes=20 * LONE), 10, 9),
        (Buffer(bytes=1000), 0, 0),
    ],
)
def test_frames_that_come_one_at_a_time_are_decided_on_before_they_reach_a_limit(
    buffer: Buffer, waiting: int, frames: int
) -> None:
    class Weighty(FakeConsumer):
        def weight(self, backlog: int, limit: int) -> int:
            return backlog * LONE

    consumers = Weighty()
    pressure = consumers.back_pressure(buffer)
    for consumers.outstanding in (0, waiting):
        pressure.decide(lone=True)
    assert max(pressure.spare, 0) == frames
    pressure.decide()
    assert pressure.spare == 0


def test_no_frame_is_spare_while_events_wait_for_a_checkpoint() -> None:
    """Their bytes count only from then on."""

    class Holding(FakeConsumer):
        def held(self) -> int:
            return 1

    pressure = Holding().back_pressure()
    pressure.decide(lone=True)
    assert pressure.spare == 0


@pytest.mark.parametrize(
    ("waiting", "left", "iterations"),
    [(128, 64, 2), (128, 63, 1), (128, 0, 1), (64, 64, 2), (200, 127, 2), (200, 128, 1)],
)
async def test_consumers_get_a_second_iteration_if_they_may_catch_up_in_it(
    waiting: int, left: int, iterations: int
) -> None:
    consumers = FakeConsumer()
    consumers.outstanding = waiting
    pressure = consumers.back_pressure()
    assert pressure.decide() is Reading.BY_TURNS
    reader = asyncio.create_task(pressure.let_run())
    await asyncio.sleep(0)
    consumers.outstanding = left
    count = 0
    while not reader.done():
        await asyncio.sleep(0)
        count += 1
    assert count == iterations
    assert pressure.turn == (64 if left else 128)


async def test_slow_consumers_are_looked_for_at_each_check_and_once_in_a_long_pause(
    clock: VirtualClock,
) -> None:
    looked: list[float] = []
    gate = FakeConsumer().back_pressure(check_slow=lambda: looked.append(clock.time()))
    assert gate.decide() is Reading.ON
    assert looked == [0.0]
    for seconds in (SLOW_AFTER / 2, 10.0):
        reader = asyncio.create_task(gate.caught_up())
        await clock.advance(seconds)
        gate.progress()
        await reader
    assert looked == [0.0, SLOW_AFTER / 2 + SLOW_AFTER]
    assert gate.pauses == 2


@pytest.mark.parametrize("of_event", [True, False])
async def test_while_a_handler_waits_for_an_event_only_the_bytes_are_limited(
    of_event: bool,
) -> None:
    """D6: the event may stand behind any number of others."""
    hub = Hub(buffer=Buffer(soft=2, hard=4, bytes=100_000))
    gate = hub.back_pressure
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def handler(event: Event) -> None:
        if event.seq == 1:
            if of_event:
                await gate.wait_for(future)
            else:
                with gate.awaiting(future):
                    await future

    hub.on()(handler)
    hub.publish(*(log(seq) for seq in range(1, 6)))
    await turns()
    assert gate.urgent is of_event
    assert gate.room is of_event
    assert gate.decide() is (Reading.ON if of_event else Reading.ASIDE)
    hub.publish(sized(6, 100_000))
    assert gate.decide() is Reading.ASIDE
    future.set_result(None)
    await turns()
    assert not gate.urgent
    assert gate.decide() is Reading.ON


async def test_at_the_limit_of_bytes_a_handler_does_not_wait_for_an_event_in_the_file() -> None:
    """D6: the event cannot be read before the handler has returned."""
    hub = Hub(buffer=Buffer(bytes=100_000))
    gate = hub.back_pressure
    ends: list[int | None] = []

    async def handler(event: Event) -> None:
        if event.seq == 1:
            with pytest.raises(BufferFull):
                await gate.wait_for(asyncio.get_running_loop().create_future())
        ends.append(event.seq)

    hub.on()(handler)
    hub.publish(log(1))
    await turns()
    assert gate.urgent
    assert gate.room
    hub.publish(sized(2, 100_000))
    await turns()
    assert ends == []
    assert not gate.room
    await turns()
    assert ends == [1, 2]
    assert not gate.urgent
    assert gate.room


async def test_a_wait_in_another_loop_is_refused_before_it_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing would end it."""
    gate = Hub().back_pressure

    def refuse() -> None:
        raise LocalProtocolError("another loop")

    monkeypatch.setattr(gate, "check_loop", refuse)
    never = asyncio.get_running_loop().create_future()
    with pytest.raises(LocalProtocolError, match="another loop"):
        await asyncio.wait_for(gate.wait_for(never, result=True), 1)
