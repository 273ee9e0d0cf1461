"""The page on recovery shows the plans that the code has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tables_are_those_of_the_code() -> None:
    script = ROOT / "scripts" / "generate_recovery_page.py"
    done = subprocess.run([sys.executable, str(script), "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, "run scripts/generate_recovery_page.py"
