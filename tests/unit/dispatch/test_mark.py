"""What counts as processed (D3)."""

from __future__ import annotations

import asyncio

import pytest

from arcp_client import Order, events
from arcp_client.errors import HandlerFailed
from arcp_client.events import Event
from arcp_client.rx import concat_map_async
from tests.unit.dispatch.kit import Hub, Tape, log, turns


async def test_without_consumers_everything_is_processed_on_receipt() -> None:
    """D3."""
    hub = Hub()
    hub.publish(log(1), log(2))
    assert hub.mark == 2
    assert hub.processed == 2


async def test_the_mark_is_below_the_oldest_that_any_consumer_has() -> None:
    """D3: the highest number below which every consumer is done."""
    hub, slow, quick = Hub(), Tape(), Tape()
    hub.subscribe(slow.handle)
    hub.subscribe(quick.free)
    hub.publish(log(1), log(2), log(3))
    await turns()
    assert (hub.mark, hub.processed) == (0, 0)
    slow.let_go(1)
    await turns()
    assert (hub.mark, hub.processed) == (1, 1)
    slow.let_go(2, 3)
    await turns()
    assert (hub.mark, hub.processed) == (3, 3)


async def test_the_mark_is_contiguous_when_lanes_finish_out_of_order() -> None:
    """D3: and the ranges above it tell what is done there."""
    hub, tape = Hub(order=Order.JOB), Tape()
    hub.on()(tape.handle)
    hub.publish(*(log(seq, f"job_{seq % 3}") for seq in range(1, 10)))
    await turns()
    tape.let_go(2, 5, 8, 3)
    await turns()
    assert hub.mark == 0
    assert hub.above == ((2, 3), (5, 5), (8, 8))
    assert hub.processed == 4
    tape.let_go(1)
    await turns()
    assert hub.mark == 3
    tape.let_go(*range(1, 10))
    await turns()
    assert hub.mark == 9
    assert hub.above == ()


async def test_a_claim_starts_with_the_first_event_after_the_registration() -> None:
    """D3: and events that do not match are done at once."""
    hub, tape = Hub(), Tape()
    hub.publish(log(1))
    registration = hub.subscribe(tape.handle, events.Progress)
    hub.publish(log(2))
    assert hub.mark == 2
    hub.publish(events.Progress(seq=3, session_id="sess_1", current=1))
    await turns()
    assert hub.mark == 2
    registration.dispose()


async def test_disposing_ends_the_claim() -> None:
    """D3."""
    hub, tape = Hub(), Tape()
    registration = hub.subscribe(tape.handle)
    hub.publish(log(1), log(2))
    await turns()
    assert hub.mark == 0
    registration.dispose()
    registration.dispose()
    assert hub.mark == 2
    await turns()
    assert tape.running == set()
    assert tape.ends == []
    hub.publish(log(3))
    await turns()
    assert tape.starts == [1]


@pytest.mark.parametrize("order", list(Order))
async def test_a_failed_event_is_done_when_its_on_error_has_ended(order: Order) -> None:
    """D3."""
    hub = Hub(order=order)
    gate = asyncio.Event()
    errors: list[tuple[int | None, str]] = []

    async def on_error(event: events.Event, error: Exception) -> None:
        await gate.wait()
        errors.append((event.seq, str(error)))

    @hub.on(on_error=on_error)
    async def handle(event: events.Event) -> None:
        raise ValueError("bad")

    hub.publish(log(1), log(2))
    await turns()
    assert hub.mark == 0
    gate.set()
    await turns()
    assert errors == [(1, "bad"), (2, "bad")]
    assert hub.mark == 2


@pytest.mark.parametrize("order", list(Order))
async def test_stop_ends_the_registration_and_does_not_move_the_mark(order: Order) -> None:
    """D3: HandlerFailed is what the client is closed with."""
    hub = Hub(order=order)
    seen: list[int | None] = []
    hub.on_error(lambda failure: None)

    @hub.on(on_error="stop")
    async def handle(event: events.Event) -> None:
        seen.append(event.seq)
        if event.seq == 2:
            raise ValueError("bad")

    hub.publish(log(1), log(2), log(3))
    await turns()
    assert isinstance(hub.stopped, HandlerFailed)
    assert isinstance(hub.stopped.__cause__, ValueError)
    assert seen == [1, 2]
    assert hub.mark == 1
    hub.publish(log(4))
    await turns()
    assert seen == [1, 2]
    assert hub.mark == 1


@pytest.mark.parametrize("order", list(Order))
async def test_handlers_that_the_end_cancels_are_not_done(order: Order) -> None:
    """D3: a checkpoint taken after close does not count them."""
    hub, tape = Hub(order=order), Tape()
    registration = hub.subscribe(tape.handle)
    hub.publish(log(1), log(2))
    await turns()
    tape.let_go(1)
    await turns()
    registration.freeze()
    await turns()
    assert tape.running == set()
    assert tape.ends == [1]
    assert hub.mark == 1
    assert hub.processed == 1


async def test_an_iterator_is_done_with_an_event_when_it_asks_for_the_next() -> None:
    """D3: and gone iterators hold nothing."""
    hub = Hub()
    iterator = hub.events()
    hub.publish(log(1), log(2), log(3))
    assert hub.mark == 0
    assert (await anext(iterator)).seq == 1
    assert hub.mark == 0
    assert (await anext(iterator)).seq == 2
    assert hub.mark == 1
    del iterator
    assert hub.mark == 3


async def test_an_rx_consumer_is_done_when_its_handler_has_ended() -> None:
    """D4: through other operators, when ``on_next`` has returned."""
    hub, tape = Hub(), Tape()
    hub.notifications.pipe(concat_map_async(tape.handle)).subscribe()
    plain: list[int | None] = []
    hub.notifications.subscribe(lambda event: plain.append(event.seq))
    hub.publish(log(1), log(2))
    await turns()
    assert plain == [1, 2]
    assert hub.mark == 0
    tape.let_go(1)
    await turns()
    assert hub.mark == 1
    tape.let_go(2)
    await turns()
    assert hub.mark == 2


async def test_every_path_through_a_consumer_ends_its_account_at_zero() -> None:
    """Counted in one place, and it returns to zero."""
    hub, tape = Hub(), Tape()
    seen = 0
    hub.subscribe(tape.free)
    hub.subscribe(tape.free, order=Order.JOB)
    hub.notifications.pipe(concat_map_async(tape.free)).subscribe()
    iterator = hub.events()
    for start in range(1, 1000, 37):
        hub.publish(*(log(seq, f"job_{seq % 5}") for seq in range(start, start + 37)))
        for _ in range(37):
            await anext(iterator)
            seen += 1
    await turns(100)
    assert hub.fan_out.backlog == 1  # the iterator's last one
    del iterator
    assert hub.fan_out.backlog == 0
    assert hub.processed == hub.published == seen


@pytest.mark.parametrize("order", Order)
async def test_a_handler_that_disposes_of_its_own_registration_leaves_no_event_behind(
    order: Order, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where the client follows each processed event, for a store."""
    hub = Hub(order=order)
    hub.back_pressure.follower = lambda event: None
    seen: list[int | None] = []

    def handle(event: Event) -> None:
        seen.append(event.seq)
        registration.dispose()

    registration = hub.subscribe(handle)
    hub.publish(log(1), log(2), log(3, "job_2"))
    await turns()
    assert seen == [1]
    assert (registration.lag, hub.mark) == (0, 3)
    assert not caplog.records
