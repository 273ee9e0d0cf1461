"""Ids of events: ULIDs that rise, made at little cost."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

import pytest
from ulid import ULID

from arcp_client._wire.ids import now_text
from arcp_client._wire.stamp import EventIds, timestamp


def test_ids_of_events_rise_within_a_millisecond_whatever_the_count_carries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts = [2**20 - 2, 2**30 - 2, 2**32 - 1]
    for start in starts:
        monkeypatch.setattr(os, "urandom", lambda size, start=start: start.to_bytes(size, "big"))
        monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
        ids = EventIds()
        made = [ids.next() for _ in range(5)]
        assert made == sorted(set(made))
        assert all(str(ULID.from_str(each.decode())) == each.decode() for each in made)


def test_ids_of_events_rise_from_one_millisecond_to_a_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids, now = EventIds(), 1_700_000_000_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: now)
    made = []
    for milliseconds in (0, 0, 1, 1_000, 2**20, 2**20 + 1, 2**30, 2**40):
        now = 1_700_000_000_000_000_000 + milliseconds * 1_000_000
        made.append(ids.next())
        assert ULID.from_str(made[-1].decode()).milliseconds == now // 1_000_000
    assert made == sorted(set(made))


def test_ids_of_events_rise_although_the_clock_is_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids, now = EventIds(), 1_700_000_000_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: now)
    first = ids.next()
    now -= 3_600 * 1_000_000_000
    assert ids.next() > first


def test_ids_of_events_get_new_random_bits_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    ids, now = EventIds(), 2**20 * 1_000_000 * 1_600_000
    monkeypatch.setattr(time, "time_ns", lambda: now)
    first = ids.next()
    now += (2**20 - 1) * 1_000_000
    assert ids.next()[10:18] == first[10:18]
    now += 1_000_000
    assert ids.next()[10:18] != first[10:18]


def test_generators_of_ids_have_random_bits_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    assert EventIds().next()[10:18] != EventIds().next()[10:18]


def test_timestamps_are_the_time_to_the_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    second = 1_700_000_000_000
    for moment in (0, 1, 1, 999, 1_000, 1_042, 61_000, 86_400_007, 0):
        monkeypatch.setattr(time, "time_ns", lambda at=second + moment: at * 1_000_000 + 999_999)
        expected = datetime.fromtimestamp((second + moment) / 1000, UTC)
        assert datetime.fromisoformat(timestamp()) == expected
        assert len(timestamp()) == len(now_text())
