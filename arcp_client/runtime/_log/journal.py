"""Writes the changes of sessions and jobs to the durable event log, in batches.

A session numbers and logs an event in memory in one synchronous step. With a durable log, the event
may be sent only when its batch is stored: the writer of a connection stops at `SessionLog.settled`.

All sessions share a batch, because writing one event costs as much as writing a hundred. A batch
has the entries since the previous batch, up to a size that the log writes in about ten
milliseconds. It is written five milliseconds after the previous one, or as soon as it is large or
an answer waits for it.

The bytes that wait to be written have a limit. Beyond it, emitting agents wait for room, and
requests that would add bytes are refused. A failed write is retried. If it still fails after one
second, the requests that wait for it are refused. If the log is damaged, nothing more is written:
running work continues in memory, and new work is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from arcp_client._budget import ByteBudget
from arcp_client._tasks import TaskOwner, pass_on
from arcp_client._wire import names
from arcp_client.errors import RequestError, StorageError, request_error
from arcp_client.runtime._log.entries import Appended, Entry, Numbered, weight
from arcp_client.runtime._log.event_log import EventLog

__all__ = ["Journal"]

_log = logging.getLogger("arcp_client.runtime")

_FIRST_RETRY = 0.05
_LAST_RETRY = 2.0
_PATIENCE = 1.0
"""Seconds of failure after which requests that wait for the log are refused."""
_BATCH_TIME = 0.01
"""Target for the time to write one batch, in seconds."""
_GATHER_TIME = 0.005
"""Seconds from the start of one batch to the next, unless the next one becomes large earlier."""
_GATHER_BYTES = 192 * 1024
_LEAST_BATCH = 64 * 1024
_MOST_BATCH = 1024 * 1024


class _Settles(Protocol):
    def settle(self, seq: int) -> None: ...


class _Waiter:
    """The callbacks for the success and the failure of a write."""

    __slots__ = ("failed", "written")

    def __init__(
        self, written: Callable[[], None], failed: Callable[[RequestError], None] | None
    ) -> None:
        self.written = written
        self.failed = failed


class _Batch:
    """Entries that are written together, and the callbacks of the write."""

    __slots__ = ("entries", "settles", "size", "waiters")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.size = 0
        self.settles: dict[_Settles, int] = {}
        self.waiters: list[_Waiter] = []

    def __bool__(self) -> bool:
        return bool(self.entries or self.settles or self.waiters)


class _Together:
    """Counts the open blocks of `Journal.together`."""

    __slots__ = ("blocks",)

    def __init__(self) -> None:
        self.blocks = 0

    def __enter__(self) -> None:
        self.blocks += 1

    def __exit__(self, *_: object) -> None:
        self.blocks -= 1


class Journal:
    """Writes entries in order, in batches; retries failed writes.

    Args:
        log: the log to write to.
        tasks: owns the writing task.
        limit: bytes that may wait to be written.
    """

    def __init__(self, log: EventLog, tasks: TaskOwner, limit: int) -> None:
        self._log = log
        self._tasks = tasks
        self._budget = ByteBudget(limit)
        self._open = _Batch()  # the batch being filled
        self._ready: deque[_Batch] = deque()  # full batches, written before it
        self._writing = _Batch()
        self._most = _MOST_BATCH // 4
        self._begun = -_GATHER_TIME  # start of the last batch
        self._gathering: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._failing = False
        self._given_up = False
        self._together = _Together()
        self.written = 0  # entries
        self._idle = asyncio.Event()
        self._idle.set()

    # ------------------------------------------------------------------------- room

    @property
    def full(self) -> bool:
        """Whether the waiting bytes exceed the limit."""
        budget = self._budget  # not `over`: this runs for each event
        return budget.used > budget.limit

    @property
    def waiting(self) -> int:
        """Bytes that wait to be written."""
        return self._budget.used

    @property
    def failing(self) -> bool:
        """Whether the log cannot be written."""
        return self._failing or self._given_up

    async def room(self) -> None:
        """Wait until the waiting bytes are within the limit."""
        await self._budget.room()

    async def recovered(self) -> None:
        """Wait while `check` would refuse a request, unless the log is never written again."""
        while (self._failing or self.full) and self._task is not None and not self._given_up:
            await self.stored()

    def check(self) -> None:
        """Refuse a request that must be stored while the log fails.

        Raises:
            RequestError: INTERNAL_ERROR, retryable.
        """
        if self._failing or self._given_up or self.full:
            raise _refusal()

    # ---------------------------------------------------------------------- writing

    def put(self, entry: Entry) -> None:
        """Queue an entry."""
        self._put(entry, weight(entry))

    def append(self, entry: Appended, session: _Settles | None) -> None:
        """Queue an event. Once it is written, settle it in the session that receives it."""
        self._put(entry, entry.record.size)
        if session is not None:
            self._open.settles[session] = entry.seq
            if self._task is None:  # the log was abandoned: settle the event without writing it
                self._start()

    def number(self, session: _Settles, entry: Numbered) -> None:
        """Queue an event's number. Once it is written, settle it in its session."""
        self.put(entry)
        self._open.settles[session] = entry.seq
        if self._task is None:
            self._start()

    def _put(self, entry: Entry, size: int) -> None:
        if self._given_up:
            return
        batch = self._open
        if batch.size >= self._most and not self._together.blocks:
            self._ready.append(batch)
            batch = self._open = _Batch()
        batch.entries.append(entry)
        batch.size += size
        self._budget.used += size
        if self._task is None:
            self._start()
        elif self._gathering is not None and (batch.size >= _GATHER_BYTES or self.full):
            _release(self._gathering)

    def together(self) -> _Together:
        """Write all entries that the block queues in one batch. The block must not await."""
        return self._together

    def then(
        self,
        written: Callable[[], None],
        failed: Callable[[RequestError], None] | None = None,
    ) -> None:
        """Call back once all entries queued so far are written.

        Args:
            written: called after the write.
            failed: called if the log fails for a second; with ``None`` the wait continues.
        """
        waiter = _Waiter(written, failed)
        if self._given_up or self._task is None:
            self._end(waiter)
        else:
            self._open.waiters.append(waiter)
            if self._gathering is not None:
                _release(self._gathering)
            if self._failing:
                self._refuse()

    async def flushed(self) -> None:
        """Wait until all entries queued so far are written, or the log was abandoned.

        Raises:
            RequestError: the log cannot be written at present.
        """
        if self._task is None:
            return
        done = asyncio.get_running_loop().create_future()

        def written() -> None:
            if not done.done():
                done.set_result(None)

        def failed(error: RequestError) -> None:
            if self._given_up:
                written()
            elif not done.done():
                done.set_exception(error)

        self.then(written, failed)
        await done

    async def stored(self) -> None:
        """Do the same as `flushed`, but keep waiting while the log cannot be written."""
        written = asyncio.get_running_loop().create_future()
        self.then(partial(_release, written))
        await written

    def drop(self) -> None:
        """Forget the entries that wait: this replica may not store them, even if it rejoins."""
        for batch in self._batches():
            batch.entries.clear()

    async def drain(self, timeout: float) -> None:
        """Wait until no entries are left to write, at most ``timeout`` seconds."""
        try:
            await asyncio.wait_for(self._idle.wait(), timeout)
        except TimeoutError:
            lost = sum(len(batch.entries) for batch in self._batches())
            _log.error("the event log could not be written: %d entries lost", lost)

    def _start(self) -> None:
        self._idle.clear()
        self._task = self._tasks.spawn(self._run(), name="journal")

    async def _run(self) -> None:
        try:
            while batch := await self._next():
                self._writing = batch
                if batch.entries:
                    await self._write(batch)
                    self.written += len(batch.entries)
                self._budget.release(batch.size)
                # Answers before events: an acceptance precedes the first event of its job.
                waiters, batch.waiters = batch.waiters, []
                for waiter in waiters:
                    self._end(waiter)
                for session, seq in batch.settles.items():
                    session.settle(seq)
        finally:
            self._task = None
            self._idle.set()

    async def _next(self) -> _Batch:
        """Return the batch to write next; an empty one if there is none."""
        loop = asyncio.get_running_loop()
        batch, due = self._open, self._begun + _GATHER_TIME
        if (
            batch.entries
            and not (self._ready or batch.waiters or batch.size >= _GATHER_BYTES or self.full)
            and loop.time() < due
        ):
            self._gathering = loop.create_future()
            timer = loop.call_at(due, _release, self._gathering)
            try:
                await self._gathering
            finally:
                timer.cancel()
                self._gathering = None
        self._begun = loop.time()
        if self._ready:
            return self._ready.popleft()
        batch, self._open = self._open, _Batch()
        return batch

    def _batches(self) -> tuple[_Batch, ...]:
        return (self._writing, *self._ready, self._open)

    def _end(self, waiter: _Waiter) -> None:
        if self._given_up and waiter.failed is not None:
            waiter.failed(_refusal())
        else:
            waiter.written()

    async def _write(self, batch: _Batch) -> None:
        loop = asyncio.get_running_loop()
        delay, since = _FIRST_RETRY, loop.time()
        task = asyncio.current_task()
        while not self._given_up:
            begun = loop.time()
            try:
                await self._log.write(batch.entries)
            except BaseException as error:  # noqa: BLE001 - whatever it is, nothing may be skipped
                pass_on(error, task)
                if isinstance(error, StorageError) and error.permanent:
                    self._give_up(error)
                    return
                self._tell(error, len(batch.entries))
                if loop.time() - since >= _PATIENCE:
                    self._failing = True
                    self._refuse()
                await asyncio.sleep(delay)
                delay = min(delay * 2, _LAST_RETRY)
            else:
                self._failing = False
                self._adapt(batch.size, loop.time() - begun)
                return

    def _adapt(self, size: int, took: float) -> None:
        """Adapt the size of batches to the amount that the log writes in `_BATCH_TIME`."""
        if took > _BATCH_TIME:
            self._most = max(_LEAST_BATCH, self._most // 2)
        elif took * 2 <= _BATCH_TIME and size * 2 > self._most:
            self._most = min(_MOST_BATCH, self._most * 2)

    def _tell(self, error: BaseException, count: int) -> None:
        why = str(error) if isinstance(error, StorageError) else type(error).__name__
        _log.error("the event log failed, %d entries wait: %s", count, why)

    def _refuse(self) -> None:
        """Refuse the requests that wait for a log that cannot be written."""
        for batch in self._batches():
            for waiter in batch.waiters:
                if waiter.failed is not None:
                    waiter.failed(_refusal())
            batch.waiters = [waiter for waiter in batch.waiters if waiter.failed is None]

    def _give_up(self, error: StorageError) -> None:
        """Abandon the log: running work continues in memory, new work is refused.

        There is no retry, because it cannot repair a damaged file.
        """
        _log.critical(
            "%s. It is given up: running work continues and survives no restart, and new sessions"
            " and jobs are refused. %s",
            error,
            error.remedy,
        )
        self._given_up = True
        self._failing = False
        for batch in self._batches():
            batch.entries.clear()
        self._refuse()


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _refusal() -> RequestError:
    return request_error(
        names.INTERNAL_ERROR, "the runtime's event log cannot be written", retryable=True
    )
