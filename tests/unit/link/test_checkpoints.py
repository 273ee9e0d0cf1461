"""When checkpoints are written, and which events wait for them (S5, S10)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from arcp_client import Client, JobContext, MemoryStore, Runtime, events
from arcp_client._link.checkpoints import RETRY, Checkpointer
from arcp_client.errors import StoreLocked
from arcp_client.events import Event, Gap, Log
from arcp_client.models import Checkpoint
from arcp_client.testing import VirtualClock

SESSION = "sess_1"
EVERY = 4
INTERVAL = 100.0


def log(seq: int | None, session_id: str = SESSION) -> Log:
    return Log(seq=seq, session_id=session_id, job_id="job_1", message=str(seq))


def logs(*numbers: int) -> list[Event]:
    return [log(number) for number in numbers]


class Writing:
    """A writer, and what it saves and publishes.

    Attributes:
        session: the session of the snapshots; none before the first welcome.
        token: its resume token.
        idle: whether all consumers are done.
        urgent: whether a handler waits for a later event.
        error: what the store raises.
        hangs: a save waits for it.
        snapshots: how often the writer has asked for a checkpoint.
        saved: the saved checkpoints.
        published: events, and the results of actions.
        held_back: how often the writer has said that events wait.
        fenced: the errors with which another client has taken the lock.
    """

    def __init__(self, kept: Checkpoint | None = None, *, every: int = EVERY) -> None:
        self.session: str | None = None
        self.token = 0
        self.idle = False
        self.urgent = False
        self.error: Exception | None = None
        self.hangs: asyncio.Event | None = None
        self.snapshots = 0
        self.saved: list[Checkpoint] = []
        self.published: list[Event | str] = []
        self.held_back = 0
        self.fenced: list[StoreLocked] = []
        self.writer = Checkpointer(
            save=self._save,
            snapshot=self._snapshot,
            saved=lambda _: None,
            publish=self.published.extend,
            reorder_block_end=lambda number: number,
            idle=lambda: self.idle,
            urgent=lambda: self.urgent,
            every=every,
            interval=INTERVAL,
            held_back=self._hold,
            fenced=self.fenced.append,
        )
        self.writer.start(kept)

    async def _save(self, checkpoint: Checkpoint) -> None:
        if self.hangs is not None:
            await self.hangs.wait()
        if self.error is not None:
            raise self.error
        self.saved.append(checkpoint)

    def _snapshot(self, reserved: int) -> Checkpoint | None:
        self.snapshots += 1
        if self.session is None:
            return None
        return Checkpoint(self.session, f"token {self.token}", reserved=reserved)

    def _hold(self) -> None:
        self.held_back += 1

    @property
    def reserved(self) -> list[int]:
        """The reserved number of each save."""
        return [checkpoint.reserved for checkpoint in self.saved]

    def welcome(self, session_id: str = SESSION, *, fresh: bool = True) -> None:
        self.writer.hold_until_saved(session_id, fresh=fresh)
        self.session = session_id
        self.token += 1

    def after(self, name: str) -> None:
        self.writer.after(lambda: self.published.append(name))


Make = Callable[..., Writing]


@pytest.fixture
async def make(clock: VirtualClock) -> AsyncIterator[Make]:
    """Starts a writer, and stops it after the test."""
    made: list[Writing] = []

    def one(kept: Checkpoint | None = None, **options: int) -> Writing:
        made.append(Writing(kept, **options))
        return made[-1]

    yield one
    for writing in made:
        await writing.writer.stop()


@pytest.fixture
async def writing(clock: VirtualClock, make: Make) -> Writing:
    """A writer after the first welcome, whose token is saved: events up to 4 are reserved."""
    writing = make()
    writing.welcome()
    await clock.settle()
    assert writing.reserved == [EVERY]
    return writing


# -- reservations


async def test_s10_repeats_before_the_first_event_of_a_session_do_not_hold_it_back(
    clock: VirtualClock, writing: Writing
) -> None:
    """More repeats than a reservation is long: they have numbers, and no handler gets them."""
    writing.idle = True
    writing.writer.offer(logs(100))
    await clock.settle()
    assert writing.published == logs(100)
    assert writing.reserved == [4, 103]


async def test_a_wait_for_the_offered_events_ends_when_these_are_published(
    clock: VirtualClock, writing: Writing
) -> None:
    """Events that are offered later do not count."""
    writer = writing.writer
    writer.offer(logs(1, 2))
    assert writer.passed().done()
    writer.offer(logs(3, 4, 5, 6))
    assert writing.published == logs(1, 2, 3, 4)
    first = writer.passed()
    writer.offer(logs(7))
    second = writer.passed()

    writer.processed(log(1))
    await clock.settle()
    assert (writer.held, first.done(), second.done()) == (2, False, False)
    writer.processed(log(2))
    await clock.settle()
    assert (writer.held, first.done(), second.done()) == (1, True, False)
    writer.processed(log(3))
    await clock.settle()
    assert (writer.held, first.done(), second.done()) == (0, True, True)
    assert writing.published == logs(*range(1, 8))
    assert writing.reserved == [4, 5, 6, 7]


async def test_a_wait_for_offered_events_is_cancelled_when_they_will_not_come(
    clock: VirtualClock, writing: Writing
) -> None:
    writing.writer.offer(logs(1, 5))
    passed = writing.writer.passed()
    await writing.writer.stop()
    assert passed.cancelled()
    assert writing.writer.held == 0


async def test_an_action_runs_behind_the_events_that_were_offered_before_it(
    clock: VirtualClock, writing: Writing
) -> None:
    writer = writing.writer
    writing.after("first")
    writer.offer(logs(1, 5))
    assert writing.published == ["first", log(1)]
    writing.after("second")
    passed = writer.passed()
    writer.offer(logs(6))
    later = writer.passed()
    writer.processed(log(1))
    await clock.settle()
    assert writing.published == ["first", log(1), log(5), "second"]
    assert (passed.done(), later.done()) == (True, False)
    assert writer.first_held == 6


async def test_events_without_a_number_of_the_session_are_not_reserved(
    clock: VirtualClock, writing: Writing
) -> None:
    gap = Gap(seq=9, session_id=SESSION, first=9, last=9)
    others: list[Event] = [gap, log(50, "sess_0"), log(None)]
    writing.writer.offer(others)
    assert writing.published == others
    for event in others:
        writing.writer.processed(event)
    await clock.settle()
    assert writing.reserved == [EVERY]


async def test_progress_is_saved_each_time_that_half_a_reservation_is_processed(
    clock: VirtualClock, writing: Writing
) -> None:
    """The next numbers are reserved before events reach them."""
    for number in range(1, 9):
        writing.writer.offer(logs(number))
        await clock.settle()
        writing.writer.processed(log(number))
        await clock.settle()
    assert writing.reserved == [4, 6, 8, 10, 12]
    assert writing.held_back == 0
    assert writing.published == logs(*range(1, 9))


async def test_events_of_which_no_consumer_has_any_are_reserved_ahead(
    clock: VirtualClock, writing: Writing
) -> None:
    writing.idle = True
    for number in range(1, 9):
        writing.writer.offer(logs(number))
        await clock.settle()
    assert writing.reserved == [4, 6, 8, 10, 12]
    assert writing.held_back == 0


async def test_a_handler_that_waits_for_a_later_event_gets_it_without_progress(
    clock: VirtualClock, writing: Writing
) -> None:
    writing.writer.offer(logs(*range(1, 11)))
    await clock.settle()
    assert (writing.writer.held, writing.held_back) == (6, 1)
    writing.urgent = True
    writing.writer.processed(None)
    await clock.settle()
    assert writing.published == logs(*range(1, 11))
    assert writing.reserved == [4, 8, 12]


# -- sessions


async def test_s10_a_later_process_begins_with_what_the_earlier_one_has_reserved(
    clock: VirtualClock, make: Make
) -> None:
    """Its reserved number never falls: a handler may have seen the events up to it."""
    kept = Checkpoint(SESSION, "token", mark=2, reserved=10)
    writing = make(kept)
    assert (writing.writer.seen, writing.writer.last) == (10, kept)
    writing.welcome(fresh=False)
    writing.writer.offer(logs(3))
    assert writing.published == []
    await clock.settle()
    assert writing.published == logs(3)
    assert writing.reserved == [10]
    writing.writer.offer(logs(*range(4, 12)))
    assert writing.published == logs(*range(3, 11))
    assert writing.writer.seen == 10
    writing.writer.processed(log(7))
    await clock.settle()
    assert writing.reserved == [10, 11]
    assert writing.writer.seen == 11


@pytest.mark.parametrize(
    ("session", "fresh"), [("sess_2", True), (SESSION, True), ("sess_2", False)]
)
async def test_s10_events_that_wait_are_published_before_another_session_begins(
    clock: VirtualClock, writing: Writing, session: str, fresh: bool
) -> None:
    """No resume would bring them again. The new session begins with nothing reserved."""
    writing.writer.offer(logs(1, 5))
    writing.after("done")
    writing.writer.offer(logs(6))
    passed = writing.writer.passed()
    writing.welcome(session, fresh=fresh)
    assert writing.published == [log(1), log(5), "done", log(6)]
    assert passed.done()
    assert writing.writer.seen == 0
    writing.writer.offer([log(1, session)])
    assert len(writing.published) == 4
    await clock.settle()
    assert writing.published[4:] == [log(1, session)]
    assert (writing.saved[-1].session_id, writing.reserved[-1]) == (session, 4)


async def test_s5_a_save_that_began_before_a_welcome_does_not_store_its_token(
    clock: VirtualClock, writing: Writing
) -> None:
    writing.hangs = asyncio.Event()
    writing.writer.schedule()
    writing.writer.processed(log(2))
    await clock.settle()
    writing.welcome(fresh=False)
    writing.writer.offer(logs(1))
    hangs, writing.hangs = writing.hangs, asyncio.Event()
    hangs.set()
    await clock.settle()
    assert (writing.saved[-1].resume_token, writing.published) == ("token 1", [])
    writing.hangs.set()
    await clock.settle()
    assert (writing.saved[-1].resume_token, writing.published) == ("token 2", logs(1))


# -- saves


async def test_a_save_is_due_an_interval_after_the_first_call_of_several(
    clock: VirtualClock, writing: Writing
) -> None:
    for _ in range(3):
        writing.token += 1
        writing.writer.schedule()
        await clock.advance(INTERVAL / 4)
    assert len(writing.saved) == 1
    await clock.advance(INTERVAL / 4)
    assert [checkpoint.resume_token for checkpoint in writing.saved] == ["token 1", "token 4"]
    await clock.advance(2 * INTERVAL)
    assert len(writing.saved) == 2
    writing.token += 1
    writing.writer.schedule()
    await clock.advance(INTERVAL)
    assert len(writing.saved) == 3


async def test_what_has_not_changed_is_not_saved_again(
    clock: VirtualClock, writing: Writing
) -> None:
    assert await writing.writer.flush()
    assert len(writing.saved) == 1


async def test_nothing_is_looked_at_before_there_is_progress(
    clock: VirtualClock, make: Make
) -> None:
    """Also if every event is to be saved."""
    writing = make(every=1)
    writing.welcome()
    await clock.settle()
    for _ in range(3):
        writing.writer.processed(None)
        await clock.settle()
    assert writing.snapshots == 1


async def test_a_flush_before_the_first_welcome_has_nothing_to_save(make: Make) -> None:
    writing = make()
    assert writing.writer.seen == 0
    assert await writing.writer.flush()
    assert writing.saved == []


async def test_a_flush_waits_for_a_save_that_begins_after_it(
    clock: VirtualClock, writing: Writing
) -> None:
    writing.hangs = asyncio.Event()
    writing.writer.processed(log(2))
    await clock.settle()  # this save has begun
    writing.writer.processed(log(4))
    flush = asyncio.ensure_future(writing.writer.flush())
    await clock.settle()
    hangs, writing.hangs = writing.hangs, asyncio.Event()
    hangs.set()
    await clock.settle()
    assert writing.reserved == [4, 6]
    assert not flush.done()
    writing.hangs.set()
    assert await flush
    assert writing.reserved == [4, 6, 8]


async def test_the_first_save_may_fail(
    clock: VirtualClock, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    writing = make()
    writing.error = OSError("no room")
    writing.welcome()
    await clock.settle()
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    writing.error = None
    assert await writing.writer.flush()
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.WARNING]


@pytest.mark.parametrize("by", ["time", "flush"])
async def test_a_failed_save_is_tried_again_after_a_second_or_for_a_flush(
    clock: VirtualClock, writing: Writing, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    """The log has one error for all failures in a row, and says when saves work again."""
    writing.error = OSError("quotes the token")
    writing.token += 1
    assert not await writing.writer.flush()
    await clock.advance(3.5 * RETRY)
    assert not await writing.writer.flush()
    writing.error = None
    await clock.advance(RETRY / 2)
    if by == "flush":
        assert await writing.writer.flush()
    assert len(writing.saved) == (1 if by == "time" else 2)
    await clock.advance(RETRY / 2)
    assert writing.saved[-1].resume_token == "token 2"
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.WARNING]
    assert "OSError" in caplog.messages[0]
    assert "quotes" not in caplog.text


# -- the end


async def test_a_stop_ends_what_waits_for_a_save(clock: VirtualClock, writing: Writing) -> None:
    writing.hangs = asyncio.Event()
    writing.token += 1
    flush = asyncio.ensure_future(writing.writer.flush())
    writing.writer.schedule()
    await clock.settle()
    await writing.writer.stop()
    assert await flush is False
    assert await writing.writer.flush() is False
    writing.hangs.set()
    writing.writer.schedule()
    await clock.advance(2 * INTERVAL)
    assert len(writing.saved) == 1


async def test_s10_a_fenced_writer_publishes_and_saves_no_more(
    clock: VirtualClock, make: Make
) -> None:
    """Also before its client has stopped it: `fenced` only begins the client's end."""
    writing = make()
    writing.error = StoreLocked("another process took the checkpoint over")
    writing.welcome()
    writing.writer.offer(logs(1))
    flush = asyncio.ensure_future(writing.writer.flush())
    await clock.advance(5.0)
    assert await flush is False
    assert writing.fenced == [writing.error]
    writing.writer.offer(logs(2))
    assert await writing.writer.flush() is False
    await clock.advance(60.0)
    assert len(writing.fenced) == 1
    assert writing.published == []


# -- with a client


async def test_s10_a_client_goes_on_behind_a_history_that_it_has_handled() -> None:
    """The second session is gone, too: the third one repeats all events of the job."""
    store = MemoryStore(every=4)
    handled: list[int] = []
    async with Runtime(name="history") as runtime:
        steps: asyncio.Queue[int] = asyncio.Queue()

        @runtime.agent("emit")
        async def emit(input: Any, job: JobContext) -> None:
            sent = 0
            while count := await steps.get():
                for _ in range(count):
                    await job.progress(sent)
                    sent += 1

        async def next_client() -> Client:
            client = Client(runtime, store=store)
            client.subscribe(lambda event: handled.append(int(event.current)), events.Progress)
            await client.connect()
            return client

        for life in range(1, 4):
            client = await next_client()
            await client.submit("emit", idempotency_key="the one")
            steps.put_nowait(20)
            while len(handled) < 20 * life:
                await asyncio.sleep(0)
            await client.detach()
            checkpoint = await store.acquire(runtime.target, "default")
            assert checkpoint is not None
            expired = replace(checkpoint, session_id="sess_expired")
            await store.save(runtime.target, "default", expired)
            await store.release(runtime.target, "default")
        steps.put_nowait(0)
        async with await next_client() as client:
            await client.open_jobs()[0].result()
    assert handled == list(range(60))
