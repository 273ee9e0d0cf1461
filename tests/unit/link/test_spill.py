"""Frames that wait on disk (D6)."""

from __future__ import annotations

import os
import random
import stat
from collections import deque

import pytest

from arcp_client._link.spill import Spill


def test_frames_come_out_as_they_went_in() -> None:
    spill = Spill(1000)
    frames = [b"", b"a", b"bc" * 100]
    assert all(spill.append(frame) for frame in frames)
    assert len(spill) == 3
    assert [spill.pop() for _ in frames] == frames
    assert spill.size == len(spill) == 0
    with pytest.raises(IndexError):
        spill.pop()


def test_it_never_grows_beyond_its_limit_and_says_when_it_is_full() -> None:
    spill = Spill(64)
    assert spill.append(b"x" * 30)
    assert not spill.append(b"y" * 30)
    assert spill.append(b"y" * 26)
    assert spill.size == 64
    assert not Spill(64).append(b"z" * 61)
    assert not Spill(0).append(b"")


def test_the_file_has_no_name_and_is_its_owners_alone() -> None:
    spill = Spill(1000)
    spill.append(b"secret")
    assert spill._file is not None
    status = os.fstat(spill._file)
    assert status.st_nlink == 0
    assert stat.S_IMODE(status.st_mode) == 0o600
    spill.close()
    spill.close()


def test_the_disk_gets_its_room_back() -> None:
    spill = Spill(10_000)
    spill.append(b"x" * 5000)
    assert spill._file is not None
    assert os.fstat(spill._file).st_size > 5000
    spill.pop()
    assert os.fstat(spill._file).st_size == 0


@pytest.mark.parametrize("seed", range(20))
def test_as_a_ring_it_is_a_queue_for_ever(seed: int) -> None:
    rng = random.Random(seed)
    limit = rng.choice([50, 1000, 5000])
    spill, model = Spill(limit), deque[bytes]()
    largest = 0
    for _ in range(3000):
        if rng.random() < 0.55:
            frame = rng.randbytes(rng.randrange(limit // 3))
            fits = sum(len(one) + 4 for one in model) + len(frame) + 4 <= limit
            assert spill.append(frame) is fits
            if fits:
                model.append(frame)
        elif model:
            assert spill.pop() == model.popleft()
        assert len(spill) == len(model)
        if spill._file is not None:
            largest = max(largest, os.fstat(spill._file).st_size)
    assert largest <= limit
    assert list(spill) == list(model)


def test_a_disk_that_is_full_counts_as_a_full_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: object) -> int:
        raise OSError(28, "No space left on device")

    spill = Spill(1000)
    assert spill.append(b"a")
    monkeypatch.setattr(os, "pwrite", no_space)
    assert not spill.append(b"b")
    monkeypatch.undo()
    assert spill.append(b"c")
    assert [spill.pop(), spill.pop()] == [b"a", b"c"]
