"""Checks and converts the fields of messages, and says which field is wrong and why.

A reader converts a value, from a peer or from this package, to the type of the field. Its errors
never contain the value.
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
    """A message that does not fit.

    Attributes:
        reason: what was expected.
        place: the names and numbers that lead to what did not fit, from the outside; empty if it is
            the whole.
    """

    def __init__(self, reason: str, place: tuple[str, ...] = ()) -> None:
        super().__init__(f"{'.'.join(place)}: {reason}" if place else reason)
        self.reason = reason
        self.place = place


def within(name: object, read: Reader, value: Any) -> Any:
    """What a reader gives for one part of a whole.

    Raises:
        Malformed: it does not fit; with the name of the part.
    """
    try:
        return read(value)
    except Malformed as error:
        raise Malformed(error.reason, (str(name), *error.place)) from None
    except ValueError as error:
        raise Malformed(str(error), (str(name),)) from None


def maybe(read: Reader) -> Reader:
    """Absent, or as the reader says."""
    return lambda value: None if value is None else read(value)


def text(value: Any) -> str:
    """A text of any length."""
    if not isinstance(value, str):
        raise Malformed("must be a text")
    return str.__str__(value)  # a plain one, of an enum too


def encodable(value: Any) -> str:
    """A text that files and logs can hold: without halves of surrogate pairs."""
    found = text(value)
    try:
        found.encode()
    except UnicodeEncodeError:
        raise Malformed("must be a text that can be encoded as UTF-8") from None
    return found


def bounded(least: int, most: int) -> Reader:
    """A text that files and logs can hold, of so many characters."""

    def read(value: Any) -> str:
        found = encodable(value)
        if not least <= len(found) <= most:
            raise Malformed(f"must be a text of {least} to {most} characters")
        return found

    return read


def whole(least: int, most: int) -> Reader:
    """A whole number between two others: a text, a float or a truth is none."""

    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise Malformed(f"must be a whole number from {least} to {most}")
        return int(value)

    return read


_FLAGS: Final = {
    **dict.fromkeys((True, "true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys((False, "false", "f", "no", "n", "off", "0"), False),
}
"""Also 1, 1.0, 0 and 0.0, which are equal to the truths."""


def flag(value: Any) -> bool:
    """True or false, in any of the forms that peers write them in."""
    known = value.lower() if isinstance(value, str) else value
    if isinstance(known, str | int | float) and known in _FLAGS:
        return _FLAGS[known]
    raise Malformed("must be true or false")


def texts(value: Any) -> tuple[str, ...]:
    """Several texts, and not one."""
    if not isinstance(value, list | tuple | set | frozenset):
        raise Malformed("must be a list of texts")
    return tuple(within(at, text, item) for at, item in enumerate(value))


def secret(value: Any) -> SecretStr:
    """A text that no repr shows."""
    return value if isinstance(value, SecretStr) else SecretStr(text(value))


def moment(value: Any) -> datetime:
    """A moment in UTC, from RFC 3339 in every form that is known."""
    found = value if isinstance(value, datetime) else parse_time(value)
    if found is None:
        raise Malformed("must be a time in RFC 3339")
    return in_utc(found)


def an_object(value: Any) -> dict[str, Any]:
    """A mapping from texts."""
    if not isinstance(value, Mapping):
        raise Malformed("must be an object")
    return {encodable(name): item for name, item in value.items()}
