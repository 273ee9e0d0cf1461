"""The hot Observable without a client: what counts as processed, and who may observe (D4)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, cast

import pytest
import reactivex
from reactivex import operators as ops

from arcp_client.events import Event
from arcp_client.rx import concat_map_async
from tests.unit.dispatch.kit import Hub, Tape, log, turns


async def test_a_drain_waits_for_every_operator() -> None:
    hub, one, two = Hub(), Tape(), Tape()
    for tape in (one, two):
        hub.notifications.pipe(concat_map_async(tape.handle)).subscribe()
    hub.publish(log(1), log(2))
    draining = [asyncio.create_task(hub.notifications.drained()) for _ in range(2)]
    draining[1].cancel()
    for tape, seq in ((one, 1), (one, 2), (two, 1)):
        tape.let_go(seq)
        await turns()
        assert not draining[0].done()
    two.let_go(2)
    await turns()
    assert draining[0].done()
    await hub.notifications.drained()


@pytest.mark.parametrize("on_next", [3, "on_next", object()])
async def test_an_observer_that_cannot_be_called_is_refused(on_next: Any) -> None:
    hub = Hub()
    with pytest.raises(TypeError, match="on_next"):
        hub.notifications.subscribe(cast(Any, on_next))
    hub.publish(log(1))
    assert hub.processed == 1


async def test_operators_that_combine_it_with_other_observables_find_its_lock() -> None:
    hub = Hub()
    seen: list[Any] = []
    other = reactivex.of("other")
    hub.notifications.pipe(ops.merge(other)).subscribe(seen.append)
    other.pipe(ops.concat(hub.notifications)).subscribe(seen.append)
    reactivex.of(hub.notifications).pipe(ops.merge(max_concurrent=1)).subscribe(seen.append)
    hub.notifications.pipe(ops.with_latest_from(other)).subscribe(seen.append)
    event = log(1)
    hub.publish(event)
    assert seen == ["other", "other", event, event, event, (event, "other")]


@pytest.mark.parametrize("another", [True, False])
async def test_no_event_follows_the_end_also_if_an_observer_has_caused_it(another: bool) -> None:
    hub = Hub()
    seen: list[Any] = []

    def observer(event: Event) -> None:
        seen.append(event.seq)
        if another:
            hub.notifications.subscribe(lambda event: seen.append("another"))
        hub.notifications.end(None)

    hub.notifications.subscribe(observer, on_completed=lambda: seen.append("end"))
    hub.publish(log(1), log(2))
    assert seen == [1, "end"]
    assert hub.processed == 2


async def test_an_observer_that_another_one_ends_gets_no_event_after_its_end() -> None:
    hub = Hub()
    seen: list[Any] = []

    def first(event: Event) -> None:
        seen.append(("first", event.seq))
        hub.notifications.end(None)

    for observer, name in ((first, "first"), (lambda event: seen.append(event.seq), "second")):
        hub.notifications.subscribe(observer, on_completed=partial(seen.append, f"end of {name}"))
    hub.publish(log(1))
    assert seen == [("first", 1), "end of first", "end of second"]
    assert hub.processed == 1


async def test_an_observer_that_another_one_disposes_of_does_not_get_the_present_event() -> None:
    hub = Hub()
    seen: list[Any] = []

    def first(event: Event) -> None:
        if event.seq == 2:
            second.dispose()

    hub.notifications.subscribe(first)
    second = hub.notifications.subscribe(lambda event: seen.append(event.seq))
    hub.notifications.subscribe(lambda event: seen.append(("third", event.seq)))
    hub.publish(log(1), log(2))
    assert seen == [1, ("third", 1), ("third", 2)]
    assert hub.processed == 2
