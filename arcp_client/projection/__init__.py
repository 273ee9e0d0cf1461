"""Computes values for display from the events of one job, in bounded memory.

A screen, a page or a log line shows not the events of a job but its state: progress, phase, spent
budget and remaining time. A `JobProjection` computes this state from the events, one at a time, in
constant memory::

    view = JobProjection.of(job)
    async for event in job:
        view.apply(event)
        print(view.phase, view.progress, view.meters)

No function here waits or reads a clock. Unexpected events do not raise; they are counted.
"""

from __future__ import annotations

from arcp_client._wire.names import ENDED
from arcp_client.projection.fold import JobProjection
from arcp_client.projection.money import Meter
from arcp_client.projection.values import Bar, Call, Child, Fault, Hole

__all__ = ["ENDED", "Bar", "Call", "Child", "Fault", "Hole", "JobProjection", "Meter"]
