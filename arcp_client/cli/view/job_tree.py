"""Computes the state of a job and its child jobs from the events of a session, without I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby

from arcp_client import events
from arcp_client.projection import JobProjection

__all__ = ["MOST", "JobTree"]

MOST = 24
"""Maximum number of jobs shown, including the followed one."""

_TAIL = 4096
_OF_TREE = frozenset({events.Delegate, events.ResultChunk})
"""Events that change more than the state of their job."""


class JobTree:
    """A job and the jobs that it delegated to, as known from the received events.

    Args:
        root: the followed job.
        describe: returns the known state of a job, by its id.
        since: when the runtime accepted the followed job, if known.

    Attributes:
        root: the followed job.
        since: when it was accepted, by the runtime's clock.
        tail: the end of its streamed text so far.
    """

    def __init__(
        self,
        root: JobProjection,
        describe: Callable[[str], JobProjection] = JobProjection,
        *,
        since: datetime | None = None,
    ) -> None:
        self.root = root
        self.since = since if since is None or since.tzinfo else since.replace(tzinfo=UTC)
        self.tail = ""
        self._describe = describe
        self._children: dict[str, JobProjection] = {}

    def __iter__(self) -> Iterator[JobProjection]:
        yield self.root
        yield from self._children.values()

    @property
    def children(self) -> list[JobProjection]:
        """The other jobs, in order of appearance."""
        return list(self._children.values())

    def elapsed(self, now: datetime, watched: float = 0.0) -> float:
        """Return the seconds that the followed job has been running, or ran in total.

        Args:
            now: the time by the runtime's clock.
            watched: seconds since the command began to follow the job; used if the time of
                acceptance is unknown.
        """
        root = self.root
        start = self.since or root.began_at
        end = root.last_at if root.ended and root.last_at is not None else now
        if start is None:
            return watched
        ran = max((end - start).total_seconds(), 0.0)
        return ran if self.since is not None else max(ran, watched)

    def is_own(self, event: events.Event) -> bool:
        """Whether the event belongs to the followed job, or is a gap that may affect it."""
        if event.job_id is None:
            return isinstance(event, events.Gap)
        return event.job_id == self.root.job_id

    def of(self, event: events.Event) -> JobProjection:
        """Return the job of an event; the followed job for an event without a job."""
        job_id = event.job_id
        if job_id is None or job_id == self.root.job_id:
            return self.root
        child = self._children.get(job_id)
        if child is None:
            child = self._describe(job_id)
            named = (each.agent for each in self.root.children if each.job_id == job_id)
            child.agent = child.agent or next(named, "")
            if len(self._children) < MOST - 1:
                self._children[job_id] = child
        return child

    def apply_all(self, batch: Sequence[events.Event]) -> None:
        """Do the same as `apply` for each event, in less time for a long history."""
        root = self.root
        for kind, group in groupby(batch, key=type):
            run = list(group)
            if kind in _OF_TREE or any(event.job_id != root.job_id for event in run):
                for event in run:
                    self.apply(event)
            else:
                root.apply_all(run)

    def apply(self, event: events.Event) -> JobProjection:
        """Update the state from an event; return the event's job."""
        job = self.of(event)
        job.apply(event)
        if isinstance(event, events.ResultChunk) and job is self.root:
            if event.encoding == "utf8":
                self.tail = (self.tail + event.data)[-_TAIL:]
        elif isinstance(event, events.Delegate) and event.child_job_id and event.agent:
            child = self._children.get(event.child_job_id)
            if child is not None and not child.agent:
                child.agent = event.agent
        return job
