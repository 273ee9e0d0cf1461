"""Finds the frame at which every link ends, so that the session can skip it.

A frame that a transport or a proxy refuses ends the link. It is the first frame of each replay, so
a client would otherwise resume from the same cursor for ever.
"""

from __future__ import annotations

import enum
from typing import Final

__all__ = ["LINKS", "STEPS", "Conclusion", "Obstacle"]

LINKS: Final = 2
"""Links that must end at one place before it is skipped."""
STEPS: Final = 16
"""Places that may be skipped in a row without a received frame between them."""


class Conclusion(enum.Enum):
    """The conclusion from the end of a link."""

    FIRST = "first"
    """The first link that ended at this place."""
    SAME_PLACE = "same place"
    """Another link ended here: skip the place."""
    BEHIND_PASSED = "behind passed"
    """The same, and no frame was received since the last skip."""
    NO_WAY = "no way"
    """`STEPS` places were skipped without effect: the session cannot continue."""


class Obstacle:
    """Where links ended for a frame that was refused."""

    def __init__(self) -> None:
        self._place = ("", -1)
        self._links = 0
        self._passed_to = ("", -1)
        self._steps = 0

    def met(self, session_id: str, cursor: int) -> Conclusion:
        """A link ended for a refused frame after everything up to the cursor was received."""
        place = (session_id, cursor)
        self._links = self._links + 1 if place == self._place else 1
        self._place = place
        if self._links < LINKS:
            return Conclusion.FIRST
        behind = place == self._passed_to
        self._steps = self._steps + 1 if behind else 1
        self._links = 0
        if self._steps > STEPS:
            return Conclusion.NO_WAY
        return Conclusion.BEHIND_PASSED if behind else Conclusion.SAME_PLACE

    def passed(self, session_id: str, cursor: int) -> None:
        """The place was dealt with; the cursor is where the next link begins."""
        self._passed_to = (session_id, cursor)
