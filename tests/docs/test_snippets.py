"""Whatever the documentation shows runs, and prints what the documentation says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUARANTEES = ROOT / "docs" / "explanation" / "guarantees.md"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEST_NAME = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
INCLUDE = re.compile(r"^```\{literalinclude\} (\S+)$", re.MULTILINE)


def test_there_are_examples() -> None:
    assert {path.stem for path in EXAMPLES} >= {
        "submit_and_follow",
        "ordered_handlers",
        "rx_pipeline",
        "resume_after_a_cut",
    }


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_prints_what_is_documented(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", path],  # no -X dev: it reports what a busy machine delays
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == path.with_suffix(".out").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_on_a_page_is_an_example(page: Path) -> None:
    sources = [path.read_text(encoding="utf-8") for path in EXAMPLES]
    for block in PYTHON_BLOCK.findall(page.read_text(encoding="utf-8")):
        assert any(block in source for source in sources), f"stands in no example:\n{block}"


def test_every_example_is_shown() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    shown = {Path(target).name for target in INCLUDE.findall(text)}
    assert {path.name for path in EXAMPLES} <= shown


def test_the_tests_that_the_guarantees_name_are_there() -> None:
    named = TEST_NAME.findall(GUARANTEES.read_text(encoding="utf-8"))
    assert named
    for path, name in named:
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE), f"{path}::{name}"


SERVED = [path for path in EXAMPLES if '"--url"' in path.read_text(encoding="utf-8")]


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """The address of the sample agents, served by the command line."""
    command = [sys.executable, "-m", "arcp_client", "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=ROOT, encoding="utf-8") as server:
        assert server.stderr is not None
        try:
            yield server.stderr.readline().split()[-1]
        finally:
            server.terminate()


@pytest.mark.parametrize("path", SERVED, ids=lambda path: path.stem)
def test_example_prints_the_same_against_a_served_runtime(path: Path, served: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", path, "--url", served],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == path.with_suffix(".out").read_text(encoding="utf-8")


def test_examples_of_workers_are_short() -> None:
    assert {path.stem for path in SERVED} == {"airflow_operator", "celery_task", "django_command"}
    for path in SERVED:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 60, path
