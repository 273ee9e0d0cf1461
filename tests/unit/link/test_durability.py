"""What a checkpoint says of jobs and of processed events, and when the next one is due (S10)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from arcp_client._deadline import Deadline
from arcp_client._link.durability import _PATIENCE, _SEEN, GRACE
from arcp_client.events import Completed, Event, Progress
from arcp_client.models import Checkpoint, EndedJob, OpenJob
from arcp_client.testing import VirtualClock
from tests.property.test_durability import INTERVAL, Life, Store
from tests.unit.dispatch.kit import SESSION, log

Begin = Callable[[Store], Awaitable[Life]]


class Spooling(Store):
    """A store with a place for the chunks of results."""

    def __init__(self, every: int, spool: Path) -> None:
        super().__init__(every)
        self._spool = spool

    def spool(self, _target: str, _key: str) -> Path | None:
        return self._spool


def job(job_id: str, *seen: str) -> OpenJob:
    return OpenJob(job_id, "agent", f"key of {job_id}", "hash", seen=seen)


def named(seq: int, job_id: str = "job_1") -> Event:
    """An event with an id, as runtimes send them that replay events without their numbers."""
    return replace(log(seq, job_id), id=f"e{seq}")


def end(seq: int, job_id: str) -> Event:
    return Completed(seq=seq, session_id=SESSION, job_id=job_id)


def kept_by(store: Store) -> Checkpoint:
    assert store.kept is not None
    return store.kept


@pytest.fixture
async def begin(clock: VirtualClock) -> AsyncIterator[Begin]:
    """Begins a life of a client, which is killed after the test."""
    lives: list[Life] = []

    async def one(store: Store) -> Life:
        life = Life(store, len(lives))
        life.driver.remembers = lambda _job_id: True  # type: ignore[attr-defined]
        lives.append(life)
        await life.begin()
        await clock.settle()
        return life

    yield one
    for life in lives:
        await life.killed()


# -- processed events


async def test_the_ids_of_processed_events_outlive_the_next_life(
    clock: VirtualClock, begin: Begin
) -> None:
    store = Store(every=20)
    store.kept = Checkpoint(SESSION, "token", mark=2, reserved=20, jobs=(job("job_1", "e1", "e2"),))
    life = await begin(store)
    life.offer([named(3)])
    life.tape.let_go(3)
    await clock.advance(2 * INTERVAL)
    assert kept_by(store).resume_token == "token 0"
    assert kept_by(store).jobs == (job("job_1", "e1", "e2", "e3"),)


async def test_the_last_ids_are_kept_up_to_a_limit(clock: VirtualClock, begin: Begin) -> None:
    """Those that gave way do not come back, and each event is asked about once."""
    asked: list[str] = []

    def remembers(job_id: str) -> bool:
        asked.append(job_id)
        return True

    store = Store(every=2 * _SEEN)
    life = await begin(store)
    life.driver.remembers = remembers  # type: ignore[attr-defined]
    life.durability.add_job(job("job_1"))
    numbers = range(1, _SEEN + 11)
    life.offer([named(seq) for seq in numbers])
    life.tape.let_go(*numbers)
    await clock.advance(2 * INTERVAL)
    last = [f"e{seq}" for seq in numbers][-_SEEN:]
    assert list(kept_by(store).jobs[0].seen) == last
    life.durability.add_job(job("job_2"))
    await clock.advance(2 * INTERVAL)
    assert kept_by(store).jobs == (job("job_1", *last), job("job_2"))
    assert len(asked) == len(numbers)


async def test_the_ids_of_a_job_that_is_over_take_no_room(
    clock: VirtualClock, begin: Begin
) -> None:
    store = Store(every=2 * _SEEN)
    life = await begin(store)
    life.durability.add_job(job("job_1"))
    life.durability.add_job(job("job_2"))
    life.offer([named(1), *(named(seq, "job_2") for seq in range(2, _SEEN)), end(_SEEN, "job_2")])
    life.tape.let_go(*range(1, _SEEN + 11))
    await clock.advance(2 * INTERVAL)
    assert kept_by(store).jobs == (job("job_1", "e1"),)
    later = range(_SEEN + 1, _SEEN + 11)
    life.offer([named(seq) for seq in later])
    await clock.advance(2 * INTERVAL)
    assert kept_by(store).jobs == (job("job_1", "e1", *(f"e{seq}" for seq in later)),)


async def test_of_a_job_that_is_not_over_the_end_does_not_count_as_processed(
    clock: VirtualClock, begin: Begin
) -> None:
    """It comes again, with the event whose handler still runs; what is around it does not."""
    store = Store(every=20)
    life = await begin(store)
    life.durability.add_job(job("job_1"))
    life.offer([named(1), named(2, "job_2"), named(3, "job_2"), end(4, "job_1"), log(5, "job_2")])
    life.tape.let_go(2, 3, 4, 5)
    await clock.advance(2 * INTERVAL)
    assert (kept_by(store).mark, kept_by(store).processed) == (0, ((2, 3), (5, 5)))
    assert kept_by(store).jobs == (job("job_1"),)
    life.tape.let_go(1)
    await clock.advance(2 * INTERVAL)
    assert (kept_by(store).mark, kept_by(store).processed) == (5, ())
    assert [ended.job_id for ended in kept_by(store).ended] == ["job_1"]


async def test_a_job_is_over_although_an_earlier_event_of_another_job_is_not_processed(
    clock: VirtualClock, begin: Begin
) -> None:
    store = Store(every=20)
    life = await begin(store)
    life.durability.add_job(job("job_1"))
    life.durability.add_job(job("job_2"))
    life.offer([named(1), named(2, "job_2"), end(3, "job_2")])
    life.tape.let_go(2, 3)
    await clock.advance(2 * INTERVAL)
    assert (kept_by(store).mark, kept_by(store).processed) == (0, ((2, 3),))
    assert kept_by(store).jobs == (job("job_1"),)
    assert [ended.job_id for ended in kept_by(store).ended] == ["job_2"]


async def test_events_that_are_processed_after_a_checkpoint_are_in_the_next_one(
    clock: VirtualClock, begin: Begin
) -> None:
    """Also if nothing else happens, and they are too few for a new reservation."""
    store = Store(every=20)
    life = await begin(store)
    life.offer([log(1), log(2)])
    await clock.advance(2 * INTERVAL)
    assert kept_by(store).mark == 0
    for seq in (1, 2):
        life.tape.let_go(seq)
        await clock.advance(2 * INTERVAL)
        assert kept_by(store).mark == seq


# -- jobs


async def test_a_job_without_an_outcome_is_no_longer_kept(
    clock: VirtualClock, begin: Begin
) -> None:
    store = Store(every=20)
    life = await begin(store)
    life.durability.add_job(job("job_1"))
    life.durability.add_job(job("job_2"))
    await clock.advance(2 * INTERVAL)
    assert kept_by(store).jobs == (job("job_1"), job("job_2"))
    life.durability.drop_job("job_1")
    life.durability.drop_job("job_9")
    await clock.advance(2 * INTERVAL)
    assert kept_by(store).jobs == (job("job_2"),)
    assert kept_by(store).ended == ()


async def test_jobs_that_are_over_are_kept_by_the_next_life(
    clock: VirtualClock, begin: Begin
) -> None:
    store = Store(every=20)
    ended = EndedJob("job_1", "agent", "key", "hash", outcome="{}")
    store.kept = Checkpoint(SESSION, "token", mark=2, reserved=20, ended=(ended,))
    await begin(store)
    assert kept_by(store).resume_token == "token 0"
    assert kept_by(store).ended == (ended,)


async def test_chunks_are_logged_for_jobs_of_the_checkpoint_while_it_is_locked(
    clock: VirtualClock, begin: Begin, tmp_path: Path
) -> None:
    store = Spooling(every=20, spool=tmp_path)
    life = Life(store, 1)
    life.durability.add_job(job("job_1"))
    assert life.durability.log_for("job_1") is None
    life = await begin(store)
    life.durability.add_job(job("job_1"))
    chunks = life.durability.log_for("job_1")
    assert chunks is not None
    assert life.durability.log_for("job_1") is chunks
    assert life.durability.log_for("job_9") is None
    await life.durability.close(forget=False)
    assert life.durability.log_for("job_1") is None


async def test_a_store_without_a_place_for_chunks_keeps_none(
    clock: VirtualClock, begin: Begin
) -> None:
    life = await begin(Store(every=20))
    life.durability.add_job(job("job_1"))
    assert life.durability.log_for("job_1") is None


# -- events that wait


async def test_events_wait_until_they_are_reserved(clock: VirtualClock, begin: Begin) -> None:
    store = Store(every=2)
    life = await begin(store)
    assert life.durability.published() is None
    life.offer([log(1), log(2), log(3)])
    published = life.durability.published()
    assert published is not None
    assert life.durability.held == 1
    life.tape.let_go(1)
    await clock.settle()
    assert published.done()
    assert life.durability.held == 0
    assert life.durability.published() is None


async def test_a_paused_reader_continues_behind_events_that_no_consumer_takes(
    clock: VirtualClock, begin: Begin
) -> None:
    life = await begin(Store(every=20))
    pause = asyncio.ensure_future(life.hub.back_pressure.caught_up())
    await clock.settle()
    life.offer([Progress(seq=1, session_id=SESSION, job_id="job_1")])
    await clock.settle()
    assert pause.done()


async def test_before_the_start_no_event_waits(clock: VirtualClock) -> None:
    life = Life(Store(every=2), 1)
    assert life.durability.held == 0
    assert life.durability.published() is None
    assert life.durability.mark == 0


# -- the end


async def test_a_close_saves_what_is_processed_since_the_last_checkpoint(
    clock: VirtualClock, begin: Begin
) -> None:
    store = Store(every=20)
    life = await begin(store)
    life.offer([log(1), log(2)])
    life.tape.let_go(1)
    await clock.settle()
    assert kept_by(store).mark == 0
    await life.durability.close(forget=False)
    assert kept_by(store).mark == 1
    assert not store.locked


async def test_what_is_frozen_is_saved_when_it_is_due(clock: VirtualClock, begin: Begin) -> None:
    """Not only by the close, and without what is processed later."""
    store = Store(every=20)
    life = await begin(store)
    life.offer([log(1), log(2)])
    life.tape.let_go(1)
    await clock.settle()
    life.durability.freeze()
    life.tape.let_go(2)
    await clock.advance(2 * INTERVAL)
    assert kept_by(store).mark == 1
    await life.durability.close(forget=False)
    assert kept_by(store).mark == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("save", "the last checkpoint was not saved (OSError)"),
        ("release", "the store did not release a checkpoint (OSError)"),
    ],
)
async def test_a_store_that_fails_at_the_end_is_reported_and_the_close_goes_on(
    clock: VirtualClock,
    begin: Begin,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    message: str,
) -> None:
    """Without the error's text, which may quote a token."""

    async def fails(*_: object) -> None:
        raise OSError("the token is secret")

    store = Store(every=20)
    life = await begin(store)
    life.offer([log(1)])
    life.tape.let_go(1)
    await clock.settle()
    monkeypatch.setattr(store, call, fails)
    await life.durability.close(forget=False)
    assert kept_by(store).mark == (0 if call == "save" else 1)
    assert store.locked is (call == "release")
    assert caplog.messages == [message]


@pytest.mark.parametrize(
    ("seconds", "took"), [(None, 3 * _PATIENCE), (0.0, GRACE), (GRACE + 2.0, GRACE + 2.0)]
)
async def test_a_close_waits_for_a_store_no_longer_than_its_deadline_and_a_second(
    clock: VirtualClock,
    begin: Begin,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float | None,
    took: float,
) -> None:
    over = asyncio.Event()

    async def stubborn(*_: object) -> None:
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()

    store = Store(every=20)
    life = await begin(store)
    monkeypatch.setattr(store, "release", stubborn)
    began = clock.time()
    deadline = Deadline(seconds) if seconds is not None else None
    await life.durability.close(forget=False, deadline=deadline)
    ended = clock.time()
    over.set()
    await life.durability.close(forget=False)
    assert ended - began == took
