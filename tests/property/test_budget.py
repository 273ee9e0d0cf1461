"""ByteBudget against a model: nothing is lost, nobody is overtaken, nobody waits without need."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arcp_client._budget import ByteBudget
from arcp_client._tasks import TaskOwner
from arcp_client.testing import VirtualClock

SIZES = st.integers(0, 12)


class Reserving(RuleBasedStateMachine):
    """Producers add, reserve, wait and are cancelled; a consumer gives back what was taken."""

    @initialize(limit=st.integers(1, 10))
    def begin(self, limit: int) -> None:
        self.clock = VirtualClock()
        self.runner = asyncio.Runner(loop_factory=self.clock.new_loop)
        self.limit = limit
        self.budget = ByteBudget(limit)
        self.tasks = TaskOwner("producer")
        self.held: list[int] = []
        self.queue: list[tuple[asyncio.Task[None], int]] = []
        self.roomy: list[asyncio.Task[None]] = []

    def act(self, *acts: Callable[[], object]) -> None:
        async def acted() -> None:
            for each in acts:
                each()
            await self.clock.settle()

        self.runner.run(acted())
        self.account()

    def account(self) -> None:
        """Move the reservations that were admitted to what is held: always the first ones."""
        while self.queue and self.queue[0][0].done():
            task, size = self.queue.pop(0)
            if not task.cancelled():
                self.held.append(size)
        self.queue = [(task, size) for task, size in self.queue if not task.cancelled()]
        assert not any(task.done() for task, _ in self.queue), "one was overtaken"
        self.roomy = [task for task in self.roomy if not task.done()]

    @rule(size=SIZES)
    def add(self, size: int) -> None:
        self.act(lambda: self.budget.add(size))
        self.held.append(size)

    @rule(size=SIZES)
    def try_reserve(self, size: int) -> None:
        room = not self.queue and (sum(self.held) + size <= self.limit or not sum(self.held))
        assert self.budget.try_reserve(size) is room
        if room:
            self.held.append(size)

    @rule(size=SIZES)
    def reserve(self, size: int) -> None:
        def begin() -> None:
            self.queue.append((self.tasks.spawn(self.budget.reserve(size)), size))

        self.act(begin)

    @rule()
    def wait_for_room(self) -> None:
        self.act(lambda: self.roomy.append(self.tasks.spawn(self.budget.room())))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        size = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.act(lambda: self.budget.release(size))

    @precondition(lambda self: self.queue)
    @rule(data=st.data(), released=st.booleans())
    def cancel(self, data: st.DataObject, released: bool) -> None:
        """Also in the turn of the loop in which room comes, before or after that."""
        task, _ = self.queue[data.draw(st.integers(0, len(self.queue) - 1))]
        acts: list[Callable[[], object]] = [task.cancel]
        if released and self.held:
            size = self.held.pop()
            at = data.draw(st.integers(0, 1))
            acts.insert(at, lambda: self.budget.release(size))
        self.act(*acts)

    @precondition(lambda self: self.roomy)
    @rule()
    def cancel_a_wait_for_room(self) -> None:
        self.act(self.roomy[0].cancel)

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.budget.used == sum(self.held)

    @invariant()
    def nobody_waits_without_need(self) -> None:
        used = sum(self.held)
        if self.queue:
            assert used
            assert used + self.queue[0][1] > self.limit
        if self.roomy:
            assert used > self.limit

    def teardown(self) -> None:
        self.runner.run(self.tasks.close())
        self.runner.close()
        assert self.budget.used == sum(self.held)


TestReserving = Reserving.TestCase
TestReserving.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
