"""Disposal: at once, once, from anywhere, and nothing is left (I4)."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
import reactivex as rx
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.disposable import Disposable
from reactivex.subject import Subject

from arcp_client.rx import EventChannel, concat_map_async, concat_map_async_by
from arcp_client.testing.clock import VirtualClock
from tests.unit.rx.kit import Probe, Tape, drain_tasks

Operator: TypeAlias = Callable[..., Callable[[Observable[Any]], Observable[Any]]]


def _by_number(handler: Any, **options: Any) -> Callable[[Observable[Any]], Observable[Any]]:
    return concat_map_async_by(lambda _: "key", handler, **options)


@pytest.fixture(params=[concat_map_async, _by_number], ids=["serial", "keyed"])
def operator(request: pytest.FixtureRequest) -> Operator:
    found: Operator = request.param
    return found


@pytest.fixture(params=["channel", "subject"])
def source(request: pytest.FixtureRequest) -> tuple[Observable[int], Callable[[int], Any]]:
    if request.param == "subject":
        subject: Subject[int] = Subject()
        return subject, subject.on_next
    channel: EventChannel[int] = EventChannel()
    return channel.observable(), channel.push_nowait


Source: TypeAlias = tuple[Observable[int], Callable[[int], Any]]


async def test_while_idle(operator: Operator, source: Source, clock: VirtualClock) -> None:
    observable, push = source
    probe, tape = Probe(), Tape()
    subscription = tape.record(observable.pipe(operator(probe)))
    subscription.dispose()
    push(1)
    await clock.settle()
    assert probe.started == []
    assert tape.items == tape.ends == []
    assert drain_tasks() == []


async def test_before_the_first_handler(
    operator: Operator, source: Source, clock: VirtualClock
) -> None:
    observable, push = source
    probe, tape = Probe(), Tape()
    subscription = tape.record(observable.pipe(operator(probe)))
    push(1)
    subscription.dispose()
    await clock.settle()
    assert probe.started == []
    assert tape.ends == []
    assert drain_tasks() == []


async def test_while_a_handler_runs(
    operator: Operator, source: Source, clock: VirtualClock
) -> None:
    observable, push = source
    probe, tape = Probe(), Tape()
    subscription = tape.record(observable.pipe(operator(probe)))
    for number in range(3):
        push(number)
    await clock.settle()
    subscription.dispose()
    subscription.dispose()
    await clock.settle()

    assert probe.cancelled == [0]
    assert probe.started == [0]
    assert tape.items == tape.ends == []
    assert drain_tasks() == []


async def test_twice_cancels_once(operator: Operator, clock: VirtualClock) -> None:
    cleaned = 0

    async def handle(_: int) -> None:
        nonlocal cleaned
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(1)
            cleaned += 1

    subscription = rx.of(1).pipe(operator(handle)).subscribe()
    await clock.settle()
    subscription.dispose()
    await clock.settle()
    subscription.dispose()
    await clock.advance(2)
    assert cleaned == 1


@pytest.mark.parametrize("isolate", [False, True])
async def test_inside_the_handler_which_runs_on_to_its_end(
    operator: Operator, source: Source, clock: VirtualClock, isolate: bool
) -> None:
    observable, push = source
    log: list[str] = []
    tape = Tape()

    async def handle(number: int) -> int:
        log.append(f"start {number}")
        subscription.dispose()
        await asyncio.sleep(1)
        log.append(f"end {number}")
        return number

    subscription = tape.record(observable.pipe(operator(handle, isolate_context=isolate)))
    push(1)
    push(2)
    await clock.advance(5)

    assert log == ["start 1", "end 1"]
    assert tape.items == tape.ends == []
    assert drain_tasks() == []


async def test_from_outside_after_the_handler_did_so_itself(
    operator: Operator, clock: VirtualClock
) -> None:
    ended: list[str] = []

    async def handle(_: int) -> None:
        subscription.dispose()
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    channel: EventChannel[int] = EventChannel()
    subscription = channel.observable().pipe(operator(handle)).subscribe()
    channel.push_nowait(1)
    await clock.settle()
    subscription.dispose()
    await clock.settle()
    assert ended == ["cancelled"]


async def test_inside_the_observer(operator: Operator, source: Source, clock: VirtualClock) -> None:
    observable, push = source
    probe, tape = Probe(), Tape()
    probe.let_all_go()
    tape.record(observable.pipe(operator(probe), ops.take(2)))
    for number in range(5):
        push(number)
    await clock.settle()

    assert tape.items == [0, 1]
    assert tape.ends == ["completed"]
    assert probe.started == [0, 1]
    assert drain_tasks() == []


async def test_inside_the_error_hook(operator: Operator, clock: VirtualClock) -> None:
    tape = Tape()
    subscriptions: list[abc.DisposableBase] = []

    async def hook(item: int, error: Exception) -> None:
        subscriptions[0].dispose()
        await asyncio.sleep(0)

    channel: EventChannel[int] = EventChannel()
    pipe = channel.observable().pipe(operator(lambda n: n // 0, on_error=hook))
    subscriptions.append(tape.record(pipe))
    channel.push_nowait(1)
    channel.push_nowait(2)
    await clock.settle()
    assert tape.ends == []
    assert drain_tasks() == []


async def test_from_another_thread(operator: Operator, source: Source) -> None:
    observable, push = source
    probe, tape = Probe(), Tape()
    subscription = tape.record(observable.pipe(operator(probe)))
    push(1)
    push(2)
    while not probe.started:
        await asyncio.sleep(0)

    thread = threading.Thread(target=subscription.dispose)
    thread.start()
    await asyncio.to_thread(thread.join)
    async with asyncio.timeout(10):
        while drain_tasks():
            await asyncio.sleep(0)

    assert probe.cancelled == [1]
    assert tape.items == tape.ends == []


async def test_from_another_thread_nothing_follows_once_it_returned(
    operator: Operator, source: Source, clock: VirtualClock
) -> None:
    observable, push = source
    tape = Tape()
    subscription = tape.record(observable.pipe(operator(lambda n: n)))
    for number in range(200):
        push(number)
    await asyncio.sleep(0)
    before = len(tape.items)
    assert 0 < before < 200

    thread = threading.Thread(target=subscription.dispose)
    thread.start()
    thread.join()  # blocks the loop: what dispose left to it has not run yet
    await clock.settle()
    assert len(tape.items) == before


@pytest.mark.parametrize("how", ["complete", "dispose"])
async def test_an_item_of_another_thread_that_arrives_after_the_end_is_dropped(
    operator: Operator, clock: VirtualClock, how: str
) -> None:
    subject: Subject[int] = Subject()
    probe, tape = Probe(), Tape()
    subscription = tape.record(subject.pipe(operator(probe)))
    subject.on_next(0)
    await clock.settle()
    thread = threading.Thread(target=subject.on_next, args=(1,))
    thread.start()
    thread.join()  # blocks the loop: the item has not arrived yet
    subject.on_completed() if how == "complete" else subscription.dispose()
    probe.let_all_go()
    await clock.settle()
    assert probe.started == [0]
    assert tape.items == ([0] if how == "complete" else [])
    assert tape.ends == (["completed"] if how == "complete" else [])


@pytest.mark.parametrize("how", ["dispose", "idle"])
@pytest.mark.parametrize("keyed", [False, True])
async def test_no_timer_is_left(clock: VirtualClock, keyed: bool, how: str) -> None:
    probe = Probe()
    operator = (
        concat_map_async_by(lambda n: n, probe, lanes=1, item_timeout=60)
        if keyed
        else concat_map_async(probe, item_timeout=60)
    )
    channel: EventChannel[int] = EventChannel()
    subscription = channel.observable().pipe(operator).subscribe()
    channel.push_nowait(1)
    channel.push_nowait(2)
    await clock.settle()
    if how == "dispose":
        subscription.dispose()
    probe.let_all_go()
    await clock.settle()
    jumps = clock.jumps
    await clock.advance(0.01)
    await clock.advance(120)
    assert clock.jumps == jumps + 2  # time had to stop for nothing but the two advances


def test_after_the_loop_has_closed(operator: Operator) -> None:
    subscriptions: list[abc.DisposableBase] = []

    async def main() -> None:
        channel: EventChannel[int] = EventChannel()
        subscriptions.append(channel.observable().pipe(operator(Probe())).subscribe())
        channel.push_nowait(1)

    asyncio.run(main())
    subscriptions[0].dispose()
    thread = threading.Thread(target=subscriptions[0].dispose)
    thread.start()
    thread.join()


def test_after_the_loop_was_closed_around_a_running_handler(operator: Operator) -> None:
    subscriptions: list[abc.DisposableBase] = []
    tasks: list[Any] = []

    async def main() -> None:
        probe = Probe()
        subscriptions.append(rx.of(1).pipe(operator(probe)).subscribe())
        while not probe.started:
            await asyncio.sleep(0)
        tasks.extend(drain_tasks())

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()
    subscriptions[0].dispose()
    for task in tasks:
        task._log_destroy_pending = False  # it can never end: its loop is closed


async def test_the_error_of_a_source_that_cannot_be_left_reaches_the_caller(
    operator: Operator,
) -> None:
    def fail() -> None:
        raise RuntimeError("cannot be left")

    source = rx.create(lambda observer, scheduler: Disposable(fail))
    subscription = source.pipe(operator(lambda n: n)).subscribe()
    with pytest.raises(RuntimeError, match="cannot be left"):
        subscription.dispose()


async def test_a_handler_that_fails_after_the_disposal_is_logged(
    operator: Operator, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(_: int) -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            raise RuntimeError("clean-up") from None

    subscription = rx.of(1).pipe(operator(handle, on_error="raise")).subscribe()
    await clock.settle()
    subscription.dispose()
    await clock.settle()
    assert "clean-up" in caplog.text


class _Item:
    pass


async def test_a_disposed_subscription_keeps_no_queued_item_alive(
    operator: Operator, source: Source, clock: VirtualClock
) -> None:
    observable, push = source
    subscription = observable.pipe(operator(Probe())).subscribe()
    items: list[Any] = [_Item() for _ in range(3)]
    for item in items:
        push(item)
    await clock.settle()
    dead = [weakref.ref(item) for item in items[1:]]  # the probe notes the first one
    subscription.dispose()
    await clock.settle()
    items.clear()
    del item
    gc.collect()
    assert [ref() for ref in dead] == [None, None]


@pytest.mark.parametrize("how", ["complete", "dispose", "fail", "abandon"])
async def test_nothing_is_left(operator: Operator, clock: VirtualClock, how: str) -> None:
    dead: list[weakref.ref[Any]] = []

    async def scenario() -> None:
        channel: EventChannel[_Item] = EventChannel()
        tape, probe = Tape(), Probe()
        observable = channel.observable().pipe(operator(probe))
        subscription = tape.record(observable)
        items = [_Item(), _Item()]
        for item in items:
            channel.push_nowait(item)
        await clock.settle()
        if how == "complete":
            probe.let_all_go()
            channel.complete()
        elif how == "fail":
            probe.let_all_go()
            channel.fail(OSError())
        elif how == "dispose":
            subscription.dispose()
        else:
            probe.let_all_go()
        await clock.settle()
        dead.extend(weakref.ref(thing) for thing in [*items, probe, subscription, observable])

    await scenario()
    await clock.settle()
    gc.collect()
    assert [ref() for ref in dead if ref() is not None] == []
    assert drain_tasks() == []
