"""Reports jobs that send no events after a lost link although the runtime reports them as running.

Some runtimes bind a job to the link over which it was submitted. After that link is lost, they
discard the job's events but still report the job as running. The client polls the job (see
`plans`), but no answer distinguishes such a job from one that has nothing to say. So this module
reports a silent job once, after a while, and the polling continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

__all__ = ["SILENCE", "Silence"]

SILENCE: Final = 300.0
"""Seconds without an event until a job is reported. By then it has been polled four times."""


class Silence:
    """Measures how long jobs have sent no event since a link was lost.

    Time without a link does not count.

    Args:
        bound: seconds of silence until a job is reported.
        runs: whether a job has not ended.

    Attributes:
        bound: the argument.
    """

    def __init__(self, bound: float, *, runs: Callable[[str], bool]) -> None:
        self.bound = bound
        self._runs = runs
        self._since: dict[str, float] = {}
        self._silent: dict[str, None] = {}
        self._lost_at: float | None = None

    @property
    def silent(self) -> tuple[str, ...]:
        """The reported jobs that have neither ended nor sent an event since."""
        return tuple(job_id for job_id in self._silent if self._runs(job_id))

    @property
    def watching(self) -> bool:
        """Whether `seen` must be called for events."""
        return bool(self._since or self._silent)

    @property
    def deadline(self) -> float | None:
        """The time at which `due` must be called."""
        if self._lost_at is not None or not self._since:
            return None
        return min(self._since.values()) + self.bound

    def lost(self, jobs: Iterable[str], now: float) -> None:
        """Start to measure the silence of jobs whose link was lost."""
        self._since = {job_id: at for job_id, at in self._since.items() if self._runs(job_id)}
        for job_id in jobs:
            if job_id not in self._silent:
                self._since.setdefault(job_id, now)
        self._lost_at = now

    def linked(self, now: float) -> None:
        """Continue to measure, because a link is live."""
        if self._lost_at is not None:
            without = now - self._lost_at
            self._since = {job_id: at + without for job_id, at in self._since.items()}
            self._lost_at = None

    def seen(self, job_id: str | None, now: float) -> None:
        """Note an event of a job. Measure its silence again, as further events may be missing."""
        if job_id in self._since or job_id in self._silent:
            assert job_id is not None
            self._silent.pop(job_id, None)
            self._since[job_id] = now

    def due(self, now: float) -> list[str]:
        """The jobs that have been silent for ``bound`` seconds. Each is returned once."""
        deadline = self.deadline
        if deadline is None or now < deadline:
            return []
        due = [job_id for job_id, at in self._since.items() if now >= at + self.bound]
        for job_id in due:
            del self._since[job_id]
        due = [job_id for job_id in due if self._runs(job_id)]
        self._silent = dict.fromkeys([*self.silent, *due])
        return due
