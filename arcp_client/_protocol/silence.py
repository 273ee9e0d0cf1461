"""Notices jobs that the runtime calls running and of which nothing comes after a lost link.

Some runtimes bind a job to the link that it was submitted over, and may go on to say that it runs
when its events go nowhere. They are polled, with growing pauses; no answer tells such a job from
one that is merely quiet. So after a while it is said, once, and the polling goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

__all__ = ["SILENCE", "Silence"]

SILENCE: Final = 300.0
"""Seconds without an event until it is said. By then a job has been polled four times."""


class Silence:
    """The jobs whose link was lost, and how long each has been silent since.

    Time without a link does not count.

    Args:
        bound: seconds of silence until a job is reported.
        runs: whether a job has not ended.

    Attributes:
        bound: see above.
    """

    def __init__(self, bound: float, *, runs: Callable[[str], bool]) -> None:
        self.bound = bound
        self._runs = runs
        self._since: dict[str, float] = {}
        self._silent: dict[str, None] = {}
        self._lost_at: float | None = None

    @property
    def silent(self) -> tuple[str, ...]:
        """The jobs that were reported, that have not ended, and of which nothing came since."""
        return tuple(job_id for job_id in self._silent if self._runs(job_id))

    @property
    def watching(self) -> bool:
        """Whether `seen` needs to be told."""
        return bool(self._since or self._silent)

    @property
    def deadline(self) -> float | None:
        """When `due` must be asked."""
        if self._lost_at is not None or not self._since:
            return None
        return min(self._since.values()) + self.bound

    def lost(self, jobs: Iterable[str], now: float) -> None:
        """A link is gone over which events of these jobs came."""
        self._since = {job_id: at for job_id, at in self._since.items() if self._runs(job_id)}
        for job_id in jobs:
            if job_id not in self._silent:
                self._since.setdefault(job_id, now)
        self._lost_at = now

    def linked(self, now: float) -> None:
        """A link is live."""
        if self._lost_at is not None:
            without = now - self._lost_at
            self._since = {job_id: at + without for job_id, at in self._since.items()}
            self._lost_at = None

    def seen(self, job_id: str | None, now: float) -> None:
        """Something of a job came: it may be what the runtime held, and the rest may not follow."""
        if job_id in self._since or job_id in self._silent:
            assert job_id is not None
            self._silent.pop(job_id, None)
            self._since[job_id] = now

    def due(self, now: float) -> list[str]:
        """The jobs that have been silent for so long by now; each is given once."""
        deadline = self.deadline
        if deadline is None or now < deadline:
            return []
        due = [job_id for job_id, at in self._since.items() if now >= at + self.bound]
        for job_id in due:
            del self._since[job_id]
        due = [job_id for job_id in due if self._runs(job_id)]
        self._silent = dict.fromkeys([*self.silent, *due])
        return due
