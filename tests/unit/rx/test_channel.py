"""EventChannel: bounds that count what is in hand, overflow policies, one subscriber (I7)."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Literal

import pytest
from reactivex import operators as ops

from arcp_client._rx.delivery import Delivery, current_here
from arcp_client.errors import BufferFull, LocalProtocolError
from arcp_client.rx import EventChannel, concat_map_async, concat_map_async_by, stream
from arcp_client.testing.clock import VirtualClock
from tests.unit.rx.kit import Probe, Tape


def _held(channel: EventChannel[Any]) -> tuple[Probe, Tape]:
    probe, tape = Probe(), Tape()
    tape.record(channel.observable().pipe(concat_map_async(probe)))
    return probe, tape


# ---------------------------------------------------------------------- wait


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("path", ["direct", "mapped", "keyed"])
async def test_push_waits_at_cap_and_goes_on_at_low(
    clock: VirtualClock, path: str, sized: bool
) -> None:
    channel: EventChannel[int] = EventChannel(cap=8, low=3, size=(lambda n: 1) if sized else None)
    probe, tape = Probe(), Tape()
    match path:
        case "direct":
            piped = channel.observable().pipe(concat_map_async(probe))
        case "mapped":
            piped = channel.observable().pipe(ops.map(lambda n: n), concat_map_async(probe))
        case _:
            piped = channel.observable().pipe(concat_map_async_by(lambda n: 0, probe))
    tape.record(piped)
    pushed: list[int] = []

    async def produce() -> None:
        for number in range(20):
            assert await channel.push(number)
            pushed.append(number)

    producer = asyncio.ensure_future(produce())
    await clock.settle()
    assert len(pushed) == 8
    assert channel.stats().outstanding == 8  # seven queued, one in its handler
    assert channel.stats().queued == (7 if path == "direct" else 0)
    assert channel.stats().waiting == 1
    assert channel.stats().pauses == 1

    for number in range(4):
        probe.let_go(number)
    await clock.settle()
    assert len(pushed) == 8  # four are outstanding, more than low

    probe.let_go(4)
    await clock.settle()
    assert len(pushed) == 8 + 5  # three were, then five more fitted
    probe.let_all_go()
    await producer
    await clock.settle()
    assert tape.items == list(range(20))
    assert channel.stats().outstanding == 0
    assert channel.stats().pauses < 6


async def test_waiting_pushes_are_served_in_the_order_they_came(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel(cap=2)
    probe, tape = _held(channel)
    producers = [asyncio.ensure_future(channel.push(number)) for number in range(10)]
    await clock.settle()
    assert channel.stats().waiting == 8
    probe.let_all_go()
    assert await asyncio.gather(*producers) == [True] * 10
    await clock.settle()
    assert tape.items == list(range(10))


async def test_pushes_wait_for_the_first_subscriber_too(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel(cap=3)
    producers = [asyncio.ensure_future(channel.push(number)) for number in range(5)]
    await clock.settle()
    assert channel.stats().waiting == 2
    tape = Tape()
    tape.record(channel.observable())
    await asyncio.gather(*producers)
    assert tape.items == list(range(5))


async def test_push_nowait_goes_up_to_the_hard_cap(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel(cap=2, hard_cap=4)
    probe, _ = _held(channel)
    assert [channel.push_nowait(number) for number in range(6)] == [True] * 4 + [False] * 2
    waiting = asyncio.ensure_future(channel.push(9))
    await clock.settle()
    assert not waiting.done()
    assert channel.stats().outstanding == 4
    channel.complete()
    assert await waiting is False
    probe.let_all_go()


async def test_a_cancelled_push_no_longer_waits(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel(cap=1, hard_cap=2)
    probe, tape = _held(channel)
    await channel.push(1)
    producers = [asyncio.ensure_future(channel.push(number)) for number in (2, 3)]
    await clock.settle()
    producers[0].cancel()
    await clock.settle()
    assert channel.stats().waiting == 1
    producers[1].cancel()
    await clock.settle()
    assert channel.stats().waiting == 0
    probe.let_all_go()
    await clock.settle()
    assert await channel.push(4)
    await clock.settle()
    assert tape.items == [1, 4]


async def test_room_that_was_granted_is_not_given_away(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel(cap=2, low=1)
    items = stream(channel.observable())
    channel.push_nowait(1)
    channel.push_nowait(2)
    waiting = asyncio.ensure_future(channel.push(3))
    await clock.settle()
    assert await anext(items) == 1
    assert await anext(items) == 2  # makes room, which the waiting push has not yet used
    assert not waiting.done()
    assert channel.push_nowait(9) is False
    assert await waiting
    assert await anext(items) == 3


@pytest.mark.parametrize("turns", range(12))
async def test_a_push_cancelled_at_any_moment_is_taken_or_not_as_it_says(turns: int) -> None:
    channel: EventChannel[int] = EventChannel(cap=1)
    probe, tape = _held(channel)
    taken: list[int] = []

    async def produce() -> None:
        for number in range(3):
            await channel.push(number)
            taken.append(number)

    producer = asyncio.ensure_future(produce())
    for turn in range(turns):
        if turn == 2:
            probe.let_all_go()
        await asyncio.sleep(0)
    producer.cancel()
    await asyncio.gather(producer, return_exceptions=True)
    probe.let_all_go()
    await channel.push(99)
    channel.complete()
    await tape.ended

    assert tape.items == [*taken, 99]
    assert channel.stats().outstanding == 0
    assert channel.stats().waiting == 0


@pytest.mark.parametrize("how", ["complete", "fail", "dispose"])
async def test_a_waiting_push_returns_when_the_channel_ends(clock: VirtualClock, how: str) -> None:
    channel: EventChannel[int] = EventChannel(cap=1)
    probe, tape = Probe(), Tape()
    subscription = tape.record(channel.observable().pipe(concat_map_async(probe)))
    producers = [asyncio.ensure_future(channel.push(number)) for number in range(3)]
    await clock.settle()
    if how == "dispose":
        subscription.dispose()
    elif how == "complete":
        channel.complete()
    else:
        channel.fail(OSError())
    assert await asyncio.gather(*producers) == [True, False, False]
    assert await channel.push(4) is False
    assert channel.push_nowait(5) is False
    assert channel.stats().refused == 4
    probe.let_all_go()
    await clock.settle()
    assert channel.stats().outstanding == 0


# ---------------------------------------------------------------------- the other policies


async def test_drop_oldest_keeps_the_item_in_hand_and_the_newest(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel(cap=4, overflow="drop_oldest")
    probe, tape = _held(channel)
    channel.push_nowait(0)
    await clock.settle()
    assert [channel.push_nowait(number) for number in range(1, 10)] == [True] * 9
    assert channel.stats().outstanding == 4
    assert channel.stats().dropped == 6
    probe.let_all_go()
    await clock.settle()
    assert tape.items == [0, 7, 8, 9]


async def test_drop_oldest_with_room_for_one_drops_the_newcomer(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel(cap=1, overflow="drop_oldest")
    probe, tape = _held(channel)
    channel.push_nowait(0)
    await clock.settle()
    assert channel.push_nowait(1) is False
    assert channel.stats().outstanding == 1
    probe.let_all_go()
    await clock.settle()
    assert tape.items == [0]


async def test_drop_newest_refuses_what_does_not_fit(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel(cap=4, overflow="drop_newest")
    probe, tape = _held(channel)
    assert [await channel.push(number) for number in range(10)] == [True] * 4 + [False] * 6
    assert channel.stats().dropped == 6
    probe.let_all_go()
    await clock.settle()
    assert tape.items == [0, 1, 2, 3]


async def test_error_raises_buffer_full(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel(cap=2, overflow="error")
    probe, tape = _held(channel)
    channel.push_nowait(0)
    await channel.push(1)
    with pytest.raises(BufferFull, match="2 of 2"):
        channel.push_nowait(2)
    with pytest.raises(BufferFull):
        await channel.push(3)
    probe.let_all_go()
    await clock.settle()
    assert tape.items == [0, 1]
    assert channel.push_nowait(4)


async def test_coalesce_keeps_one_item_a_key_and_the_order_of_pushes(clock: VirtualClock) -> None:
    channel: EventChannel[tuple[str, int]] = EventChannel(
        cap=64, overflow="coalesce", key=lambda item: item[0]
    )
    probe, tape = _held(channel)
    channel.push_nowait(("a", 0))
    await clock.settle()
    draw = random.Random(3)
    last: dict[str, int] = {}
    for number in range(1, 1000):
        key = draw.choice("abcde")
        last[key] = number
        assert await channel.push((key, number))
    assert channel.stats().queued == 5
    assert channel.stats().merged == 999 - 5
    assert channel.stats().outstanding == 6

    probe.let_all_go()
    await clock.settle()
    assert tape.items[0] == ("a", 0)
    assert dict(tape.items[1:]) == last
    numbers = [number for _, number in tape.items]
    assert numbers == sorted(numbers)
    assert channel.stats().outstanding == 0


async def test_coalesce_waits_when_there_are_more_keys_than_room(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel(cap=2, overflow="coalesce", key=lambda n: n % 10)
    probe, tape = _held(channel)
    channel.push_nowait(1)
    await clock.settle()
    channel.push_nowait(2)
    assert channel.push_nowait(3) is False
    waiting = asyncio.ensure_future(channel.push(3))
    await clock.settle()
    assert not waiting.done()
    assert await channel.push(12)  # a known key needs no room
    probe.let_all_go()
    assert await waiting
    await clock.settle()
    assert tape.items == [1, 12, 3]


async def test_a_producer_that_never_waits_does_not_starve_the_consumer() -> None:
    channel: EventChannel[int] = EventChannel(cap=16, overflow="drop_oldest")
    handled: list[int] = []
    channel.observable().pipe(concat_map_async(handled.append)).subscribe()
    for number in range(10_000):
        await channel.push(number)
    assert len(handled) > 100


async def test_pushes_that_find_room_seldom_yield_to_the_loop() -> None:
    channel: EventChannel[bytes] = EventChannel(cap=10_000, size=len)
    loop = asyncio.get_running_loop()
    turns = 0

    def count() -> None:
        nonlocal turns
        turns += 1
        loop.call_soon(count)

    loop.call_soon(count)
    for _ in range(256):
        await channel.push(b"x")
    assert turns < 10


# ---------------------------------------------------------------------- sizes


async def test_bounds_can_go_by_size(clock: VirtualClock) -> None:
    channel: EventChannel[bytes] = EventChannel(cap=100, size=len, low=10)
    probe, tape = _held(channel)
    items = [b"a" * 40, b"b" * 60, b"c" * 30]
    producers = [asyncio.ensure_future(channel.push(item)) for item in items]
    await clock.settle()
    assert channel.stats().outstanding == 100
    assert channel.stats().waiting == 1
    probe.let_all_go()
    await asyncio.gather(*producers)
    await clock.settle()
    assert tape.items == items
    assert channel.stats().outstanding == 0


async def test_an_item_larger_than_the_bound_goes_alone(clock: VirtualClock) -> None:
    channel: EventChannel[bytes] = EventChannel(cap=10, size=len)
    probe, tape = _held(channel)
    producers = [asyncio.ensure_future(channel.push(b"x" * size)) for size in (3, 50, 4)]
    await clock.settle()
    assert channel.stats().outstanding == 3
    probe.let_go(b"xxx")
    await clock.settle()
    assert channel.stats().outstanding == 50
    probe.let_all_go()
    await asyncio.gather(*producers)
    await clock.settle()
    assert [len(item) for item in tape.items] == [3, 50, 4]


async def test_an_item_larger_than_the_bound_gives_its_place_to_one_of_its_key() -> None:
    channel: EventChannel[bytes] = EventChannel(
        cap=10, size=len, overflow="coalesce", key=lambda item: item[:1]
    )
    assert channel.push_nowait(b"a" * 50)
    assert not channel.push_nowait(b"b")
    assert channel.push_nowait(b"a" + b"." * 49)
    assert (channel.stats().outstanding, channel.stats().merged) == (50, 1)


async def test_sizes_with_drop_oldest_and_coalesce(clock: VirtualClock) -> None:
    dropping: EventChannel[bytes] = EventChannel(cap=10, size=len, overflow="drop_oldest")
    probe, tape = _held(dropping)
    dropping.push_nowait(b"1")
    await clock.settle()
    for item in (b"22", b"333", b"4444", b"55555"):
        dropping.push_nowait(item)
    assert dropping.stats().outstanding == 10
    probe.let_all_go()
    await clock.settle()
    assert tape.items == [b"1", b"4444", b"55555"]
    assert dropping.stats().outstanding == 0

    merging: EventChannel[bytes] = EventChannel(
        cap=10, size=len, overflow="coalesce", key=lambda item: item[:1]
    )
    probe, tape = _held(merging)
    for item in (b"a", b"bbb", b"aaa", b"bb"):
        merging.push_nowait(item)
    assert merging.stats().outstanding == 5
    probe.let_all_go()
    await clock.settle()
    assert tape.items == [b"aaa", b"bb"]
    assert merging.stats().outstanding == 0


# ---------------------------------------------------------------------- the observable


async def test_it_is_unicast(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel()
    first, second, third = Tape(), Tape(), Tape()
    subscription = first.record(channel.observable())
    second.record(channel.observable())
    assert isinstance(second.ends[0], LocalProtocolError)
    third.record(channel.observable().pipe(concat_map_async(lambda n: n)))
    assert isinstance(third.ends[0], LocalProtocolError)
    with pytest.raises(LocalProtocolError, match=r"ops\.share"):
        channel.observable().subscribe()
    await channel.push(1)
    subscription.dispose()
    fourth = Tape()
    fourth.record(channel.observable())
    assert isinstance(fourth.ends[0], LocalProtocolError)
    assert first.items == [1]


async def test_share_behind_it_serves_many(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel(cap=4)
    shared = channel.observable().pipe(ops.share())
    fast, slow = Tape(), Probe()
    fast.record(shared)
    shared.pipe(concat_map_async(slow)).subscribe()
    for number in range(4):
        await channel.push(number)
    assert fast.items == [0, 1, 2, 3]
    assert channel.stats().outstanding == 4
    slow.let_all_go()
    await clock.settle()
    assert channel.stats().outstanding == 0


async def test_what_was_pushed_before_the_subscription_is_kept(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel()
    channel.push_nowait(1)
    await channel.push(2)
    channel.complete()
    tape = Tape()
    tape.record(channel.observable())
    assert tape.items == [1, 2]
    assert tape.ends == ["completed"]


async def test_a_plain_observer_that_pushes_is_not_re_entered() -> None:
    channel: EventChannel[int] = EventChannel()
    seen: list[Any] = []

    def observe(number: int) -> None:
        if number < 3:
            channel.push_nowait(number + 1)
        seen.append(number)

    channel.observable().subscribe(observe)
    await channel.push(0)
    assert seen == [0, 1, 2, 3]
    assert channel.stats().outstanding == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {"cap": 0},
        {"cap": 4, "low": 4},
        {"cap": 4, "low": -1},
        {"cap": 4, "hard_cap": 3},
        {"overflow": "drop"},
        {"overflow": "coalesce"},
        {"key": str},
    ],
)
def test_bounds_that_contradict_each_other_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"cap|low|overflow|key"):
        EventChannel(**arguments)


# ---------------------------------------------------------------------- policies further down


async def test_behind_other_operators_the_bound_still_counts_the_handler(
    clock: VirtualClock,
) -> None:
    channel: EventChannel[int] = EventChannel(cap=3)
    probe, tape = Probe(), Tape()
    tape.record(channel.observable().pipe(ops.map(lambda n: n), concat_map_async(probe)))
    producers = [asyncio.ensure_future(channel.push(number)) for number in range(6)]
    await clock.settle()
    assert channel.stats().outstanding == 3
    assert channel.stats().waiting == 3
    probe.let_all_go()
    await asyncio.gather(*producers)
    await clock.settle()
    assert tape.items == list(range(6))
    assert channel.stats().outstanding == 0


async def test_what_a_filter_swallows_is_done_at_once() -> None:
    channel: EventChannel[int] = EventChannel(cap=2)
    probe = Probe()
    channel.observable().pipe(ops.filter(lambda n: n > 100), concat_map_async(probe)).subscribe()
    for number in range(50):
        await channel.push(number)
    assert channel.stats().outstanding == 0
    assert channel.stats().pauses == 0


@pytest.mark.parametrize("policy", ["drop_oldest", "coalesce"])
@pytest.mark.parametrize("sized", [False, True])
async def test_an_evicting_channel_behind_other_operators_hands_over_one_at_a_time(
    clock: VirtualClock, policy: Literal["drop_oldest", "coalesce"], sized: bool
) -> None:
    channel: EventChannel[int] = EventChannel(
        cap=4,
        overflow=policy,
        key=(lambda n: n % 3) if policy == "coalesce" else None,
        size=(lambda n: 1) if sized else None,
    )
    probe, tape = Probe(), Tape()
    tape.record(channel.observable().pipe(ops.map(lambda n: n), concat_map_async(probe)))
    for number in range(10):
        channel.push_nowait(number)
    assert channel.stats().outstanding == 4
    channel.complete()
    probe.let_all_go()
    await tape.ended
    assert tape.items == [0, 7, 8, 9]
    assert channel.stats().outstanding == 0


async def test_an_evicting_channel_hands_over_any_number_of_items_one_after_the_other() -> None:
    channel: EventChannel[int] = EventChannel(cap=2000, overflow="drop_oldest")
    held: list[Delivery] = []
    seen: list[tuple[str, int]] = []

    def observe(number: int) -> None:
        seen.append(("begin", number))
        token = current_here().token
        assert token is not None
        if number == 0:
            held.append(token.hold())  # processed later
        else:
            token.hold().release()
        seen.append(("end", number))

    channel.observable().subscribe(observe)
    for number in range(2000):
        channel.push_nowait(number)
    assert seen == [("begin", 0), ("end", 0)]
    held[0].release()
    assert seen == [(step, number) for number in range(2000) for step in ("begin", "end")]
    assert channel.stats().outstanding == 0


@pytest.mark.parametrize("sized", [False, True])
async def test_drop_oldest_in_front_of_lanes_drops_what_has_not_started(
    clock: VirtualClock, sized: bool
) -> None:
    channel: EventChannel[int] = EventChannel(
        cap=6, overflow="drop_oldest", size=(lambda n: 1) if sized else None
    )
    probe, tape = Probe(), Tape()
    tape.record(channel.observable().pipe(concat_map_async_by(lambda n: n % 3, probe)))
    for number in range(3):
        await channel.push(number)
    await clock.settle()
    assert probe.running == 3
    for number in range(3, 30):
        await channel.push(number)
    assert channel.stats().outstanding == 6
    channel.complete()
    probe.let_all_go()
    await tape.ended
    assert sorted(tape.items) == [0, 1, 2, 3, 28, 29]
    assert channel.stats().outstanding == 0


async def test_back_pressure_runs_through_a_chain(clock: VirtualClock) -> None:
    channel: EventChannel[int] = EventChannel(cap=4)
    second, tape = Probe(), Tape()
    tape.record(channel.observable().pipe(concat_map_async(lambda n: n), concat_map_async(second)))
    producers = [asyncio.ensure_future(channel.push(number)) for number in range(8)]
    await clock.settle()
    assert channel.stats().outstanding == 4
    second.let_all_go()
    await asyncio.gather(*producers)
    await clock.settle()
    assert tape.items == list(range(8))
    assert channel.stats().outstanding == 0


# ---------------------------------------------------------------------- accounts


@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize(
    "path", ["serial", "keyed", "mapped", "plain", "chain", "stream", "mapped stream"]
)
async def test_the_account_returns_to_zero_on_every_path(
    clock: VirtualClock, path: str, sized: bool
) -> None:
    draw = random.Random(path)
    size = (lambda n: n % 5 + 1) if sized else None
    channel: EventChannel[int] = EventChannel(cap=64, size=size)

    async def handle(number: int) -> int:
        if number % 7 == 0:
            await asyncio.sleep(0)
        if number % 101 == 0:
            raise ValueError
        return number

    def ignore(item: int, error: Exception) -> None:
        pass

    serial = concat_map_async(handle, on_error=ignore)
    source = channel.observable()
    identity = ops.map(lambda n: n)

    async def read(observable: Any) -> None:
        async for _ in stream(observable):
            if draw.random() < 0.1:
                await asyncio.sleep(0)

    reader: asyncio.Future[None] | None = None
    match path:
        case "serial":
            source.pipe(serial).subscribe()
        case "keyed":
            operator = concat_map_async_by(lambda n: n % 13, handle, on_error=ignore)
            source.pipe(operator).subscribe()
        case "mapped":
            source.pipe(identity, serial).subscribe()
        case "plain":
            source.subscribe()
        case "chain":
            source.pipe(serial, identity, serial).subscribe()
        case "stream":
            reader = asyncio.ensure_future(read(source))
        case _:
            reader = asyncio.ensure_future(read(source.pipe(identity)))

    for number in range(10_000):
        await channel.push(number)
        assert channel.stats().outstanding <= 64
        if draw.random() < 0.05:
            await asyncio.sleep(0)
    channel.complete()
    await clock.settle()
    if reader is not None:
        await reader
    assert channel.stats().outstanding == 0
    assert channel.stats().accepted == 10_000


# ---------------------------------------------------------------------- readers and handlers


async def test_a_reader_that_reads_on_while_requests_are_open_does_not_deadlock() -> None:
    """A handler awaits a reply that is behind events on the same wire (rx §3, trap 2)."""
    channel: EventChannel[int] = EventChannel(cap=4, hard_cap=64)
    replies: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    open_requests = 0
    handled: list[int] = []

    async def handle(number: int) -> None:
        nonlocal open_requests
        if number == 0:
            open_requests += 1
            assert await replies == "reply"
            open_requests -= 1
        handled.append(number)

    channel.observable().pipe(concat_map_async(handle)).subscribe()

    async def read() -> None:
        wire: list[int | str] = [*range(30), "reply", *range(30, 60)]
        for frame in wire:
            await asyncio.sleep(0)
            if isinstance(frame, str):
                replies.set_result(frame)
            elif open_requests:
                assert channel.push_nowait(frame)
            else:
                await channel.push(frame)

    async with asyncio.timeout(10):
        await read()
        while len(handled) < 60:
            await asyncio.sleep(0)
    assert handled == list(range(60))


async def test_a_blocked_reader_does_not_stop_a_heartbeat(clock: VirtualClock) -> None:
    """A heartbeat that goes by timer keeps its beat while the reader waits in push."""
    channel: EventChannel[int] = EventChannel(cap=1)
    probe, tape = _held(channel)
    beats: list[float] = []

    async def beat() -> None:
        while True:
            await asyncio.sleep(1)
            beats.append(clock.time())

    heart = asyncio.ensure_future(beat())
    reader = asyncio.gather(*(channel.push(number) for number in range(3)))
    await clock.advance(8.5)
    assert not reader.done()
    assert beats == [1, 2, 3, 4, 5, 6, 7, 8]

    probe.let_all_go()
    await reader
    await clock.settle()
    assert tape.items == [0, 1, 2]
    heart.cancel()
