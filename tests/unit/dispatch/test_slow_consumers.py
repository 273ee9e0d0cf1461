"""Where consumers count as behind, and where as caught up."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from arcp_client import Buffer
from arcp_client._dispatch.slow_consumers import SLOW_AFTER, Episode, SlowConsumers
from arcp_client.testing import VirtualClock
from tests.unit.dispatch.kit import FakeConsumer


@pytest.mark.parametrize(
    ("soft", "low"), [(1, 1), (2, 1), (3, 1), (8, 4), (9, 4)], ids=lambda n: str(n)
)
async def test_a_paused_reader_continues_at_half_of_the_soft_limit(soft: int, low: int) -> None:
    consumer = FakeConsumer()
    pressure = consumer.back_pressure(Buffer(soft=soft))
    reader = asyncio.create_task(pressure.caught_up())
    await asyncio.sleep(0)
    for outstanding in range(2 * soft + 1, low, -1):
        consumer.outstanding = outstanding
        pressure.progress()
        await asyncio.sleep(0)
        assert not reader.done(), f"it continued at {outstanding}"
    consumer.outstanding = low
    pressure.progress()
    await reader


@pytest.mark.parametrize(
    ("soft", "low"), [(1, 0), (2, 1), (3, 1), (8, 4), (9, 4)], ids=lambda n: str(n)
)
async def test_an_episode_ends_at_half_of_the_soft_limit(
    clock: VirtualClock, soft: int, low: int
) -> None:
    consumer = FakeConsumer()
    found: list[Episode] = []
    slow = SlowConsumers(soft, cast(Any, [consumer]), found.append)
    await clock.advance(SLOW_AFTER)

    def check(outstanding: int) -> int:
        consumer.outstanding = outstanding
        slow.check()
        return len(found)

    assert check(soft - 1) == 0
    assert check(soft) == 1
    assert check(soft) == 1
    assert check(low + 1) == 1
    assert check(soft) == 1, "the episode has not ended"
    assert check(low) == 1
    assert check(soft) == 2
    assert found[0].events == soft


async def test_an_episode_begins_when_the_oldest_event_has_waited_long_enough(
    clock: VirtualClock,
) -> None:
    await clock.advance(100)
    consumer = FakeConsumer()
    consumer.outstanding, consumer.arrived = 4, clock.time()
    found: list[Episode] = []
    slow = SlowConsumers(4, cast(Any, [consumer]), found.append)
    slow.check()
    await clock.advance(SLOW_AFTER * 0.9)
    slow.check()
    assert found == []
    await clock.advance(SLOW_AFTER)
    slow.check()
    assert [(one.events, one.seconds) for one in found] == [(4, pytest.approx(1.9 * SLOW_AFTER))]


@pytest.mark.parametrize("milliseconds", range(1000, 1020))
async def test_an_episode_begins_exactly_when_its_time_has_come(
    clock: VirtualClock, milliseconds: int
) -> None:
    """The clock of uvloop counts milliseconds, and a paused reader has the check made once."""
    consumer = FakeConsumer()
    consumer.outstanding, consumer.arrived = 4, milliseconds / 1000
    found: list[Episode] = []
    slow = SlowConsumers(4, cast(Any, [consumer]), found.append)
    await clock.advance((milliseconds + 1000 * SLOW_AFTER) / 1000)
    slow.check()
    assert [one.seconds for one in found] == [SLOW_AFTER]


def test_a_reader_that_stops_because_the_file_is_full_wants_to_know_of_progress() -> None:
    pressure = FakeConsumer().back_pressure()
    pressure.full = True
    assert pressure.progress_wanted
    pressure.full = False
    assert not pressure.progress_wanted
