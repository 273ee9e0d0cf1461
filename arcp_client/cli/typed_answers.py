"""Converts typed text into the answer to a question, and describes the possible answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from arcp_client import Choice
from arcp_client import _digits as digits

__all__ = ["answer_of", "expected"]

_WORDS = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


def choices_of(schema: Any, options: Sequence[Choice]) -> list[Choice]:
    """The answers to choose from: the options, or the values of an enum."""
    if options:
        return list(options)
    values = schema.get("enum") if isinstance(schema, dict) else None
    if not isinstance(values, list):
        return []
    return [
        Choice(value, value if isinstance(value, str) else json.dumps(value)) for value in values
    ]


def answer_of(typed: str, schema: Any, options: Sequence[Choice]) -> Any:
    """Convert typed text to an answer.

    It may be the number or the label of an option, the word yes or no where a boolean is expected,
    any text where a text is expected, and JSON otherwise.

    Raises:
        ValueError: the text is none of these; the message says what is expected.
    """
    text = typed.strip()
    choices = choices_of(schema, options)
    if choices:
        for choice in choices:
            if text in (choice.label, choice.value):
                return choice.value
        lower = [choice for choice in choices if choice.label.lower() == text.lower()]
        if len(lower) == 1:
            return lower[0].value
        if text.isdecimal() and 1 <= int(text) <= len(choices):
            return choices[int(text) - 1].value
        starts = [each for each in choices if text and each.label.lower().startswith(text.lower())]
        if len(starts) == 1:
            return starts[0].value
        raise ValueError(f"answer with {expected(schema, options)}")
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "string":
        return typed
    if kind == "boolean" and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return digits.loads(text)
    except ValueError:
        if kind is None:
            return typed
        raise ValueError(f"answer with {expected(schema, options)}") from None


def expected(schema: Any, options: Sequence[Choice]) -> str:
    """Describe what may be answered, in a few words."""
    choices = choices_of(schema, options)
    if choices:
        return ", ".join(f"{n} {choice.label}" for n, choice in enumerate(choices, 1))
    kind = schema.get("type") if isinstance(schema, dict) else None
    words = {"string": "a text", "boolean": "yes or no", "integer": "a whole number"}
    words |= {"number": "a number"}
    if isinstance(kind, str) and kind in words:
        return words[kind]
    names = schema.get("properties") if isinstance(schema, dict) else None
    fields = f" with the fields {', '.join(names)}" if isinstance(names, dict) else ""
    return f"JSON{fields}"
