"""Declares the interface through which consumers report progress, so that the reader continues.

`BackPressure` implements it: it pauses the reader of the link while consumers are behind (rule D6
in docs/explanation/rules.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from arcp_client.events import Event

__all__ = ["ReaderGate", "report_progress"]


class ReaderGate(Protocol):
    """The interface through which consumers report progress; implemented by `BackPressure`.

    Attributes:
        watching: whether ``follower`` or `progress` must be called for processed events.
        progress_wanted: whether the reader waits until consumers have caught up.
        heavy: whether the consumers are behind in bytes, so that each processed event may let the
            reader continue.
        low: number of outstanding events at which the reader continues.
        check_loop: raises LocalProtocolError unless the caller is in the client's event loop.
        follower: called with every processed event.
    """

    watching: bool
    progress_wanted: bool
    heavy: bool
    low: int
    follower: Callable[[Event | None], None] | None

    @property
    def blocked(self) -> bool:
        """Whether no further event comes before consumers have processed earlier ones."""

    @property
    def check_loop(self) -> Callable[[], None]: ...

    def progress(self) -> None:
        """Report that events were processed."""

    async def wait_for(self, future: asyncio.Future[Any], *, result: bool = False) -> None:
        """Wait for a future that an event resolves."""


def report_progress(gate: ReaderGate, outstanding: int) -> None:
    """Report progress to the reader if it may continue.

    Called once for each processed event, while `ReaderGate.progress_wanted`.

    Args:
        gate: lets the reader continue.
        outstanding: number of outstanding events of the calling consumer.
    """
    if gate.heavy or outstanding == gate.low or not outstanding:
        gate.progress()
