"""Preserves the digits of JSON numbers that ``float`` would change, from a frame to its reader.

An agent's ``12345678901234567.89`` or ``1.50`` is shown as it was sent, although the event has a
``float``. Python's integers keep all digits, except for ``-0``.
"""

from __future__ import annotations

import json
import re
import secrets
from collections import deque
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from arcp_client.events import Event, envelope

__all__ = [
    "Digits",
    "dumps",
    "fields_of",
    "has_odd_numbers",
    "loads",
    "pieces",
    "plain",
    "same",
    "value_of",
    "with_fields",
]

# A number with a fraction, an exponent or a negative zero, at the position of a value. A match
# inside a string only costs a second parse.
_ODD = re.compile(rb"[:\[,]\s*-?(?:\d+(?:\.\d+)?[eE][+-]?\d+|\d+\.\d+|(?<=-)0)\s*[,}\]]")
_MARK = f"\ue000{secrets.token_hex(16)}"
_MARKED = re.compile(f'"{_MARK}([^"]*)"')
_DEPTH = 4
"""Maximum depth of a field's value in an envelope: payload, body, the wrapper of a result."""


class Digits(Decimal):
    """A number whose JSON text differs from Python's."""

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str) -> Digits:
        """Make the number from its JSON text.

        Raises:
            ValueError: its exponent has more digits than any number needs.
        """
        try:
            made = super().__new__(cls, text)
        except InvalidOperation:
            raise ValueError(f"a number is out of range: {text:.40}") from None
        made.text = text
        return made


def loads(data: bytes | str) -> Any:
    """Parse JSON. A number whose text Python would change becomes a `Digits`.

    Raises:
        ValueError: the data is not JSON in UTF-8.
        RecursionError: it is nested too deeply.
    """
    text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
    return json.loads(text, parse_int=_whole, parse_float=_fraction)


def has_odd_numbers(data: bytes, start: int = 0) -> bool:
    """Whether JSON, from this byte on, may have numbers that `loads` would return as `Digits`."""
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


def dumps(value: Any, *, ascii: bool = False, **form: Any) -> str:
    """Encode a value as one line of JSON, in which `Digits` keep their text.

    Args:
        value: the value.
        ascii: escape all other characters.
        form: further arguments of `json.dumps`, for another form than the shortest one.

    Raises:
        ValueError: JSON cannot represent the value.
        RecursionError: it is nested too deeply.
    """
    form = {"allow_nan": False, "separators": (",", ":"), "default": _mark, **form}
    text = json.dumps(value, ensure_ascii=ascii, **form)
    marked = _MARKED_ASCII if ascii else _MARKED
    return marked.sub(r"\1", text) if _MARK[1:] in text else text


def pieces(value: Any) -> Iterator[str]:
    """Encode a value piece by piece. Objects without a JSON form become texts.

    A caller that needs only the beginning can stop early.
    """
    for piece in json.JSONEncoder(ensure_ascii=False, default=_mark_or_text).iterencode(value):
        yield _MARKED.sub(r"\1", piece)


_MARKED_ASCII = re.compile(rf'"\\ue000{_MARK[1:]}([^"]*)"')


def value_of(event: Event, name: str) -> Any:
    """A field of an event, with `Digits` for numbers of its frame that ``float`` changed."""
    value = getattr(event, name)
    frame = envelope(event)
    if not _holds_numbers(value) or not has_odd_numbers(frame):
        return value
    try:
        return _found(name, value, loads(frame))
    except (ValueError, RecursionError):  # only the tolerant decoder accepts this frame
        return value


def with_fields(event: Event, fields: Mapping[str, Any]) -> Event:
    """An event with these fields in place of its frame, from which `fields_of` takes the digits."""
    try:
        frame = dumps({"event": fields}, ascii=True)
        return msgspec.structs.replace(event, _frame=frame.encode())
    except (ValueError, RecursionError):
        return event


def fields_of(event: Event) -> dict[str, Any]:
    """`Event.to_dict`, with `Digits` for numbers of its frame that ``float`` changed."""
    fields = event.to_dict()
    frame = envelope(event)
    if not has_odd_numbers(frame):
        return fields
    try:
        told = loads(frame)
        for name, value in fields.items():
            if _holds_numbers(value):
                fields[name] = _found(name, value, told)
    except (ValueError, RecursionError):  # only the tolerant decoder accepts this frame
        return event.to_dict()
    return fields


def _holds_numbers(value: Any) -> bool:
    """Whether a value may hold numbers that have other digits in its frame."""
    return isinstance(value, dict | list | float) or value == 0


def _found(name: str, value: Any, told: Any) -> Any:
    """Return the value with its digits; the value itself if the frame has no equal value."""
    if isinstance(value, bool):
        return value
    places = [each for each in _places(told) if same(value, each[1])]
    named = [each for at, each in places if at == name]
    if not named and isinstance(value, dict | list):
        named = [each for _, each in places]
    return _merged(value, named[0]) if named else value


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


def same(value: Any, told: Any) -> bool:
    """Whether a value equals another one that has `Digits` in place of its floats."""
    if isinstance(told, Digits):
        return isinstance(value, int | float) and float(told) == value
    if isinstance(told, dict):
        return (
            isinstance(value, dict)
            and value.keys() == told.keys()
            and all(same(each, told[name]) for name, each in value.items())
        )
    if isinstance(told, list):
        return isinstance(value, list) and len(value) == len(told) and all(map(same, value, told))
    if isinstance(told, str):
        # In results, an unpaired surrogate of the frame is U+FFFD.
        return bool(value == told or value == _without_surrogates(told))
    return bool(value == told)


def _without_surrogates(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _merged(value: Any, told: Any) -> Any:
    """Return the value with the `Digits` of an equal one."""
    if isinstance(told, Digits):
        return told
    if isinstance(told, dict):
        return {name: _merged(each, told[name]) for name, each in value.items()}
    if isinstance(told, list):
        return [_merged(each, other) for each, other in zip(value, told, strict=True)]
    return value


def _whole(text: str) -> int | Digits:
    return Digits(text) if text == "-0" else int(text)


def _fraction(text: str) -> float | Digits:
    value = float(text)
    return value if repr(value) == text else Digits(text)


def _mark(value: Any) -> str:
    if isinstance(value, Digits):
        return f"{_MARK}{value.text}"
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _mark_or_text(value: Any) -> str:
    return _mark(value) if isinstance(value, Digits) else str(value)
