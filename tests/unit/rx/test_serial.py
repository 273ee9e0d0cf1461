"""concat_map_async: one handler at a time, in the order of arrival (D1, I1, I2)."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import weakref
from typing import Any

import pytest
import reactivex as rx
from reactivex import operators as ops
from reactivex.scheduler import NewThreadScheduler
from reactivex.subject import Subject

from arcp_client.rx import EventChannel, concat_map_async
from arcp_client.testing.clock import VirtualClock
from tests.unit.rx.kit import Probe, Tape, drain_tasks

# ---------------------------------------------------------------------- order


async def test_completion_order_is_arrival_order_however_long_each_takes(
    clock: VirtualClock,
) -> None:
    log: list[tuple[str, int]] = []

    async def handle(number: int) -> None:
        log.append(("start", number))
        await asyncio.sleep(0.06 - number / 100)
        log.append(("end", number))

    channel: EventChannel[int] = EventChannel()
    channel.observable().pipe(concat_map_async(handle)).subscribe()
    for number in range(1, 6):
        await channel.push(number)
    await clock.advance(1)

    assert log == [(what, n) for n in range(1, 6) for what in ("start", "end")]


@pytest.mark.parametrize("source", ["channel", "subject"])
async def test_a_hundred_thousand_items_through_a_mixed_handler_keep_their_order(
    source: str,
) -> None:
    busy = 0

    async def suspends(number: int) -> int:
        nonlocal busy
        busy += 1
        assert busy == 1
        await asyncio.sleep(0)
        busy -= 1
        return number

    async def returns(number: int) -> int:
        assert busy == 0
        return number

    def handle(number: int) -> Any:
        if number % 100 == 0:
            return suspends(number)
        return returns(number) if number % 3 else number

    tape = Tape()
    if source == "channel":
        channel: EventChannel[int] = EventChannel()
        tape.record(channel.observable().pipe(concat_map_async(handle)))
        for number in range(100_000):
            await channel.push(number)
        channel.complete()
    else:
        subject: Subject[int] = Subject()
        tape.record(subject.pipe(concat_map_async(handle)))
        for number in range(100_000):
            subject.on_next(number)
        subject.on_completed()
    await tape.ended

    assert tape.items == list(range(100_000))
    assert tape.ends == ["completed"]


async def test_what_a_handler_pushes_comes_after_what_was_queued(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel()

    async def handle(number: int) -> int:
        if number < 10:
            channel.push_nowait(number + 10)
        return number

    tape = Tape()
    tape.record(channel.observable().pipe(concat_map_async(handle)))
    for number in range(3):
        channel.push_nowait(number)
    await clock.settle()

    assert tape.items == [0, 1, 2, 10, 11, 12]


async def test_an_observer_that_pushes_is_not_called_while_it_runs(clock: VirtualClock) -> None:
    subject: Subject[int] = Subject()
    depth = 0
    seen: list[int] = []

    def observe(number: int) -> None:
        nonlocal depth
        depth += 1
        assert depth == 1
        if number < 5:
            subject.on_next(number + 1)
        seen.append(number)
        depth -= 1

    subject.pipe(concat_map_async(lambda n: n)).subscribe(observe)
    subject.on_next(0)
    await clock.settle()

    assert seen == [0, 1, 2, 3, 4, 5]


async def test_results_are_emitted_as_their_handlers_end(clock: VirtualClock) -> None:
    probe, tape = Probe(), Tape()
    tape.record(rx.of(1, 2, 3).pipe(concat_map_async(probe)))
    await clock.settle()
    assert (probe.started, tape.items) == ([1], [])

    probe.let_go(1)
    await clock.settle()
    assert (probe.started, tape.items) == ([1, 2], [1])

    probe.let_all_go()
    await clock.settle()
    assert tape.items == [1, 2, 3]
    assert probe.peak == 1


# ---------------------------------------------------------------------- handlers of every make


async def _double(number: int) -> int:
    return number * 2


class _Doubler:
    async def __call__(self, number: int) -> int:
        return number * 2

    async def method(self, number: int) -> int:
        return number * 2


@pytest.mark.parametrize(
    "handler",
    [
        _double,
        lambda n: n * 2,
        lambda n: _double(n),
        functools.partial(_double),
        _Doubler(),
        _Doubler().method,
        functools.wraps(_double)(lambda n: _double(n)),
    ],
    ids=["coroutine", "sync", "wrapper", "partial", "object", "method", "wraps"],
)
@pytest.mark.parametrize("isolate", [False, True])
async def test_a_handler_is_awaited_if_it_can_be(handler: Any, isolate: bool) -> None:
    tape = Tape()
    tape.record(rx.of(1, 2, 3).pipe(concat_map_async(handler, isolate_context=isolate)))
    await tape.ended
    assert tape.items == [2, 4, 6]


async def test_a_result_of_none_and_of_mixed_types_is_passed_on() -> None:
    results = [None, 1, None, "two", _double(3)]
    tape = Tape()
    tape.record(rx.of(*range(5)).pipe(concat_map_async(lambda n: results[n])))
    await tape.ended
    assert tape.items == [None, 1, None, "two", 6]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"handler": None}, TypeError),
        ({"on_error": "stop"}, ValueError),
        ({"slice_items": 0}, ValueError),
        ({"slice_seconds": 0}, ValueError),
        ({"item_timeout": 0}, ValueError),
    ],
)
def test_arguments_are_checked_when_the_operator_is_made(
    arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        concat_map_async(**{"handler": _double, **arguments})


def test_subscribing_needs_a_running_loop() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        rx.of(1).pipe(concat_map_async(_double)).subscribe()


async def test_a_coroutine_function_as_observer_is_refused() -> None:
    channel: EventChannel[int] = EventChannel()
    with pytest.raises(TypeError, match="concat_map_async"):
        channel.observable().subscribe(_double)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="concat_map_async"):
        rx.of(1).pipe(concat_map_async(_double)).subscribe(_double)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- with other operators


async def test_it_works_between_other_operators() -> None:
    tape = Tape()
    tape.record(
        rx.range(0, 20).pipe(
            ops.filter(lambda n: n % 2 == 0),
            concat_map_async(_double),
            ops.map(lambda n: n + 1),
            ops.take(3),
        )
    )
    await tape.ended
    assert tape.items == [1, 5, 9]
    assert tape.ends == ["completed"]


async def test_two_subscriptions_are_independent(clock: VirtualClock) -> None:
    first, second = Probe(), Probe()
    subject: Subject[int] = Subject()
    subject.pipe(concat_map_async(first)).subscribe()
    subject.pipe(concat_map_async(second)).subscribe()
    for number in range(3):
        subject.on_next(number)
    second.let_all_go()
    await clock.settle()

    assert first.started == [0]
    assert second.finished == [0, 1, 2]
    first.let_all_go()


async def test_items_from_other_threads_are_handled_on_the_loop() -> None:
    loop = asyncio.get_running_loop()
    tape = Tape()

    async def handle(number: int) -> int:
        assert asyncio.get_running_loop() is loop
        return number

    tape.record(rx.range(0, 50, scheduler=NewThreadScheduler()).pipe(concat_map_async(handle)))
    async with asyncio.timeout(10):
        await tape.ended
    assert tape.items == list(range(50))
    assert tape.ends == ["completed"]


# ---------------------------------------------------------------------- what the pusher is spared


async def test_timeouts_and_cancel_scopes_of_a_handler_do_not_touch_the_pusher(
    clock: VirtualClock,
) -> None:
    anyio = pytest.importorskip("anyio")
    channel: EventChannel[int] = EventChannel()
    outcomes: list[str] = []

    async def handle(number: int) -> None:
        if number == 0:
            try:
                async with asyncio.timeout(0.01):
                    await asyncio.sleep(10)
            except TimeoutError:
                outcomes.append("asyncio")
        elif number == 1:
            with anyio.move_on_after(0.01) as scope:
                await asyncio.sleep(10)
            assert scope.cancelled_caught
            outcomes.append("anyio")
        else:
            outcomes.append("next")

    channel.observable().pipe(concat_map_async(handle)).subscribe()

    async def read() -> str:
        for number in range(3):
            await channel.push(number)
        await asyncio.sleep(100)
        return "reader alive"

    assert await read() == "reader alive"
    assert outcomes == ["asyncio", "anyio", "next"]
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_push_from_a_protocol_callback_runs_the_handler_in_a_task(
    clock: VirtualClock,
) -> None:
    channel: EventChannel[int] = EventChannel()
    tasks: list[asyncio.Task[Any] | None] = []

    async def handle(_: int) -> None:
        tasks.append(asyncio.current_task())
        await asyncio.sleep(0)
        tasks.append(asyncio.current_task())

    channel.observable().pipe(concat_map_async(handle)).subscribe()
    asyncio.get_running_loop().call_soon(channel.push_nowait, 1)
    await clock.settle()

    assert tasks[0] is not None
    assert tasks[0] is tasks[1]


# ---------------------------------------------------------------------- context

_variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


async def test_handlers_see_the_context_of_the_subscriber(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel()
    _variable.set("subscriber")
    tape = Tape()
    tape.record(channel.observable().pipe(concat_map_async(lambda _: _variable.get())))
    _variable.set("pusher")
    await channel.push(1)
    await clock.settle()
    assert tape.items == ["subscriber"]
    assert _variable.get() == "pusher"


@pytest.mark.parametrize("make", ["async", "sync", "suspending"])
@pytest.mark.parametrize("isolate", [True, False])
async def test_isolation_keeps_context_variables_from_the_next_item(
    make: str, isolate: bool
) -> None:
    def set_it() -> str:
        before = _variable.get()
        _variable.set("leaked")
        return before

    async def returns(_: int) -> str:
        return set_it()

    async def suspends(_: int) -> str:
        await asyncio.sleep(0)
        return set_it()

    handler: Any = {"async": returns, "sync": lambda _: set_it(), "suspending": suspends}[make]
    tape = Tape()
    tape.record(rx.of(1, 2).pipe(concat_map_async(handler, isolate_context=isolate)))
    await tape.ended

    assert tape.items == ["unset", "unset" if isolate else "leaked"]


# ---------------------------------------------------------------------- idle


async def test_no_task_exists_while_nothing_is_queued(clock: VirtualClock) -> None:
    channels = [EventChannel[int]() for _ in range(100)]
    for channel in channels:
        channel.observable().pipe(concat_map_async(_double)).subscribe()
    assert drain_tasks() == []

    for channel in channels:
        await channel.push(1)
    assert len(drain_tasks()) == 100

    await clock.settle()
    assert drain_tasks() == []
    assert all(channel.stats().outstanding == 0 for channel in channels)


async def test_a_drain_task_ends_in_the_turn_in_which_its_queue_is_empty() -> None:
    channel: EventChannel[int] = EventChannel()
    channel.observable().pipe(concat_map_async(_double)).subscribe()
    channel.push_nowait(1)
    channel.push_nowait(2)
    [task] = drain_tasks()
    await asyncio.sleep(0)
    assert task.done()
    ended = weakref.ref(task)
    del task
    await asyncio.sleep(0)
    gc.collect()
    assert ended() is None
