"""Reports registrations that fall behind, once for each time that they do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from arcp_client._dispatch.registration import HandlerRegistration

__all__ = ["SLOW_AFTER", "Episode", "SlowConsumers"]

SLOW_AFTER = 0.1
"""Seconds that the oldest event must wait before a registration counts as slow."""


class Episode(NamedTuple):
    """The time during which a registration is so far behind that the reader pauses.

    Attributes:
        registration: the registration.
        events: number of its outstanding events.
        seconds: time since the arrival of the oldest one.
    """

    registration: HandlerRegistration
    events: int
    seconds: float


class SlowConsumers:
    """Watches the registrations of one client.

    An episode begins when the outstanding events of a registration have reached the soft limit, at
    which the reader pauses, and the oldest has waited for `SLOW_AFTER`. So a short burst does not
    count. The episode ends at half of the soft limit, at which the reader may continue.

    Args:
        soft: the soft limit, in events.
        registrations: the registrations to watch.
        report: called with each new episode.
    """

    def __init__(
        self,
        soft: int,
        registrations: Sequence[HandlerRegistration],
        report: Callable[[Episode], None],
    ) -> None:
        self._soft = soft
        self._registrations = registrations
        self._report = report
        self._slow: list[HandlerRegistration] = []

    def check(self) -> None:
        """Check the registrations for new and ended episodes."""
        if self._slow:
            self._slow = [one for one in self._slow if one.outstanding > self._soft // 2]
        for registration in self._registrations:
            events = registration.outstanding
            if events < self._soft or registration in self._slow:
                continue
            since = registration.since()
            if since is None:
                continue
            # While the reader is paused, one timer of SLOW_AFTER leads here. Unrounded, the
            # difference of two times that far apart is often a little less, such as 0.09999999.
            seconds = round(asyncio.get_running_loop().time() - since, 6)
            if seconds >= SLOW_AFTER:
                self._slow.append(registration)
                self._report(Episode(registration, events, seconds))
