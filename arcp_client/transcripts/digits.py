"""Keeps the digits of JSON numbers that ``float`` would change, from a frame to a file or a page.

A peer's ``12345678901234567.89`` or ``1.50`` is shown as it was sent, although the event that a
program reads holds a ``float``. Whole numbers need no such care in Python; ``-0`` does.
"""

from __future__ import annotations

import json
import re
import secrets
from collections import deque
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from arcp_client.events import Event, envelope

__all__ = ["Digits", "dumps", "fields_of", "has_odd_numbers", "loads", "plain"]

# A number with a fraction, an exponent or a negative zero, where a value may stand. What looks like
# one within a text costs a second reading and nothing else.
_ODD = re.compile(rb"[:\[,]\s*-?(?:\d+(?:\.\d+)?[eE][+-]?\d+|\d+\.\d+|(?<=-)0)\s*[,}\]]")
_MARK = f"\ue000{secrets.token_hex(16)}"
_MARKED = re.compile(f'"{_MARK}([^"]*)"')
_DEPTH = 4
"""How deep in an envelope the value of a field may stand: payload, body, what wraps a result."""


class Digits(Decimal):
    """A number whose text in JSON is not what Python would write for it."""

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str) -> Digits:
        """The number that a text of JSON is."""
        made = super().__new__(cls, text)
        made.text = text
        return made


def loads(data: bytes) -> Any:
    """A JSON value; a number that would be written otherwise than it was read is `Digits`.

    Raises:
        ValueError: it is not JSON in UTF-8.
        RecursionError: it is nested too deeply.
    """
    return json.loads(data.decode("utf-8-sig"), parse_int=_whole, parse_float=_fraction)


def has_odd_numbers(data: bytes, start: int = 0) -> bool:
    """Whether JSON may have numbers, from this byte on, that `loads` would give as `Digits`."""
    return _ODD.search(data, start) is not None


def plain(value: Any) -> Any:
    """The same value with ``int`` and ``float`` in place of `Digits`, for programs.

    Raises:
        RecursionError: it is nested too deeply.
    """
    if isinstance(value, Digits):
        return 0 if value.text == "-0" else float(value)
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def dumps(value: Any, *, ascii: bool = False) -> str:
    """A value as one line of JSON, `Digits` as the text that they were read from.

    Raises:
        ValueError: it holds what JSON cannot.
        RecursionError: it is nested too deeply.
    """
    text = json.dumps(
        value, ensure_ascii=ascii, allow_nan=False, separators=(",", ":"), default=_mark
    )
    marked = _MARKED_ASCII if ascii else _MARKED
    return marked.sub(r"\1", text) if _MARK[1:] in text else text


_MARKED_ASCII = re.compile(rf'"\\ue000{_MARK[1:]}([^"]*)"')


def fields_of(event: Event) -> dict[str, Any]:
    """`Event.to_dict`, with `Digits` where its frame has a number that ``float`` changed."""
    fields = event.to_dict()
    frame = envelope(event)
    if not has_odd_numbers(frame):
        return fields
    try:
        told = loads(frame)
        for name, value in fields.items():
            if isinstance(value, dict | list | float) or value == 0:
                fields[name] = _found(name, value, told)
    except (ValueError, RecursionError):  # what only a tolerant reader takes
        return event.to_dict()
    return fields


def _found(name: str, value: Any, told: Any) -> Any:
    """The same value with its digits; the value itself if the frame has none that is the same."""
    if isinstance(value, bool):
        return value
    places = [each for each in _places(told) if _same(value, each[1])]
    named = [each for at, each in places if at == name]
    if not named and isinstance(value, dict | list):
        named = [each for _, each in places]
    return named[0] if named else value


def _places(told: Any) -> Iterator[tuple[str, Any]]:
    left = deque([(told, 0)])
    while left:
        at, depth = left.popleft()
        if not isinstance(at, dict):
            continue
        for name, value in at.items():
            yield name, value
            if depth < _DEPTH:
                left.append((value, depth + 1))


def _same(value: Any, told: Any) -> bool:
    if isinstance(told, Digits):
        return isinstance(value, int | float) and float(told) == value
    if isinstance(told, dict):
        return (
            isinstance(value, dict)
            and value.keys() == told.keys()
            and all(_same(each, told[name]) for name, each in value.items())
        )
    if isinstance(told, list):
        return isinstance(value, list) and len(value) == len(told) and all(map(_same, value, told))
    return bool(value == told)


def _whole(text: str) -> int | Digits:
    return Digits(text) if text == "-0" else int(text)


def _fraction(text: str) -> float | Digits:
    value = float(text)
    return value if repr(value) == text else Digits(text)


def _mark(value: Any) -> str:
    if isinstance(value, Digits):
        return f"{_MARK}{value.text}"
    raise TypeError(f"{type(value).__name__} has no form in JSON")
