"""Folds the events of one job into the values that a person wants to see, in bounded memory.

A screen, a page or a log line needs the state of a job, not its events: how far it is, what it is
doing, what it has spent and how long the rest will last. A `JobProjection` folds the events into
that, one at a time, in constant memory however long the job runs::

    view = JobProjection.of(job)
    async for event in job:
        view.apply(event)
        print(view.phase, view.progress, view.meters)

Nothing here waits, reads a clock or fails on an odd event: each value is shown or counted.
"""

from __future__ import annotations

from arcp_client._wire.names import ENDED
from arcp_client.projection.fold import JobProjection
from arcp_client.projection.money import Meter
from arcp_client.projection.values import Bar, Call, Child, Fault, Hole

__all__ = ["ENDED", "Bar", "Call", "Child", "Fault", "Hole", "JobProjection", "Meter"]
