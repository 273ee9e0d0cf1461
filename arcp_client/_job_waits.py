"""Remembers what a job waits for: its open tool calls, questions and delegated jobs.

`JobRecord` passes the events on, and `_client.verdicts` reads what is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from arcp_client.events import (
    Answered,
    Expired,
    Question,
    ToolCall,
    ToolResult,
    Withdrawn,
)

__all__ = ["JobWaits", "Moment", "Open"]

_OPEN = 64
"""Limit of remembered things of each kind, because an agent may begin any number of them."""
_TEXT = 240
_Begun = tuple[str, float, datetime | None]


class Moment(NamedTuple):
    """When something happened.

    Attributes:
        arrived: when this client heard of it, by the clock of its event loop.
        ts: when it happened, by the runtime's clock.
    """

    arrived: float
    ts: datetime | None = None


class Open(NamedTuple):
    """Something that is open: the name or text of it, and since when."""

    what: str
    since: Moment


class JobWaits:
    """What one job waits for.

    Agents call tools often, so a call is kept as a plain tuple: what it is, and the two times.
    """

    __slots__ = ("_calls", "_continued", "_delegated", "_questions")

    def __init__(self) -> None:
        self._calls: dict[str, _Begun] = {}
        self._questions: dict[str, _Begun] = {}
        self._delegated: dict[str, _Begun] = {}
        self._continued: tuple[float, datetime | None] | None = None

    # -- events, with their arrival time

    def called(self, event: ToolCall, now: float) -> None:
        """A tool is called."""
        _add(self._calls, event.call_id, (event.tool[:_TEXT], now, event.ts))

    def returned(self, event: ToolResult, now: float) -> None:
        """A tool has returned."""
        if self._calls.pop(event.call_id, None) is not None:
            self._continued = now, event.ts

    def asked(self, event: Question, now: float) -> None:
        """The agent asks."""
        _add(self._questions, event.question_id, (event.text[:_TEXT], now, event.ts))

    def settled(self, event: Answered | Expired | Withdrawn, now: float) -> None:
        """A question is open no longer."""
        if self._questions.pop(event.question_id, None) is not None:
            self._continued = now, event.ts

    def delegated(self, job_id: str, agent: str, now: float, ts: datetime | None = None) -> None:
        """A job was delegated."""
        if job_id not in self._delegated:
            _add(self._delegated, job_id, (agent[:_TEXT], now, ts))

    # -- what is open

    @property
    def continued(self) -> Moment | None:
        """When the job last got what it waited for; ``None`` before."""
        return None if self._continued is None else Moment(*self._continued)

    @property
    def call(self) -> Open | None:
        """The oldest open tool call."""
        return _oldest(self._calls)

    @property
    def question(self) -> Open | None:
        """The oldest open question."""
        return _oldest(self._questions)

    @property
    def children(self) -> Iterator[tuple[str, Open]]:
        """The ids of the delegated jobs, the oldest first."""
        return iter([(job_id, _open(begun)) for job_id, begun in self._delegated.items()])


def _add(waits: dict[str, _Begun], key: str, begun: _Begun) -> None:
    """Remember one more, and drop the older half if there are too many.

    To drop one at a time would be slow: a dict finds its first key behind all that were deleted.
    """
    if len(waits) >= _OPEN and key not in waits:
        for old in tuple(islice(waits, _OPEN // 2)):
            del waits[old]
    waits[key] = begun


def _oldest(waits: dict[str, _Begun]) -> Open | None:
    return _open(next(iter(waits.values()))) if waits else None


def _open(begun: _Begun) -> Open:
    what, arrived, ts = begun
    return Open(what, Moment(arrived, ts))
