"""Replay buffers that share a limit, and which of their events are dropped."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from arcp_client._dispatch.replay_buffer import _OVERHEAD, ReplayBuffer, ReplayMemory
from arcp_client.events import Log
from tests.unit.dispatch.test_streams import sized


@pytest.mark.parametrize(
    ("older", "newer", "kept"),
    [(6, 3, (3, 3)), (6, 0, (6, 0)), (7, 0, (6, 0)), (2, 7, (0, 6)), (4, 4, (2, 4))],
)
def test_buffers_that_exceed_their_limit_drop_the_oldest_quarter(
    older: int, newer: int, kept: tuple[int, int]
) -> None:
    size = sized(1, 1000).size
    kept_size = size + _OVERHEAD
    memory = ReplayMemory(8 * kept_size)
    buffers = [ReplayBuffer(memory), ReplayBuffer(memory)]
    for buffer, count in zip(buffers, (older, newer), strict=True):
        for seq in range(count):
            buffer.extend([sized(seq + 1, 1000)], size)
    memory.add(8, size)  # an upper bound of what they keep
    assert [buffer.weigh() // kept_size for buffer in buffers] == [older, newer]
    memory.add(1, 0)
    assert tuple(buffer.weigh() // kept_size for buffer in buffers) == kept


def of_a_kibibyte(count: int) -> list[bytes]:
    return [bytes(1024 - _OVERHEAD)] * count


def test_a_buffer_keeps_a_mebibyte_of_the_events_of_a_job() -> None:
    buffer = ReplayBuffer(events=4096)
    items = of_a_kibibyte(1030)
    buffer.extend([sized(seq, 0) for seq in range(1, 1031)], 1024, items)
    assert buffer.weigh() == 1 << 20


def test_the_buffers_of_a_client_keep_sixteen_mebibytes_and_three_quarters_after_that() -> None:
    memory = ReplayMemory()
    buffers = [ReplayBuffer(memory) for _ in range(16)]
    for buffer in buffers:
        buffer.extend([sized(1, 0)] * 1024, 1024 - _OVERHEAD, of_a_kibibyte(1024))
        memory.add(1024, 1024 - _OVERHEAD)
    assert sum(buffer.weigh() for buffer in buffers) == 16 << 20
    memory.add(1, 0)
    assert sum(buffer.weigh() for buffer in buffers) == 12 << 20


def extended(buffer: ReplayBuffer, seq: int, size: int) -> None:
    buffer.extend([sized(seq, 0)], size, [bytes(size)])


def appended(buffer: ReplayBuffer, seq: int, size: int) -> None:
    buffer.append(sized(seq, 0), size, bytes(size))


@pytest.mark.parametrize("add", [extended, appended])
def test_the_limit_of_bytes_holds_for_small_events_behind_large_ones(add: Any) -> None:
    limit, size = 10_000, 1000 - _OVERHEAD
    buffer = ReplayBuffer(events=100, bytes_=limit)
    for seq in range(1, 13):
        add(buffer, seq, size)
        assert buffer.weigh() == min(seq * 1000, limit)
    for seq in range(13, 60):
        add(buffer, seq, 100 - _OVERHEAD)
        assert limit - 1000 < buffer.weigh() <= limit


@pytest.mark.parametrize("add", [extended, appended])
def test_events_that_are_freed_make_room_for_others(add: Any) -> None:
    limit, size = 10_000, 1000 - _OVERHEAD
    buffer = ReplayBuffer(events=100, bytes_=limit)
    for seq in range(1, 13):
        add(buffer, seq, size)
    assert buffer.drop(2500) == 3000
    for seq in range(13, 16):
        add(buffer, seq, size)
    assert buffer.weigh() == limit
    assert buffer.drop(0) == buffer.drop(-1) == 0


@pytest.mark.parametrize(("wanted", "freed"), [(1, 1), (2, 2), (3, 3), (3.5, 3), (2.5, 3)])
def test_events_and_envelopes_are_weighed_and_dropped_alike(wanted: float, freed: int) -> None:
    event = sized(1, 1000)
    buffer = ReplayBuffer()
    for item in (event, bytes(event.size), event):
        buffer.append(event, event.size, item)
    each = event.size + _OVERHEAD
    assert buffer.weigh() == 3 * each
    assert buffer.drop(int(wanted * each)) == freed * each
    assert buffer.weigh() == (3 - freed) * each


def test_a_history_of_65536_events_is_kept_for_the_first_iterator_and_1024_after_it() -> None:
    buffer = ReplayBuffer()
    buffer.keep_history()
    buffer.extend([sized(1, 0)] * 65_540, 1, [b"x"] * 65_540)
    assert buffer.weigh() == 65_536 * (1 + _OVERHEAD)
    buffer.keep_recent()
    assert buffer.weigh() == 1024 * (1 + _OVERHEAD)


def test_a_history_is_kept_within_sixteen_mebibytes_and_one_after_the_first_iterator() -> None:
    buffer = ReplayBuffer()
    buffer.keep_history()
    items = [bytes((1 << 14) - _OVERHEAD)] * 1030
    buffer.extend([sized(1, 0)] * 1030, 1 << 14, items)
    assert buffer.weigh() == 16 << 20
    buffer.keep_recent()
    assert buffer.weigh() == 1 << 20


def test_the_newest_event_is_the_last_one() -> None:
    buffer = ReplayBuffer()
    assert (buffer.newest, buffer.newest_id) == (None, "")
    moments = [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in range(3)]
    for seq, moment in enumerate(moments, 1):
        buffer.extend([Log(seq=seq, id=f"e{seq}", ts=moment, message="")], 0)
    assert (buffer.newest, buffer.newest_id) == (moments[-1], "e3")
