"""Reports the progress of consumers to the back-pressure on the reader (D6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from arcp_client.events import Event

__all__ = ["Relief"]


class Relief(Protocol):
    """Who wants to know that consumers get on; nobody while ``watching`` is False.

    Attributes:
        watching: somebody does.
        easing: somebody waits until consumers have caught up.
        heavy: it is bytes that they are behind by, so that every event counts.
        low: events outstanding at which the reader goes on.
        at_home: raises unless the caller is in the client's event loop.
        follower: told of every event that is done.
    """

    watching: bool
    easing: bool
    heavy: bool
    low: int
    follower: Callable[[Event | None], None] | None

    @property
    def at_home(self) -> Callable[[], None]: ...

    def eased(self) -> None:
        """An event is done."""

    async def wanted(self, future: asyncio.Future[Any], *, result: bool = False) -> None:
        """Wait for a future that only the link can resolve."""
