"""The page of rules has every rule that code and tests name, and each of its rules has a test."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "rules.md"
RULES = set(re.findall(r"^\*\*([ADSIRW]\d+)\*\*", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
QUOTED = re.compile(r"(?<![\w.-])([ADSIRTW]\d{1,2})(?![\w-])")
NAMED = re.compile(r"\bdef test_([adsrw]\d{1,2})_")


def named(folder: str) -> set[str]:
    """The rules that docstrings and test names of a folder point to."""
    found: set[str] = set()
    for path in (ROOT / folder).rglob("*.py"):
        if path.name in {"schema.py", Path(__file__).name}:
            continue
        text = path.read_text(encoding="utf-8")
        for docstring in re.findall(r'"""(.*?)"""', text, re.DOTALL):
            found.update(QUOTED.findall(docstring))
        found.update(name.upper() for name in NAMED.findall(text))
    return found


def test_every_rule_that_is_pointed_to_stands_on_the_page() -> None:
    assert named("arcp_client") | named("tests") <= RULES


def test_every_rule_but_those_of_operators_has_a_test() -> None:
    assert {rule for rule in RULES if rule[0] in "ADSRW"} <= named("tests")
