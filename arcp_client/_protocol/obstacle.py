"""Finds a frame that ends every link, so that the session can skip it.

If a transport or a proxy refuses a frame, for example because of its length, the link ends. The
next link resumes from the same cursor, so its replay begins with the refused frame and ends in the
same place, again and again.
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
    """Counts the links that ended at the same place because a frame was refused."""

    def __init__(self) -> None:
        self._place = ("", -1)
        self._links = 0
        self._passed_to = ("", -1)
        self._steps = 0

    def met(self, session_id: str, cursor: int) -> Conclusion:
        """Note that a link ended at a refused frame; everything up to ``cursor`` was received."""
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
        """Note that the place was skipped: the next link resumes from ``cursor``."""
        self._passed_to = (session_id, cursor)
