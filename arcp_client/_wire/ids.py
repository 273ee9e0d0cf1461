"""Makes identifiers and timestamps in the forms that every known runtime accepts."""

from __future__ import annotations

import os
import re
import secrets
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

__all__ = [
    "in_utc",
    "is_trace_id",
    "new_id",
    "new_prefixed_id",
    "new_secret",
    "new_trace_id",
    "now_text",
    "parse_time",
    "parse_utc",
    "time_text",
]

_DIGITS = bytes(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"[byte % 32] for byte in range(256))
"""A digit of a ULID for each byte, by the lowest five bits of the byte."""
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_NO_TRACE = "0" * 32
# RFC 3339: a date and a time of day. A date alone and a week date are rejected.
_MOMENT = re.compile(
    r"(?P<minute>[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}):(?P<second>[0-9]{2})"
    r"(?:\.(?P<fraction>[0-9]{1,9}))?(?P<zone>[Zz]|[+-][0-9]{2}:?[0-9]{2})?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)
_UTC_ZONES = dict.fromkeys(("Z", "z", "+00:00", "+0000", "-00:00", "-0000"), "Z")


def new_id() -> str:
    """Make an envelope id: a bare ULID, the only form that all known runtimes accept."""
    now = time.time_ns() // 1_000_000
    high = bytes((now >> 45, now >> 40 & 31, now >> 35 & 31, now >> 30 & 31, now >> 25 & 31))
    low = bytes((now >> 20 & 31, now >> 15 & 31, now >> 10 & 31, now >> 5 & 31, now & 31))
    return (high + low + os.urandom(16)).translate(_DIGITS).decode("ascii")


def new_prefixed_id(prefix: str) -> str:
    """Make an id such as ``job_01J…``."""
    return f"{prefix}_{new_id()}"


def new_secret(prefix: str) -> str:
    """Make a token that cannot be guessed."""
    return f"{prefix}_{secrets.token_hex(32)}"


def new_trace_id() -> str:
    """Make a W3C trace id: 32 lower-case hexadecimal digits, never all zero (§11)."""
    while True:
        value = os.urandom(16).hex()
        if value != _NO_TRACE:
            return value


def is_trace_id(value: object) -> bool:
    """Whether a string is a valid W3C trace id."""
    return isinstance(value, str) and value != _NO_TRACE and _TRACE_ID.fullmatch(value) is not None


def now_text() -> str:
    """Return the current time as RFC 3339 in UTC with ``Z``, to the millisecond."""
    return time_text(datetime.now(UTC))


def time_text(moment: datetime) -> str:
    """Format a time as RFC 3339 in UTC with ``Z``, to the millisecond.

    Raises:
        ValueError: it has no time zone, or lies outside of the years that UTC can show.
    """
    if moment.tzinfo is not UTC:
        moment = in_utc(moment)
    try:
        text: str = msgspec.to_builtins(moment)  # takes a quarter of the time of isoformat
    except TypeError:  # msgspec encodes no subclasses
        return f"{moment.isoformat(timespec='milliseconds').removesuffix('+00:00')}Z"
    return f"{text[:-4]}Z" if moment.microsecond else f"{text[:-1]}.000Z"


def in_utc(moment: datetime) -> datetime:
    """Convert a time to UTC.

    Raises:
        ValueError: it has no time zone, or lies outside of the years that UTC can show.
    """
    if moment.tzinfo is None:
        raise ValueError("a moment needs a time zone")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("the moment is out of range") from error


def parse_time(value: Any) -> datetime | None:
    """Parse RFC 3339 with ``Z``, an offset or no zone (read as UTC); else return ``None``.

    Accepts 0 to 9 fractional digits, truncated to microseconds. The leap second ``:60`` becomes the
    first second of the next minute.
    """
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    match = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    minute, second, fraction, zone = match.groups()
    leaps = second == "60"
    text = f"{minute}:{'59' if leaps else second}.{fraction or '0'}"
    try:
        moment = datetime.fromisoformat(f"{text}{_UTC_ZONES.get(zone or 'Z', zone)}".upper())
        if leaps:
            moment += _SECOND
        moment.astimezone(UTC)  # callers may do arithmetic with the result
    except (ValueError, OverflowError):
        return None
    return moment


def nanoseconds(value: Any) -> int | None:
    """Parse like `parse_time`, into nanoseconds since 1970, keeping all nine digits."""
    moment = parse_time(value)
    if moment is None:
        return None
    match = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    digits = (match["fraction"] or "") if match is not None else ""
    return (moment - _EPOCH) // _MICROSECOND * 1000 + int(digits.ljust(9, "0")[6:])


def parse_utc(text: str) -> datetime | None:
    """Parse like `parse_time` where UTC must be stated (§9.5); else return ``None``."""
    match = _MOMENT.fullmatch(text)
    return parse_time(text) if match is not None and match["zone"] in _UTC_ZONES else None
