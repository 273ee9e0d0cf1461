"""What a plan does to the frames of a transport."""

from __future__ import annotations

import asyncio
import re
from typing import Any, cast

import pytest

from arcp_client.errors import LinkLost
from arcp_client.testing import (
    Chance,
    Cut,
    Delay,
    Drop,
    FaultyConnector,
    FaultyTransport,
    FrameFault,
    Reorder,
    Repeat,
    VirtualClock,
)
from arcp_client.transports import Connector, MemoryTransport, Transport, memory_pair


async def received(*plan: FrameFault, count: int = 10, seed: int = 0) -> list[int]:
    """Which of ``count`` numbered frames arrive, in which order."""
    near, far = memory_pair()
    faulty = FaultyTransport(near, plan=plan, seed=seed)
    for n in range(count):
        await far.send(b"%d" % n)
    await far.close()
    return await rest(faulty)


async def sent(*plan: FrameFault, count: int = 10, seed: int = 0) -> list[int]:
    near, far = memory_pair()
    faulty = FaultyTransport(near, plan=plan, seed=seed)
    for n in range(count):
        await faulty.send(b"%d" % n)
    await faulty.close()
    return await rest(far)


async def rest(transport: Transport) -> list[int]:
    got: list[int] = []
    try:
        while True:
            got.append(int(await transport.receive()))
    except LinkLost:
        return got


async def test_without_a_plan_everything_passes() -> None:
    assert await received() == await sent() == list(range(10))


async def test_frames_are_selected_by_index_set_predicate_or_chance() -> None:
    assert await received(Drop(3)) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert await received(Drop({0, 9})) == list(range(1, 9))
    assert await received(Drop(range(2, 8))) == [0, 1, 8, 9]
    assert await received(Drop(lambda frame: int(frame) % 2 == 0)) == [1, 3, 5, 7, 9]
    assert await received(Drop(Chance(1.0))) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Drop("progress"), "Drop.when must be a list of indexes, an index, a Chance or"),
        (lambda: Drop(2.5), "Drop.when must be a list of indexes"),
        (lambda: Drop(True), "Drop.when must be a whole number, at least 0, not True"),
        (lambda: Drop([3, -1]), "Drop.when must be a whole number, at least 0, not -1"),
        (lambda: Drop(1, way="up"), "Drop.way must be 'in' or 'out', not 'up'"),
        (lambda: Drop(Chance(20)), "Chance.probability must be 1 or less, not 20"),
        (lambda: Repeat(1, times=0), "Repeat.times must be a whole number, at least 1, not 0"),
        (lambda: Reorder(1, by=-1), "Reorder.by must be a whole number, at least 1, not -1"),
        (lambda: Delay(1, seconds=-1.0), "Delay.seconds must be a finite number of seconds"),
        (lambda: Cut(after="10"), "Cut.after must be a whole number, at least 0, not '10'"),
    ],
)
def test_a_fault_that_can_select_nothing_is_refused_when_it_is_made(
    make: Any, message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        make()


async def test_chance_is_the_same_for_the_same_seed() -> None:
    runs = [await received(Drop(Chance(0.5)), count=100, seed=seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    assert 20 < len(runs[0]) < 80


async def test_a_repeated_frame_comes_again_at_once() -> None:
    assert await received(Repeat(2), Repeat(4, times=3), count=6) == [0, 1, 2, 2, 3, 4, 4, 4, 5]


async def test_a_reordered_frame_comes_after_later_ones_or_at_the_end() -> None:
    assert await received(Reorder(1), count=5) == [0, 2, 1, 3, 4]
    assert await received(Reorder(1, by=3), count=6) == [0, 2, 3, 4, 1, 5]
    assert await received(Reorder(4, by=3), count=5) == [0, 1, 2, 3, 4]


async def test_the_same_holds_for_what_is_sent() -> None:
    plan = (Drop(0, way="out"), Repeat(1, way="out"), Reorder(2, way="out"), Drop(5))
    assert await sent(*plan, count=5) == [1, 1, 3, 2, 4]


async def test_a_delayed_frame_holds_those_behind_it_back(clock: VirtualClock) -> None:
    near, far = memory_pair()
    faulty = FaultyTransport(near, plan=[Delay(1, seconds=30), Delay(2, seconds=60, way="out")])
    times: list[float] = []
    for n in range(3):
        await far.send(b"%d" % n)
    for n in range(3):
        assert await faulty.receive() == b"%d" % n
        times.append(clock.time())
    assert times == [0, 30, 30]
    await asyncio.gather(*(faulty.send(b"%d" % n) for n in range(4)))
    assert clock.time() == 90
    assert [await far.receive() for _ in range(4)] == [b"0", b"1", b"2", b"3"]


async def test_a_receive_that_is_cancelled_during_a_delay_loses_no_frame(
    clock: VirtualClock,
) -> None:
    near, far = memory_pair()
    faulty = FaultyTransport(near, plan=[Delay(0, seconds=30)])
    await far.send(b"late")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(faulty.receive(), 10)
    assert await faulty.receive() == b"late"
    assert clock.time() == 30


@pytest.mark.parametrize("after", [0, 1, 5])
async def test_a_cut_comes_after_exactly_so_many_frames(after: int) -> None:
    assert await received(Cut(after)) == list(range(after))
    near, far = memory_pair()
    faulty = FaultyTransport(near, plan=[Cut(after, way="out")])
    for n in range(after):
        await faulty.send(b"%d" % n)
    for _ in range(2):
        with pytest.raises(LinkLost, match="cut by the plan"):
            await faulty.send(b"too late")
    assert await rest(far) == list(range(after))


async def test_each_link_of_a_connector_may_have_a_plan_of_its_own() -> None:
    class Pairs:
        target = "memory"

        def __init__(self) -> None:
            self.far: list[MemoryTransport] = []

        async def connect(self) -> MemoryTransport:
            near, far = memory_pair()
            self.far.append(far)
            return near

    def plan(number: int) -> list[FrameFault]:
        return [Cut(after=number)]

    pairs = Pairs()
    connector = FaultyConnector(pairs, plan=plan)
    assert isinstance(connector, Connector)
    assert connector.target == "memory"
    for number in range(3):
        link = await connector.connect()
        for n in range(5):
            await pairs.far[-1].send(b"%d" % n)
        assert await rest(link) == list(range(number))
    assert len(connector.links) == 3


async def test_a_faulty_transport_is_what_the_seam_asks_for() -> None:
    assert isinstance(FaultyTransport(memory_pair()[0], plan=[]), Transport)


def test_whether_frames_are_lines_is_said_for_the_link_underneath() -> None:
    class Lines:
        lines = True

    near, _ = memory_pair()
    assert not FaultyTransport(near, plan=[]).lines
    assert FaultyTransport(cast(Transport, Lines()), plan=[]).lines
