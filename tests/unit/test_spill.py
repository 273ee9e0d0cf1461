"""Frames that wait on disk (D6)."""

from __future__ import annotations

import os
import random
import stat
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client._budget import ByteBudget
from arcp_client._spill import SpillFile


def test_frames_come_out_as_they_went_in() -> None:
    spill = SpillFile(ByteBudget(1000))
    frames = [b"", b"a", b"bc" * 100]
    assert all(spill.append(frame) for frame in frames)
    assert len(spill) == 3
    assert [spill.pop() for _ in frames] == frames
    assert spill.size == len(spill) == 0
    with pytest.raises(IndexError):
        spill.pop()


def test_it_never_grows_beyond_its_limit_and_says_when_it_is_full() -> None:
    spill = SpillFile(ByteBudget(64))
    assert spill.append(b"x" * 30)
    assert not spill.append(b"y" * 30)
    assert spill.append(b"y" * 26)
    assert spill.size == 64
    assert not SpillFile(ByteBudget(64)).append(b"z" * 61)
    assert not SpillFile(ByteBudget(0)).append(b"")


def test_the_file_has_no_name_and_is_its_owners_alone() -> None:
    spill = SpillFile(ByteBudget(1000))
    spill.append(b"secret")
    assert spill._file is not None
    status = os.fstat(spill._file)
    assert status.st_nlink == 0
    assert stat.S_IMODE(status.st_mode) == 0o600
    spill.close()
    spill.close()


def test_the_disk_gets_its_room_back() -> None:
    spill = SpillFile(ByteBudget(10_000))
    spill.append(b"x" * 5000)
    assert spill._file is not None
    assert os.fstat(spill._file).st_size > 5000
    spill.pop()
    assert os.fstat(spill._file).st_size == 0


@pytest.mark.parametrize("seed", range(20))
def test_as_a_ring_it_is_a_queue_for_ever(seed: int) -> None:
    rng = random.Random(seed)
    limit = rng.choice([50, 1000, 5000])
    spill, model = SpillFile(ByteBudget(limit)), deque[bytes]()
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

    spill = SpillFile(ByteBudget(1000))
    assert spill.append(b"a")
    monkeypatch.setattr(os, "pwrite", no_space)
    assert not spill.append(b"b")
    monkeypatch.undo()
    assert spill.append(b"c")
    assert [spill.pop(), spill.pop()] == [b"a", b"c"]


def test_a_disk_that_has_no_place_for_files_counts_as_a_full_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_place(**_: object) -> None:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.TemporaryFile", no_place)
    budget = ByteBudget(1000)
    spill = SpillFile(budget)
    assert not spill.append(b"a")
    assert not len(spill)
    assert budget.used == 0
    monkeypatch.undo()
    assert spill.append(b"b")
    assert spill.pop() == b"b"


@given(steps=st.lists(st.one_of(st.binary(max_size=90_000), st.none()), max_size=40))
def test_a_spill_file_is_a_queue(steps: list[bytes | None]) -> None:
    budget = ByteBudget(256 * 1024 * 1024)
    spill = SpillFile(budget)
    expected: list[bytes] = []
    for step in steps:
        if step is not None:
            assert spill.append(step)
            expected.append(step)
        elif expected:
            assert spill.pop() == expected.pop(0)
    assert list(spill) == expected
    assert budget.used == 0
    spill.close()


@pytest.mark.parametrize("seed", range(10))
def test_files_that_share_a_budget_never_take_more_than_its_limit_from_the_disk(seed: int) -> None:
    rng = random.Random(seed)
    budget = ByteBudget(2000)
    files = [SpillFile(budget) for _ in range(3)]
    models: list[deque[bytes]] = [deque() for _ in files]
    for _ in range(2000):
        spill, model = rng.choice(list(zip(files, models, strict=True)))
        if rng.random() < 0.5:
            frame = rng.randbytes(rng.randrange(400))
            if spill.append(frame):
                model.append(frame)
        elif model:
            assert spill.pop() == model.popleft()
        lengths = [0 if one._file is None else os.fstat(one._file).st_size for one in files]
        assert sum(lengths) == budget.used <= 2000
    for spill, model in zip(files, models, strict=True):
        assert list(spill) == list(model)
        spill.close()
    assert budget.used == 0
