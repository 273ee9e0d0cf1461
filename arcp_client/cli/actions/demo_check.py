"""Counts lost, repeated and disordered events of the demo.

An event is identified by its content, its *mark*, and not by its number or id. So the counts do not
depend on the bookkeeping that they check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from arcp_client import events
from arcp_client.cli.view import render

__all__ = ["Count", "Row", "count", "faults", "mark"]


def mark(event: events.Event) -> str:
    """Return a value that identifies an event of the demo within its job."""
    match event:
        case events.Log(message=text):
            return f"log {text}"
        case events.Thought(text=text):
            return f"thought {text}"
        case events.ToolCall(call_id=call_id):
            return f"tool_call {call_id}"
        case events.ToolResult(call_id=call_id):
            return f"tool_result {call_id}"
        case events.Metric(name=name, value=value):
            return f"metric {name} {value}"
        case events.Progress(current=current):
            return f"progress {current}"
        case events.ResultChunk(chunk_seq=chunk_seq):
            return f"chunk {chunk_seq}"
        case events.Completed() | events.Failed():
            return "end"
        case _:
            return f"{event.kind} {event.seq}"


@dataclass(frozen=True, slots=True)
class Count:
    """The counts of one job, computed from two lists of marks.

    Attributes:
        sent: events that the agent emitted, and the job's end.
        handled: completed calls of the handler.
        lost: events sent but never handled.
        repeated: events handled more often than sent.
        disordered: events handled after one that was sent later.
        unexpected: events handled but never sent.
    """

    sent: int
    handled: int
    lost: int
    repeated: int
    disordered: int
    unexpected: int


def count(sent: Sequence[str], handled: Sequence[str]) -> Count:
    """Compare sent and handled events, each in order of occurrence."""
    place = {each: n for n, each in enumerate(sent)}
    seen = Counter(handled)
    latest = -1
    disordered = 0
    for each in dict.fromkeys(handled):  # a repeat does not also count as disorder
        at = place.get(each)
        if at is None:
            continue
        if at < latest:
            disordered += 1
        latest = max(latest, at)
    return Count(
        sent=len(sent),
        handled=len(handled),
        lost=sum(each not in seen for each in place),
        repeated=sum(times - 1 for times in seen.values()),
        disordered=disordered,
        unexpected=sum(each not in place for each in seen),
    )


@dataclass(frozen=True, slots=True)
class Row:
    """One job of the demo: its counts, its result, and the expected result."""

    agent: str
    count: Count
    result: object
    expected: object


def faults(rows: Sequence[Row], *, cuts: int, wanted_cuts: int, overlaps: int) -> list[str]:
    """Describe the faults; empty if there are none."""
    wrong = []
    for row in rows:
        numbers = row.count
        for amount, what in (
            (numbers.lost, "lost"),
            (numbers.repeated, "repeated"),
            (numbers.disordered, "out of order"),
            (numbers.unexpected, "handled that were never sent"),
        ):
            if amount:
                wrong.append(f"{row.agent}: {render.count(amount, 'event')} {what}")
        if not numbers.sent:
            wrong.append(f"{row.agent}: sent nothing")
        if row.result != row.expected:
            wrong.append(f"{row.agent}: the result differs from the agent's")
    if cuts != wanted_cuts:
        wrong.append(f"{cuts} of {wanted_cuts} cuts hit the stream")
    if overlaps:
        wrong.append(f"{overlaps} handlers started before the one before them had ended")
    return wrong
