"""Fresh identifiers and timestamps out, in the forms that every known peer accepts."""

from __future__ import annotations

import os
import re
import secrets
from datetime import UTC, datetime
from typing import Any

from ulid import ULID

__all__ = [
    "is_trace_id",
    "new_id",
    "new_prefixed_id",
    "new_secret",
    "new_trace_id",
    "now_text",
    "parse_time",
    "time_text",
]

_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_FRACTION = re.compile(r"(\.\d{6})\d+")
_NO_TRACE = "0" * 32


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
    """A moment as RFC 3339 in UTC with ``Z``, to the millisecond."""
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"


def parse_time(value: Any) -> datetime | None:
    """A moment from ISO 8601 with ``Z``, an offset or no zone (read as UTC); else ``None``.

    Takes 0 to 9 fractional digits, as runtimes send them.
    """
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(_FRACTION.sub(r"\1", value))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
