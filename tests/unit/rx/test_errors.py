"""What a failing handler, hook, observer or source does to the stream (D5, I3, I5)."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import pytest
import reactivex as rx
from reactivex import Observable
from reactivex import operators as ops
from reactivex.subject import Subject

from arcp_client.errors import HandlerError
from arcp_client.rx import AckedSource, EventChannel, concat_map_async, concat_map_async_by
from arcp_client.testing.clock import VirtualClock
from tests.unit.rx.kit import Probe, Tape, drain_tasks

Operator: TypeAlias = Callable[..., Callable[[Observable[Any]], Observable[Any]]]


def _by_one_key(handler: Any, **options: Any) -> Callable[[Observable[Any]], Observable[Any]]:
    return concat_map_async_by(lambda _: "key", handler, **options)


@pytest.fixture(params=[concat_map_async, _by_one_key], ids=["serial", "keyed"])
def operator(request: pytest.FixtureRequest) -> Operator:
    found: Operator = request.param
    return found


async def _fails_at_two(number: int) -> int:
    await asyncio.sleep(0)
    if number == 2:
        raise ValueError("two")
    return number


# ---------------------------------------------------------------------- on_error


async def test_skip_logs_and_goes_on(operator: Operator, caplog: pytest.LogCaptureFixture) -> None:
    tape = Tape()
    tape.record(rx.range(0, 5).pipe(operator(_fails_at_two)))
    await tape.ended

    assert tape.items == [0, 1, 3, 4]
    assert tape.ends == ["completed"]
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("arcp_client.rx", logging.ERROR)
    assert "_fails_at_two" in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ValueError)


class _Outcome(BaseException):
    """As test frameworks have them."""


BASE_EXCEPTIONS = [
    _Outcome,
    GeneratorExit,
    SystemExit,
    lambda: BaseExceptionGroup("several", [_Outcome(), ValueError()]),
]


@pytest.mark.parametrize("make", BASE_EXCEPTIONS)
async def test_a_base_exception_is_a_failure_like_any_other(
    operator: Operator, make: Callable[[], BaseException]
) -> None:
    """Rule D15."""
    failures: list[tuple[int, Exception]] = []

    async def fails(number: int) -> int:
        if number == 2:
            raise make()
        return number

    tape = Tape()
    note = operator(fails, on_error=lambda item, error: failures.append((item, error)))
    tape.record(rx.range(0, 5).pipe(note))
    await tape.ended

    assert tape.items == [0, 1, 3, 4]
    ((item, failure),) = failures
    assert item == 2
    assert isinstance(failure, HandlerError)
    assert type(failure.__cause__) is type(make())
    assert type(make()).__name__ in str(failure)


@pytest.mark.parametrize("make", BASE_EXCEPTIONS)
async def test_a_hook_and_a_key_function_may_raise_base_exceptions_too(
    make: Callable[[], BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """Rule D15."""

    def fails(*_: object) -> int:
        raise make()

    for operator in (
        concat_map_async(fails, on_error=fails),
        concat_map_async_by(fails, lambda number: number),
    ):
        tape = Tape()
        tape.record(rx.range(0, 3).pipe(operator))
        await tape.ended
        assert tape.ends == ["completed"]
        assert tape.items == []
    assert len(caplog.records) == 6


async def test_raise_ends_the_stream_at_once(operator: Operator, clock: VirtualClock) -> None:
    subject: Subject[int] = Subject()
    tape = Tape()
    tape.record(subject.pipe(operator(_fails_at_two, on_error="raise")))
    for number in range(5):
        subject.on_next(number)
    await clock.settle()

    assert tape.items == [0, 1]
    assert [str(end) for end in tape.ends] == ["two"]
    assert subject.observers == []


@pytest.mark.parametrize("make", ["sync", "async"])
async def test_a_hook_gets_item_and_error_and_ends_before_the_next_item(
    operator: Operator, make: str
) -> None:
    log: list[Any] = []

    def note(item: int, error: Exception) -> None:
        log.append((item, str(error)))

    async def note_slowly(item: int, error: Exception) -> None:
        await asyncio.sleep(0)
        note(item, error)

    async def handle(number: int) -> None:
        log.append(number)
        await _fails_at_two(number)

    tape = Tape()
    hook = note if make == "sync" else note_slowly
    tape.record(rx.range(0, 5).pipe(operator(handle, on_error=hook)))
    await tape.ended

    assert log == [0, 1, 2, (2, "two"), 3, 4]
    assert tape.ends == ["completed"]


async def test_a_hook_that_raises_is_logged_and_the_stream_goes_on(
    operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    def hook(item: int, error: Exception) -> None:
        raise KeyError("hook")

    async def cancelled_hook(item: int, error: Exception) -> None:
        raise asyncio.CancelledError

    for broken in (hook, cancelled_hook):
        tape = Tape()
        tape.record(rx.range(0, 4).pipe(operator(_fails_at_two, on_error=broken)))
        await tape.ended
        assert tape.items == [0, 1, 3]
    assert [record.getMessage()[:8] for record in caplog.records] == ["on_error"] * 2


async def test_a_sync_handler_that_raises_is_a_handler_error(operator: Operator) -> None:
    tape = Tape()
    tape.record(rx.of(1, 0, 2).pipe(operator(lambda n: 2 // n, on_error=lambda *_: None)))
    await tape.ended
    assert tape.items == [2, 1]


async def test_an_index_error_of_a_handler_is_no_empty_queue(operator: Operator) -> None:
    failed: list[int] = []

    def handle(number: int) -> int:
        return [10, 11][number]

    tape = Tape()
    hook = lambda item, error: failed.append(item)  # noqa: E731
    tape.record(rx.of(0, 5, 1).pipe(operator(handle, on_error=hook)))
    await tape.ended
    assert tape.items == [10, 11]
    assert failed == [5]


# ---------------------------------------------------------------------- cancellation


@pytest.mark.parametrize("isolate", [False, True])
async def test_a_foreign_cancellation_is_a_handler_error(operator: Operator, isolate: bool) -> None:
    failures: list[tuple[int, Exception]] = []

    async def handle(number: int) -> int:
        if number == 1:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            future.cancel()
            await future
        if number == 2:
            raise asyncio.CancelledError
        return number

    tape = Tape()
    hook = lambda item, error: failures.append((item, error))  # noqa: E731
    tape.record(rx.range(0, 5).pipe(operator(handle, on_error=hook, isolate_context=isolate)))
    await tape.ended

    assert tape.items == [0, 3, 4]
    assert tape.ends == ["completed"]
    assert [item for item, _ in failures] == [1, 2]
    for item, error in failures:
        assert isinstance(error, HandlerError)
        assert isinstance(error.__cause__, asyncio.CancelledError)
        assert error.event == item
        assert "handle" in error.handler


async def test_a_foreign_cancellation_with_raise_arrives_as_an_exception(
    operator: Operator,
) -> None:
    async def handle(_: int) -> None:
        raise asyncio.CancelledError

    tape = Tape()
    tape.record(rx.of(1).pipe(operator(handle, on_error="raise")))
    assert isinstance(await tape.ended, HandlerError)


async def test_cancelling_the_drain_itself_ends_the_stream(
    operator: Operator, clock: VirtualClock
) -> None:
    probe, tape = Probe(), Tape()
    channel: EventChannel[int] = EventChannel()
    tape.record(channel.observable().pipe(operator(probe)))
    for number in range(3):
        await channel.push(number)
    await clock.settle()
    for task in drain_tasks():
        task.cancel()
    await clock.settle()

    assert probe.cancelled == [0]
    assert probe.started == [0]
    assert len(tape.ends) == 1
    assert isinstance(tape.ends[0], HandlerError)
    assert await channel.push(9) is False
    assert channel.stats().outstanding == 0


async def test_cancelling_a_drain_that_never_began_ends_the_stream(
    operator: Operator, clock: VirtualClock
) -> None:
    tape = Tape()
    channel: EventChannel[int] = EventChannel()
    tape.record(channel.observable().pipe(operator(_fails_at_two)))
    await channel.push(1)
    for task in drain_tasks():
        task.cancel()
    await clock.settle()
    assert [type(end) for end in tape.ends] == [HandlerError]


async def test_cancelling_a_drain_with_nothing_left_to_do_ends_nothing(
    operator: Operator, clock: VirtualClock
) -> None:
    tape = Tape()
    channel: EventChannel[int] = EventChannel()
    tape.record(channel.observable().pipe(operator(lambda n: n)))
    await channel.push(1)
    await asyncio.sleep(0)  # the handler has ended, the drain waits a turn for more
    assert tape.items == [1]
    for task in drain_tasks():
        task.cancel()
    await clock.settle()
    assert tape.ends == []
    await channel.push(2)
    await clock.settle()
    assert tape.items == [1, 2]


def test_a_program_that_ends_cancels_its_handlers_and_does_not_hang(
    operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> Probe:
        probe = Probe()
        channel: EventChannel[int] = EventChannel()
        channel.observable().pipe(operator(probe)).subscribe()
        for number in range(3):
            await channel.push(number)
        while not probe.started:
            await asyncio.sleep(0)
        return probe

    probe = asyncio.run(main())
    assert probe.cancelled == [0]
    assert probe.started == [0]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def _interrupt(*_: object) -> Any:
    raise KeyboardInterrupt


async def _interrupt_later(*_: object) -> Any:
    await asyncio.sleep(0)
    raise KeyboardInterrupt


async def _interrupted_supply() -> AsyncIterator[int]:
    yield 1
    raise KeyboardInterrupt


async def _supply() -> AsyncIterator[int]:
    yield 1


def _acked(items: AsyncIterator[int] | None = None, **options: Any) -> Observable[int]:
    return AckedSource(items or _supply(), **{"ack": lambda _: None, **options}).observable()


INTERRUPTED: dict[str, Callable[[], object]] = {
    "a handler": lambda: rx.of(1).pipe(concat_map_async(_interrupt)).subscribe(),
    "an async handler": lambda: rx.of(1).pipe(concat_map_async(_interrupt_later)).subscribe(),
    "a handler of a key": lambda: rx.of(1).pipe(_by_one_key(_interrupt_later)).subscribe(),
    "a hook": lambda: (
        rx.of(1).pipe(concat_map_async(lambda n: n // 0, on_error=_interrupt_later)).subscribe()
    ),
    "an observer": lambda: rx.of(1).pipe(concat_map_async(lambda n: n)).subscribe(_interrupt),
    "the end of an observer": lambda: (
        rx.of(1).pipe(concat_map_async(lambda n: n)).subscribe(on_completed=_interrupt)
    ),
    "an iterable": lambda: _acked(_interrupted_supply()).subscribe(),
    "an acknowledgement": lambda: _acked(ack=_interrupt_later).subscribe(),
    "the observer of a source": lambda: _acked().subscribe(_interrupt),
}


@pytest.mark.parametrize("place", INTERRUPTED)
def test_a_keyboard_interrupt_in_user_code_ends_the_program(place: str) -> None:
    async def main() -> None:
        kept = INTERRUPTED[place]()
        await asyncio.get_running_loop().create_future()
        del kept

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())


# ---------------------------------------------------------------------- time limits


@pytest.mark.parametrize("isolate", [False, True])
async def test_a_handler_that_takes_too_long_is_cancelled_and_has_failed(
    operator: Operator, clock: VirtualClock, isolate: bool
) -> None:
    failures: list[tuple[int, str, float]] = []

    async def handle(number: int) -> int:
        await asyncio.sleep(number)
        return number

    def hook(item: int, error: Exception) -> None:
        assert isinstance(error, TimeoutError)
        failures.append((item, str(error), clock.time()))

    tape = Tape()
    tape.record(
        rx.of(1, 5, 2, 9, 1).pipe(
            operator(handle, item_timeout=3, on_error=hook, isolate_context=isolate)
        )
    )
    await tape.ended

    assert tape.items == [1, 2, 1]
    assert [(item, at) for item, _, at in failures] == [(5, 4.0), (9, 9.0)]
    assert "handle" in failures[0][1]
    assert "3 s" in failures[0][1]


async def test_one_timer_watches_all_items_of_a_lane(clock: VirtualClock) -> None:
    loop = asyncio.get_running_loop()
    armed = 0
    call_at = loop.call_at

    def counting(when: float, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        nonlocal armed
        armed += 1
        return call_at(when, *args, **kwargs)

    channel: EventChannel[int] = EventChannel()
    loop.call_at = counting  # type: ignore[method-assign]
    try:
        channel.observable().pipe(concat_map_async(lambda n: n, item_timeout=5)).subscribe()
        for number in range(1000):
            await channel.push(number)
        await clock.settle()
    finally:
        del loop.call_at
    assert armed == 1


async def test_a_time_limit_leaves_the_next_handler_its_own_timeouts(clock: VirtualClock) -> None:
    counts: list[int] = []

    async def handle(number: int) -> int:
        if number == 0:
            await asyncio.sleep(10)
        task = asyncio.current_task()
        assert task is not None
        counts.append(task.cancelling())
        async with asyncio.timeout(0.5):
            await asyncio.sleep(0.1)
        return number

    tape = Tape()
    tape.record(rx.of(0, 1).pipe(concat_map_async(handle, item_timeout=1, on_error=_ignore)))
    await tape.ended
    assert tape.items == [1]
    assert counts == [0]


async def test_a_handler_that_swallows_its_time_limit_has_failed_all_the_same(
    operator: Operator, clock: VirtualClock
) -> None:
    async def handle(number: int) -> int:
        try:
            await asyncio.sleep(10 if number == 0 else 0)
        except asyncio.CancelledError:
            return -1
        return number

    failed: list[type[Exception]] = []
    tape = Tape()
    hook = lambda item, error: failed.append(type(error))  # noqa: E731
    tape.record(rx.of(0, 1).pipe(operator(handle, item_timeout=1, on_error=hook)))
    await tape.ended
    assert tape.items == [1]
    assert failed == [TimeoutError]


# ---------------------------------------------------------------------- observers


async def test_an_observer_that_raises_is_ended_once_and_the_source_is_left(
    operator: Operator, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    subject: Subject[int] = Subject()
    tape = Tape()

    def observe(number: int) -> None:
        if number == 2:
            raise RuntimeError("observer")
        tape.on_next(number)

    subject.pipe(operator(lambda n: n)).subscribe(observe, tape.on_error, tape.on_completed)
    for number in range(5):
        subject.on_next(number)
    await clock.settle()

    assert tape.items == [0, 1]
    assert [str(end) for end in tape.ends] == ["observer"]
    assert subject.observers == []
    assert drain_tasks() == []
    assert caplog.records == []


async def test_an_observer_that_raises_after_it_has_unsubscribed_is_logged(
    operator: Operator, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    subject: Subject[int] = Subject()
    tape = Tape()

    def observe(_: int) -> None:
        subscription.dispose()
        raise RuntimeError("observer")

    handled = subject.pipe(operator(lambda n: n))
    subscription = handled.subscribe(observe, tape.on_error, tape.on_completed)
    subject.on_next(1)
    await clock.settle()

    assert tape.ends == []
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "observer"


async def test_an_observer_that_raises_does_not_reach_the_pusher(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel()
    tape = Tape()

    def observe(_: int) -> None:
        raise RuntimeError("observer")

    channel.observable().subscribe(observe, tape.on_error)
    assert await channel.push(1) is True
    assert [str(end) for end in tape.ends] == ["observer"]
    assert await channel.push(2) is False


async def test_an_observer_without_on_error_is_logged(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    rx.of(1).pipe(concat_map_async(lambda n: n // 0, on_error="raise")).subscribe()
    await clock.settle()
    assert "unhandled error" in caplog.text


async def test_an_error_that_no_observer_of_a_chain_takes_is_logged(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    fails = concat_map_async(lambda n: n // 0, on_error="raise")
    rx.of(1).pipe(fails, ops.map(lambda n: n)).subscribe()
    await clock.settle()
    (record,) = caplog.records
    assert "unhandled error" in record.getMessage()


async def test_an_observer_that_fails_in_its_end_is_logged(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("end")

    rx.of(1).pipe(concat_map_async(lambda n: n)).subscribe(on_completed=fail)
    await clock.settle()
    assert "terminal event" in caplog.text


# ---------------------------------------------------------------------- the end


async def test_a_source_error_waits_for_what_was_queued(
    operator: Operator, clock: VirtualClock
) -> None:
    subject: Subject[int] = Subject()
    probe, tape = Probe(), Tape()
    tape.record(subject.pipe(operator(probe)))
    for number in range(4):
        subject.on_next(number)
    subject.on_error(OSError("source"))
    await clock.settle()
    assert tape.ends == []

    probe.let_all_go()
    await clock.settle()
    assert tape.items == [0, 1, 2, 3]
    assert [str(end) for end in tape.ends] == ["source"]


@pytest.mark.parametrize("how", ["complete", "fail"])
async def test_the_end_of_a_channel_waits_for_what_was_queued(
    operator: Operator, clock: VirtualClock, how: str
) -> None:
    channel: EventChannel[int] = EventChannel()
    probe, tape = Probe(), Tape()
    tape.record(channel.observable().pipe(operator(probe)))
    for number in range(20):
        channel.push_nowait(number)
    channel.complete() if how == "complete" else channel.fail(OSError("source"))
    channel.complete()
    await clock.settle()
    assert tape.ends == []

    probe.let_all_go()
    await clock.settle()
    assert tape.items == list(range(20))
    assert [str(end) for end in tape.ends] == ["completed" if how == "complete" else "source"]


@pytest.mark.parametrize("when", ["before", "idle", "lingering"])
async def test_the_end_of_an_empty_source_is_passed_on(
    operator: Operator, clock: VirtualClock, when: str
) -> None:
    channel: EventChannel[int] = EventChannel()
    tape = Tape()
    if when == "before":
        channel.push_nowait(1)
        channel.complete()
    tape.record(channel.observable().pipe(operator(lambda n: n)))
    if when != "before":
        channel.push_nowait(1)
        if when == "idle":
            await clock.settle()
        else:
            await asyncio.sleep(0)
        channel.complete()
    await clock.settle()
    assert tape.items == [1]
    assert tape.ends == ["completed"]


async def test_nothing_follows_the_end(operator: Operator, clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel()
    tape = Tape()
    tape.record(channel.observable().pipe(operator(lambda n: n)))
    channel.complete()
    channel.fail(OSError())
    assert channel.push_nowait(1) is False
    await clock.settle()
    assert tape.items == []
    assert tape.ends == ["completed"]


async def test_a_failed_source_is_not_kept_alive(clock: VirtualClock) -> None:
    subject: Subject[int] = Subject()
    subject.pipe(concat_map_async(lambda n: n)).subscribe(on_error=lambda _: None)
    subject.on_error(OSError())
    await clock.settle()
    assert subject.observers == []
    gc.collect()
    assert drain_tasks() == []


def _ignore(item: Any, error: Exception) -> None:
    pass
