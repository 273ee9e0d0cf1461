"""The benchmarks run; what they measure is not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def compared(*arguments: str) -> subprocess.CompletedProcess[str]:
    script = str(ROOT / "benchmarks" / "compare.py")
    return subprocess.run(
        [sys.executable, script, *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository")
def test_a_commit_is_compared_with_this_tree() -> None:
    done = compared("HEAD", "--rounds", "1", "--events", "300", "--only", "async for")
    assert done.returncode == 0, done.stderr
    [row] = done.stdout.splitlines()[2:]
    assert row.startswith("| arcp-client, async for | ")
    assert all(float(cell.split()[0]) > 0 for cell in row.split("|")[2:4])


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository")
def test_an_unknown_commit_is_named() -> None:
    done = compared("no-such-commit")
    assert done.returncode == 1
    assert "no such commit: no-such-commit" in done.stderr


def test_the_blocking_client_is_compared_with_the_asynchronous_one() -> None:
    script = str(ROOT / "benchmarks" / "bench_sync.py")
    done = subprocess.run(
        [sys.executable, script, "--rounds", "1", "--calls", "3", "--only", "ping"],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [pair] = json.loads(done.stdout)["pairs"]
    assert pair["pair"] == "ping"
    assert pair["ratio"]["median"] > 0
