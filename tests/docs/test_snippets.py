"""Whatever the documentation shows runs, and prints what the documentation says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("forked")

ROOT = Path(__file__).parents[2]
GUARANTEES = ROOT / "docs" / "explanation" / "guarantees.md"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
FIRST = ROOT / "examples" / "first_client.py"
DOCS = (page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts)
PAGES = [ROOT / "README.md", *sorted(DOCS)]
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


@pytest.mark.parametrize("path", [p for p in EXAMPLES if p != FIRST], ids=lambda path: path.stem)
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


def test_the_gallery_says_what_an_example_needs() -> None:
    gallery = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base = {re.split(r"[^\w-]", name)[0].replace("-", "_") for name in project["dependencies"]}
    known = {*sys.stdlib_module_names, *base, "arcp_client"}
    for path in EXAMPLES:
        imports = re.findall(r"^ *(?:from|import) (\w+)", path.read_text("utf-8"), re.MULTILINE)
        rows = [line for line in gallery.splitlines() if f"`{path.name}`" in line]
        for module in set(imports) - known:
            assert any(module in row for row in rows), f"{path.name} needs {module}"


def test_the_tests_that_the_guarantees_name_are_there() -> None:
    named = TEST_NAME.findall(GUARANTEES.read_text(encoding="utf-8"))
    assert named
    for path, name in named:
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE), f"{path}::{name}"


SERVED = [path for path in EXAMPLES if '"--url"' in path.read_text(encoding="utf-8")]


@contextmanager
def served(*options: str) -> Iterator[str]:
    """The address of a runtime that the command line serves."""
    command = [sys.executable, "-m", "arcp_client", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=ROOT, encoding="utf-8") as server:
        assert server.stderr is not None
        try:
            yield server.stderr.readline().split()[-1]
        finally:
            server.terminate()


@pytest.mark.parametrize("path", SERVED, ids=lambda path: path.stem)
def test_example_prints_the_same_against_a_served_runtime(path: Path) -> None:
    """The runtime has the agents of the example; the worker has the sample agents."""
    own = re.search(r"^runtime\b.* = Runtime\(\)", path.read_text(encoding="utf-8"), re.MULTILINE)
    agents = ["--agents", f"examples.{path.stem}:runtime"] if own else []
    with served(*agents) as url:
        done = subprocess.run(
            [sys.executable, "-W", "error", path, "--url", url],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=50,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == path.with_suffix(".out").read_text(encoding="utf-8")


def test_the_command_of_the_tutorial_ends_as_its_program_does() -> None:
    page = (ROOT / "docs" / "tutorial" / "02-your-own-agent.md").read_text(encoding="utf-8")
    found = re.findall(r"^ *\$ \.venv/bin/arcp-client (run (?:.*\\\n)*.*)$", page, re.MULTILINE)
    (command,) = (text.replace("\\\n", "") for text in found)
    with served("--agents", "examples.lease_and_budget:runtime") as url:
        done = subprocess.run(
            [sys.executable, "-m", "arcp_client", *shlex.split(command), "--url", url],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=50,
        )
    assert done.returncode == 6, done.stderr
    assert "BUDGET_EXHAUSTED" in done.stderr
    assert done.stderr.count("delegates to summarise") == 2


def test_the_smallest_client_prints_what_is_documented(tmp_path: Path) -> None:
    """It names the address of ``arcp-client serve``; here the port is a free one."""
    program = tmp_path / FIRST.name
    with served() as url:
        text = FIRST.read_text(encoding="utf-8")
        assert text.count('"ws://127.0.0.1:7777/arcp"') == 1
        program.write_text(text.replace("ws://127.0.0.1:7777/arcp", url), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-W", "error", program],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            encoding="utf-8",
            timeout=50,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == FIRST.with_suffix(".out").read_text(encoding="utf-8")


LONGER = {"an_agent_that_asks": 65, "approve_from_your_phone": 100}  # both ends of a dialogue


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_its_output_lies_next_to_it(path: Path) -> None:
    most = LONGER.get(path.stem, 60)
    assert len(path.read_text(encoding="utf-8").splitlines()) <= most
    assert path.with_suffix(".out").is_file()


def test_the_smallest_client_has_at_most_twelve_lines_of_code() -> None:
    lines = FIRST.read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line.strip()]) <= 12


def test_the_gallery_lists_every_example_and_no_other() -> None:
    text = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([\w/]+\.py)` \|", text, re.MULTILINE))
    assert {path.name for path in EXAMPLES} <= listed
    assert [name for name in listed if not (ROOT / "examples" / name).is_file()] == []


# What an example cannot have against another process: it controls both ends.
BOTH_ENDS = {
    "errors_and_retries",
    "survive_a_kill",
    "survive_a_restart",
    "tls",
    "tokens_and_principals",
}
WITHOUT_RUNTIME = {"acp_session", "any_source", "textual_acp", "webhook_fastapi"}
OWN_RUNTIME = {  # they show both ends
    "ag_ui_routes",
    "logging_as_json",
    "mcp_tools",
    "traced_jobs",
    "webhook_receiver",
}
FULL = {"dashboard_in_your_app"}  # 60 lines are in use


def test_the_other_examples_take_the_address_of_a_runtime() -> None:
    taken = {path.stem for path in SERVED} | {FIRST.stem}
    assert {
        path.stem for path in EXAMPLES
    } - taken == BOTH_ENDS | WITHOUT_RUNTIME | OWN_RUNTIME | FULL


def test_the_programs_before_and_after_a_migration_print_the_same() -> None:
    folder = ROOT / "examples" / "migrate"
    outputs = []
    with served() as url:
        for name in ("before.py", "after.py"):
            done = subprocess.run(
                [sys.executable, "-W", "error", folder / name, url],
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                capture_output=True,
                encoding="utf-8",
                timeout=50,
            )
            assert (done.returncode, done.stderr) == (0, ""), name
            outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].splitlines()[-1] == "{'counted': 3}"
