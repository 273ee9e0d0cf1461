"""Reports registrations that fall behind, once for each time that they do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from arcp_client._dispatch.registration import HandlerRegistration

__all__ = ["SLOW_AFTER", "Episode", "SlowConsumers"]

SLOW_AFTER = 0.1
"""Seconds."""


class Episode(NamedTuple):
    """A registration has come so far behind that it holds up the reader.

    Attributes:
        registration: which.
        events: how many wait in it.
        seconds: since the oldest of them came.
    """

    registration: HandlerRegistration
    events: int
    seconds: float


class SlowConsumers:
    """Watches the registrations of one client.

    An episode begins when as many events wait as stop the reader, and the oldest of them does so
    for `SLOW_AFTER`: a burst alone is none. It ends when the reader may go on.

    Args:
        soft: where one begins.
        registrations: whom to watch.
        tell: told of each episode.
    """

    def __init__(
        self,
        soft: int,
        registrations: Sequence[HandlerRegistration],
        tell: Callable[[Episode], None],
    ) -> None:
        self._soft = soft
        self._low = max(soft // 2, 1)
        self._registrations = registrations
        self._tell = tell
        self._slow: list[HandlerRegistration] = []

    def look(self) -> None:
        """Look again."""
        if self._slow:
            self._slow = [one for one in self._slow if one.outstanding > self._low]
        for registration in self._registrations:
            events = registration.outstanding
            if events < self._soft or registration in self._slow:
                continue
            since = registration.since()
            now = asyncio.get_running_loop().time()
            if since is not None and now - since >= SLOW_AFTER:
                self._slow.append(registration)
                self._tell(Episode(registration, events, now - since))
