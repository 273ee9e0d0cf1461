"""Jobs that a resumed link hears nothing of in, when to resume once more out (§6.3).

Some runtimes keep what a job says after its link dropped, send it with the next resume, and go on
to send nothing. So as long as such a job runs, the session is resumed from time to time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

__all__ = ["FIRST_PAUSE", "LONGEST_PAUSE", "Deafness"]

FIRST_PAUSE: Final = 2.0
"""Seconds until the first resume that is made for the sake of what it brings."""
LONGEST_PAUSE: Final = 30.0
"""Seconds between two of them at most; they double while nothing comes."""
_BUSY: Final = 1.0


class Deafness:
    """When to resume for the sake of jobs whose events do not come by themselves.

    Attributes:
        deadline: when `due` must be asked; ``None`` if every job is heard.
    """

    def __init__(self) -> None:
        self.deadline: float | None = None
        self._jobs: set[str] = set()
        self._pause = FIRST_PAUSE
        self._cursor = -1

    def resumed(self, jobs: Iterable[str], cursor: int, now: float) -> None:
        """A link was resumed.

        Args:
            jobs: those that had been submitted before, and run.
            cursor: what had been received before it.
            now: the time.
        """
        moved, self._cursor = cursor != self._cursor, cursor
        self._pause = FIRST_PAUSE if moved else min(2 * self._pause, LONGEST_PAUSE)
        self._jobs = set(jobs)
        self.deadline = now + self._pause if self._jobs else None

    def learn(self, job_id: str, now: float) -> None:
        """One more job is bound to a link that is gone."""
        self._jobs.add(job_id)
        if self.deadline is None:
            self.deadline = now + self._pause

    def ended(self, job_id: str) -> None:
        """A job's end came, or is not waited for."""
        self._jobs.discard(job_id)
        if not self._jobs:
            self.deadline = None

    def due(self, now: float, *, busy: bool) -> bool:
        """Whether to resume now; not while a request is on its way."""
        if self.deadline is None or now < self.deadline:
            return False
        self.deadline = now + _BUSY
        return not busy

    def lost(self) -> None:
        """The link is gone: the next one tells what is deaf."""
        self._jobs.clear()
        self.deadline = None
