"""The page of extensions has the names of the code, and each of its rules has a test."""

from __future__ import annotations

import re
from pathlib import Path

from arcp_client._wire import names
from arcp_client.errors import _REQUEST_ERRORS
from arcp_client.runtime._dialogue.question import NEXT

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reference" / "extensions.md").read_text(encoding="utf-8")
RULES = re.findall(r"^\*\*(X\d+)\*\* ", TEXT, re.MULTILINE)
TESTS = [
    *(ROOT / "tests" / "unit" / "runtime" / "dialogue").glob("*.py"),
    ROOT / "tests" / "unit" / "client" / "test_questions.py",
]


def test_the_rules_are_numbered_in_order_and_each_has_a_test() -> None:
    assert [f"X{n}" for n in range(1, len(RULES) + 1)] == RULES
    tests = "".join(path.read_text(encoding="utf-8") for path in TESTS)
    assert set(re.findall(r"def test_(x\d+)_", tests)) == {rule.lower() for rule in RULES}


def test_every_name_with_the_prefix_stands_on_the_page() -> None:
    own = {
        value.removeprefix(names.PREFIX)
        for value in vars(names).values()
        if isinstance(value, str) and value.startswith(names.PREFIX) and value != names.PREFIX
    }
    assert {name for name in own if f"…{name}" not in TEXT and f".{name}" not in TEXT} == set()


def test_the_table_of_states_is_the_one_of_the_code() -> None:
    rows = [line.split("|") for line in TEXT.splitlines() if line.startswith("| open |")]
    assert {row[3].strip() for row in rows} == NEXT["open"]


def test_every_code_of_the_extension_is_an_error_class() -> None:
    codes = set(re.findall(r"^\| `([A-Z_]+)` \|", TEXT, re.MULTILINE))
    assert codes <= set(_REQUEST_ERRORS)
