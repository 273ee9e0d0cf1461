"""Computes values for display from the events of one job, in bounded memory.

A screen, a page or a log line shows not the events of a job but its state: progress, phase, spent
budget and remaining time. A `JobProjection` computes this state from the events, one at a time, in
constant memory::

    view = JobProjection.of(job)
    async for event in job:
        view.apply(event)
        print(view.phase, view.progress, view.meters)

A `JobRow` is one line of a list of many jobs: what a job is doing (its `Verdict`), and the reason
why it needs attention, if it does::

    row = JobRow.of(view, datetime.now(UTC))
    print(row.label, row.last, row.reason and row.reason.words(datetime.now(UTC)))

No function here waits or reads a clock. Unexpected events do not raise; they are counted.
"""

from __future__ import annotations

from arcp_client._wire.names import ENDED
from arcp_client.projection.activity import Activity
from arcp_client.projection.attention import Reason, reason_of, verdict_of
from arcp_client.projection.fold import JobProjection
from arcp_client.projection.money import Meter
from arcp_client.projection.row import JobRow
from arcp_client.projection.values import Bar, Call, Child, Fault, Hole

__all__ = [
    "ENDED",
    "Activity",
    "Bar",
    "Call",
    "Child",
    "Fault",
    "Hole",
    "JobProjection",
    "JobRow",
    "Meter",
    "Reason",
    "reason_of",
    "verdict_of",
]
