"""Guards that hold on any machine: ratios in one process, memory, and the CPU time of a turn."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from arcp_client.rx import EventChannel, concat_map_async
from tests.alone import run_alone


async def measured(*arguments: str) -> Any:
    return await run_alone("tests.unit.rx.measured", *arguments, timeout=55)


async def test_the_operator_is_twenty_times_as_fast_as_concat_map() -> None:
    assert max(await measured("ratios")) >= 20


@pytest.mark.parametrize("keyed", ["keyed", "one queue"])
async def test_timers_keep_their_time_while_handlers_never_suspend(keyed: str) -> None:
    lateness = await measured("lateness", keyed)
    assert lateness["ticks"] > 10
    assert lateness["worst"] < 0.025


async def test_slow_sync_handlers_give_up_their_slice_by_time() -> None:
    def burn(_: int) -> None:
        until = time.thread_time() + 0.002
        while time.thread_time() < until:
            pass

    turns = 0
    channel: EventChannel[int] = EventChannel()
    ended = asyncio.get_running_loop().create_future()
    channel.observable().pipe(concat_map_async(burn)).subscribe(
        on_completed=lambda: ended.set_result(None)
    )
    for number in range(32):
        channel.push_nowait(number)
    channel.complete()
    while not ended.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 32 / 3  # at most three handlers of 2 ms fit before 5 ms are over


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("keyed", ["keyed", "one queue"])
async def test_a_million_events_leave_memory_flat(keyed: str) -> None:
    done = await measured("growth", keyed)
    assert done["handled"] == 1_020_000
    assert done["growth"] < 20 * 2**20


async def test_ten_thousand_keys_are_forgotten_and_took_little() -> None:
    bytes_a_key = await measured("keys")
    assert bytes_a_key["handled"] == 29_998
    assert bytes_a_key["one"] < 300
    assert bytes_a_key["two"] < 400
    assert bytes_a_key["three"] < 500  # a deque each would take more
    assert bytes_a_key["idle"] < 30
    assert bytes_a_key["left"] == 0
