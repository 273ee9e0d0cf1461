"""The suite that the page on testing shows runs, with nothing but what a user installs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "examples" / "testing"
PAGE = ROOT / "docs" / "howto" / "testing.md"


def test_the_suite_of_the_page_passes(tmp_path: Path) -> None:
    shutil.copytree(SUITE, tmp_path / "suite", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=tmp_path / "suite",
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"},
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "20 passed" in done.stdout


def test_the_page_shows_every_file_of_the_suite() -> None:
    shown = PAGE.read_text(encoding="utf-8")
    for file in SUITE.iterdir():
        if file.suffix in (".py", ".ini"):
            assert f"examples/testing/{file.name}" in shown, file.name
