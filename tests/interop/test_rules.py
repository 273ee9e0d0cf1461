"""The manifest of rules and the tests agree, both ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.rules import ACCEPT, NOTES, RULES, SEND, rule, shown

TESTS = Path(__file__).parents[1]


def test_the_rules_are_numbered_without_a_gap() -> None:
    assert list(ACCEPT) == list(range(1, 28))
    assert list(SEND) == list(range(1, 13))
    assert list(NOTES) == list(range(1, 14))


def test_every_rule_is_shown_by_a_test_and_every_mark_names_a_rule() -> None:
    marks = {name for name, _, _ in shown(TESTS)}
    assert [name for name in RULES if name not in marks] == []
    assert marks <= set(RULES)


def test_a_mark_that_names_no_rule_is_refused_at_once() -> None:
    for names in (("accept-28",), ("send-0",), ()):
        with pytest.raises(ValueError, match="no such rules"):
            rule(*names)
