"""Reports the progress of consumers to the back-pressure on the reader (D6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from arcp_client.events import Event

__all__ = ["ReaderGate"]


class ReaderGate(Protocol):
    """Lets the reader go on when consumers make progress.

    Attributes:
        watching: progress is to be reported.
        progress_wanted: the reader waits until consumers have caught up.
        heavy: it is bytes that they are behind by, so that every event counts.
        low: events outstanding at which the reader goes on.
        check_loop: raises unless the caller is in the client's event loop.
        follower: told of every event that is done.
    """

    watching: bool
    progress_wanted: bool
    heavy: bool
    low: int
    follower: Callable[[Event | None], None] | None

    @property
    def check_loop(self) -> Callable[[], None]: ...

    def progress(self) -> None:
        """An event is done."""

    async def wait_for(self, future: asyncio.Future[Any], *, result: bool = False) -> None:
        """Wait for a future that only the link can resolve."""
