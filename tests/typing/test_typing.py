"""The typed surface, by two checkers: what must pass passes, what must be refused is.

In the files of refusals every such line is marked; a checker that lets one pass reports the mark
itself as unnecessary. So both kinds of file are right when there is nothing to report.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FILES = sorted(str(path.relative_to(ROOT)) for path in Path(__file__).parent.glob("*_*.py"))
CHECKED = [name for name in FILES if name.endswith(("_pass.py", "_fail.py"))]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT, capture_output=True, text=True, timeout=160, check=False,
    )  # fmt: skip


def test_there_are_files_of_both_kinds() -> None:
    assert {name.rpartition("_")[2] for name in CHECKED} == {"pass.py", "fail.py"}


@pytest.mark.slow
@pytest.mark.timeout(170)
@pytest.mark.parametrize("checker", [("mypy",), ("basedpyright",)], ids=lambda c: c[0])
def test_a_checker_finds_nothing_to_report(checker: tuple[str, ...]) -> None:
    done = run(*checker, *CHECKED)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(170)
def test_a_mark_on_a_line_that_passes_would_be_noticed(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong_fail.py"
    wrong.write_text("value: int = 3  # type: ignore[assignment]\n")
    done = run("mypy", "--strict", str(wrong))
    assert done.returncode != 0
    assert "unused" in done.stdout.lower()
