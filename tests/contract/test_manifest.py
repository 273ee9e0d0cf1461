"""The list of requirements and the tests agree, both ways, and the page says the same."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.requirements import REQUIREMENTS, by_id, requirement

pytestmark = pytest.mark.usefixtures("forked")

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def naming() -> dict[str, list[str]]:
    """Requirement to the tests that name it, as the sources say."""
    found: dict[str, list[str]] = {}
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "requirement":
                    for id in mark.args:
                        assert isinstance(id, ast.Constant)
                        found.setdefault(id.value, []).append(f"{path.name}::{node.name}")
    return found


def functions(path: Path) -> set[str]:
    tree = ast.walk(ast.parse(path.read_text()))
    return {n.name for n in tree if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_requirement_has_a_test() -> None:
    ours = {each.id for each in REQUIREMENTS if not each.elsewhere and not each.free}
    assert ours - set(naming()) == set()


def test_every_test_names_requirements_that_exist_and_bind_the_runtime() -> None:
    assert set(naming()) - set(by_id) == set()
    assert [id for id in naming() if by_id[id].elsewhere or by_id[id].free] == []


def test_every_test_of_this_directory_names_one() -> None:
    named = {test for tests in naming().values() for test in tests}
    for path in HERE.glob("test_*.py"):
        if path.name not in ("test_manifest.py",):
            for name in functions(path):
                assert not name.startswith("test_") or f"{path.name}::{name}" in named, name


def test_what_is_tested_elsewhere_is_there() -> None:
    for each in REQUIREMENTS:
        if each.elsewhere:
            assert (ROOT / each.elsewhere).is_file(), each.elsewhere


def test_an_unknown_requirement_is_refused_at_once() -> None:
    with pytest.raises(LookupError):
        requirement("R-99-1")


def test_the_page_is_up_to_date() -> None:
    script = ROOT / "scripts" / "generate_conformance.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True, timeout=40, cwd=ROOT)
