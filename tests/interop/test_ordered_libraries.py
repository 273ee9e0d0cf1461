"""The table of libraries in the documentation is what they do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "any-source.md"


def test_the_table_shows_what_each_library_makes_of_five_handlers() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.interop.ordered_libraries"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    measured = done.stdout.splitlines()
    page = PAGE.read_text(encoding="utf-8").splitlines()
    assert [row for row in measured if row not in page] == []
    assert "| arcp_client.rx concat_map_async | 0 1 2 3 4 | 1 | run |" in measured
    # aioreactive needs an older reactivex, so it is there only if `make bench` installed it apart.
    assert len(measured) >= 8
