"""The journal of a durable log: its pauses, its bound, and who is told what (R9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from arcp_client._tasks import TaskOwner
from arcp_client.errors import RequestError, StorageError
from arcp_client.runtime._log.entries import Entry, Freed
from arcp_client.runtime._log.event_log import MemoryEventLog
from arcp_client.runtime._log.journal import Journal
from arcp_client.testing import VirtualClock


class Log(MemoryEventLog):
    """Durable in name; fails while it is told to, and notes when it was asked."""

    durable = True

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.tries: list[float] = []
        self.kept: list[Entry] = []

    async def write(self, entries: Sequence[Entry]) -> None:
        self.tries.append(asyncio.get_running_loop().time())
        if self.error is not None:
            raise self.error
        self.kept += entries


def virtual(scenario: Callable[[Log, Journal], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        log, tasks = Log(), TaskOwner("journal test")
        await scenario(log, Journal(log, tasks, 1000))
        await tasks.close()

    with asyncio.Runner(loop_factory=VirtualClock().new_loop) as runner:
        runner.run(run())


def test_a_failing_log_is_tried_after_pauses_that_grow_to_two_seconds() -> None:
    async def scenario(log: Log, journal: Journal) -> None:
        for _ in range(2):  # the second time the pauses start from the beginning
            log.error, log.tries = OSError("full"), []
            journal.put(Freed("s", 1))
            await asyncio.sleep(10)
            pauses = [b - a for a, b in zip(log.tries, log.tries[1:], strict=False)]
            assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0], abs=0.01)
            log.error = None
            await journal.drain(5)

    virtual(scenario)


def test_room_comes_back_as_often_as_entries_are_written() -> None:
    async def scenario(log: Log, journal: Journal) -> None:
        for _ in range(3):
            log.error = OSError("full")
            for seq in range(4):
                journal.put(Freed("s", seq))
            assert journal.full
            waiting = asyncio.ensure_future(journal.room())
            await asyncio.sleep(0.01)
            assert not waiting.done()
            log.error = None
            await waiting
            assert not journal.full
            await journal.drain(1)
            journal.check()
        assert len(log.kept) == 12

    virtual(scenario)


def test_what_waits_for_a_failing_log_is_refused_after_a_second_and_later_at_once() -> None:
    async def scenario(log: Log, journal: Journal) -> None:
        loop = asyncio.get_running_loop()
        log.error = OSError("full")
        journal.put(Freed("s", 1))
        begun = loop.time()
        with pytest.raises(RequestError):
            await journal.flushed()
        assert 1.0 <= loop.time() - begun < 2.0
        begun = loop.time()
        for ask in (journal.flushed, journal.flushed):
            with pytest.raises(RequestError):
                await ask()
        with pytest.raises(RequestError):
            journal.check()
        assert loop.time() == begun
        log.error = None
        await journal.drain(5)
        journal.check()
        await journal.flushed()

    virtual(scenario)


def test_a_damaged_log_is_tried_once_and_nothing_of_it_waits() -> None:
    async def scenario(log: Log, journal: Journal) -> None:
        log.error = StorageError("damaged", permanent=True)
        journal.put(Freed("s", 1))
        await journal.flushed()
        for seq in range(100):
            journal.put(Freed("s", seq))
        assert not journal.full
        assert len(log.tries) == 1
        with pytest.raises(RequestError):
            journal.check()

    virtual(scenario)


def test_dropped_entries_are_never_written_also_by_a_write_that_is_tried_again() -> None:
    async def scenario(log: Log, journal: Journal) -> None:
        log.error = OSError("away")
        journal.put(Freed("s", 1))
        await asyncio.sleep(1)
        journal.put(Freed("s", 2))
        journal.drop()
        log.error = None
        journal.put(Freed("s", 3))
        await journal.drain(5)
        assert log.kept == [Freed("s", 3)]
        assert not journal.waiting

    virtual(scenario)
