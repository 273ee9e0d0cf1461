"""The examples for PostgreSQL print what the documentation says, against a real server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres import Cluster

pytestmark = pytest.mark.usefixtures("forked")

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples" / "postgres").glob("*.py")), ids=lambda path: path.stem
)
def test_an_example_prints_what_is_documented(path: Path, cluster: Cluster) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", path, cluster.dsn],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    errors = [line for line in done.stderr.splitlines() if "the process ends here" in line]
    assert (done.returncode, bool(errors)) == (0, True), done.stderr
    assert done.stdout == path.with_suffix(".out").read_text(encoding="utf-8")
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 60
