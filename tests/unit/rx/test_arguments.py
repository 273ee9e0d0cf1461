"""Arguments that make no sense are refused by name when an operator is made, not when it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import reactivex

from arcp_client.rx import EventChannel, concat_map_async, concat_map_async_by, stream

NAN, INFINITE = float("nan"), float("inf")
SECONDS: list[Any] = ["5", True, NAN, INFINITE, -1, 0]
SOURCE: Any = reactivex.of(1)


async def handle(item: Any) -> Any: ...


OPTIONS: dict[str, list[Any]] = {
    "on_error": [None, "stop", 5],
    "slice_items": [None, 0, -1, 1.5, True],
    "slice_seconds": [None, *SECONDS],
    "item_timeout": SECONDS,
    "isolate_context": [None, 1, "yes"],
}
MADE: dict[tuple[str, str], tuple[Callable[[Any], Any], list[Any]]] = {
    ("concat_map_async", "handler"): (concat_map_async, [None, 5, "handle"]),
    ("concat_map_async_by", "key"): (lambda v: concat_map_async_by(v, str), [None, 5, handle]),
    ("concat_map_async_by", "handler"): (lambda v: concat_map_async_by(str, v), [None, 5]),
    ("concat_map_async_by", "lanes"): (
        lambda v: concat_map_async_by(str, handle, lanes=v),
        [0, -1, 1.5, True, "5"],
    ),
    **{
        ("concat_map_async", name): (lambda v, n=name: concat_map_async(handle, **{n: v}), values)
        for name, values in OPTIONS.items()
    },
    **{
        ("concat_map_async_by", name): (
            lambda v, n=name: concat_map_async_by(str, handle, **{n: v}),
            values,
        )
        for name, values in OPTIONS.items()
    },
    ("EventChannel", "cap"): (EventChannel, [None, 0, -1, 1.5, "5", True]),
    ("EventChannel", "low"): (lambda v: EventChannel(8, low=v), ["5", -1, 8, 1.5]),
    ("EventChannel", "hard_cap"): (lambda v: EventChannel(8, hard_cap=v), ["9", 7, 1.5]),
    ("EventChannel", "overflow"): (lambda v: EventChannel(8, overflow=v), [None, "drop", 5]),
    ("EventChannel", "key"): (
        lambda v: EventChannel(overflow="coalesce", key=v),
        [None, 5, handle],
    ),
    ("EventChannel", "size"): (lambda v: EventChannel(size=v), [5, "len", handle]),
    ("stream", "observable"): (stream, [None, 5, [1, 2]]),
    ("stream", "maxsize"): (lambda v: stream(SOURCE, maxsize=v), [None, 0, -1, 1.5, "5"]),
}


@pytest.mark.parametrize(("what", "name"), MADE)
async def test_an_operator_says_which_argument_is_wrong(what: str, name: str) -> None:
    made, values = MADE[what, name]
    for value in values:
        with pytest.raises((TypeError, ValueError), match=name) as caught:
            made(value)
        assert type(caught.value) in (TypeError, ValueError), value


@pytest.mark.parametrize("made", [concat_map_async, concat_map_async_by, EventChannel, stream])
def test_every_argument_is_in_the_table(made: Any) -> None:
    for name in inspect.signature(made).parameters:
        assert (made.__name__, name) in MADE, name


def test_the_smallest_bounds_of_a_channel_are_accepted() -> None:
    assert EventChannel[int](cap=1, low=0, hard_cap=1).push_nowait(1)
