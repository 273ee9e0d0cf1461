"""Takes the store's lock, and builds the checkpoint from which a later process resumes.

It follows the rules S1, S5, S9 and S10. `checkpoints` decides when a checkpoint is written, and up
to which event.

A `Durability` is OUT while it does not have the store's lock, HOLDING once it has the lock, SAVING
while the session runs, and FROZEN once the client ends. The session engine calls the methods
*open*, *start*, *freeze* and *close*, which change the state:

=======  ======  =======
state    method  next
=======  ======  =======
OUT      open    HOLDING
OUT      close   OUT
HOLDING  start   SAVING
HOLDING  close   OUT
SAVING   freeze  FROZEN
SAVING   close   OUT
FROZEN   close   OUT
=======  ======  =======

*open* takes the lock. *start* begins to save checkpoints. *freeze* fixes the last checkpoint,
because the client ends: events that handlers process later do not count. *close* deletes the
checkpoint if this client has ended the session, and otherwise saves it; then it releases the lock.
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
"""Limit of envelope ids of processed events in a checkpoint."""
_PATIENCE = 5.0
"""Time limit in seconds for the last save, and for the release."""

GRACE = 1.0
"""Seconds that a close waits at least for the last save and the release."""


class Durability:
    """Keeps the checkpoint of one client in a store.

    Args:
        store: the store.
        target: the address of the runtime.
        key: distinguishes sessions with the same target.
        fan_out: publishes events, and knows which of them are processed.
        back_pressure: reports processed events.
        fenced: called with StoreLocked when another client has taken the lock.

    Attributes:
        durable: whether the store outlives the process.
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
        self._fenced_hook = fenced
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

    # ------------------------------------------------------------------ lifecycle

    async def open(self) -> Checkpoint | None:
        """Lock the checkpoint, and load it if there is one.

        Raises:
            StoreLocked: another client holds the checkpoint.
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
        """Start to save the session of a driver."""
        self._driver = driver
        self._writer = Checkpointer(
            save=self._save,
            snapshot=self._snapshot,
            saved=self._on_saved,
            fenced=self._on_fenced,
            publish=self._publish,
            held_back=self._back_pressure.hold,
            reorder_block_end=driver.session.reorder_block_end,
            idle=lambda: self._fan_out.backlog == 0,
            urgent=lambda: self._back_pressure.urgent,
            every=self._store.every,
            interval=self._store.interval,
        )
        self._back_pressure.follower = self._writer.processed
        self._writer.start(self._last)

    def freeze(self) -> None:
        """Fix the last checkpoint, because the client ends. Later progress does not count."""
        if self._writer is None or self._final is not None:
            return
        self._final = self._snapshot(self._writer.seen)
        self._back_pressure.follower = None

    async def close(self, *, forget: bool, deadline: Deadline | None = None) -> None:
        """Save the checkpoint a last time, or delete it, and unlock it.

        Idempotent; the first call decides between saving and deleting. The operation completes even
        if callers are cancelled. Errors of the store are logged and not raised, because the client
        has ended.

        Args:
            forget: delete the checkpoint.
            deadline: until when to wait, but for at least a second, because the next client needs
                the lock.
        """
        if self._holds:
            self._holds = False
            self._closing = self._owner.spawn(self._close(forget=forget), name="close")
        if self._closing is None:
            return
        patience = 3 * _PATIENCE if deadline is None else max(deadline.left, GRACE)
        await asyncio.wait({self._closing}, timeout=patience)

    async def _close(self, *, forget: bool) -> None:
        self.freeze()
        task = asyncio.current_task()
        try:
            if self._writer is not None:
                await self._writer.stop(Deadline(_PATIENCE))
            async with asyncio.timeout(_PATIENCE):
                if self._fenced:
                    pass  # the stored checkpoint belongs to another client
                elif forget:
                    await self._store.delete(self._target, self._key)
                elif self._writer is not None and self._final not in (None, self._writer.last):
                    assert self._final is not None
                    await self._store.save(self._target, self._key, self._final)
        except BaseException as error:  # noqa: BLE001  a user's store may raise anything
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
        except BaseException as error:  # noqa: BLE001  a user's store may raise anything
            pass_on(error, task)
            _log.error("the store did not release a checkpoint (%s)", type(error).__name__)

    # ------------------------------------------------------------------ changes

    def offer(self, events: list[Event]) -> None:
        """Publish events, in order, as soon as they are reserved (see `checkpoints`)."""
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
        """Call a function after all offered events have been published."""
        assert self._writer is not None
        self._writer.after(action)

    def hold_until_saved(self, session_id: str, *, fresh: bool) -> None:
        """Hold events back until the resume token of a new welcome is saved (rule S5)."""
        assert self._writer is not None
        self._session = session_id
        if fresh:
            self._event_of.clear()
        self._writer.hold_until_saved(session_id, fresh=fresh)

    def schedule(self) -> None:
        """Schedule a save after the store's interval."""
        if self._writer is not None:
            self._writer.schedule()

    def add_job(self, job: OpenJob) -> None:
        """Record that a job of this client was accepted."""
        self._jobs[job.job_id] = job
        self.schedule()

    def drop_job(self, job_id: str) -> None:
        """Record that a job has no outcome."""
        if job_id in self._jobs:
            self._ended[job_id] = ("", 0)
            self.schedule()

    async def flush(self) -> None:
        """Save now; returns after the attempt."""
        if self._writer is not None and self._final is None:
            await self._writer.flush()

    # ------------------------------------------------------------------ state

    @property
    def held(self) -> int:
        """The number of events that wait to be reserved."""
        return self._writer.held if self._writer is not None else 0

    @property
    def mark(self) -> int:
        """The last saved watermark of the present session."""
        last = self._writer.last if self._writer is not None else None
        return last.mark if last is not None and last.session_id == self._session else 0

    def published(self) -> asyncio.Future[None] | None:
        """A future that resolves when all offered events are published; ``None`` if they are."""
        return self._writer.passed() if self._writer is not None and self._writer.held else None

    def log_for(self, job_id: str) -> ChunkLog | None:
        """The durable log for the chunks of a job of this client; ``None`` without one."""
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
            self._back_pressure.progress()  # no consumer reports events that match no filter

    def _snapshot(self, reserved: int) -> Checkpoint | None:
        driver, writer = self._driver, self._writer
        if self._final is not None:
            return self._final
        assert driver is not None
        assert writer is not None
        session = driver.session
        session_id = session.session_id
        if session_id is None:
            return None
        received = session.received
        first_held = writer.first_held
        if first_held is not None:
            received = min(received, first_held - 1)
        mark = self._fan_out.mark(session_id, received)
        ackable = session.ackable(mark)
        if ackable < mark:
            mark = received = ackable
        processed = self._fan_out.processed_above(session_id, received) if mark < received else ()
        if session_id == self._session_restored:
            processed = (*processed, *self._restored_above(received))
        self._drop_ended(session_id, mark, processed)
        # The terminal event of a stored job must be replayed, or its outcome would be lost.
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

    def _restored_above(self, received: int) -> list[tuple[int, int]]:
        """Ranges that an earlier process has processed and that the replay has not yet reached."""
        return [
            (max(first, received + 1), last) for first, last in self._restored if last > received
        ]

    def _drop_ended(
        self, session_id: str, mark: int, processed: tuple[tuple[int, int], ...]
    ) -> None:
        """Move jobs whose events are all processed, the terminal one too, to the ended jobs."""
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
        """Store the id of a processed event if the runtime may send it again after a restart."""
        assert self._driver is not None
        if id and self._driver.session.remembers(job_id):
            self._seen[job_id, id] = None
            if len(self._seen) > _SEEN:
                self._seen.popitem(last=False)

    def _open_jobs(self) -> tuple[OpenJob, ...]:
        """The jobs that have not ended, each with the ids of its last processed events."""
        seen: dict[str, list[str]] = {}
        for job_id, id in self._seen:
            seen.setdefault(job_id, []).append(id)
        return tuple(
            replace(job, seen=tuple(seen[job_id])) if job_id in seen else job
            for job_id, job in self._jobs.items()
        )

    def _keep(self, job: OpenJob | None, end: Event | None) -> None:
        """Move a job to the ended jobs, in the same checkpoint (rule S10)."""
        if job is not None and end is not None:
            self._ended_jobs.keep(job, end, beside=self._size_beside(job.job_id))

    def _size_beside(self, job_id: str) -> int:
        return ChunkLog(self._spool, job_id).size if self._spool is not None else 0

    def _on_fenced(self, error: StoreLocked) -> None:
        self._fenced = True
        self._fenced_hook(error)

    def _on_saved(self, checkpoint: Checkpoint) -> None:
        kept = {job.job_id for job in checkpoint.jobs} | {job.job_id for job in checkpoint.ended}
        for job_id in [job_id for job_id in self._logs if job_id not in kept | self._jobs.keys()]:
            self._logs.pop(job_id).remove()
        if self._driver is not None and checkpoint.mark < self._driver.session.received:
            self.schedule()


def _without(ranges: tuple[tuple[int, int], ...], numbers: set[int]) -> tuple[tuple[int, int], ...]:
    """Remove numbers from ranges."""
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
    """Delete the chunk files of earlier processes that no known job needs."""
    if not spool.is_dir():
        return
    if not kept:
        shutil.rmtree(spool, ignore_errors=True)
        return
    for path in spool.iterdir():
        if path.name not in kept:
            path.unlink(missing_ok=True)
