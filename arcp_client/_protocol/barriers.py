"""Reports when the runtime has read everything that was sent up to a point.

A runtime reads the frames of a link in order. So a ping serves as a barrier: its pong shows that
the runtime has read all earlier frames, and that the answers to those have arrived.
"""

from __future__ import annotations

from collections.abc import Callable

from arcp_client._protocol.actions import ActionQueue
from arcp_client._wire.ids import new_id

__all__ = ["Barriers"]

Passed = Callable[[float], None]


class Barriers:
    """The barriers of one link. Needs the feature ``heartbeat`` (§6.4).

    Args:
        out: sends the pings.
    """

    def __init__(self, out: ActionQueue) -> None:
        self._out = out
        self._waiting: dict[str, Passed] = {}

    def set(self, passed: Passed, now: float, *, nonce: str | None = None) -> str:
        """Send a ping; call ``passed(now)`` when its pong arrives. Returns the ping's nonce."""
        nonce = nonce or new_id()
        self._waiting[nonce] = passed
        self._out.ping(now, nonce)
        return nonce

    def awaits(self, nonce: object) -> bool:
        """Whether a pong belongs to a barrier, and so must not overtake the events before it."""
        return isinstance(nonce, str) and nonce in self._waiting

    def passed(self, nonce: object, now: float) -> None:
        """Handle a pong. One without a nonce passes every barrier."""
        if not isinstance(nonce, str) or not nonce:
            waiting, self._waiting = self._waiting, {}
            for each in waiting.values():
                each(now)
        elif (passed := self._waiting.pop(nonce, None)) is not None:
            passed(now)

    def lost(self) -> None:
        """Drop the barriers of a link that has ended."""
        self._waiting.clear()
