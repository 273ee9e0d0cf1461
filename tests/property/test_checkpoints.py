"""Checkpoints (S10): whoever is killed at any moment knows afterwards what may have been seen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arcp_client._link import checkpoints
from arcp_client.models import Checkpoint
from arcp_client.testing import VirtualClock
from tests.property.tables import Row, rows_of
from tests.property.writer import INTERVAL, Life, Reports

STATES = ("FLOW", "WAIT", "TOKEN")
STEPS = {
    (state, row.to)
    for row in rows_of(checkpoints)
    for state in (STATES if row.state == "any" else [row.state])
}


class Writing(RuleBasedStateMachine):
    """Events come, lanes get on, the store works or does not, and the process may be killed."""

    @initialize(
        every=st.sampled_from([1, 2, 4, 10]),
        group=st.sampled_from([1, 1, 3]),
        lanes=st.integers(0, 2),
    )
    def begin(self, every: int, group: int, lanes: int) -> None:
        self.clock = VirtualClock()
        self.runner = asyncio.Runner(loop_factory=self.clock.new_loop)
        self.reports = Reports()
        logging.getLogger("arcp_client.checkpoints").addHandler(self.reports)
        self.failures = 0
        self.welcomes = 0
        self.options = {"every": every, "group": group, "lanes": lanes}
        self.run(self.live(None))

    def run(self, coro: Coroutine[Any, Any, Any]) -> None:
        """Run something, and then everything that can run without time passing."""

        async def all_of_it() -> None:
            await coro
            await self.clock.settle()

        self.runner.run(all_of_it())

    def do(self, act: Callable[..., object], *arguments: Any, **options: Any) -> None:
        async def acted() -> None:
            act(*arguments, **options)

        self.run(acted())
        self.life.note()

    async def live(self, disk: Checkpoint | None) -> None:
        """A life begins, and its first link is greeted."""
        self.life = Life(disk, **self.options)
        self.greet(fresh=disk is None)

    def greet(self, *, fresh: bool) -> None:
        self.welcomes += 1
        self.life.welcome(fresh=fresh, token=f"token {self.welcomes}")

    # ------------------------------------------------------------------ what happens

    @rule(count=st.integers(1, 12))
    def events_come(self, count: int) -> None:
        self.do(self.life.offer, count)

    @rule()
    def something_is_to_be_done_behind_them(self) -> None:
        self.do(self.life.after)

    @precondition(lambda self: self.life.done)
    @rule(lane=st.integers(0, 1), count=st.integers(1, 8))
    def a_lane_gets_on(self, lane: int, count: int) -> None:
        self.do(self.life.finish, lane % len(self.life.done), count)

    @rule(urgent=st.booleans())
    def a_handler_waits_for_events(self, urgent: bool) -> None:
        self.do(self.life.want, urgent)

    @precondition(lambda self: self.life.saving)
    @rule(works=st.sampled_from([True, True, False]))
    def the_store_answers(self, works: bool) -> None:
        self.do(self.life.answer, works)

    @rule(fresh=st.sampled_from([False, False, True]))
    def a_link_is_greeted(self, fresh: bool) -> None:
        self.do(self.greet, fresh=fresh)

    @rule()
    def a_flush_is_asked_for(self) -> None:
        self.do(self.life.flush)

    @rule()
    def somebody_waits_for_what_came(self) -> None:
        self.do(self.life.passed)

    @rule()
    def time_passes(self) -> None:
        self.run(self.clock.advance(INTERVAL + 1))
        self.life.note()

    @rule(saved=st.booleans())
    def the_process_is_killed(self, saved: bool) -> None:
        life = self.life
        seen = [event.seq or 0 for event in life.events]
        processed = life.mark
        self.run(life.kill(saved=saved))
        self.failures += life.failures
        disk = life.disk
        if disk is not None and disk.session_id == life.session:
            assert disk.mark <= processed, "what is not processed comes again"
            assert max(seen, default=0) <= max(disk.reserved, life.base)
        else:
            assert not seen, "a session of which the store does not know was seen"
        self.run(self.live(disk))

    # ------------------------------------------------------------------ what always holds

    @invariant()
    def the_store_is_asked_for_nothing_wrong(self) -> None:
        assert self.life.wrong == []

    @invariant()
    def every_step_is_in_the_table(self) -> None:
        assert set(self.life.steps) <= STEPS

    @invariant()
    def what_was_published_is_what_came_in_its_order(self) -> None:
        life = self.life
        assert life.published == life.offered[: len(life.published)]
        assert len(life.published) + life.writer.held == len(life.offered)

    @invariant()
    def events_wait_for_a_reason(self) -> None:
        life = self.life
        if life.saving is not None or life.failing:
            return  # the store's turn
        assert life.state != "TOKEN"
        if life.state == "WAIT":
            first = life.writer.first_held
            assert first is not None
            assert not life.urgent
            assert life.furthest < (life.events[-1].seq or 0) if life.events else True
            assert life.reorder_block_end(first) > life.reorder_block_end(
                life.furthest + life.every
            )

    @invariant()
    def whoever_waits_is_told_in_time(self) -> None:
        life = self.life
        for count, future in life.passes:
            assert future.done() is (len(life.published) >= count)
        if life.saving is None and not life.failing:
            assert all(flush.done() for flush in life.flushes)

    @invariant()
    def a_failure_is_said_once(self) -> None:
        assert self.reports.count == self.failures + self.life.failures

    def teardown(self) -> None:
        if not hasattr(self, "life"):
            return
        try:
            self.check_the_end()
        finally:
            self.run(self.life.kill(saved=False))
            self.runner.close()
            logging.getLogger("arcp_client.checkpoints").removeHandler(self.reports)

    def check_the_end(self) -> None:
        """The store works and lanes get on: then all is published, and the store knows of it."""
        life = self.life
        self.do(life.want, False)
        for _ in range(2 * len(life.offered) + 20):
            while life.saving is not None:
                self.do(life.answer, True)
            for lane in range(len(life.done)):
                self.do(life.finish, lane, len(life.offered))
            self.time_passes()
        assert life.published == life.offered
        assert life.disk is not None
        assert life.disk.mark == life.sent
        assert life.state == "FLOW"
        self.run(life.stop())
        self.do(life.offer, 3)
        assert (life.state, life.writer.held) == ("STOPPED", 3)


# ------------------------------------------------------------------ the table, row by row

# What happens after the first welcome, to a lane that does nothing by itself; the reservation
# reaches two events beyond what the lane is done with.
SCENES: dict[tuple[str, str, str], list[str]] = {
    ("FLOW", "events that are reserved", "FLOW"): ["save come:2"],
    ("FLOW", "an event that is not reserved", "WAIT"): ["save come:3"],
    ("FLOW", "a welcome", "TOKEN"): ["save greet"],
    ("WAIT", "events", "WAIT"): ["save come:3 come:1"],
    ("WAIT", "saved, and some waiting events are reserved", "WAIT"): ["save come:6 finish:1 save"],
    ("WAIT", "saved, and all waiting events are reserved", "FLOW"): ["save come:3 finish:1 save"],
    ("WAIT", "a failed save", "WAIT"): ["save come:3 finish:1 fail"],
    ("WAIT", "a welcome", "TOKEN"): ["save come:3 greet"],
    ("TOKEN", "events", "TOKEN"): ["come:1"],
    ("TOKEN", "a failed save", "TOKEN"): ["fail"],
    ("TOKEN", "a welcome", "TOKEN"): ["greet"],
    ("TOKEN", "saved, and all waiting events are reserved", "FLOW"): ["come:1 save"],
    ("TOKEN", "saved, and a waiting event is not reserved", "WAIT"): ["come:3 save"],
    ("any", "stopped", "STOPPED"): ["stop", "save stop", "save come:3 stop"],
}


async def _played(clock: VirtualClock, scene: str) -> tuple[Life, tuple[str, str]]:
    """The life in which that happens, and the last step in it."""
    life = Life(None, every=2, group=1, lanes=1)
    life.welcome(fresh=True, token="token")
    await clock.settle()
    for act in scene.split():
        before = life.state
        verb, _, count = act.partition(":")
        if verb == "save":
            life.answer(True)
        elif verb == "fail":
            life.answer(False)
        elif verb == "come":
            life.offer(int(count))
        elif verb == "finish":
            life.finish(0, int(count))
        elif verb == "greet":
            life.welcome(fresh=False, token=f"{life.token}+")
        else:
            await life.stop()
        await clock.settle()
        life.note()
    await life.kill(saved=False)
    return life, (before, life.state)


@pytest.mark.parametrize("row", rows_of(checkpoints), ids=str)
def test_each_row_of_the_table_is_a_step_of_the_writer(row: Row) -> None:
    """S10."""
    clock = VirtualClock()
    for scene in SCENES[row]:
        life, step = clock.run(_played(clock, scene))
        assert step == (row.state if row.state != "any" else step[0], row.to)
        assert set(life.steps) <= STEPS


TestWriting = Writing.TestCase
TestWriting.settings = settings(max_examples=15, stateful_step_count=40)  # a second each
