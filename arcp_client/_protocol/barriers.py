"""Tells when the peer has read everything that was sent up to a point: by the pong behind it.

A runtime reads its link in order, so the answer to a ping shows that what was sent before the ping
was read, and that what the runtime sent in answer to it came before the pong.
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
        """Send a ping; ``passed`` is called with the time when its pong comes. Gives its nonce."""
        nonce = nonce or new_id()
        self._waiting[nonce] = passed
        self._out.ping(now, nonce)
        return nonce

    def awaits(self, nonce: object) -> bool:
        """Whether a pong belongs to a barrier: it must not overtake the events before it."""
        return isinstance(nonce, str) and nonce in self._waiting

    def passed(self, nonce: object, now: float) -> bool:
        """A pong came; whether it belongs to a barrier.

        A pong that names no ping may belong to any of them, and to a request as well.
        """
        if not isinstance(nonce, str) or not nonce:
            waiting, self._waiting = self._waiting, {}
            for each in waiting.values():
                each(now)
            return False
        passed = self._waiting.pop(nonce, None)
        if passed is None:
            return False
        passed(now)
        return True

    def lost(self) -> None:
        """The link is gone: its barriers are never passed."""
        self._waiting.clear()
