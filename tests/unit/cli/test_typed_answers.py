"""What a person types as an answer, by number, word, label or as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from arcp_client import Choice
from arcp_client.cli.typed_answers import answer_of, expected

OPTIONS = [Choice("go", "Deploy now"), Choice({"n": 1}, "Not yet"), Choice(3, "3")]


@pytest.mark.parametrize(
    ("typed", "schema", "options", "value"),
    [
        ("1", {}, OPTIONS, "go"),
        (" 2 ", {}, OPTIONS, {"n": 1}),
        ("go", {}, OPTIONS, "go"),
        ("not yet", {}, OPTIONS, {"n": 1}),
        ("dep", {}, OPTIONS, "go"),
        ("3", {}, OPTIONS, 3),
        ("no", {"enum": ["yes", "no"]}, [], "no"),
        ("1", {"enum": ["yes", "no"]}, [], "yes"),
        ("1", {"type": "string"}, [], "1"),
        ("yes", {"type": "boolean"}, [], True),
        ("N", {"type": "boolean"}, [], False),
        ("1.5", {"type": "number"}, [], 1.5),
        ('{"a": [1]}', {"type": "object"}, [], {"a": [1]}),
        ("free", {}, [], "free"),
    ],
)
def test_typed_text_becomes_an_answer(
    typed: str, schema: Any, options: list[Choice], value: Any
) -> None:
    assert answer_of(typed, schema, options) == value


@pytest.mark.parametrize(
    ("typed", "schema", "options", "why"),
    [
        ("4", {}, OPTIONS, "answer with 1 Deploy now, 2 Not yet, 3 3"),
        ("", {}, OPTIONS, "answer with"),
        ("many", {"type": "integer"}, [], "answer with a whole number"),
        ("x", {"type": "object", "properties": {"a": {}}}, [], "JSON with the fields a"),
    ],
)
def test_other_text_is_refused_with_what_is_expected(
    typed: str, schema: Any, options: list[Choice], why: str
) -> None:
    with pytest.raises(ValueError, match=".") as caught:
        answer_of(typed, schema, options)
    assert why in str(caught.value)


def test_what_is_expected_is_said_in_few_words() -> None:
    assert expected({"type": "string"}, []) == "a text"
    assert expected({"type": "boolean"}, []) == "yes or no"
    assert expected({"anyOf": []}, []) == "JSON"
