"""Remembers what a job waits for: its open tool calls, questions and delegated jobs.

`JobRecord` passes the events on, and `_client.verdicts` reads what is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from arcp_client.events import (
    Answered,
    Delegate,
    Event,
    Expired,
    Question,
    ToolCall,
    ToolResult,
    Withdrawn,
)

__all__ = ["JobWaits", "Moment", "Open"]

_OPEN = 64
"""Things of each kind that are remembered, because an agent may begin any number of them."""
_TEXT = 240


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

    Attributes:
        continued: when it last got what it waited for; ``None`` before.
    """

    __slots__ = ("_calls", "_delegated", "_questions", "continued")

    def __init__(self) -> None:
        self._calls: dict[str, Open] = {}
        self._questions: dict[str, Open] = {}
        self._delegated: dict[str, Open] = {}
        self.continued: Moment | None = None

    def apply(self, event: Event, now: float) -> None:
        """Update the state from an event that begins or ends a wait."""
        moment = Moment(now, event.ts)
        match event:
            case ToolCall():
                _add(self._calls, event.call_id, Open(event.tool[:_TEXT], moment))
            case Question():
                _add(self._questions, event.question_id, Open(event.text[:_TEXT], moment))
            case Delegate(child_job_id=str(child)):
                self.delegated(child, event.agent or "", moment)
            case ToolResult():
                self._close(self._calls, event.call_id, moment)
            case Answered() | Expired() | Withdrawn():
                self._close(self._questions, event.question_id, moment)

    def delegated(self, job_id: str, agent: str, moment: Moment) -> None:
        """Note a delegated job."""
        if job_id not in self._delegated:
            _add(self._delegated, job_id, Open(agent[:_TEXT], moment))

    def _close(self, waits: dict[str, Open], key: str, moment: Moment) -> None:
        if waits.pop(key, None) is not None:
            self.continued = moment

    @property
    def call(self) -> Open | None:
        """The oldest open tool call."""
        return next(iter(self._calls.values()), None)

    @property
    def question(self) -> Open | None:
        """The oldest open question."""
        return next(iter(self._questions.values()), None)

    @property
    def children(self) -> Iterator[tuple[str, Open]]:
        """The ids of the delegated jobs, the oldest first."""
        return iter(tuple(self._delegated.items()))


def _add(waits: dict[str, Open], key: str, wait: Open) -> None:
    waits.pop(key, None)
    if len(waits) >= _OPEN:
        del waits[next(iter(waits))]
    waits[key] = wait
