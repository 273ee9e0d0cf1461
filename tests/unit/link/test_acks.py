"""When processed events are acknowledged (rule S1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from arcp_client._dispatch.fan_out import FanOut
from arcp_client._link.acks import EVERY, MANY, SOON, Acknowledger
from arcp_client._link.driver import Driver
from arcp_client.testing import VirtualClock
from tests.unit.dispatch.kit import log

PAUSES = st.sampled_from([0.0, 0.001, 0.01, 0.1, 0.24, SOON, 0.3, EVERY, 2.0])
RUNS = st.sampled_from([1, 2, 16, 17, 100, MANY - 1, MANY, MANY + 1, 3 * MANY])


class FakeDriver:
    """Plans one call, the earlier one; its session notes the acknowledgements."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._planned: asyncio.TimerHandle | None = None
        self.acks: list[tuple[float, int]] = []
        peer = SimpleNamespace(ackable=lambda mark: mark)
        self.session = SimpleNamespace(session_id="sess_1", received=0, peer=peer)

    @property
    def now(self) -> float:
        return self._loop.time()

    def acknowledge(self, number: int, now: float) -> bool:
        assert now == self.now
        self.acks.append((now, number))
        return True

    def plan(self, due: float, now: float, call: Callable[[float], None]) -> None:
        assert now == self.now
        if due <= now:
            self.stop()
            call(now)
            return
        if self._planned is not None and self._planned.when() <= due:
            return
        self.stop()
        self._planned = self._loop.call_at(due, self._call, call)

    def stop(self) -> None:
        if self._planned is not None:
            self._planned.cancel()
            self._planned = None

    def _call(self, call: Callable[[float], None]) -> None:
        self._planned = None
        call(self.now)


@given(
    steps=st.lists(st.tuples(PAUSES, RUNS), min_size=1, max_size=12),
    behind=st.sampled_from([0, 1, 100, MANY, 2 * MANY]),
)
def test_processed_events_are_acknowledged_in_time_and_not_too_often(
    steps: list[tuple[float, int]], behind: int
) -> None:
    """The handlers are always ``behind`` by so many events."""

    async def scenario() -> tuple[list[tuple[float, int]], list[tuple[float, int]]]:
        driver, arrived = FakeDriver(), []
        fan_out = FanOut(lambda: acks.plan(driver.now))
        acks = Acknowledger(cast(Driver, driver), fan_out, safe=lambda mark: mark - behind)
        for pause, count in steps:
            await asyncio.sleep(pause)
            first = driver.session.received + 1
            driver.session.received += count
            batch: list[Any] = [log(seq) for seq in range(first, first + count)]
            fan_out.publish(batch)
            arrived.append((driver.now, driver.session.received - behind))
        await asyncio.sleep(EVERY)
        driver.stop()
        return arrived, driver.acks

    arrived, acks = VirtualClock().run(scenario())
    for (before, _), (after, _) in pairwise(acks):
        assert after - before >= SOON - 1e-9
    for when, number in arrived:
        if number <= 0:
            continue
        acked = min(moment for moment, mark in acks if mark >= number)
        assert acked - when <= EVERY + 1e-9
    for when, number in arrived:  # no more than MANY wait longer than SOON
        late = max([mark for moment, mark in acks if moment <= when + SOON + 1e-9], default=0)
        assert number - late <= MANY
