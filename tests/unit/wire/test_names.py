"""Names on the wire, and the readers of names that differ between runtimes."""

from __future__ import annotations

from typing import Any

import pytest

from arcp_client._wire import names
from tests.interop.rules import rule


def test_the_names_of_the_specification_are_all_there() -> None:
    assert len(names.FEATURES) == len(set(names.FEATURES)) == 11
    assert {names.RESULT, names.JOB_ERROR} == names.TERMINALS
    assert names.REFUSED_HANDSHAKES < names.LEGACY_TYPES


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("running", "running"),
        ("RUNNING", "running"),
        ("timedout", "timed_out"),
        ("timed-out", "timed_out"),
        ("TIMED_OUT", "timed_out"),
        ("canceled", "cancelled"),
        ("completed", "success"),
        ("failed", "error"),
        ("Paused", "Paused"),
        ("", ""),
        (None, ""),
        (5, ""),
    ],
)
@rule("accept-15")
def test_status_words_are_brought_to_one_spelling(word: Any, status: str) -> None:
    assert names.status_of(word) == status


def test_the_first_of_several_names_counts() -> None:
    aliases = ("a", "b")

    assert names.first({"a": None, "b": 0}, aliases) == 0
    assert names.first({}, aliases, "default") == "default"
    assert names.present({"a": None, "b": 0}, aliases) is None
    assert names.present({"b": 0}, aliases) == 0
    assert names.present({}, aliases) is None
    assert names.first_text({"a": 5, "b": "x"}, aliases) == "x"
    assert names.first_text({"a": "", "b": "x"}, aliases) == "x"
    assert names.first_text({"a": ""}, aliases) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("ü€😀", "ü€😀"),
        ("\ud83d\ude00", "😀"),
        ("a\ud83d", "a\ufffd"),
        ("\ude00é", "\ufffdé"),
        ("", ""),
        (None, None),
        (b"x", None),
        (5, None),
    ],
)
def test_a_text_can_always_be_encoded(value: Any, text: str | None) -> None:
    assert names.text_of(value) == text
