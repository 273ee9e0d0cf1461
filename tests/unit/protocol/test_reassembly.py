"""The order of frames by itself: ranges of numbers, and what is remembered of holes."""

from __future__ import annotations

import pytest

from arcp_client._protocol import reassembly
from arcp_client._protocol.reassembly import (
    AGREEING,
    SETTLE,
    LostNumbers,
    Placement,
    Ranges,
    Reassembly,
)


@pytest.mark.parametrize(
    "given",
    [
        [(1, 2), (3, 5), (9, 9)],
        [(9, 9), (1, 4), (2, 5)],
        [(9, 9), (1, 5), (2, 3)],
    ],
)
def test_ranges_that_touch_or_overlap_are_one(given: list[tuple[int, int]]) -> None:
    ranges = Ranges(given)
    assert len(ranges) == 2
    assert [number for number in range(12) if number in ranges] == [1, 2, 3, 4, 5, 9]
    assert ranges.last == 9


def test_ranges_with_one_number_between_them_are_two() -> None:
    assert len(Ranges([(1, 2), (4, 5)])) == 2


def test_a_number_that_is_taken_out_leaves_what_is_around_it() -> None:
    ranges = Ranges([(2, 4)])
    assert not ranges.remove(1)
    assert not ranges.remove(5)
    assert ranges.remove(3)
    assert not ranges.remove(3)
    assert [number for number in range(7) if number in ranges] == [2, 4]
    assert ranges.remove(2)
    assert ranges.remove(4)
    assert len(ranges) == ranges.last == 0


def test_of_lost_ranges_the_oldest_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reassembly, "REMEMBERED", 2)
    order: Reassembly[int] = Reassembly()
    for seq in (2, 4, 6):
        assert order.offer(seq, seq, 0.0) is Placement.HELD
        order.opened(0.0)
        assert list(order.expire(10.0)) == [LostNumbers(seq - 1, seq - 1), seq]
    assert [order.offer(seq, seq, 0.0) for seq in (1, 3, 5)] == [
        Placement.REPEAT,
        Placement.LATE,
        Placement.LATE,
    ]


def test_an_abandoned_order_gives_each_hole_before_what_waited_behind_it() -> None:
    order: Reassembly[int] = Reassembly()
    for seq in (3, 4, 7):
        assert order.offer(seq, seq, 0.0) is Placement.HELD
    assert not order.after(0)
    assert list(order.abandon()) == [LostNumbers(1, 2), 3, 4, LostNumbers(5, 6), 7, 0]
    assert order.cursor == 7


def test_a_second_hole_is_not_given_up_before_a_link_was_resumed_for_it() -> None:
    order: Reassembly[int] = Reassembly()
    for seq in (2, 4):
        order.offer(seq, seq, 0.0)
        assert order.should_resume(10.0)
        assert order.deadline is None
        assert not order.expires(1000.0)
        order.opened(1000.0)
        assert list(order.expire(1010.0)) == [LostNumbers(seq - 1, seq - 1), seq]


def test_a_hole_in_a_replay_has_time_until_the_replay_pauses() -> None:
    order: Reassembly[int] = Reassembly()
    order.opened(0.0)
    assert order.offer(5, 5, 0.0) is Placement.HELD
    assert order.offer(1, 1, 1.0) is Placement.NEXT
    assert list(order.release()) == []
    assert not order.should_resume(SETTLE)  # the replay goes on, and so does the wait
    assert not order.should_resume(2 * SETTLE - 0.1)
    assert order.should_resume(2 * SETTLE)
    assert order.waits == 3  # since the link began, since the hole, and since the piece


def test_a_hole_behind_a_replay_is_requested_at_once() -> None:
    order: Reassembly[int] = Reassembly()
    order.opened(0.0)
    assert order.offer(1, 1, 0.0) is Placement.NEXT
    assert list(order.release()) == []
    assert order.offer(3, 3, 1.0) is Placement.HELD
    assert order.should_resume(1.0)


def test_of_held_items_the_newest_give_way_to_older_ones() -> None:
    order: Reassembly[int] = Reassembly(limit=3)
    for seq in (5, 6, 7):
        assert order.offer(seq, seq, 0.0) is Placement.HELD
    assert order.offer(8, 8, 0.0) is Placement.FORGOTTEN
    assert order.offer(3, 3, 0.0) is Placement.HELD
    assert order.holding == 3
    assert list(order.abandon()) == [LostNumbers(1, 2), 3, LostNumbers(4, 4), 5, 6]


def test_numbers_far_away_are_believed_once_they_follow_each_other() -> None:
    order: Reassembly[int] = Reassembly(limit=3, reach=100)
    for _ in range(2 * AGREEING):
        assert order.offer(1000, 1000, 0.0) is Placement.BEYOND
    for n in range(1, AGREEING - 1):
        assert order.offer(1000 + n, 0, 0.0) is Placement.BEYOND
    assert order.offer(1000 + AGREEING - 1, 0, 0.0) is Placement.HELD


def test_the_reach_counts_from_the_highest_number_that_is_held() -> None:
    order: Reassembly[int] = Reassembly(reach=100)
    assert order.offer(101, 101, 0.0) is Placement.BEYOND
    assert order.offer(100, 100, 0.0) is Placement.HELD
    assert order.offer(201, 201, 0.0) is Placement.BEYOND
    assert order.offer(200, 200, 0.0) is Placement.HELD
