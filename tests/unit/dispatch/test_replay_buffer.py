"""Replay buffers that share a limit, and which of their events are dropped."""

from __future__ import annotations

import pytest

from arcp_client._dispatch.replay_buffer import _OVERHEAD, ReplayBuffer, ReplayMemory
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
