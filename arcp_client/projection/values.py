"""Copies values that agents sent into small frozen values in JSON form."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any

from arcp_client import _digits as digits
from arcp_client.events import Event

if TYPE_CHECKING:
    from arcp_client.projection.money import Meter

__all__ = [
    "Bar",
    "Call",
    "Child",
    "Fault",
    "Hole",
    "as_json",
    "in_utc",
    "iso",
    "number",
    "plain",
    "seconds",
    "short",
]

TEXT = 240
"""Maximum number of characters kept of a text."""

_MOST = 10**15
_CHANGED = re.compile(r"\d[.e]|(?<![\d.])0(?![\d.])")
"""A number that may have had another text: a float, or a zero that was negative."""


@dataclass(frozen=True, slots=True)
class Bar:
    """Progress in ``units``; without ``total`` the end is unknown."""

    current: float
    total: float | None = None
    units: str | None = None
    message: str | None = None

    @property
    def share(self) -> float | None:
        """0.0 to 1.0; ``None`` if the end is unknown."""
        if not self.total:
            return None
        return min(max(self.current / self.total, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, and its result once received (§8.2).

    Attributes:
        call_id: identifies call and result.
        tool: the name of the tool.
        args: its arguments as JSON, shortened.
        began: the time of the call, by the runtime's clock.
        ended: the time of the result.
        outcome: the result or the error as JSON, shortened; ``None`` while it runs.
        failed: whether the outcome is an error.
    """

    call_id: str
    tool: str
    args: str = ""
    began: datetime | None = None
    ended: datetime | None = None
    outcome: str | None = None
    failed: bool = False

    @property
    def running(self) -> bool:
        """Whether the result has not been received."""
        return self.outcome is None


@dataclass(frozen=True, slots=True)
class Child:
    """A delegated job (§10)."""

    job_id: str
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Hole:
    """A range of missing events, from a `Gap`."""

    first: int
    last: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Fault:
    """The failure of a job (§12)."""

    code: str
    message: str
    retryable: bool = False


def short(text: str) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= TEXT else f"{text[: TEXT - 1]}…"


def _beginning(value: Any) -> str:
    """Encode the beginning of a value; the rest is not evaluated."""
    if value is None:
        return ""
    if isinstance(value, str):
        value = value[: TEXT + 1]
    try:
        return short("".join(islice(digits.pieces(value), TEXT + 1)))
    except (ValueError, TypeError, RecursionError) as error:
        return f"({type(error).__name__})"


def as_json(event: Event, name: str) -> str:
    """Encode the beginning of a field, with the digits that the agent sent (W1)."""
    text = _beginning(getattr(event, name))
    # Reading the frame takes time in proportion to its size, so only if the text may differ.
    return _beginning(digits.value_of(event, name)) if _CHANGED.search(text) else text


def number(value: float | None) -> float | None:
    """Return a number that every JSON reader accepts; ``None`` for any other number."""
    return value if value is not None and abs(value) <= _MOST else None


def in_utc(moment: datetime | None) -> datetime | None:
    """Return the time with a zone: UTC if it has none."""
    return moment if moment is None or moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def seconds(moment: datetime | None) -> float | None:
    """Return seconds since 1970; a time without a zone is taken as UTC."""
    zoned = in_utc(moment)
    return None if zoned is None else zoned.timestamp()


def iso(moment: datetime | None) -> str | None:
    """Format a time in ISO 8601."""
    return None if moment is None else moment.isoformat()


def plain(value: Meter | Call) -> dict[str, Any]:
    """Return a value's fields in JSON form."""
    facts = asdict(value)
    for name, one in facts.items():
        if isinstance(one, datetime):
            facts[name] = one.isoformat()
        elif isinstance(one, Decimal):
            facts[name] = format(one, "f")
    return facts
