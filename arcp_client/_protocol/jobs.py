"""Job ids in, what this session knows of them out: whose they are and whether they ended."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from arcp_client.models import OpenJob

__all__ = ["KnownJob", "KnownJobs"]


class KnownJob(msgspec.Struct):
    """A job that has not ended, as far as this session knows.

    Attributes:
        job_id: its id.
        mine: this client submitted it.
        watched: this session subscribed to it.
        live: without its history: of its past nothing is wanted.
        heard: its runtime told of it unasked, and its events come in any case.
        home: the session that submitted it, if that is known; its numbers are the ones that count.
        since: its events up to this number of that session are known; set once that is gone.
        agent: name or name@version, once known.
        key: the idempotency key that it was submitted with.
        payload: what was submitted; sent again where only that brings a lost outcome back.
        trace_id: what it was submitted with.
    """

    job_id: str
    mine: bool = False
    watched: bool = False
    live: bool = False
    heard: bool = False
    home: str = ""
    since: int | None = None
    agent: str = ""
    key: str | None = None
    payload: object = None
    trace_id: str | None = None

    @property
    def ours(self) -> bool:
        """Whether somebody here is interested in it."""
        return self.mine or self.watched


class KnownJobs:
    """The open jobs, and the ids of the last ones that ended.

    Args:
        remember: how many ended ones are remembered, so that a second terminal is recognised.
    """

    def __init__(self, *, remember: int = 4096) -> None:
        self._open: dict[str, KnownJob] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._remember = remember

    def __iter__(self) -> Iterator[KnownJob]:
        return iter(tuple(self._open.values()))

    def get(self, job_id: str | None) -> KnownJob | None:
        """The open job of that id."""
        return self._open.get(job_id) if job_id is not None else None

    def learn(self, job_id: str) -> KnownJob:
        """The open job of that id, made known if need be."""
        job = self._open.get(job_id)
        if job is None:
            job = self._open[job_id] = KnownJob(job_id)
            self._ended.pop(job_id, None)
        return job

    def resume(self, job: OpenJob, *, home: str) -> None:
        """A job that had not ended when a checkpoint was taken; its submit is not repeated."""
        known = self.learn(job.job_id)
        known.mine = True
        known.home, known.agent, known.key = home, job.agent, job.idempotency_key

    def end(self, job_id: str) -> bool:
        """It ended; False if that was known."""
        if job_id in self._ended:
            return False
        self._open.pop(job_id, None)
        self._ended[job_id] = None
        if len(self._ended) > self._remember:
            self._ended.popitem(last=False)
        return True

    def again(self, job_id: str) -> None:
        """It is told once more from its beginning, its end included."""
        self._ended.pop(job_id, None)

    def forget(self, job_id: str) -> None:
        """Nothing more is wanted of it."""
        self._open.pop(job_id, None)

    def has_ended(self, job_id: str) -> bool:
        """Whether its end was seen, not too long ago."""
        return job_id in self._ended
