"""Keeps the last action of an agent, in words, and the speed of its progress, for `JobProjection`.

It reads no clock: all times are timestamps of events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Context, Decimal

from arcp_client import _digits as digits
from arcp_client.events import (
    Answered,
    ArtifactRef,
    Completed,
    Delegate,
    Event,
    Expired,
    Failed,
    Gap,
    Log,
    Metric,
    Progress,
    Question,
    ResultChunk,
    Status,
    Thought,
    ToolCall,
    ToolResult,
    Withdrawn,
)
from arcp_client.projection.values import as_json, in_utc, number, seconds, short

__all__ = ["Activity", "Number"]

Number = int | float | Decimal
_SAID = frozenset({ArtifactRef, Log, ResultChunk, Thought, ToolCall, ToolResult})
"""Events that change nothing but the last action."""
"""A number with the digits that the agent sent: a `Decimal` where a float would change them."""

_ARGS = 60
_UNITS = 8
_QUESTIONS = 16
_EXACT = Context(prec=64)
_MOST = 10**15
_SHORTEST = 5.0  # seconds: progress over a shorter time gives no rate


@dataclass(slots=True)
class _Pace:
    """The first and the last progress report of one unit since it last went back.

    Attributes:
        current, total: the last report, with its digits.
        began: value and time of the first report.
        at: the time of the last report.
    """

    current: Number
    total: Number | None
    began: tuple[float, float | None]
    at: float | None


class Activity:
    """What a job did last, and what it is called.

    Attributes:
        label: the text of the first status; ``None`` before it.
        words: the newest event in words; empty before the first. Costs and tokens count only if
            nothing else came before.
        at: the time of that event.
        tokens: the sum of the metrics that count tokens; ``None`` without such a metric.
    """

    def __init__(self) -> None:
        self.label: str | None = None
        self.words = ""
        self.at: datetime | None = None
        self.tokens: Decimal | None = None
        self._questions: dict[str, tuple[str, datetime | None]] = {}
        self._paces: dict[str, _Pace] = {}
        self._newest: str | None = None

    def apply(self, event: Event, tool_of: Callable[[str], str]) -> None:
        """Update the state from one event of the job.

        Args:
            event: the event.
            tool_of: the name of the tool of a call, empty if it is unknown.
        """
        if type(event) in _SAID:
            pass
        elif isinstance(event, Gap):
            return
        elif isinstance(event, Status):
            self._status(event)
        elif isinstance(event, Progress):
            self._progress(event)
        elif isinstance(event, Metric):
            if event.name == "cost.budget.remaining":  # the runtime's answer to a cost
                return
            counted = self._tokens(event) or event.name.startswith("cost.")
            if counted and self.words:  # the row has the sums, and what the agent did before
                return
        elif isinstance(event, Question):
            self._asked(event)
        elif isinstance(event, Answered | Expired | Withdrawn):
            self._questions.pop(short(event.question_id), None)
        self.words = short(_words(event, tool_of))
        self.at = in_utc(event.ts) or self.at

    @property
    def question(self) -> tuple[str, datetime | None] | None:
        """The oldest unanswered question, and when it was asked."""
        return next(iter(self._questions.values()), None)

    @property
    def progress(self) -> tuple[Number, Number | None, str | None] | None:
        """``current``, ``total`` and ``units`` of the newest report, with their digits."""
        if self._newest is None:
            return None
        pace = self._paces[self._newest]
        return pace.current, pace.total, self._newest or None

    @property
    def due_at(self) -> datetime | None:
        """When the newest progress reaches its total, at the speed so far.

        ``None`` if the total or the speed is unknown, or that time is out of range.
        """
        pace = self._paces.get(self._newest) if self._newest is not None else None
        if pace is None or pace.total is None or pace.at is None:
            return None
        value, began = pace.began
        moved = float(pace.current) - value
        if began is None or moved <= 0 or pace.at - began < _SHORTEST:
            return None
        left = max(float(pace.total) - float(pace.current), 0.0)
        due = pace.at + left * (pace.at - began) / moved
        try:
            return datetime.fromtimestamp(due, UTC)
        except (ValueError, OverflowError, OSError):
            return None

    def digits_of(self, units: str | None) -> tuple[Number, Number | None] | None:
        """``current`` and ``total`` of the newest report in these units, with their digits."""
        pace = self._paces.get(units or "")
        return None if pace is None else (pace.current, pace.total)

    # ------------------------------------------------------------------------- one kind each

    def _status(self, event: Status) -> None:
        text = event.message or event.phase
        if self.label is None and text.strip():
            self.label = short(text)

    def _progress(self, event: Progress) -> None:
        current, total = number(event.current), number(event.total)
        if current is None:
            return
        units = short(event.units) if event.units else ""
        told = digits.value_of(event, "current")
        most = None if total is None else digits.value_of(event, "total")
        at = seconds(event.ts)
        pace = self._paces.get(units)
        if pace is None or float(current) < float(pace.current):
            if pace is None and len(self._paces) >= _UNITS:
                del self._paces[next(iter(self._paces))]
            self._paces[units] = _Pace(told, most, (float(current), at), at)
        else:
            pace.current, pace.total, pace.at = told, most, at or pace.at
        self._newest = units

    def _asked(self, event: Question) -> None:
        if len(self._questions) >= _QUESTIONS:
            del self._questions[next(iter(self._questions))]
        self._questions[short(event.question_id)] = (short(event.text), in_utc(event.ts))

    def _tokens(self, event: Metric) -> bool:
        """Add a metric to the tokens, if it counts some."""
        unit = (event.unit or "").lower()
        if unit not in ("token", "tokens") and "token" not in event.name.lower().split(".")[-1]:
            return False
        value = digits.value_of(event, "value")
        if isinstance(value, bool) or not 0 <= value <= _MOST:
            return False
        amount = value if isinstance(value, Decimal) else Decimal(str(value))
        self.tokens = _EXACT.add(self.tokens or Decimal(0), amount)
        return True


def _words(event: Event, tool_of: Callable[[str], str]) -> str:
    match event:
        case Log(level=level, message=message):
            return f"{level}: {message}" if level in ("warn", "warning", "error") else message
        case Thought(text=text):
            return f"thinks: {text}"
        case ToolCall(tool=tool):
            args = as_json(event, "args")
            return f"calls {tool} {args if len(args) <= _ARGS else f'{args[:_ARGS]}…'}".rstrip()
        case ToolResult():
            return _tool_result(event, tool_of(event.call_id) or "a tool")
        case Status(phase=phase, message=message):
            return f"{phase}: {message}" if message else phase
        case Progress():
            return _progress_words(event)
        case Metric(name=name, unit=unit):
            return f"{name} {_told(event, 'value')} {unit or ''}".rstrip()
        case ArtifactRef(uri=uri):
            return f"made {uri}"
        case Delegate(agent=agent, child_job_id=child):
            return f"delegated to {agent or child or 'another agent'}"
        case ResultChunk():
            return "sends its result"
        case Question(text=text):
            return f"asks: {text}"
        case Answered(by=by):
            return f"was answered by {by}" if by else "was answered"
        case Expired():
            return "got no answer in time"
        case Withdrawn():
            return "needs no answer any more"
        case Completed(summary=summary):
            return f"finished: {summary}" if summary else "finished"
        case Failed(code=code, message=message):
            return f"{code}: {message}"
    return event.kind


def _tool_result(event: ToolResult, tool: str) -> str:
    if event.error is None:
        return f"{tool} returned"
    message = event.error.get("message") if isinstance(event.error, dict) else None
    return f"{tool} failed: {message if isinstance(message, str) else as_json(event, 'error')}"


def _progress_words(event: Progress) -> str:
    if event.message:
        return event.message
    of = "" if event.total is None else f" of {_told(event, 'total')}"
    return f"{_told(event, 'current')}{of} {event.units or ''}".rstrip()


def _told(event: Event, name: str) -> str:
    """A number as the agent wrote it."""
    value = digits.value_of(event, name)
    return value.text if isinstance(value, digits.Digits) else str(value)
