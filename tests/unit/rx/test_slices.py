"""How many items an operator handles before the event loop does other work (D5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import reactivex as rx
from reactivex import Observable

from arcp_client.rx import concat_map_async, concat_map_async_by
from tests.unit.rx.kit import Tape

Operator = Callable[..., Callable[[Observable[Any]], Observable[Any]]]


def _by_one_key(handler: Any, **options: Any) -> Callable[[Observable[Any]], Observable[Any]]:
    return concat_map_async_by(lambda _: "key", handler, **options)


def _by_many_keys(handler: Any, **options: Any) -> Callable[[Observable[Any]], Observable[Any]]:
    return concat_map_async_by(lambda item: item, handler, **options)


async def _handled_in_each_turn(operator: Operator, items: int, **options: Any) -> list[int]:
    """How many items were handled in each iteration of the loop in which any were."""
    loop, tape = asyncio.get_running_loop(), Tape()
    turns = [0]

    def turn() -> None:
        if not tape.ends:
            turns.append(0)
            loop.call_soon(turn)

    def handle(item: int) -> int:
        turns[-1] += 1
        return item

    tape.record(rx.range(0, items).pipe(operator(handle, **options)))
    turn()
    await tape.ended
    assert tape.items == list(range(items))
    return [count for count in turns if count]


@pytest.mark.parametrize("operator", [concat_map_async, _by_one_key, _by_many_keys])
async def test_the_loop_has_its_turn_after_each_slice_of_items(operator: Operator) -> None:
    assert await _handled_in_each_turn(operator, 12, slice_items=4, slice_seconds=60.0) == [4, 4, 4]


@pytest.mark.parametrize("operator", [concat_map_async, _by_one_key, _by_many_keys])
async def test_a_slice_has_64_items_by_default(operator: Operator) -> None:
    assert await _handled_in_each_turn(operator, 160, slice_seconds=60.0) == [64, 64, 32]


@pytest.mark.parametrize("operator", [concat_map_async, _by_one_key, _by_many_keys])
async def test_a_slice_ends_when_its_time_is_over(operator: Operator) -> None:
    assert await _handled_in_each_turn(operator, 5, slice_seconds=1e-9) == [1, 1, 1, 1, 1]
