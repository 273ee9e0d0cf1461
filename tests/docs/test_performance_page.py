"""The page on performance shows the numbers that `make bench` has written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("forked")

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not (ROOT / "benchmarks").exists(), reason="without the benchmarks")
def test_the_tables_are_those_of_the_results() -> None:
    script = ROOT / "scripts" / "generate_performance_page.py"
    done = subprocess.run([sys.executable, str(script), "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, "run scripts/generate_performance_page.py"


@pytest.mark.skipif(not (ROOT / "benchmarks").exists(), reason="without the benchmarks")
def test_the_history_has_one_line_a_version() -> None:
    lines = (ROOT / "benchmarks" / "history.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert len({line["version"] for line in found}) == len(found) > 0
    for line in found:
        assert {"date", "python", "machine", "times_typed", "times_json"} <= line.keys()
