"""Writes the tables of docs/explanation/performance.md, and a sentence of README.md.

The numbers are those of benchmarks/results.json.

Run it after ``make bench``; a test compares. ``--check`` writes nothing and fails if the page is
out of date. The text around the tables is written by hand.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "performance.md"
README = ROOT / "README.md"
sys.path.insert(0, str(ROOT / "benchmarks"))

import bench_client  # noqa: E402
import bench_latency  # noqa: E402
import bench_lone  # noqa: E402
import bench_questions  # noqa: E402
import bench_runtime  # noqa: E402
import bench_start  # noqa: E402
from rounds import results  # noqa: E402

TABLES = {  # by the name of a table in the page: its part of the results, and what shows it
    "readme": ("client", bench_client.sentence),
    "client": ("client", bench_client.shown),
    "start": ("start", bench_start.shown),
    "latency": ("latency", bench_latency.shown),
    "questions": ("questions", bench_questions.shown),
    "idle": ("idle", bench_lone.shown),
    "runtime": ("runtime", bench_runtime.shown),
    "reading": ("runtime", bench_runtime.shown_reading),
}


def filled(path: Path, names: set[str]) -> str:
    """The file's text with the tables of the results."""
    kept = results()
    found = set()

    def table(block: re.Match[str]) -> str:
        part, show = TABLES[block[1]]
        found.add(block[1])
        return f"<!-- {block[1]}:begin -->\n{show(kept[part])}\n<!-- {block[1]}:end -->"

    text = re.sub(
        r"<!-- (\w+):begin -->\n.*?<!-- \1:end -->", table, path.read_text(), flags=re.DOTALL
    )
    if found != names:
        raise SystemExit(f"{path.name} lacks {', '.join(names - found)}")
    return text


def main() -> int:
    """Write the pages, or with ``--check`` compare them."""
    pages = {PAGE: set(TABLES) - {"readme"}, README: {"readme"}}
    texts = {path: filled(path, names) for path, names in pages.items()}
    if "--check" in sys.argv[1:]:
        return int(any(path.read_text() != text for path, text in texts.items()))
    for path, text in texts.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
