"""Checks and converts the fields of messages; errors name the field and the reason.

A *reader* is a function that converts a value, from the other side or from this package, to the
type of a field. Its errors never contain the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import SecretStr

from arcp_client._wire.ids import in_utc, parse_time

__all__ = [
    "Malformed",
    "Reader",
    "an_object",
    "bounded",
    "encodable",
    "flag",
    "maybe",
    "moment",
    "secret",
    "text",
    "texts",
    "whole",
    "within",
]

Reader = Callable[[Any], Any]


class Malformed(ValueError):
    """A message that does not match its definition.

    Attributes:
        reason: the expected form.
        place: the path of names and indices to the invalid value; empty for the message itself.
    """

    def __init__(self, reason: str, place: tuple[str, ...] = ()) -> None:
        super().__init__(f"{'.'.join(place)}: {reason}" if place else reason)
        self.reason = reason
        self.place = place


def within(name: object, read: Reader, value: Any) -> Any:
    """Apply a reader to one part of a message.

    Raises:
        Malformed: the part is invalid; `place` includes its name.
    """
    try:
        return read(value)
    except Malformed as error:
        raise Malformed(error.reason, (str(name), *error.place)) from None
    except ValueError as error:
        raise Malformed(str(error), (str(name),)) from None


def maybe(read: Reader) -> Reader:
    """Make a reader that also accepts an absent value."""
    return lambda value: None if value is None else read(value)


def text(value: Any) -> str:
    """Read a string of any length."""
    if not isinstance(value, str):
        raise Malformed("must be a text")
    return str.__str__(value)  # a plain str, also for members of a string enum


def encodable(value: Any) -> str:
    """Read a string that files and logs can hold: one without lone surrogates."""
    found = text(value)
    try:
        found.encode()
    except UnicodeEncodeError:
        raise Malformed("must be a text that can be encoded as UTF-8") from None
    return found


def bounded(least: int, most: int) -> Reader:
    """Make a reader for an encodable string of ``least`` to ``most`` characters."""

    def read(value: Any) -> str:
        found = encodable(value)
        if not least <= len(found) <= most:
            raise Malformed(f"must be a text of {least} to {most} characters")
        return found

    return read


def whole(least: int, most: int) -> Reader:
    """Make a reader for an integer within bounds, which rejects strings, floats and booleans."""

    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise Malformed(f"must be a whole number from {least} to {most}")
        return int(value)

    return read


_FLAGS: Final = {
    **dict.fromkeys((True, "true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys((False, "false", "f", "no", "n", "off", "0"), False),
}
"""Matches 1, 1.0, 0 and 0.0 as well, which compare equal to the booleans."""


def flag(value: Any) -> bool:
    """Read a boolean in any form that known peers send."""
    known = value.lower() if isinstance(value, str) else value
    if isinstance(known, str | int | float) and known in _FLAGS:
        return _FLAGS[known]
    raise Malformed("must be true or false")


def texts(value: Any) -> tuple[str, ...]:
    """Read a list of strings; a single string is rejected."""
    if not isinstance(value, list | tuple | set | frozenset):
        raise Malformed("must be a list of texts")
    return tuple(within(at, text, item) for at, item in enumerate(value))


def secret(value: Any) -> SecretStr:
    """Read a string into a `SecretStr`, which no repr shows."""
    return value if isinstance(value, SecretStr) else SecretStr(text(value))


def moment(value: Any) -> datetime:
    """Read a time in RFC 3339 and convert it to UTC."""
    found = value if isinstance(value, datetime) else parse_time(value)
    if found is None:
        raise Malformed("must be a time in RFC 3339")
    return in_utc(found)


def an_object(value: Any) -> dict[str, Any]:
    """Read a mapping with string keys."""
    if not isinstance(value, Mapping):
        raise Malformed("must be an object")
    return {encodable(name): item for name, item in value.items()}
