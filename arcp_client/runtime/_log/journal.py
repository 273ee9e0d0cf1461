"""Writes the changes of sessions and jobs to the durable event log, in batches.

A session numbers and logs an event in memory in one synchronous step. With a durable log the event
may be sent once its batch is stored: the writer of a connection stops at ``log.settled``.

The bytes that wait to be written have a limit: agents that emit wait for room, and requests that
would add to them are refused. A log that fails is tried again; after a second, requests that wait
for it are refused. A damaged log is given up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from arcp_client._budget import ByteBudget
from arcp_client._tasks import TaskOwner, pass_on
from arcp_client._wire import names
from arcp_client.errors import RequestError, StorageError, request_error
from arcp_client.runtime._log.entries import Entry, Numbered, weight
from arcp_client.runtime._log.event_log import EventLog

__all__ = ["Journal"]

_log = logging.getLogger("arcp_client.runtime")

_FIRST_RETRY = 0.05
_LAST_RETRY = 2.0
_PATIENCE = 1.0
"""Seconds of failure after which answers that wait for the log become refusals."""


class _Settles(Protocol):
    def settle(self, seq: int) -> None: ...


class _Waiter:
    """What is to happen once something is written, and what if it cannot be."""

    __slots__ = ("failed", "written")

    def __init__(
        self, written: Callable[[], None], failed: Callable[[RequestError], None] | None
    ) -> None:
        self.written = written
        self.failed = failed


class Journal:
    """Writes entries in the order they are put, batch by batch, again and again if that fails.

    Args:
        log: where to.
        tasks: owns the writing task.
        limit: bytes that may wait to be written.
    """

    def __init__(self, log: EventLog, tasks: TaskOwner, limit: int) -> None:
        self._log = log
        self._tasks = tasks
        self._budget = ByteBudget(limit)
        self._pending: list[Entry] = []
        self._numbered: dict[_Settles, int] = {}
        self._then: list[_Waiter] = []
        self._writing: list[_Waiter] = []  # those of the batch in hand
        self._task: asyncio.Task[None] | None = None
        self._failing = False
        self._given_up = False
        self._idle = asyncio.Event()
        self._idle.set()

    # ------------------------------------------------------------------------- room

    @property
    def full(self) -> bool:
        """Whether more waits to be written than may."""
        return self._budget.over

    async def room(self) -> None:
        """Wait until no more waits to be written than may."""
        await self._budget.room()

    def check(self) -> None:
        """Refuse what would have to be written while the log takes nothing.

        Raises:
            RequestError: INTERNAL_ERROR, retryable.
        """
        if self._failing or self._given_up or self.full:
            raise _refusal()

    # ---------------------------------------------------------------------- writing

    def put(self, entry: Entry) -> None:
        """Write an entry soon."""
        if self._given_up:
            return
        self._pending.append(entry)
        self._budget.add(weight(entry))
        if self._task is None:
            self._start()

    def number(self, session: _Settles, entry: Numbered) -> None:
        """Write an event's number soon, and settle it in its session then."""
        self._numbered[session] = entry.seq
        self.put(entry)
        if self._task is None:  # the log was given up: it is settled without being written
            self._start()

    def then(
        self,
        written: Callable[[], None],
        failed: Callable[[RequestError], None] | None = None,
    ) -> None:
        """Call back once all that was put so far is written.

        Args:
            written: called then.
            failed: called instead if the log takes nothing for a second; ``None`` waits on.
        """
        waiter = _Waiter(written, failed)
        if self._given_up or self._task is None:
            self._end(waiter)
        else:
            self._then.append(waiter)
            if self._failing:
                self._refuse()

    async def flushed(self) -> None:
        """Wait until all that was put so far is written, or the log was given up.

        Raises:
            RequestError: the log takes nothing at present.
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

    async def drain(self, timeout: float) -> None:
        """Wait until nothing is left to write, at most ``timeout`` seconds."""
        try:
            await asyncio.wait_for(self._idle.wait(), timeout)
        except TimeoutError:
            _log.error("the event log could not be written: %d entries lost", len(self._pending))

    def _start(self) -> None:
        self._idle.clear()
        self._task = self._tasks.spawn(self._run(), name="journal")

    async def _run(self) -> None:
        try:
            while self._pending or self._then or self._numbered:
                batch, self._pending = self._pending, []
                numbered, self._numbered = self._numbered, {}
                self._writing, self._then = self._then, []
                size = self._budget.used
                if batch:
                    await self._write(batch)
                self._budget.release(self._budget.used if self._given_up else size)
                # First the answers, then the events: an acceptance goes before its job's first.
                writing, self._writing = self._writing, []
                for waiter in writing:
                    self._end(waiter)
                for session, seq in numbered.items():
                    session.settle(seq)
        finally:
            self._task = None
            self._idle.set()

    def _end(self, waiter: _Waiter) -> None:
        if self._given_up and waiter.failed is not None:
            waiter.failed(_refusal())
        else:
            waiter.written()

    async def _write(self, batch: list[Entry]) -> None:
        loop = asyncio.get_running_loop()
        delay, since = _FIRST_RETRY, loop.time()
        task = asyncio.current_task()
        while not self._given_up:
            try:
                await self._log.write(batch)
            except BaseException as error:  # noqa: BLE001 - whatever it is, nothing may be skipped
                pass_on(error, task)
                if isinstance(error, StorageError) and error.permanent:
                    self._give_up(error)
                    return
                self._tell(error, len(batch))
                if loop.time() - since >= _PATIENCE:
                    self._failing = True
                    self._refuse()
                await asyncio.sleep(delay)
                delay = min(delay * 2, _LAST_RETRY)
            else:
                self._failing = False
                return

    def _tell(self, error: BaseException, count: int) -> None:
        why = str(error) if isinstance(error, StorageError) else type(error).__name__
        _log.error("the event log failed, %d entries wait: %s", count, why)

    def _refuse(self) -> None:
        """Refuse the requests that wait for a log that cannot be written."""
        for waiters in (self._writing, self._then):
            for waiter in waiters:
                if waiter.failed is not None:
                    waiter.failed(_refusal())
            waiters[:] = [waiter for waiter in waiters if waiter.failed is None]

    def _give_up(self, error: StorageError) -> None:
        """What runs goes on in memory and is told to its clients; nothing new is taken.

        A restart finds the file as it is: trying again cannot mend it.
        """
        _log.critical(
            "%s. It is given up: what runs goes on and survives no restart, and new sessions and"
            " jobs are refused. %s",
            error,
            error.remedy,
        )
        self._given_up = True
        self._failing = False
        self._pending.clear()
        self._refuse()


def _refusal() -> RequestError:
    return request_error(
        names.INTERNAL_ERROR, "the runtime's event log cannot be written", retryable=True
    )
