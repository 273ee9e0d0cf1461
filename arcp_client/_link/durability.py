"""Locks and composes the checkpoint from which a later process resumes (S1, S5, S9, S10).

``checkpoints`` decides when to write, and up to which event.

=======  ======  =======
client   on      next
=======  ======  =======
OUT      open    HOLDING
OUT      close   OUT
HOLDING  start   SAVING
HOLDING  close   OUT
SAVING   freeze  FROZEN
SAVING   close   OUT
FROZEN   close   OUT
=======  ======  =======

*open* takes the lock, and holds it until *close*. From *start* on, checkpoints are saved. *freeze*:
the client ends, and later events do not count. *close* saves the checkpoint, or deletes it.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from arcp_client._deadline import Deadline
from arcp_client._dispatch.back_pressure import BackPressure
from arcp_client._dispatch.fan_out import FanOut
from arcp_client._link.checkpoints import Checkpointer
from arcp_client._link.driver import Driver
from arcp_client._link.ended_jobs import EndedJobs
from arcp_client._tasks import TaskOwner, pass_on
from arcp_client.errors import StoreLocked
from arcp_client.events import Event
from arcp_client.models import Checkpoint, OpenJob
from arcp_client.stores.base import CheckpointStore
from arcp_client.stores.spool import ChunkLog

__all__ = ["Durability"]

_log = logging.getLogger("arcp_client.checkpoints")

_SEEN = 1024
"""How many envelope ids of processed events a checkpoint holds."""
_PATIENCE = 5.0
"""Seconds that a store has for its last save, and for its release."""

_GRACE = 1.0
"""Seconds that a close waits for these two although its own time is up."""


class Durability:
    """What one client keeps in a store.

    Args:
        store: where to keep it.
        target: who the client talks to.
        key: which of the client's sessions with it.
        fan_out: who consumes, and how far each one is.
        back_pressure: told by consumers of what they are done with.
        fenced: told that another client holds the store's lock now.

    Attributes:
        durable: it outlives the process.
    """

    def __init__(
        self,
        store: CheckpointStore,
        target: str,
        key: str,
        *,
        fan_out: FanOut,
        back_pressure: BackPressure,
        fenced: Callable[[StoreLocked], None] = lambda _error: None,
    ) -> None:
        self.durable = store.durable
        self._store = store
        self._target = target
        self._key = key
        self._fan_out = fan_out
        self._back_pressure = back_pressure
        self._tell_fenced = fenced
        self._fenced = False
        self._spool: Path | None = None
        self._holds = False
        self._closing: asyncio.Task[None] | None = None
        self._driver: Driver | None = None
        self._writer: Checkpointer | None = None
        self._jobs: dict[str, OpenJob] = {}
        self._ended_jobs = EndedJobs()
        self._ends: dict[str, Event] = {}
        self._ended: dict[str, tuple[str, int]] = {}
        self._event_of: dict[int, tuple[str, str]] = {}
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._logs: dict[str, ChunkLog] = {}
        self._restored: tuple[tuple[int, int], ...] = ()
        self._session_restored = ""
        self._session = ""
        self._last: Checkpoint | None = None
        self._final: Checkpoint | None = None
        self._owner = TaskOwner("arcp_client.durability")

    # ------------------------------------------------------------------ life

    async def open(self) -> Checkpoint | None:
        """Take hold of the checkpoint, and give it if there is one.

        Raises:
            StoreLocked: another client holds it.
        """
        checkpoint = await self._store.acquire(self._target, self._key)
        self._holds = True
        self._spool = self._store.spool(self._target, self._key)
        if checkpoint is not None:
            self._jobs = {job.job_id: replace(job, seen=()) for job in checkpoint.jobs}
            self._seen |= {(job.job_id, id): None for job in checkpoint.jobs for id in job.seen}
            self._ended_jobs.restore(checkpoint.ended, self._size_beside)
            self._restored = checkpoint.processed
            self._session = self._session_restored = checkpoint.session_id
        if self._spool is not None:
            known = (*self._jobs, *self._ended_jobs)
            _sweep(self._spool, {ChunkLog.name_for(job_id) for job_id in known})
        self._last = checkpoint
        return checkpoint

    def start(self, driver: Driver) -> None:
        """Save from now on what that driver carries."""
        self._driver = driver
        self._writer = Checkpointer(
            save=self._save,
            snapshot=self._snapshot,
            saved=self._was_saved,
            fenced=self._was_fenced,
            publish=self._publish,
            whole=driver.session.reorder_block_end,
            idle=lambda: self._fan_out.backlog == 0,
            urgent=lambda: self._back_pressure.urgent,
            every=self._store.every,
            interval=self._store.interval,
        )
        self._back_pressure.follower = self._writer.finished
        self._writer.start(self._last)

    def freeze(self) -> None:
        """The client ends: what was processed until now is what counts."""
        if self._writer is None or self._final is not None:
            return
        self._final = self._snapshot(self._writer.seen)
        self._back_pressure.follower = None

    async def close(self, *, forget: bool, deadline: Deadline | None = None) -> None:
        """Save a last time, or delete the checkpoint with ``forget``, and let go of it.

        Idempotent; the first call decides. Once begun it is brought to its end, whoever of those
        that wait for it is cancelled or leaves. What the store raises is logged: the client is over
        all the same.

        Args:
            forget: delete the checkpoint.
            deadline: when to wait no longer, but at least for a second: the lock must be free for
                the next client.
        """
        if self._holds:
            self._holds = False
            self._closing = self._owner.spawn(self._close(forget=forget), name="close")
        if self._closing is None:
            return
        patience = 3 * _PATIENCE if deadline is None else max(deadline.left, _GRACE)
        await asyncio.wait({self._closing}, timeout=patience)

    async def _close(self, *, forget: bool) -> None:
        self.freeze()
        task = asyncio.current_task()
        try:
            if self._writer is not None:
                await self._writer.stop(Deadline(_PATIENCE))
            async with asyncio.timeout(_PATIENCE):
                if self._fenced:
                    pass  # what is stored is another client's
                elif forget:
                    await self._store.delete(self._target, self._key)
                elif self._writer is not None and self._final not in (None, self._writer.last):
                    assert self._final is not None
                    await self._store.save(self._target, self._key, self._final)
        except BaseException as error:  # noqa: BLE001  a store of the user's may raise anything
            pass_on(error, task)
            _log.error("the last checkpoint was not saved (%s)", type(error).__name__)
        finally:
            for log in self._logs.values():
                log.remove() if forget else log.close()
            await self._release()

    async def _release(self) -> None:
        task = asyncio.current_task()
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._store.release(self._target, self._key)
        except BaseException as error:  # noqa: BLE001  a store of the user's may raise anything
            pass_on(error, task)
            _log.error("the store did not let go of a checkpoint (%s)", type(error).__name__)

    # ------------------------------------------------------------------ what happens

    def offer(self, events: list[Event]) -> None:
        """Events arrived, in order."""
        assert self._writer is not None
        for event in events:
            job_id = event.job_id
            if job_id in self._jobs:
                if event.seq is not None:
                    self._event_of[event.seq] = job_id, event.id
                if event.terminal:
                    self._ended[job_id] = (event.session_id, event.seq or 0)
                    self._ends[job_id] = event
        self._writer.offer(events)

    def after(self, action: Callable[[], None]) -> None:
        """Do something in its turn among the events."""
        assert self._writer is not None
        self._writer.after(action)

    def renewed(self, session_id: str, *, fresh: bool) -> None:
        """A welcome came: its token is saved before anything else is delivered (S5)."""
        assert self._writer is not None
        self._session = session_id
        if fresh:
            self._event_of.clear()
        self._writer.renewed(session_id, fresh=fresh)

    def changed(self) -> None:
        """Something is going on: save it before long."""
        if self._writer is not None:
            self._writer.changed()

    def opened(self, job: OpenJob) -> None:
        """A job of this client was accepted."""
        self._jobs[job.job_id] = job
        self.changed()

    def gone(self, job_id: str) -> None:
        """A job's end will never come."""
        if job_id in self._jobs:
            self._ended[job_id] = ("", 0)
            self.changed()

    async def flush(self) -> None:
        """Save now; returns after the attempt."""
        if self._writer is not None and self._final is None:
            await self._writer.flush()

    # ------------------------------------------------------------------ questions

    @property
    def held(self) -> int:
        """Events that wait until a restart could know of them."""
        return self._writer.held if self._writer is not None else 0

    @property
    def mark(self) -> int:
        """The mark of the present session that was saved last."""
        last = self._writer.last if self._writer is not None else None
        return last.mark if last is not None and last.session_id == self._session else 0

    def passed(self) -> asyncio.Future[None] | None:
        """Done when what arrived until now is with its consumers; ``None`` if it is."""
        return self._writer.passed() if self._writer is not None and self._writer.held else None

    def log_for(self, job_id: str) -> ChunkLog | None:
        """Where to keep the chunks of a job of this client; ``None``: in memory only."""
        if self._spool is None or not self._holds:
            return None
        if job_id not in self._jobs and job_id not in self._ended_jobs:
            return None
        log = self._logs.get(job_id)
        if log is None:
            log = self._logs[job_id] = ChunkLog(self._spool, job_id)
        return log

    # ------------------------------------------------------------------ for the writer

    async def _save(self, checkpoint: Checkpoint) -> None:
        await self._store.save(self._target, self._key, checkpoint)

    def _publish(self, events: list[Event]) -> None:
        self._fan_out.publish(events)
        if self._back_pressure.progress_wanted:
            self._back_pressure.progress()  # no consumer reports an event that none of them wanted

    def _snapshot(self, reserved: int) -> Checkpoint | None:
        driver, writer = self._driver, self._writer
        if self._final is not None:
            return self._final
        assert driver is not None
        assert writer is not None
        driver.flush()  # what was read in this turn counts as received
        session = driver.session
        session_id = session.session_id
        if session_id is None:
            return None
        received = session.received
        first_held = writer.first_held
        if first_held is not None:
            received = min(received, first_held - 1)
        mark = self._fan_out.mark(session_id, received)
        told = session.ackable(mark)
        if told < mark:
            mark = received = told
        processed = self._fan_out.processed_above(session_id, received) if mark < received else ()
        if session_id == self._session_restored:
            processed = (*processed, *self._not_yet_reached(received))
        self._forget_ended(session_id, mark, processed)
        # The end of a job that is kept comes again, or nobody would ever learn of it.
        processed = _without(processed, {seq for _, seq in self._ended.values()})
        token = session.resume_token
        return Checkpoint(
            session_id=session_id,
            resume_token=token.get_secret_value() if token is not None else "",
            mark=mark,
            processed=processed,
            reserved=reserved,
            jobs=self._open_jobs(),
            ended=self._ended_jobs.all,
        )

    def _not_yet_reached(self, received: int) -> list[tuple[int, int]]:
        """What an earlier life processed and the replay has not come to."""
        return [
            (max(first, received + 1), last) for first, last in self._restored if last > received
        ]

    def _forget_ended(
        self, session_id: str, mark: int, processed: tuple[tuple[int, int], ...]
    ) -> None:
        """A job is kept until every consumer is done with all of it, its end included."""
        waiting: dict[int, tuple[str, str]] = {}
        for seq, event in self._event_of.items():
            if seq > mark and not any(first <= seq <= last for first, last in processed):
                waiting[seq] = event
            else:
                self._remember(*event)
        self._event_of = waiting
        open_still = {job_id for job_id, _ in waiting.values()}
        for job_id, (where, _) in tuple(self._ended.items()):
            if where != session_id or job_id not in open_still:
                del self._ended[job_id]
                self._keep(self._jobs.pop(job_id, None), self._ends.pop(job_id, None))
                for event in [event for event in self._seen if event[0] == job_id]:
                    del self._seen[event]

    def _remember(self, job_id: str, id: str) -> None:
        """An event was processed; if it may come again, a later life knows it by its id."""
        assert self._driver is not None
        if id and self._driver.session.remembers(job_id):
            self._seen[job_id, id] = None
            if len(self._seen) > _SEEN:
                self._seen.popitem(last=False)

    def _open_jobs(self) -> tuple[OpenJob, ...]:
        """The jobs that have not ended, each with what was processed of it last."""
        seen: dict[str, list[str]] = {}
        for job_id, id in self._seen:
            seen.setdefault(job_id, []).append(id)
        return tuple(
            replace(job, seen=tuple(seen[job_id])) if job_id in seen else job
            for job_id, job in self._jobs.items()
        )

    def _keep(self, job: OpenJob | None, end: Event | None) -> None:
        """A job goes; in the same checkpoint its outcome comes (S10)."""
        if job is not None and end is not None:
            self._ended_jobs.keep(job, end, beside=self._size_beside(job.job_id))

    def _size_beside(self, job_id: str) -> int:
        return ChunkLog(self._spool, job_id).size if self._spool is not None else 0

    def _was_fenced(self, error: StoreLocked) -> None:
        self._fenced = True
        self._tell_fenced(error)

    def _was_saved(self, checkpoint: Checkpoint) -> None:
        kept = {job.job_id for job in checkpoint.jobs} | {job.job_id for job in checkpoint.ended}
        for job_id in [job_id for job_id in self._logs if job_id not in kept | self._jobs.keys()]:
            self._logs.pop(job_id).remove()
        if self._driver is not None and checkpoint.mark < self._driver.session.received:
            self.changed()


def _without(ranges: tuple[tuple[int, int], ...], numbers: set[int]) -> tuple[tuple[int, int], ...]:
    """The ranges with holes where these numbers are."""
    if not numbers:
        return ranges
    kept = []
    for first, last in ranges:
        for number in sorted(n for n in numbers if first <= n <= last):
            if first < number:
                kept.append((first, number - 1))
            first = number + 1
        if first <= last:
            kept.append((first, last))
    return tuple(kept)


def _sweep(spool: Path, kept: set[str]) -> None:
    """Remove what earlier lives left of results that nobody is waiting for."""
    if not spool.is_dir():
        return
    if not kept:
        shutil.rmtree(spool, ignore_errors=True)
        return
    for path in spool.iterdir():
        if path.name not in kept:
            path.unlink(missing_ok=True)
