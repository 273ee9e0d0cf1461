"""Reports the state of the client's link and its counters to all pages."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from arcp_client import Client, Closed, Connecting, Event, Gap, LinkState, Live, Reconnecting
from arcp_client._feeds import frames
from arcp_client._feeds.signals import SharedFrame
from arcp_client.transcripts import Scrubber

__all__ = ["LinkStatus"]

_FRAME_INTERVAL = 0.2
_POLL_INTERVAL = 1.0
_HISTORY = 50
"""States of the link that are kept, with their times."""


class LinkStatus:
    """The state of a client's link, as a frame for pages.

    Args:
        client: the client.
        scrubber: masks secrets in the error message of a lost link.
        questions: returns the number of open questions, and the revision of their list.

    Attributes:
        shared: the frame; it wakes pages when the state or a counter changes.
    """

    def __init__(
        self,
        client: Client,
        scrubber: Scrubber,
        questions: Callable[[], dict[str, int]] = lambda: {"open": 0, "revision": 0},
    ) -> None:
        self._client = client
        self._questions = questions
        self._scrubber = scrubber
        self._retry_at: int | None = None
        self._gap: dict[str, Any] | None = None
        self._sent: dict[str, Any] = {}
        self._history: deque[dict[str, Any]] = deque(maxlen=_HISTORY)
        self._polled = float("-inf")
        self.shared = SharedFrame(self._frame, _FRAME_INTERVAL)
        self._states = client.states.subscribe(on_next=self._state_changed)
        self._gaps = client.subscribe(self._gap_found, Gap, barrier=False)

    def _state_changed(self, state: LinkState) -> None:
        self._retry_at = _ms(state.delay) if isinstance(state, Reconnecting) else None
        self._note(state)
        self.shared.notify_now()

    def _gap_found(self, event: Event) -> None:
        assert isinstance(event, Gap)
        self._gap = {"first": event.first, "last": event.last, "reason": event.reason}
        self._history.append({"at": _ms(0), "state": "gap", "gap": self._gap})
        self.shared.notify_now()

    def _note(self, state: LinkState) -> None:
        """Add a state to the history; another try of the same kind replaces the one before."""
        cause = getattr(state, "cause", None)
        entry = {
            "at": _ms(0),
            "state": _NAMES.get(type(state), "connecting"),
            "cause": self._scrubber.text(str(cause)) if cause is not None else None,
            "resumed": isinstance(state, Live) and state.resumed,
        }
        if self._history and self._history[-1]["state"] == entry["state"]:
            entry["at"] = self._history.pop()["at"]
        self._history.append(entry)

    def poll(self) -> None:
        """Notify pages if a counter has changed. Checks at most once a second."""
        now = time.monotonic()
        if now - self._polled >= _POLL_INTERVAL:
            self._polled = now
            if self.describe() != self._sent:
                self.shared.notify()

    def describe(self) -> dict[str, Any]:
        """The state and the counters as of now, as a JSON object."""
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
            "history": list(self._history),
            "questions": self._questions(),
            "received": stats.received,
            "processed": stats.processed,
            "reconnects": stats.reconnects,
            "lag_events": stats.queued,
            "lag_seconds": round(stats.lag, 3),
        }

    def _frame(self) -> bytes:
        self._sent = self.describe()
        return frames.frame("link", frames.encoded(self._sent))

    def close(self) -> None:
        """Unsubscribe from the client."""
        self._states.dispose()
        self._gaps.dispose()
        self.shared.close()


_NAMES: dict[type[LinkState], str] = {
    Connecting: "connecting",
    Live: "live",
    Reconnecting: "reconnecting",
    Closed: "closed",
}


def _ms(delay: float) -> int:
    return int((time.time() + delay) * 1000)
