"""Changes in, written batches out; only what is written may be sent (append, then fan out).

A session numbers and logs an event in one synchronous step in memory. With a durable log the
event may go out once its batch is stored: the writer of a connection stops at ``log.settled``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from arcp_client._tasks import TaskOwner, pass_on
from arcp_client.runtime.entries import Entry, Numbered
from arcp_client.runtime.log import EventLog

__all__ = ["Journal"]

_log = logging.getLogger("arcp_client.runtime")

_FIRST_RETRY = 0.05
_LAST_RETRY = 2.0
_BEHIND = 4096


class _Settles(Protocol):
    def settle(self, seq: int) -> None: ...


class Journal:
    """Writes entries in the order they are put, batch by batch, again and again if that fails.

    Args:
        log: where to.
        tasks: owns the writing task.
    """

    def __init__(self, log: EventLog, tasks: TaskOwner) -> None:
        self._log = log
        self._tasks = tasks
        self._pending: list[Entry] = []
        self._numbered: dict[_Settles, int] = {}
        self._then: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def behind(self) -> bool:
        """Whether so much waits to be written that jobs should go slower."""
        return len(self._pending) > _BEHIND

    def put(self, entry: Entry) -> None:
        """Write an entry soon."""
        self._pending.append(entry)
        self._start()

    def number(self, session: _Settles, entry: Numbered) -> None:
        """Write an event's number soon, and settle it in its session then."""
        self._pending.append(entry)
        self._numbered[session] = entry.seq
        self._start()

    def then(self, callback: Callable[[], None]) -> None:
        """Call back once all that was put so far is written."""
        if self._task is None:
            callback()
        else:
            self._then.append(callback)

    async def flushed(self) -> None:
        """Wait until all that was put so far is written."""
        if self._task is None:
            return
        done = asyncio.get_running_loop().create_future()
        self.then(lambda: None if done.done() else done.set_result(None))
        await done

    async def drain(self, timeout: float) -> None:
        """Wait until nothing is left to write, at most ``timeout`` seconds."""
        try:
            await asyncio.wait_for(self._idle.wait(), timeout)
        except TimeoutError:
            _log.error("the event log could not be written: %d entries lost", len(self._pending))

    def _start(self) -> None:
        if self._task is None:
            self._idle.clear()
            self._task = self._tasks.spawn(self._run(), name="journal")

    async def _run(self) -> None:
        try:
            while self._pending or self._then:
                batch, self._pending = self._pending, []
                numbered, self._numbered = self._numbered, {}
                then, self._then = self._then, []
                if batch:
                    await self._write(batch)
                # First the answers, then the events: an acceptance goes before its job's first.
                for callback in then:
                    callback()
                for session, seq in numbered.items():
                    session.settle(seq)
        finally:
            self._task = None
            self._idle.set()

    async def _write(self, batch: list[Entry]) -> None:
        delay = _FIRST_RETRY
        task = asyncio.current_task()
        while True:
            try:
                await self._log.write(batch)
            except BaseException as error:  # noqa: BLE001 - whatever it is, nothing may be skipped
                pass_on(error, task)
                _log.error(
                    "the event log failed, %d entries wait: %s", len(batch), type(error).__name__
                )
                await asyncio.sleep(delay)
                delay = min(delay * 2, _LAST_RETRY)
            else:
                return
