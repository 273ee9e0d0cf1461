"""Decides in which order a process that runs tests beside others collects them.

In a new checkout pytest rewrites the assertions of each file, which takes longer than all the rest
of collecting, and keeps the result. Processes that begin at different places rewrite a part each,
and find the parts of the others. `tests/conftest.py` makes one order of what they have collected.
"""

from __future__ import annotations

import bisect
import itertools
from pathlib import Path

TESTS = Path(__file__).parent


def beginning_elsewhere(number: int, processes: int) -> list[str]:
    """The folders and files of all tests, as arguments of pytest, for one of several processes."""
    found = sorted({*TESTS.iterdir(), *(TESTS / "unit").iterdir()} - {TESTS / "unit"})
    counts = {str(place): _files(place) for place in found}
    places = [place for place, count in counts.items() if count]
    ends = list(itertools.accumulate(counts[place] for place in places))
    begin = bisect.bisect_right(ends, ends[-1] * number // processes)
    return places[begin:] + places[:begin]


def _files(place: Path) -> int:
    return len(list(place.rglob("test_*.py"))) if place.is_dir() else place.match("test_*.py")
