"""A question is a form of MCP, and the filled form is its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("mcp")

from arcp_client.events import Choice
from arcp_client.mcp._elicitation import answer_of, form
from arcp_client.models import OpenQuestion


def question(schema: Any = None, *options: Choice) -> OpenQuestion:
    return OpenQuestion(
        question_id="q", job_id="j", text="Which?", schema=schema, options=tuple(options)
    )


FORM = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "n": {"type": "integer"}},
    "required": ["name"],
}


def field(asked: OpenQuestion) -> dict[str, Any]:
    """The one field of its form."""
    told = form(asked)
    assert (told["mode"], told["message"]) == ("form", "Which?")
    schema = told["requestedSchema"]
    assert (schema["type"], schema["required"]) == ("object", ["answer"])
    assert list(schema["properties"]) == ["answer"]
    return dict(schema["properties"]["answer"])


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "pattern": "^a"}, "abc"),
        ({"type": "integer", "minimum": 1}, 5),
        ({"type": "number"}, 1.5),
        ({"type": "boolean"}, True),
        ({"enum": ["a", "b"]}, "a"),
    ],
)
def test_a_simple_value_is_one_field(schema: dict[str, Any], value: Any) -> None:
    assert field(question(schema)) == schema
    assert answer_of(question(schema), {"answer": value}) == value


def test_keywords_that_forms_do_not_have_are_left_out() -> None:
    assert field(question({"type": "integer", "multipleOf": 2})) == {"type": "integer"}


def test_options_are_choices_with_their_labels() -> None:
    asked = question(
        {"enum": ["yes", 2]}, Choice(value="yes", label="Deploy"), Choice(value=2, label="")
    )
    assert field(asked)["oneOf"] == [
        {"const": "yes", "title": "Deploy"},
        {"const": "2", "title": "2"},
    ]
    assert answer_of(asked, {"answer": "yes"}) == "yes"
    assert answer_of(asked, {"answer": "2"}) == 2
    assert answer_of(asked, {"answer": "maybe"}) == "maybe"  # the runtime refuses it


def test_an_object_of_simple_values_is_the_form() -> None:
    asked = question(FORM)
    assert form(asked)["requestedSchema"] == FORM
    assert answer_of(asked, {"name": "x", "n": 1}) == {"name": "x", "n": 1}
    assert answer_of(asked, None) == {}


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {"type": "array", "items": {"type": "integer"}},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object"},
        {"$ref": "#/$defs/A", "$defs": {"A": FORM}},
        {"enum": ["a", 1]},
        True,
    ],
)
def test_any_other_answer_is_json_in_a_text(schema: Any) -> None:
    asked = question(schema)
    assert field(asked)["type"] == "string"
    assert schema is None or json.dumps(schema) in field(asked)["description"]
    assert answer_of(asked, {"answer": "[1, 2]"}) == [1, 2]
    assert answer_of(asked, {"answer": 5}) == 5
    with pytest.raises(ValueError, match="JSON"):
        answer_of(asked, {"answer": "[1,"})


@pytest.mark.parametrize("content", [None, {}, {"other": 1}])
def test_a_form_without_its_field_is_refused(content: Any) -> None:
    with pytest.raises(ValueError, match="answer"):
        answer_of(question({"type": "string"}), content)
