"""Follows the jobs of other replicas for the sessions of this one.

A mirror is a `ServerJob` whose agent runs on another replica. The mirror emits nothing itself: this
replica reads the job's events from the `Directory`, through which replicas find each other's jobs.
It reads them once for all of its sessions that receive them. Each of these sessions has a
`SubscriptionFeed` of the mirror, which numbers the events in the session.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from arcp_client._log_fields import log_fields
from arcp_client._tasks import TaskOwner
from arcp_client._wire import names
from arcp_client._wire.stamp import Record, job_part
from arcp_client.errors import RequestError
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._jobs.registry import JobRegistry
from arcp_client.runtime._jobs.restore import stored_job
from arcp_client.runtime._log.directory import KnownJob, SharedJobs
from arcp_client.runtime._log.entries import Appended, Watch
from arcp_client.runtime._sessions.session import ServerSession, SubscriptionFeed

__all__ = ["Mirrors"]

T = TypeVar("T")

_log = logging.getLogger("arcp_client.runtime")

_PAGE_BYTES = 256 * 1024
_FEW = 128
"""A read of fewer events was not cut off by the limits of the directory."""
_RETRY = 1.0
_AHEAD = 4096
"""Events that a mirror reads beyond the position of its slowest feed."""


class Mirrors:
    """The mirrors of one replica.

    Args:
        shared: the jobs of all replicas.
        jobs: the registry, which holds the mirrors.
        tasks: owns the tasks that read events.
        broken: called for a subscription whose next event is no longer held.
    """

    def __init__(
        self,
        shared: SharedJobs,
        jobs: JobRegistry,
        tasks: TaskOwner,
        broken: Callable[[ServerSession, SubscriptionFeed], None],
    ) -> None:
        self._shared = shared
        self._jobs = jobs
        self._tasks = tasks
        self._broken = broken
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()

    async def find(self, job_id: str, session: ServerSession | None = None) -> ServerJob | None:
        """Return a job of this replica, or the mirror of another one's.

        Args:
            job_id: the job.
            session: a session that wants to control the job: whether it may is read anew.

        Raises:
            RequestError: the directory cannot be reached.
        """
        job = self._jobs.get(job_id)
        if job is not None and (session is None or session.id in job.authorities):
            return job
        known = await self._shared.find(job_id)
        job = self._jobs.get(job_id) or job
        if known is None:
            return job
        if job is None:
            job = self._mirror(known)
        job.authorities |= set(known.state.authorities)
        return job

    def _mirror(self, known: KnownJob) -> ServerJob:
        state = known.state
        job = self._jobs.mirrors.get(state.id)
        if job is None:
            job = stored_job(state, self._jobs.mirror, None)
            job.history.start_at(known.end)
        if state.ended is None and not job.ended:  # its end is read with its events
            job.status = state.status
        job.last_seq = max(job.last_seq, known.last_seq)
        return job

    async def start(self, job: ServerJob, from_seq: int | None) -> int:
        """Return the index from which a subscription with history begins; hold it if possible.

        Raises:
            RequestError: the directory cannot be reached.
        """
        index = await self._shared.index_after(job.id, from_seq or 0)
        if index is None:
            index = job.history.after(from_seq or 0)
        await self._reach(job, index)
        return max(index, job.history.floor)

    async def _reach(self, job: ServerJob, index: int) -> None:
        """Read the events before those that a history holds."""
        while index < job.history.floor:
            earlier = await self._shared.history(job.id, index, _PAGE_BYTES)
            floor = job.history.floor
            wanted = [entry for entry in earlier if index <= entry.record.index < floor]
            if not wanted:
                return
            if wanted[-1].record.index + 1 < floor:  # there are more: the history begins anew
                job.history.start_at(index)
                self._append(job, wanted)
                await self._read(job)
            else:
                job.history.prepend([(e.seq, self._record(job, e)) for e in wanted])
            return

    # ------------------------------------------------------------------------ sessions

    async def take_over(self, session: ServerSession, watches: Sequence[Watch]) -> None:
        """Continue the subscriptions of a session that this replica has just taken over.

        If that fails, they are continued later: this replica holds the session in any case, so the
        next resume does not read them again.

        Raises:
            RequestError: the directory cannot be reached.
        """
        for n, watch in enumerate(watches):
            try:
                await self._continue(session, watch)
            except RequestError:
                for left in watches[n:]:
                    self._tasks.spawn(self.keep_following(session, left), name="follow")
                raise

    async def keep_following(self, session: ServerSession, watch: Watch) -> None:
        """Continue a subscription, and try again while the directory cannot be reached."""
        await self.retried(session, watch.job_id, partial(self._continue, session, watch))

    async def retried(
        self, session: ServerSession, job_id: str, call: Callable[[], Awaitable[T]]
    ) -> T | None:
        """Make a call for a session, and repeat it while the directory cannot be reached.

        The result is ``None`` if this replica holds the session no longer.
        """
        while not (session.lost or session.expired):
            try:
                return await call()
            except RequestError as error:
                fields = log_fields(job=job_id)
                _log.warning("job %s cannot be followed yet: %s", job_id, error, extra=fields)
                await asyncio.sleep(_RETRY)
        return None

    async def _continue(self, session: ServerSession, watch: Watch) -> None:
        job = await self.find(watch.job_id)
        if job is None or watch.next is None or session.lost or session.expired:
            return
        await self._reach(job, watch.next)
        if watch.job_id not in session.feeds:
            feed = SubscriptionFeed(
                session, job.id, job.history, watch.next, partial(self._broken, session)
            )
            feed.first = watch.first
            session.feeds[job.id] = feed
            job.feeds[session] = feed
            feed.push()
        self.wake(job.id)

    # ------------------------------------------------------------------------- reading

    def wake(self, job_id: str) -> None:
        """Read the new events of a job, if it is mirrored here."""
        job = self._jobs.mirrors.get(job_id)
        if job is None:
            return
        if job_id in self._reading:
            self._again.add(job_id)
            return
        task = self._reading[job_id] = self._tasks.spawn(self._follow(job), name="mirror")
        task.add_done_callback(partial(self._read_once, job_id))

    def wake_all(self) -> None:
        """Read the new events of all mirrored jobs; forget mirrors without feeds."""
        for job_id, job in tuple(self._jobs.mirrors.items()):
            if not job.feeds and job_id not in self._reading:
                del self._jobs.mirrors[job_id]
            else:
                self.wake(job_id)

    def _read_once(self, job_id: str, task: asyncio.Task[None]) -> None:
        self._reading.pop(job_id, None)
        if job_id in self._again:
            self._again.discard(job_id)
            self.wake(job_id)

    async def _follow(self, job: ServerJob) -> None:
        try:
            await self._read(job)
        except RequestError as error:  # the next poll tries again
            self._shared.follow(job.id, job.history.end)
            fields = job.log_fields
            _log.warning("the events of job %s cannot be read: %s", job.id, error, extra=fields)

    async def _read(self, job: ServerJob) -> None:
        while not (job.ended and job.history.is_at_end):
            feeds = tuple(job.feeds.values())
            position = job.history.end
            if feeds and position - min(feed.next for feed in feeds) > _AHEAD:
                self._shared.follow(job.id, position)
                return  # a slow observer: the store keeps the events
            entries = await self._shared.history(job.id, position, _PAGE_BYTES)
            if job.history.end != position:
                continue  # another reader has moved it: these entries may not be the next ones
            if not entries:
                return
            self._append(job, entries)
            size = sum(entry.record.size for entry in entries)
            if len(entries) < _FEW and size < _PAGE_BYTES // 2:
                return  # these were all: later ones wake this mirror again

    def _append(self, job: ServerJob, entries: Iterable[Appended]) -> None:
        last = None
        for entry in entries:
            record = self._record(job, entry)
            if record.index < job.history.end:
                continue
            job.history.restore(record.index, entry.seq, record)
            job.last_seq = max(job.last_seq, entry.seq)
            last = record
        if last is None:
            return
        if last.terminal:
            self._end(job, last.payload)
        for feed in tuple(job.feeds.values()):
            feed.push()
            if feed.ended:
                job.feeds.pop(feed.session, None)

    def _record(self, job: ServerJob, entry: Appended) -> Record:
        return msgspec.structs.replace(
            entry.record,
            job=job_part(job.id, job.trace_id),
            at=asyncio.get_running_loop().time(),
        )

    def _end(self, job: ServerJob, payload: bytes) -> None:
        job.status = json.loads(payload).get("final_status", names.ERROR)
        for feed in tuple(job.feeds.values()):
            feed.session.jobs.discard(job.id)
        job.done.set()
