"""`scripts/mutants.py` finds a change that no test notices, and those that one does."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "mutants.py"

PACKAGE = """\
def bounded(value, most):
    if value > most:
        raise ValueError(value)


def unused():
    return True


def unnamed():
    return False
"""
TESTS = """\
import pytest

from arcp_client import planted


def test_values_within_and_beyond_their_bound():
    planted.bounded(2, 3)
    with pytest.raises(ValueError):
        planted.bounded(4, 3)
"""
EQUIVALENT = """\
[[mutant]]
file = "arcp_client/planted.py"
becomes = "return  False"
why = "nothing calls it"
"""


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("mutants", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["mutants"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["mutants"]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of one module, and a test of it that leaves the bound itself unwatched."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    root = tmp_path / "tree"
    (root / "arcp_client").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "arcp_client" / "__init__.py").write_text("")
    (root / "arcp_client" / "planted.py").write_text(PACKAGE)
    (root / "tests" / "test_planted.py").write_text(TESTS)
    options = "addopts = -p pytest_cov -p pytest_timeout"
    (root / "pytest.ini").write_text(f"[pytest]\npythonpath = .\n{options}\n")
    return root


def made(script: ModuleType, source: str) -> set[str]:
    """The changed line of each change."""
    code = source.encode()
    return {mutant.difference(code)[1].strip() for mutant in script.mutants("m.py", code)}


def test_a_planted_survivor_is_shown_and_the_rest_is_noticed(
    script: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["arcp_client", "--sample=0", "--processes=0", "--tests", "tests", "--verbose"]
    (tree / "named.toml").write_text(EQUIVALENT)
    named = f"--equivalents={tree / 'named.toml'}"

    assert script.main([*arguments, f"--root={tree}", named]) == 1

    said = capsys.readouterr().out
    assert "planted.py:2: comparison, survives 1 of 1 tests\n  - if value > most:\n" in said
    assert "  + if value >= most:\n" in said
    assert "planted.py:11: constant, not reached" in said
    assert "planted.py:3: raise, noticed tests/test_planted.py::test_values_within" in said
    assert "planted.py:2: condition, noticed" in said
    assert "noticed    2 of    4   50 %  equivalent 1" in said
    assert (tree / "arcp_client" / "planted.py").read_text() == PACKAGE


def test_a_change_that_makes_a_test_wait_for_ever_is_noticed(
    script: ModuleType,
    tree: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(script, "_GRACE", 1.0)
    (tree / "arcp_client" / "planted.py").write_text(
        "def emptied(items):\n    while items:\n        del items[0]\n"
    )
    (tree / "tests" / "test_planted.py").write_text(
        "from arcp_client.planted import emptied\n\n\n"
        "def test_lists_are_emptied():\n    items = [1, 2]\n    emptied(items)\n"
        "    assert not items\n"
    )
    arguments = ["arcp_client", "--sample=0", "--processes=0", "--tests", "tests", "--verbose"]
    assert script.main([*arguments, f"--root={tree}"]) == 0
    said = capsys.readouterr().out
    assert "planted.py:3: deleted, noticed time-out" in said


def test_a_package_that_is_imported_before_the_forks_is_refused(
    script: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fork of a process that has the package would run it as it was."""
    (tree / "conftest.py").write_text("import arcp_client\n")
    arguments = ["arcp_client", "--sample=1", "--processes=0", "--tests", "tests"]
    assert script.main([*arguments, f"--root={tree}"]) == 2
    assert "the package has been imported before" in capsys.readouterr().err


def test_an_equivalent_may_name_the_line_before_the_change(
    script: ModuleType, tmp_path: Path
) -> None:
    listed = tmp_path / "named.toml"
    listed.write_text(f'{EQUIVALENT}was = "return  True"')
    known = script.Equivalents(listed)
    assert ("arcp_client/planted.py", "return True", " return False") in known
    assert ("arcp_client/planted.py", "return bool()", "return False") not in known


def test_the_exit_code_says_whether_all_was_noticed(script: ModuleType, tree: Path) -> None:
    (of_bound, *_) = script.sampled(tree, ["arcp_client"], 0, 1)
    for verdict, fine in (
        ("noticed", True),
        ("equivalent", True),
        ("survives", False),
        ("not reached", False),
    ):
        assert script.report(tree, [script.Judged(of_bound, verdict, "")], verbose=False) is fine


def test_a_module_that_is_not_there_is_a_wrong_use(
    script: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.main(["arcp_client/none.py", f"--root={tree}"]) == 2
    assert "arcp_client/none.py: no such file or folder" in capsys.readouterr().err


def test_a_seed_gives_the_same_sample(script: ModuleType) -> None:
    root, modules = SCRIPT.parents[1], ["arcp_client/state.py", "arcp_client/_tasks.py"]
    samples = [script.sampled(root, modules, 3, seed) for seed in (1, 1, 2)]
    assert samples[0] == samples[1] != samples[2]
    assert len(samples[0]) >= 3


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("a = b < c", {"a = b <= c"}),
        ("a = b is not c", {"a = b is c"}),
        ("a = b and c", {"a = b or c"}),
        ("a = b + 1", {"a = b - 1", "a = b + 2", "a = b + 0"}),
        ("a = 'b' + c", set()),
        ("a += b", {"pass", "a -= b"}),
        ("a.b = c", {"pass"}),
        ("a = b", set()),
        ("del a.b", {"pass"}),
        ("while a:\n    b()", {"while not (a):", "pass"}),
        ("if TYPE_CHECKING:\n    b()", set()),
        ("a = [b for b in c if b]", {"a = [b for b in c if not (b)]"}),
        ("def a() -> int:\n    return b", {"return None"}),
        ("def a() -> int:\n    'Text.'\n    return True", {"return False"}),
        ("async def a():\n    await b()", {"pass"}),
    ],
)
def test_changes(script: ModuleType, source: str, changes: set[str]) -> None:
    assert made(script, source) == changes
