"""Turns a question of an agent into a form of MCP, and the filled form into an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from arcp_client.models import OpenQuestion

__all__ = ["ANSWER", "answer_of", "form"]

ANSWER = "answer"
"""The field of a form with one field."""
_SIMPLE = frozenset({"string", "integer", "number", "boolean"})
_KEYWORDS = frozenset(
    {
        "type", "title", "description", "default", "enum", "minLength", "maxLength", "pattern",
        "format", "minimum", "maximum",
    }
)  # fmt: skip


def form(question: OpenQuestion) -> dict[str, Any]:
    """The params of ``elicitation/create`` for a question.

    A form of MCP is an object whose properties are texts, numbers, truth values or choices. A
    question with another schema is a form with one field, ``answer``; if its value is none of
    those, the field is a text with the answer as JSON.
    """
    return {"mode": "form", "message": question.text, "requestedSchema": _schema(question)}


def answer_of(question: OpenQuestion, content: Mapping[str, Any] | None) -> Any:
    """The answer in a filled form of `form`.

    Raises:
        ValueError: the field ``answer`` is missing, or is not JSON.
    """
    given = dict(content or {})
    if not question.options and _is_form(question.schema):
        return given
    if ANSWER not in given:
        raise ValueError(f"the content must have the field {ANSWER}")
    value = given[ANSWER]
    if question.options:
        choices = {_text(each.value): each.value for each in question.options}
        return choices.get(value, value) if isinstance(value, str) else value
    if _is_simple(question.schema):
        return value
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        raise ValueError(f"the field {ANSWER} must be JSON") from None


def _schema(question: OpenQuestion) -> dict[str, Any]:
    schema = question.schema
    if question.options:
        choices = [
            {"const": _text(each.value), "title": each.label or _text(each.value)}
            for each in question.options
        ]
        return _one({"type": "string", "oneOf": choices})
    if _is_form(schema):
        return {"type": "object", **schema}
    if _is_simple(schema):
        return _one({name: each for name, each in schema.items() if name in _KEYWORDS})
    told = "" if schema is None else f" that fits this schema: {json.dumps(schema)}"
    return _one({"type": "string", "description": f"The answer as JSON{told}"})


def _one(field: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]}


def _is_simple(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    if schema.get("type") in _SIMPLE:
        return True
    choices = schema.get("enum")
    return isinstance(choices, list) and all(isinstance(each, str) for each in choices)


def _is_form(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or schema.get("type") != "object" or "$defs" in schema:
        return False
    fields = schema.get("properties")
    return isinstance(fields, Mapping) and bool(fields) and all(map(_is_simple, fields.values()))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
