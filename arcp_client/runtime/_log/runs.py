"""Joins consecutive events, and consecutive numbers, into runs: one row of a table each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from arcp_client.runtime._log.entries import Appended, Numbered

__all__ = ["event_runs", "number_runs"]


def event_runs(entries: Sequence[Appended]) -> list[list[Appended]]:
    """Return the events of each job, in runs of consecutive indexes."""
    jobs: defaultdict[str, list[Appended]] = defaultdict(list)
    for entry in entries:
        jobs[entry.record.job_id].append(entry)
    runs: list[list[Appended]] = []
    for of_job in jobs.values():
        first = of_job[0].record.index
        if of_job[-1].record.index - first + 1 == len(of_job):
            runs.append(of_job)
        else:  # what is left of a history that was trimmed
            runs += ([entry] for entry in of_job)
    return runs


def number_runs(entries: Sequence[Numbered]) -> list[list[Numbered]]:
    """Return the numbers of each session, in runs with consecutive numbers and indexes of a job."""
    latest: dict[str, list[Numbered]] = {}
    runs: list[list[Numbered]] = []
    for entry in entries:
        run = latest.get(entry.session_id)
        if run is None or (run[-1].seq + 1, run[-1].job_id, run[-1].index + 1) != (
            entry.seq,
            entry.job_id,
            entry.index,
        ):
            run = latest[entry.session_id] = []
            runs.append(run)
        run.append(entry)
    return runs
