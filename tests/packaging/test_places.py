"""Processes that run tests side by side collect the same tests, from different places on."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.places import TESTS, beginning_elsewhere


def files(arguments: list[str]) -> list[Path]:
    found: list[Path] = []
    for place in map(Path, arguments):
        found += place.rglob("test_*.py") if place.is_dir() else [place]
    return found


@pytest.mark.parametrize("processes", [1, 2, 6, 200])
def test_each_process_collects_every_file_once(processes: int) -> None:
    every = sorted(TESTS.rglob("test_*.py"))
    for number in range(processes):
        assert sorted(files(beginning_elsewhere(number, processes))) == every


def test_processes_begin_at_places_that_are_far_from_each_other() -> None:
    first = files(beginning_elsewhere(0, 4))
    begins = [first.index(files(beginning_elsewhere(number, 4))[0]) for number in range(4)]
    assert begins[0] == 0
    for before, after in itertools.pairwise(begins):
        assert after - before > len(first) / 8
