"""`AckedSource`: what is acknowledged, in which order, how much is taken ahead, and how it ends."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from arcp_client.errors import LocalProtocolError
from arcp_client.rx import (
    AckedSource,
    SourceStats,
    concat_map_async,
    concat_map_async_by,
    stream,
)
from arcp_client.testing.clock import VirtualClock
from tests.unit.rx.kit import Probe, Tape, drain_tasks, functions


class Broker:
    """An endless or finite supply of numbers that records what is taken and acknowledged."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count
        self.taken = 0
        self.closed = False
        self.calls: list[list[int]] = []

    @property
    def acked(self) -> list[int]:
        return [item for call in self.calls for item in call]

    async def __aiter__(self) -> AsyncIterator[int]:
        try:
            while self.count is None or self.taken < self.count:
                self.taken += 1
                yield self.taken
        finally:
            self.closed = True

    def ack(self, items: Sequence[int]) -> None:
        self.calls.append(list(items))


async def test_items_are_acknowledged_in_order_when_their_handlers_ended(
    clock: VirtualClock,
) -> None:
    broker, probe = Broker(5), Probe()
    source = AckedSource(broker, broker.ack)
    source.observable().pipe(concat_map_async(probe)).subscribe()
    await clock.settle()
    assert (broker.taken, broker.acked) == (5, [])
    probe.let_go(1)
    probe.let_go(2)
    await clock.settle()
    assert broker.acked == [1, 2]
    probe.let_all_go()
    await source.join()
    assert broker.acked == [1, 2, 3, 4, 5]
    assert source.stats() == SourceStats(taken=5, processed=5, acknowledged=5, outstanding=0)
    assert broker.closed
    assert drain_tasks() == []


async def test_the_watermark_waits_for_the_slowest_lane(clock: VirtualClock) -> None:
    broker, probe = Broker(6), Probe()
    source = AckedSource(broker, broker.ack)
    source.observable().pipe(concat_map_async_by(lambda n: n, probe)).subscribe()
    await clock.settle()
    for number in (2, 3, 5):
        probe.let_go(number)
    await clock.settle()
    assert broker.acked == []
    probe.let_go(1)
    await clock.settle()
    assert broker.calls == [[1, 2, 3]]
    probe.let_all_go()
    await source.join()
    assert broker.acked == [1, 2, 3, 4, 5, 6]


async def test_without_order_an_item_is_acknowledged_when_it_is_processed(
    clock: VirtualClock,
) -> None:
    broker, probe = Broker(3), Probe()
    source = AckedSource(broker, broker.ack, in_order=False)
    source.observable().pipe(concat_map_async_by(lambda n: n, probe)).subscribe()
    await clock.settle()
    probe.let_go(3)
    await clock.settle()
    assert broker.acked == [3]
    probe.let_all_go()
    await source.join()
    assert broker.acked == [3, 1, 2]


@pytest.mark.parametrize("in_order", [True, False])
async def test_no_more_than_the_cap_is_taken_ahead(clock: VirtualClock, in_order: bool) -> None:
    broker, probe = Broker(), Probe()
    source = AckedSource(broker, broker.ack, cap=8, low=6, in_order=in_order)
    subscription = source.observable().pipe(concat_map_async_by(lambda n: n, probe)).subscribe()
    await clock.settle()
    assert broker.taken == 8
    probe.let_go(1)
    await clock.settle()
    assert broker.taken == 8
    probe.let_go(2)
    await clock.settle()
    assert broker.taken == 10
    subscription.dispose()
    await source.join()
    assert broker.closed


async def test_a_size_bounds_bytes_and_one_large_item_passes_alone(clock: VirtualClock) -> None:
    sizes = [4, 4, 100, 4]
    probe = Probe()
    taken = []

    async def supply() -> AsyncIterator[tuple[int, int]]:
        for pair in enumerate(sizes):
            taken.append(pair)
            yield pair

    source = AckedSource(supply(), lambda _: None, cap=8, low=0, size=lambda pair: pair[1])
    source.observable().pipe(concat_map_async(probe)).subscribe()
    await clock.settle()
    assert len(taken) == 2
    probe.let_go((0, 4))
    probe.let_go((1, 4))
    await clock.settle()
    assert len(taken) == 3
    assert source.stats().outstanding == 100
    probe.let_all_go()
    await source.join()


async def test_calls_of_ack_do_not_overlap_and_what_waits_is_gathered(clock: VirtualClock) -> None:
    calls: list[list[int]] = []
    gate = asyncio.Event()
    running = 0

    async def ack(items: Sequence[int]) -> None:
        nonlocal running
        running += 1
        assert running == 1
        calls.append(list(items))
        await gate.wait()
        running -= 1

    broker, probe = Broker(4), Probe()
    source = AckedSource(broker, ack)
    source.observable().pipe(concat_map_async(probe)).subscribe()
    await clock.settle()
    probe.let_go(1)
    await clock.settle()
    probe.let_all_go()
    await clock.settle()
    assert calls == [[1]]
    assert source.stats() == SourceStats(taken=4, processed=4, acknowledged=0, outstanding=4)
    gate.set()
    await source.join()
    assert calls == [[1], [2, 3, 4]]


async def test_filtered_items_are_processed_when_on_next_returned(clock: VirtualClock) -> None:
    broker, probe = Broker(4), Probe()
    source = AckedSource(broker, broker.ack)
    even = ops.filter(lambda n: n % 2 == 0)
    source.observable().pipe(even, concat_map_async(probe)).subscribe()
    await clock.settle()
    assert broker.acked == [1]
    probe.let_all_go()
    await source.join()
    assert broker.acked == [1, 2, 3, 4]
    assert probe.started == [2, 4]


async def test_an_iterator_processes_an_item_when_it_asks_for_the_next_one() -> None:
    broker = Broker(3)
    source = AckedSource(broker, broker.ack)
    async for item in stream(source.observable()):
        await asyncio.sleep(0)
        assert item not in broker.acked
    await source.join()
    assert broker.acked == [1, 2, 3]


async def test_a_skipped_failure_is_acknowledged_and_one_that_ends_the_stream_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(number: int) -> None:
        if number == 2:
            raise OSError("disk full")

    skipping, raising = Broker(3), Broker(3)
    source = AckedSource(skipping, skipping.ack)
    with caplog.at_level(logging.CRITICAL, "arcp_client.rx"):
        source.observable().pipe(concat_map_async(fails)).subscribe()
        await source.join()
    assert skipping.acked == [1, 2, 3]

    source = AckedSource(raising, raising.ack)
    tape = Tape()
    tape.record(source.observable().pipe(concat_map_async(fails, on_error="raise")))
    await source.join()
    assert isinstance(tape.ends[0], OSError)
    assert raising.acked == [1]


async def test_what_a_disposed_subscription_dropped_is_not_acknowledged(
    clock: VirtualClock,
) -> None:
    broker, probe = Broker(5), Probe()
    source = AckedSource(broker, broker.ack)
    subscription = source.observable().pipe(concat_map_async(probe)).subscribe()
    await clock.settle()
    probe.let_go(1)
    await clock.settle()
    subscription.dispose()
    await source.join()
    assert broker.acked == [1]
    assert probe.cancelled == [2]


async def test_an_error_of_the_iterable_follows_the_items_before_it() -> None:
    async def supply() -> AsyncIterator[int]:
        yield 1
        yield 2
        raise ConnectionError("broker gone")

    acked: list[int] = []
    source = AckedSource(supply(), acked.extend)
    tape = Tape()
    tape.record(source.observable().pipe(concat_map_async(str)))
    with pytest.raises(ConnectionError, match="broker gone"):
        await source.join()
    assert (tape.items, acked) == (["1", "2"], [1, 2])
    assert isinstance(tape.ends[0], ConnectionError)


async def test_a_failed_acknowledgement_ends_the_source_and_no_later_one_is_tried(
    clock: VirtualClock,
) -> None:
    calls: list[list[int]] = []

    async def ack(items: Sequence[int]) -> None:
        calls.append(list(items))
        raise ConnectionError("not committed")

    broker, probe = Broker(), Probe()
    source = AckedSource(broker, ack, cap=4)
    tape = Tape()
    tape.record(source.observable().pipe(concat_map_async(probe)))
    await clock.settle()
    probe.let_go(1)
    await clock.settle()
    probe.let_all_go()
    with pytest.raises(ConnectionError, match="not committed"):
        await source.join()
    await clock.settle()
    assert calls == [[1]]
    assert tape.items == [1, 2, 3, 4]
    assert isinstance(tape.ends[0], ConnectionError)
    assert broker.closed


async def test_an_acknowledgement_has_a_time_limit(clock: VirtualClock) -> None:
    async def ack(_: Sequence[int]) -> None:
        await asyncio.Event().wait()

    source = AckedSource(Broker(1), ack, ack_timeout=5)
    tape = Tape()
    tape.record(source.observable().pipe(concat_map_async(str)))
    await clock.settle()
    await clock.advance(5)
    with pytest.raises(TimeoutError):
        await source.join()


async def test_closing_handles_what_was_taken_and_takes_nothing_more(clock: VirtualClock) -> None:
    broker, probe = Broker(), Probe()
    source = AckedSource(broker, broker.ack, cap=4)
    tape = Tape()
    tape.record(source.observable().pipe(concat_map_async(probe)))
    await clock.settle()
    closing = asyncio.create_task(source.aclose())
    await clock.settle()
    assert (broker.closed, closing.done()) == (True, False)
    probe.let_all_go()
    await closing
    assert broker.acked == [1, 2, 3, 4]
    await clock.settle()
    assert tape.ends == ["completed"]


async def test_closing_has_a_time_limit_and_can_be_asked_for_again(clock: VirtualClock) -> None:
    probe = Probe()
    source = AckedSource(Broker(1), lambda _: None)
    source.observable().pipe(concat_map_async(probe)).subscribe()
    await clock.settle()
    closing = asyncio.create_task(source.aclose(timeout=3))
    await clock.advance(3)
    with pytest.raises(TimeoutError):
        await closing
    probe.let_all_go()
    await source.aclose()
    assert source.stats().acknowledged == 1


async def test_a_source_that_waits_for_its_next_item_is_closed_at_once() -> None:
    closed = []

    async def supply() -> AsyncIterator[int]:
        try:
            await asyncio.Event().wait()
            yield 1
        finally:
            closed.append(True)

    source = AckedSource(supply(), lambda _: None)
    source.observable().pipe(concat_map_async(str)).subscribe()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await source.aclose()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert closed == [True]
    assert drain_tasks() == []


async def test_take_ends_the_source_and_acknowledges_what_it_took() -> None:
    broker = Broker()
    source = AckedSource(broker, broker.ack)
    source.observable().pipe(ops.take(3), concat_map_async(str)).subscribe()
    await source.join()
    assert broker.acked == [1, 2, 3]


async def test_a_second_subscriber_is_refused_and_join_needs_the_first() -> None:
    source = AckedSource(Broker(1), lambda _: None)
    with pytest.raises(LocalProtocolError, match="subscribe before join"):
        await source.join()
    source.observable().subscribe(lambda _: None)
    with pytest.raises(LocalProtocolError, match="one subscriber"):
        source.observable().subscribe(lambda _: None)
    tape = Tape()
    tape.record(source.observable()).dispose()
    assert isinstance(tape.ends[0], LocalProtocolError)
    await source.join()


async def test_an_item_that_one_of_two_subscribers_dropped_ends_a_source_in_order(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    broker, leaver, stayer = Broker(), Probe(), Probe()
    source = AckedSource(broker, broker.ack, cap=3)
    shared = source.observable().pipe(ops.publish())
    leaving = shared.pipe(concat_map_async(leaver)).subscribe()
    shared.pipe(concat_map_async(stayer)).subscribe()
    connected = shared.connect()
    await clock.settle()
    leaving.dispose()
    stayer.let_all_go()
    with (
        caplog.at_level(logging.CRITICAL, "arcp_client.rx"),
        pytest.raises(LocalProtocolError, match="in_order=False"),
    ):
        await source.join()
    assert broker.acked == []
    assert connected is not None


async def test_an_observer_that_raises_gets_its_error_and_the_item_is_not_acknowledged() -> None:
    def refuse(_: int) -> None:
        raise ValueError("no room")

    ends: list[Exception] = []
    broker = Broker(3)
    source = AckedSource(broker, broker.ack)
    source.observable().subscribe(refuse, ends.append)
    with pytest.raises(ValueError, match="no room"):
        await source.join()
    assert (broker.taken, broker.acked) == (1, [])
    assert len(ends) == 1


async def test_an_acknowledgement_that_fails_after_the_last_item_is_logged_and_raised_by_join(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_: Sequence[int]) -> None:
        raise OSError("the broker is gone")

    probe, tape = Probe(), Tape()
    source = AckedSource(Broker(1), refuse)
    tape.record(source.observable().pipe(concat_map_async(probe)))
    await clock.settle()
    probe.let_all_go()
    with pytest.raises(OSError, match="the broker is gone"):
        await source.join()
    assert tape.ends == ["completed"]
    (record,) = caplog.records
    assert "after the source had ended" in record.getMessage()


@pytest.mark.parametrize("end", ["completed", "disposed"])
async def test_an_acknowledgement_that_fails_after_the_end_of_the_source_is_logged(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    asked = asyncio.Event()

    async def refuse(_: Sequence[int]) -> None:
        await asked.wait()
        raise OSError("the broker is gone")

    source = AckedSource(Broker(1 if end == "completed" else None), refuse, cap=2)
    subscription = source.observable().subscribe(lambda _: None)
    await clock.settle()
    if end == "disposed":
        subscription.dispose()
    asked.set()
    with pytest.raises(OSError, match="the broker is gone"):
        await source.join()
    (record,) = caplog.records
    assert "after the source had ended" in record.getMessage()


async def test_1024_items_are_taken_ahead_by_default(clock: VirtualClock) -> None:
    broker = Broker()
    source = AckedSource(broker, broker.ack)
    subscription = source.observable().pipe(concat_map_async(Probe())).subscribe()
    await clock.settle()
    assert broker.taken == 1024
    subscription.dispose()
    await source.join()


async def test_a_source_whose_items_are_always_there_leaves_the_loop_its_turns() -> None:
    broker = Broker(1000)
    source = AckedSource(broker, broker.ack)
    loop = asyncio.get_running_loop()
    turns: list[int] = []

    def count() -> None:
        turns.append(broker.taken)
        if broker.taken < 1000:
            loop.call_soon(count)

    source.observable().subscribe()
    loop.call_soon(count)
    await source.join()
    assert max(later - earlier for earlier, later in itertools.pairwise(turns)) <= 64


async def test_a_source_whose_task_is_cancelled_says_so(clock: VirtualClock) -> None:
    ends: list[Exception] = []
    probe = Probe()
    source = AckedSource(Broker(), lambda _: None, cap=1)
    source.observable().pipe(concat_map_async(probe)).subscribe(on_error=ends.append)
    await clock.settle()
    (reader,) = (task for task in drain_tasks() if any("_read" in name for name in functions(task)))
    reader.cancel()
    probe.let_all_go()
    with pytest.raises(LocalProtocolError, match="cancelled"):
        await source.join()
    assert [type(end) for end in ends] == [LocalProtocolError]


async def _weigh_later(item: int) -> int:
    return item


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"items": [1, 2]}, TypeError),
        ({"ack": 3}, TypeError),
        ({"cap": 0}, ValueError),
        ({"cap": 4, "low": 4}, ValueError),
        ({"low": -1}, ValueError),
        ({"low": "1"}, TypeError),
        ({"size": 3}, TypeError),
        ({"size": _weigh_later}, TypeError),
        ({"in_order": 1}, TypeError),
        ({"ack_timeout": 0}, ValueError),
    ],
)
def test_invalid_arguments_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        AckedSource(**{"items": Broker(1), "ack": print, **options})


async def test_the_smallest_bounds_and_no_time_limit_are_accepted(clock: VirtualClock) -> None:
    broker = Broker(3)
    source = AckedSource(broker, broker.ack, cap=1, low=0, ack_timeout=None)
    source.observable().pipe(concat_map_async(lambda n: n)).subscribe()
    await source.join()
    assert broker.calls == [[1], [2], [3]]


async def test_a_source_continues_at_half_its_bound_by_default(clock: VirtualClock) -> None:
    broker, probe = Broker(), Probe()
    source = AckedSource(broker, broker.ack, cap=8)
    subscription = source.observable().pipe(concat_map_async(probe)).subscribe()
    await clock.settle()
    taken = []
    for number in range(1, 5):
        taken.append(broker.taken)
        probe.let_go(number)
        await clock.settle()
    assert (taken, broker.taken) == ([8, 8, 8, 8], 12)
    subscription.dispose()
    await source.join()


class Log:
    """A partition with a committed offset: a consumer begins after what was acknowledged."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.committed = 0

    async def __aiter__(self) -> AsyncIterator[int]:
        for offset in range(self.committed, self.count):
            await asyncio.sleep(0)
            yield offset

    async def commit(self, items: Sequence[int]) -> None:
        await asyncio.sleep(0)
        assert items[0] == self.committed, "not the beginning of what is left"
        assert list(items) == list(range(items[0], items[-1] + 1))
        self.committed = items[-1] + 1


@given(
    count=st.integers(1, 40),
    keys=st.integers(1, 5),
    lanes=st.none() | st.integers(1, 3),
    cap=st.integers(1, 12),
    turns=st.lists(st.integers(0, 4), min_size=1, max_size=8),
    crashes=st.lists(st.integers(0, 60), max_size=4),
)
def test_every_item_is_handled_in_the_order_of_its_key_whatever_is_cut(
    count: int, keys: int, lanes: int | None, cap: int, turns: list[int], crashes: list[int]
) -> None:
    log = Log(count)
    handled: list[int] = []

    async def handler(offset: int) -> None:
        for _ in range(turns[offset % len(turns)]):
            await asyncio.sleep(0)
        handled.append(offset)

    async def life(crash: int | None) -> None:
        begun = len(handled)
        source = AckedSource(log, log.commit, cap=cap)
        key = concat_map_async_by(lambda offset: offset % keys, handler, lanes=lanes)
        subscription = source.observable().pipe(key).subscribe()
        if crash is None:
            await source.join()
            assert log.committed == count
        for _ in range(crash or 0):
            await asyncio.sleep(0)
            stats = source.stats()
            assert stats.outstanding <= cap
            assert stats.acknowledged <= stats.processed <= stats.taken
        subscription.dispose()
        await source.join()
        for key_ in range(keys):
            of_key = [offset for offset in handled[begun:] if offset % keys == key_]
            assert of_key == sorted(of_key)

    for crash in (*crashes, None):
        asyncio.run(life(crash))
        assert set(range(log.committed)) <= set(handled)
    assert set(handled) == set(range(count))
