"""Many changes cause few wake-ups, and no change is missed."""

from __future__ import annotations

import asyncio

from arcp_client._feeds.signals import SharedFrame, Signal
from arcp_client.testing import VirtualClock


async def test_the_first_change_wakes_at_once_and_later_ones_together(clock: VirtualClock) -> None:
    signal, wake = Signal(0.05), asyncio.Event()
    with signal.waking(wake):
        signal.notify()
        assert wake.is_set()
        wake.clear()
        for _ in range(1000):
            signal.notify()
        assert not wake.is_set()
        await asyncio.sleep(0.06)
        assert wake.is_set()
        assert signal.revision == 3
    assert not signal.has_listeners


async def test_a_frame_is_built_once_for_each_revision(clock: VirtualClock) -> None:
    made = 0

    def make() -> bytes:
        nonlocal made
        made += 1
        return str(made).encode()

    shown = SharedFrame(make, 0.25)
    assert [shown.frame for _ in range(3)] == [b"1"] * 3
    shown.notify()
    assert shown.frame == b"2"
    shown.notify()
    assert shown.frame == b"2"  # not yet: a quarter of a second has not passed
    await asyncio.sleep(0.3)
    assert shown.frame == b"3"
    shown.close()


async def test_closing_a_signal_cancels_its_timer(clock: VirtualClock) -> None:
    signal, wake = Signal(0.05), asyncio.Event()
    with signal.waking(wake):
        signal.notify()
        signal.notify()
        wake.clear()
        signal.close()
        await asyncio.sleep(1)
        assert not wake.is_set()
