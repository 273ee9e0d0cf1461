"""ByteBudget: what a buffer may hold, who waits for room in it, and in which order."""

from __future__ import annotations

import asyncio

import pytest

from arcp_client._budget import ByteBudget
from arcp_client._tasks import TaskOwner


@pytest.fixture
async def tasks():
    owner = TaskOwner("budget test")
    yield owner
    await owner.close()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_bytes_are_reserved_up_to_the_limit_and_not_one_more():
    budget = ByteBudget(10)
    assert budget.try_reserve(10)
    assert not budget.try_reserve(1)
    budget.release(1)
    assert budget.try_reserve(1)
    assert budget.used == 10
    assert not budget.over


async def test_an_item_larger_than_the_limit_is_admitted_to_an_empty_buffer_only():
    budget = ByteBudget(10)
    assert budget.try_reserve(11)
    assert budget.over
    budget.release(11)
    assert budget.try_reserve(1)
    assert not budget.try_reserve(11)


async def test_a_small_reservation_does_not_overtake_a_large_one_that_waits(tasks):
    budget, order = ByteBudget(10), []
    budget.add(8)

    async def reserve(size: int) -> None:
        await budget.reserve(size)
        order.append(size)

    for size in (9, 1, 1):
        tasks.spawn(reserve(size))
    await settle()
    assert order == []
    assert not budget.try_reserve(1)
    budget.release(8)
    await settle()
    assert order == [9, 1]
    assert budget.used == 10
    budget.release(9)
    await settle()
    assert order == [9, 1, 1]


async def test_a_cancelled_reservation_lets_the_next_one_in_and_holds_nothing(tasks):
    budget = ByteBudget(10)
    budget.add(8)
    large = tasks.spawn(budget.reserve(9))
    small = tasks.spawn(budget.reserve(2))
    await settle()
    large.cancel()
    await settle()
    assert small.done()
    assert budget.used == 10


async def test_a_reservation_that_is_cancelled_in_the_turn_of_its_admission_gives_back(tasks):
    budget = ByteBudget(10)
    budget.add(10)
    first = tasks.spawn(budget.reserve(10))
    await settle()
    budget.release(10)
    assert budget.used == 10
    first.cancel()
    await settle()
    assert first.cancelled()
    assert budget.used == 0


async def test_a_reservation_cancelled_before_room_came_is_not_counted_when_it_comes(tasks):
    budget = ByteBudget(10)
    budget.add(10)
    first = tasks.spawn(budget.reserve(4))
    await settle()
    first.cancel()
    budget.release(10)  # the cancelled task has not run yet
    await settle()
    assert budget.used == 0


async def test_room_is_waited_for_until_no_more_is_held_than_the_limit(tasks):
    budget = ByteBudget(10)
    await budget.room()
    budget.add(12)
    waits = [tasks.spawn(budget.room()) for _ in range(3)]
    waits[0].cancel()
    budget.release(1)
    await settle()
    assert not any(wait.done() for wait in waits[1:])
    budget.release(1)
    await settle()
    assert all(wait.done() for wait in waits)
    assert waits[0].cancelled()


async def test_room_that_was_taken_again_at_once_is_waited_for_once_more(tasks):
    budget = ByteBudget(10)
    budget.add(11)
    wait = tasks.spawn(budget.room())
    await settle()
    budget.release(1)
    budget.add(1)
    await settle()
    assert not wait.done()
    budget.clear()
    await settle()
    assert wait.done()
    assert budget.used == 0


async def test_more_than_was_taken_cannot_be_given_back():
    budget = ByteBudget(10)
    budget.add(3)
    with pytest.raises(AssertionError):
        budget.release(4)
    assert budget.used == 3
