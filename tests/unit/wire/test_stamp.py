"""Ids of events: ULIDs that rise, made at little cost."""

from __future__ import annotations

import os
import time

import pytest
from ulid import ULID

from arcp_client._wire.stamp import EventIds


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


def test_ids_of_events_begin_anew_in_each_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    ids, now = EventIds(), 1_700_000_000_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: now)
    first = ids.next()
    assert ids.next()[:18] == first[:18]
    now += 1_000_000
    assert ids.next()[:18] != first[:18]
