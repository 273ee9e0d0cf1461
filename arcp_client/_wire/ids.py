"""Makes identifiers and timestamps in the forms that every known peer accepts."""

from __future__ import annotations

import os
import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

from ulid import ULID

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

_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_NO_TRACE = "0" * 32
# RFC 3339: a date and a time of day. Neither a date alone nor a week is a moment.
_MOMENT = re.compile(
    r"(?P<minute>[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}):(?P<second>[0-9]{2})"
    r"(?:\.(?P<fraction>[0-9]{1,9}))?(?P<zone>[Zz]|[+-][0-9]{2}:?[0-9]{2})?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_UTC_ZONES = frozenset({"Z", "z", "+00:00", "+0000", "-00:00", "-0000"})


def new_id() -> str:
    """A fresh envelope id: a bare ULID, the one form that all known runtimes accept."""
    return str(ULID())


def new_prefixed_id(prefix: str) -> str:
    """A fresh id such as ``job_01J…``."""
    return f"{prefix}_{ULID()}"


def new_secret(prefix: str) -> str:
    """A fresh token that cannot be guessed."""
    return f"{prefix}_{secrets.token_hex(32)}"


def new_trace_id() -> str:
    """A fresh W3C trace id: 32 lower-case hexadecimal digits, never all zero (§11)."""
    while True:
        value = os.urandom(16).hex()
        if value != _NO_TRACE:
            return value


def is_trace_id(value: object) -> bool:
    """Whether it is a valid W3C trace id."""
    return isinstance(value, str) and value != _NO_TRACE and _TRACE_ID.fullmatch(value) is not None


def now_text() -> str:
    """The present moment as RFC 3339 in UTC with ``Z``, to the millisecond."""
    return time_text(datetime.now(UTC))


def time_text(moment: datetime) -> str:
    """A moment as RFC 3339 in UTC with ``Z``, to the millisecond.

    Raises:
        ValueError: it has no time zone, or lies outside of the years that UTC can show.
    """
    text = in_utc(moment).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"


def in_utc(moment: datetime) -> datetime:
    """The same moment in UTC.

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
    """A moment from RFC 3339 with ``Z``, an offset or no zone (read as UTC); else ``None``.

    Takes 0 to 9 fractional digits, cut to microseconds, and the leap second ``:60``, which is the
    first moment of the next minute.
    """
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    match = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    zone = match["zone"] or "Z"
    text = f"{match['minute']}:00{'Z' if zone in _UTC_ZONES else zone}"
    second = int(match["second"])
    if second > 60:
        return None
    past = timedelta(seconds=second, microseconds=int((match["fraction"] or "0").ljust(6, "0")[:6]))
    try:
        moment = datetime.fromisoformat(text.upper()) + past
        moment.astimezone(UTC)  # everybody may do so with what comes out of here
    except (ValueError, OverflowError):
        return None
    return moment


def nanoseconds(value: Any) -> int | None:
    """A moment as `parse_time` reads it, in nanoseconds since 1970, with all of its nine digits."""
    moment = parse_time(value)
    if moment is None:
        return None
    match = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    digits = (match["fraction"] or "") if match is not None else ""
    return (moment - _EPOCH) // _MICROSECOND * 1000 + int(digits.ljust(9, "0")[6:])


def parse_utc(text: str) -> datetime | None:
    """Like `parse_time`, for what must say that it is in UTC (§9.5); else ``None``."""
    match = _MOMENT.fullmatch(text)
    return parse_time(text) if match is not None and match["zone"] in _UTC_ZONES else None
