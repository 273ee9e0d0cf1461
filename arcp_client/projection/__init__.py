"""Folds the events of one job into values for display, in bounded memory.

A screen, a page or a log line needs the state of a job instead of its events: progress, phase,
spent budget and remaining time. A `JobProjection` folds the events into that state, one at a time,
in constant memory::

    view = JobProjection.of(job)
    async for event in job:
        view.apply(event)
        print(view.phase, view.progress, view.meters)

No function here waits or reads a clock, and unexpected events do not raise: they are counted.
"""

from __future__ import annotations

from arcp_client._wire.names import ENDED
from arcp_client.projection.fold import JobProjection
from arcp_client.projection.money import Meter
from arcp_client.projection.values import Bar, Call, Child, Fault, Hole

__all__ = ["ENDED", "Bar", "Call", "Child", "Fault", "Hole", "JobProjection", "Meter"]
