"""Waiting in a circle (D10): seen at once in a handler, after a while in a task of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from arcp_client import Order, Timeouts, events
from arcp_client._dispatch.deadlock import (
    calling,
    own_turn,
    present_lane,
    set_call,
)
from arcp_client._dispatch.registration import HandlerRegistration
from arcp_client.errors import WouldDeadlock
from arcp_client.testing import VirtualClock
from tests.unit.dispatch.kit import Hub, gap, log, turns

PATIENCE = 5.0


def hub_of(**options: Any) -> Hub:
    return Hub(timeouts=Timeouts(deadlock=PATIENCE), **options)


async def until_done(hub: Hub, registration: HandlerRegistration) -> None:
    """Wait until that registration has handled what it has now."""
    barriers = [(lane, lane.accepted) for lane in registration.lanes]
    await hub.wait_graph.wait_for(barriers, "the other one")


async def test_a_handler_that_waits_for_its_own_lane_is_refused_at_once(
    clock: VirtualClock,
) -> None:
    """D10."""
    hub = hub_of()
    refused: list[float] = []

    async def handle(event: events.Event) -> None:
        with pytest.raises(WouldDeadlock):
            await until_done(hub, mine)
        refused.append(clock.time())

    mine = hub.subscribe(handle)
    hub.publish(log(1), log(2))
    await turns()
    assert refused == [0.0, 0.0]


async def test_a_wait_that_has_ended_leaves_no_timer(clock: VirtualClock) -> None:
    """A timer would keep what the wait refers to for ``patience`` seconds."""
    hub = hub_of()
    begun: list[HandlerRegistration] = []

    async def first(event: events.Event) -> None:
        await turns()

    async def second(event: events.Event) -> None:
        await asyncio.create_task(until_done(hub, begun[0]))

    begun.append(hub.subscribe(first))
    hub.subscribe(second)
    hub.publish(log(1))
    await turns(20)
    assert hub.processed == 1
    jumps = clock.jumps
    await clock.advance(2 * PATIENCE)
    assert clock.jumps == jumps + 1


@pytest.mark.parametrize("nested", ["gather", "wait_for", "task"])
async def test_through_tasks_that_the_handler_awaits_it_is_refused_after_patience(
    clock: VirtualClock, nested: str
) -> None:
    """D10: followed by a context variable."""
    hub = hub_of()
    refused: list[float] = []

    async def handle(event: events.Event) -> None:
        waits: dict[str, Callable[[], Any]] = {
            "gather": lambda: asyncio.gather(until_done(hub, mine), asyncio.sleep(1)),
            "wait_for": lambda: asyncio.wait_for(until_done(hub, mine), 60),
            "task": lambda: asyncio.create_task(until_done(hub, mine)),
        }
        with pytest.raises(WouldDeadlock):
            await waits[nested]()
        refused.append(clock.time())

    mine = hub.subscribe(handle)
    hub.publish(log(1))
    await clock.advance(2 * PATIENCE)
    assert refused in ([PATIENCE], [0.0])  # wait_for has a task of its own before Python 3.12


async def test_handlers_that_wait_for_each_other_are_refused_at_once(clock: VirtualClock) -> None:
    """D10: the second wait closes the circle."""
    hub = hub_of()
    outcomes: list[str] = []

    async def first(event: events.Event) -> None:
        await until_done(hub, two)
        outcomes.append("first")

    async def second(event: events.Event) -> None:
        await asyncio.sleep(1)
        with pytest.raises(WouldDeadlock):
            await until_done(hub, one)
        outcomes.append("refused")

    one = hub.subscribe(first)
    two = hub.subscribe(second)
    hub.publish(log(1))
    await clock.advance(2)
    assert outcomes == ["refused", "first"]
    assert clock.time() < PATIENCE


async def test_handlers_whose_tasks_wait_for_each_other_are_refused_after_patience(
    clock: VirtualClock,
) -> None:
    """D10."""
    hub = hub_of()
    outcomes: list[tuple[str, float]] = []

    async def first(event: events.Event) -> None:
        try:
            await asyncio.create_task(until_done(hub, two))
        except WouldDeadlock:
            outcomes.append(("refused", clock.time()))

    async def second(event: events.Event) -> None:
        await asyncio.sleep(1)
        await asyncio.create_task(until_done(hub, one))
        outcomes.append(("second", clock.time()))

    one = hub.subscribe(first)
    two = hub.subscribe(second)
    hub.publish(log(1))
    await clock.advance(2 * PATIENCE)
    assert outcomes == [("refused", PATIENCE), ("second", PATIENCE)]


async def test_a_chain_that_ends_is_no_circle(clock: VirtualClock) -> None:
    """D10."""
    hub = hub_of()
    ends: list[str] = []

    async def first(event: events.Event) -> None:
        await until_done(hub, two)
        ends.append("first")

    async def second(event: events.Event) -> None:
        await until_done(hub, three)
        ends.append("second")

    async def third(event: events.Event) -> None:
        await asyncio.sleep(3 * PATIENCE)
        ends.append("third")

    one = hub.subscribe(first)
    two = hub.subscribe(second)
    three = hub.subscribe(third)
    hub.publish(log(1))
    await clock.advance(4 * PATIENCE)
    assert ends == ["third", "second", "first"]
    assert one.lag == 0


async def test_a_task_that_outlives_its_handler_is_outside(clock: VirtualClock) -> None:
    """D10: no false alarm."""
    hub = hub_of()
    tasks: list[asyncio.Task[None]] = []

    async def handle(event: events.Event) -> None:
        if event.seq == 1:
            tasks.append(asyncio.create_task(until_done(hub, mine)))
        await asyncio.sleep(2 * PATIENCE if event.seq == 2 else 0)

    mine = hub.subscribe(handle)
    hub.publish(log(1), log(2))
    await clock.advance(3 * PATIENCE)
    await tasks[0]


async def test_a_task_of_a_handler_that_ends_within_patience_gets_what_it_waits_for(
    clock: VirtualClock,
) -> None:
    """D10: the handler may not await it."""
    hub = hub_of()
    tasks: list[asyncio.Task[None]] = []

    async def handle(event: events.Event) -> None:
        tasks.append(asyncio.create_task(until_done(hub, mine)))
        await asyncio.sleep(PATIENCE - 1)

    mine = hub.subscribe(handle)
    hub.publish(log(1))
    await clock.advance(2 * PATIENCE)
    await tasks[0]


async def test_a_wait_of_a_task_does_not_count_as_the_handlers_own(clock: VirtualClock) -> None:
    """D10: a circle through a task is one only if it stays."""
    hub = hub_of()
    ends: list[str] = []

    async def first(event: events.Event) -> None:
        tasks.append(asyncio.create_task(until_done(hub, two)))
        await asyncio.sleep(2)
        ends.append("first")

    async def second(event: events.Event) -> None:
        await asyncio.sleep(1)
        await until_done(hub, one)
        ends.append("second")

    tasks: list[asyncio.Task[None]] = []
    one = hub.subscribe(first)
    two = hub.subscribe(second)
    hub.publish(log(1))
    await clock.advance(2 * PATIENCE)
    assert ends == ["first", "second"]
    await tasks[0]


async def test_code_knows_its_handler_in_every_call_and_in_no_other() -> None:
    """D10: also in the first call after a pause, and in tasks only while the call runs."""
    hub = hub_of()
    inside: list[object] = []
    late: list[asyncio.Task[object]] = []
    gate = asyncio.Event()

    async def look() -> object:
        await gate.wait()
        return calling()

    async def handle(event: events.Event) -> None:
        call = calling()
        assert call is not None
        inside.append((call.number, call.direct))
        nested = await asyncio.create_task(child())
        assert nested is not None
        assert (nested.number, nested.direct) == (call.number, False)
        late.append(asyncio.create_task(look()))

    async def child() -> Any:
        return calling()

    registration = hub.subscribe(handle)
    for seq in range(1, 4):
        hub.publish(log(seq))
        await turns(20)
    hub.publish(log(4), log(5))
    await turns(20)
    assert inside == [(n, True) for n in range(5)]
    assert calling() is None
    gate.set()
    assert [await task for task in late] == [None] * 5
    assert registration.lag == 0


async def test_a_count_that_a_lane_has_reached_is_no_wait(clock: VirtualClock) -> None:
    """D10: not for the own lane of a handler either."""
    hub = hub_of()
    passed: list[int] = []

    async def handle(event: events.Event) -> None:
        (lane,) = mine.lanes
        await hub.wait_graph.wait_for([(lane, lane.done)], "itself")
        passed.append(lane.done)

    mine = hub.subscribe(handle)
    hub.publish(log(1), log(2))
    await turns()
    assert passed == [0, 1]


async def test_without_a_handler_there_is_no_own_lane_to_leave_out(clock: VirtualClock) -> None:
    hub = hub_of()
    release = asyncio.Event()

    async def handle(event: events.Event) -> None:
        await release.wait()

    mine = hub.subscribe(handle)
    hub.publish(log(1))
    barriers = [(lane, lane.accepted) for lane in mine.lanes]
    waiting = asyncio.create_task(hub.wait_graph.wait_for(barriers, "it", but_own=True))
    await turns()
    assert not waiting.done()
    release.set()
    await waiting


async def test_a_handler_may_leave_out_its_own_lane_alone(clock: VirtualClock) -> None:
    """D10: the lanes of other handlers are waited for."""
    hub = hub_of()
    passed: list[str] = []

    async def handle(event: events.Event) -> None:
        barriers = [(lane, lane.accepted) for each in (mine, other) for lane in each.lanes]
        await hub.wait_graph.wait_for(barriers, "the others", but_own=True)
        passed.append("mine")

    async def slow(event: events.Event) -> None:
        await asyncio.sleep(1)
        passed.append("other")

    mine, other = hub.subscribe(handle), hub.subscribe(slow)
    hub.publish(log(1))
    await clock.advance(2)
    assert passed == ["other", "mine"]


async def test_code_of_a_later_call_of_the_lane_waits_for_its_turn() -> None:
    """A thread makes calls ahead of the loop, which counts them in order."""
    hub = hub_of()
    gates = [asyncio.Event() for _ in range(3)]
    lanes: list[Any] = []
    turned: list[int] = []

    async def handle(event: events.Event) -> None:
        lanes.append(present_lane())
        await gates[(event.seq or 1) - 1].wait()

    async def ahead() -> None:
        set_call((lanes[0], 2))
        await own_turn()
        turned.append(lanes[0].done)
        set_call((lanes[0], 0))
        await own_turn()  # a call that has ended
        turned.append(lanes[0].done)

    hub.subscribe(handle)
    hub.publish(log(1), log(2), log(3))
    await turns()
    task = asyncio.create_task(ahead())
    for gate in gates[:2]:
        await turns()
        assert turned == []
        gate.set()
    await task
    assert turned == [2, 2]
    gates[2].set()
    await own_turn()  # outside of a handler
    await turns()


@pytest.mark.parametrize("child", [False, True], ids=["in the handler", "in a child task"])
async def test_a_wait_for_an_event_that_is_held_behind_the_waiting_handler_is_refused(
    clock: VirtualClock, child: bool
) -> None:
    """D2, D10: under Order.JOB, a gap and the events after it wait for the lanes of all jobs."""
    hub = hub_of(order=Order.JOB)
    refused: list[float] = []

    async def handle(event: events.Event) -> None:
        if event.seq != 1:
            return
        wait = hub.wait_graph.wait_for(hub.barriers("b"), "the result")
        with pytest.raises(WouldDeadlock):
            await (asyncio.create_task(wait) if child else wait)
        refused.append(clock.time())

    hub.subscribe(handle)
    hub.publish(log(1, "a"), gap(2), log(3, "b"))
    await clock.advance(2 * PATIENCE)
    assert refused == [PATIENCE if child else 0.0]
    assert hub.processed == 3


async def test_a_wait_for_an_event_before_those_that_are_held_is_no_cycle(
    clock: VirtualClock,
) -> None:
    """D10: the lane of job b reaches that event although a later one of it is held."""
    hub = hub_of(order=Order.JOB)
    waited: list[float] = []

    async def handle(event: events.Event) -> None:
        if event.seq == 1:
            [(lane, count)] = hub.barriers("b")
            await hub.wait_graph.wait_for([(lane, count - 1)], "the first event of b")
            waited.append(clock.time())
        elif event.seq == 2:
            await asyncio.sleep(1)

    hub.subscribe(handle)
    hub.publish(log(1, "a"), log(2, "b"), gap(3), log(4, "b"))
    await clock.advance(2 * PATIENCE)
    assert waited == [1.0]
    assert hub.processed == 4
