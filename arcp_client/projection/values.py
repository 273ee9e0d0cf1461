"""Copies values of agents into small frozen values that JSON can hold."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any

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
"""Characters that are kept of any text."""

_MOST = 10**15


@dataclass(frozen=True, slots=True)
class Bar:
    """How far something of the job is, in ``units``; the end is not known without ``total``."""

    current: float
    total: float | None = None
    units: str | None = None
    message: str | None = None

    @property
    def share(self) -> float | None:
        """0.0 to 1.0; ``None`` if the end is not known."""
        if not self.total:
            return None
        return min(max(self.current / self.total, 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call, and its result once that came (§8.2).

    Attributes:
        call_id: pairs the two.
        tool: which tool.
        args: its arguments as JSON, shortened.
        began: when it was called, by the runtime's clock.
        ended: when its result came.
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
        """Whether its result has not come yet."""
        return self.outcome is None


@dataclass(frozen=True, slots=True)
class Child:
    """A job that this one delegated to (§10)."""

    job_id: str
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Hole:
    """Events that were not delivered, as a `Gap` said."""

    first: int
    last: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Fault:
    """How the job failed (§12)."""

    code: str
    message: str
    retryable: bool = False


def short(text: str) -> str:
    """The beginning of a text."""
    return text if len(text) <= TEXT else f"{text[: TEXT - 1]}…"


def as_json(value: Any) -> str:
    """The beginning of a value as JSON; only as much of it is looked at as is shown."""
    if value is None:
        return ""
    if isinstance(value, str):
        value = value[: TEXT + 1]
    pieces = islice(json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value), TEXT + 1)
    try:
        return short("".join(pieces))
    except (ValueError, TypeError, RecursionError) as error:
        return f"({type(error).__name__})"


def number(value: float | None) -> float | None:
    """A number that every JSON reader takes; ``None`` for any other."""
    return value if value is not None and abs(value) <= _MOST else None


def in_utc(moment: datetime | None) -> datetime | None:
    """The moment with a zone: UTC where it has none."""
    return moment if moment is None or moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def seconds(moment: datetime | None) -> float | None:
    """Seconds since 1970; a moment without a zone is taken as UTC."""
    zoned = in_utc(moment)
    return None if zoned is None else zoned.timestamp()


def iso(moment: datetime | None) -> str | None:
    """A moment as ISO 8601 has it."""
    return None if moment is None else moment.isoformat()


def plain(value: Meter | Call) -> dict[str, Any]:
    """A value's fields as JSON can hold them."""
    facts = asdict(value)
    for name, one in facts.items():
        if isinstance(one, datetime):
            facts[name] = one.isoformat()
        elif isinstance(one, Decimal):
            facts[name] = format(one, "f")
    return facts
