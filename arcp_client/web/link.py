"""A client's states and counters in, one frame for every viewer out: how its link stands."""

from __future__ import annotations

import time
from typing import Any

from arcp_client import Client, Closed, Connecting, Event, Gap, LinkState, Live, Reconnecting
from arcp_client.transcripts import Scrubber
from arcp_client.web import frames
from arcp_client.web.signals import Shown

__all__ = ["Link"]

_SECONDS = 0.2
_LOOK = 1.0


class Link:
    """How the link of a client stands.

    Args:
        client: whose.
        scrubber: masks what the cause of a lost link may quote.

    Attributes:
        shown: the frame, and who is told when it changes.
    """

    def __init__(self, client: Client, scrubber: Scrubber) -> None:
        self._client = client
        self._scrubber = scrubber
        self._retry_at: int | None = None
        self._gap: dict[str, Any] | None = None
        self._told: dict[str, Any] = {}
        self._looked = float("-inf")
        self.shown = Shown(self._frame, _SECONDS)
        self._states = client.states.subscribe(on_next=self._changed)
        self._gaps = client.subscribe(self._missed, Gap, barrier=False)

    def _changed(self, state: LinkState) -> None:
        self._retry_at = _ms(state.delay) if isinstance(state, Reconnecting) else None
        self.shown.now()

    def _missed(self, event: Event) -> None:
        assert isinstance(event, Gap)
        self._gap = {"first": event.first, "last": event.last, "reason": event.reason}
        self.shown.now()

    def look(self) -> None:
        """Tell of the counters, once a second and if they have changed."""
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            if self.describe() != self._told:
                self.shown.tell()

    def describe(self) -> dict[str, Any]:
        """The link as of now."""
        state, stats = self._client.state, self._client.stats()
        cause = getattr(state, "cause", None)
        return {
            "state": _NAMES.get(type(state), "connecting"),
            "attempt": getattr(state, "attempt", 0),
            "retry_in": state.delay if isinstance(state, Reconnecting) else None,
            "retry_at": self._retry_at,
            "resumed": isinstance(state, Live) and state.resumed,
            "cause": self._scrubber.text(str(cause)) if cause is not None else None,
            "gap": self._gap,
            "received": stats.received,
            "processed": stats.processed,
            "reconnects": stats.reconnects,
            "lag_events": stats.queued,
            "lag_seconds": round(stats.lag, 3),
        }

    def _frame(self) -> bytes:
        self._told = self.describe()
        return frames.frame("link", frames.encoded(self._told))

    def close(self) -> None:
        """Leave the client."""
        self._states.dispose()
        self._gaps.dispose()
        self.shown.close()


_NAMES: dict[type[LinkState], str] = {
    Connecting: "connecting",
    Live: "live",
    Reconnecting: "reconnecting",
    Closed: "closed",
}


def _ms(delay: float) -> int:
    return int((time.time() + delay) * 1000)
