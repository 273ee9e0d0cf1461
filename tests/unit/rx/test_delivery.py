"""The delivery token: a source learns when its items were processed (D4)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from reactivex import operators as ops
from reactivex.subject import Subject

from arcp_client._rx.delivery import HolderCount, publish
from arcp_client.rx import concat_map_async, concat_map_async_by, stream
from arcp_client.testing.clock import VirtualClock
from tests.unit.rx.kit import Probe, Tape


class Dispatcher:
    """As the client's: a hot subject, and a note of every event that is processed."""

    def __init__(self) -> None:
        self.subject: Subject[Any] = Subject()
        self.processed: list[Any] = []
        self.given_up: list[Any] = []

    def dispatch(self, event: Any) -> None:
        def done(processed: bool) -> None:
            (self.processed if processed else self.given_up).append(event)

        publish(HolderCount(done), self.subject.on_next, event)


@pytest.fixture
def dispatcher() -> Dispatcher:
    return Dispatcher()


async def test_without_a_holder_processed_means_on_next_returned(dispatcher: Dispatcher) -> None:
    dispatcher.dispatch(1)
    dispatcher.subject.subscribe(lambda _: None)
    dispatcher.dispatch(2)
    assert dispatcher.processed == [1, 2]


@pytest.mark.parametrize("keyed", [False, True])
async def test_a_handler_holds_its_event_until_it_ended(
    dispatcher: Dispatcher, clock: VirtualClock, keyed: bool
) -> None:
    probe = Probe()
    operator = concat_map_async_by(lambda n: n % 2, probe) if keyed else concat_map_async(probe)
    dispatcher.subject.pipe(ops.filter(lambda n: n > 0), ops.map(lambda n: n), operator).subscribe()
    for event in range(4):
        dispatcher.dispatch(event)
    await clock.settle()
    assert dispatcher.processed == [0]

    probe.let_go(1)
    await clock.settle()
    assert dispatcher.processed == [0, 1]
    probe.let_all_go()
    await clock.settle()
    assert sorted(dispatcher.processed) == [0, 1, 2, 3]
    assert dispatcher.given_up == []


async def test_every_holder_counts(dispatcher: Dispatcher, clock: VirtualClock) -> None:
    first, second = Probe(), Probe()
    dispatcher.subject.pipe(concat_map_async(first)).subscribe()
    dispatcher.subject.pipe(concat_map_async(second)).subscribe()
    items = stream(dispatcher.subject)
    dispatcher.dispatch(1)
    dispatcher.dispatch(2)
    await clock.settle()
    first.let_all_go()
    second.let_all_go()
    await clock.settle()
    assert dispatcher.processed == []

    assert await anext(items) == 1
    assert dispatcher.processed == []
    assert await anext(items) == 2
    assert dispatcher.processed == [1]
    await items.aclose()
    assert dispatcher.given_up == [2]


async def test_a_chain_holds_until_its_last_handler_ended(
    dispatcher: Dispatcher, clock: VirtualClock
) -> None:
    second = Probe()
    dispatcher.subject.pipe(
        concat_map_async(lambda n: n), ops.map(lambda n: n), concat_map_async(second)
    ).subscribe()
    dispatcher.dispatch(1)
    await clock.settle()
    assert dispatcher.processed == []
    second.let_all_go()
    await clock.settle()
    assert dispatcher.processed == [1]


@pytest.mark.parametrize("keyed", [False, True])
async def test_a_handler_that_raised_is_done_when_its_hook_ended(
    dispatcher: Dispatcher, clock: VirtualClock, keyed: bool
) -> None:
    hook = Probe()

    async def on_error(item: int, error: Exception) -> None:
        await hook(item)

    def fail(_: int) -> None:
        raise ValueError

    operator = (
        concat_map_async_by(lambda n: n, fail, on_error=on_error)
        if keyed
        else concat_map_async(fail, on_error=on_error)
    )
    dispatcher.subject.pipe(operator).subscribe()
    dispatcher.dispatch(1)
    await clock.settle()
    assert dispatcher.processed == []
    hook.let_all_go()
    await clock.settle()
    assert dispatcher.processed == [1]


@pytest.mark.parametrize("keyed", [False, True])
async def test_what_a_disposal_cuts_off_is_given_up(
    dispatcher: Dispatcher, clock: VirtualClock, keyed: bool
) -> None:
    probe = Probe()
    probe.let_go(1)

    def key(number: int) -> int:
        return number % 2 if number else 1 // number

    async def slow_hook(item: int, error: Exception) -> None:
        await probe(item)

    operator = (
        concat_map_async_by(key, probe, lanes=2, on_error=slow_hook)
        if keyed
        else concat_map_async(probe)
    )
    subscription = dispatcher.subject.pipe(operator).subscribe()
    events = [*range(1, 8), 0] if keyed else [*range(1, 8)]
    for event in events:
        dispatcher.dispatch(event)
    await clock.settle()
    subscription.dispose()
    await clock.settle()
    assert dispatcher.processed == [1]
    assert sorted(dispatcher.given_up) == sorted(events[1:])


async def test_an_event_whose_handler_disposed_is_processed(
    dispatcher: Dispatcher, clock: VirtualClock
) -> None:
    async def handle(_: int) -> None:
        subscription.dispose()
        await asyncio.sleep(1)

    subscription = dispatcher.subject.pipe(concat_map_async(handle)).subscribe()
    dispatcher.dispatch(1)
    dispatcher.dispatch(2)
    await clock.advance(2)
    assert dispatcher.processed == [1]
    assert dispatcher.given_up == [2]


async def test_an_event_that_a_full_stream_refuses_is_given_up(dispatcher: Dispatcher) -> None:
    items = stream(dispatcher.subject, maxsize=1)
    dispatcher.dispatch(1)
    dispatcher.dispatch(2)
    dispatcher.dispatch(3)
    assert dispatcher.given_up == [2]
    assert dispatcher.processed == [3]
    assert await anext(items) == 1


async def test_an_observer_that_raises_leaves_no_token_behind(
    dispatcher: Dispatcher, clock: VirtualClock
) -> None:
    def observe(_: int) -> None:
        raise RuntimeError("observer")

    dispatcher.subject.subscribe(observe)
    with pytest.raises(RuntimeError, match="observer"):
        dispatcher.dispatch(1)
    assert dispatcher.processed == [1]

    probe = Probe()
    quiet: Subject[int] = Subject()
    quiet.pipe(concat_map_async(probe)).subscribe()
    quiet.on_next(2)
    probe.let_all_go()
    await clock.settle()
    assert dispatcher.processed == [1]


async def test_a_handler_does_not_pass_its_token_to_what_it_pushes(
    dispatcher: Dispatcher, clock: VirtualClock
) -> None:
    other: Subject[int] = Subject()
    probe = Probe()
    other.pipe(concat_map_async(probe)).subscribe()
    dispatcher.subject.pipe(concat_map_async(other.on_next)).subscribe()
    dispatcher.dispatch(1)
    await clock.settle()
    assert probe.started == [1]
    assert dispatcher.processed == [1]
    probe.let_all_go()


async def test_a_token_is_seen_on_its_own_thread_only(
    dispatcher: Dispatcher, clock: VirtualClock
) -> None:
    other: Subject[int] = Subject()
    probe = Probe()
    other.pipe(concat_map_async(probe)).subscribe()

    def observe(_: int) -> None:
        thread = threading.Thread(target=other.on_next, args=(5,))
        thread.start()
        thread.join()

    dispatcher.subject.subscribe(observe)
    dispatcher.dispatch(1)
    assert dispatcher.processed == [1]
    async with asyncio.timeout(10):
        while not probe.started:
            await asyncio.sleep(0)
    probe.let_all_go()


async def test_a_loop_on_another_thread_has_a_token_of_its_own(dispatcher: Dispatcher) -> None:
    probe = Probe()

    async def main() -> None:
        other: Subject[int] = Subject()
        subscription = other.pipe(concat_map_async(probe)).subscribe()
        other.on_next(5)
        while not probe.started:
            await asyncio.sleep(0)
        subscription.dispose()

    def observe(_: int) -> None:
        thread = threading.Thread(target=asyncio.run, args=(main(),))
        thread.start()
        thread.join()

    dispatcher.subject.subscribe(observe)
    dispatcher.dispatch(1)
    assert dispatcher.processed == [1]
    assert dispatcher.given_up == []


async def test_nested_publications_restore_the_outer_one(
    dispatcher: Dispatcher, clock: VirtualClock
) -> None:
    inner, probe, tape = Dispatcher(), Probe(), Tape()
    dispatcher.subject.subscribe(inner.dispatch)
    dispatcher.subject.pipe(concat_map_async(probe)).subscribe()
    tape.record(inner.subject)
    dispatcher.dispatch(1)
    await clock.settle()
    assert inner.processed == [1]
    assert dispatcher.processed == []
    probe.let_all_go()
    await clock.settle()
    assert dispatcher.processed == [1]
