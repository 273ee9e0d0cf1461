"""Later lives keep what a checkpoint says until a replay has come past it (S10)."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from arcp_client.events import Event, Progress
from arcp_client.models import Checkpoint, OpenJob
from arcp_client.stores.spool import ChunkLog
from arcp_client.testing import VirtualClock
from tests.property.test_durability import INTERVAL, Life, Store
from tests.unit.dispatch.kit import SESSION, log

JOB = OpenJob("job_1", "agent", "key", "hash")


def stored(mark: int, *processed: tuple[int, int], session_id: str = SESSION) -> Store:
    """A store with what some life left: lanes were done far beyond the slowest."""
    store = Store(every=20)
    store.kept = Checkpoint(
        session_id=session_id,
        resume_token="token",
        mark=mark,
        processed=processed,
        reserved=20,
        jobs=(JOB,),
    )
    return store


def events(first: int, last: int) -> list[Event]:
    return [log(seq) for seq in range(first, last + 1)]


async def next_life(store: Store, number: int) -> Life:
    life = Life(store, number)
    await life.begin()
    store.locked = False
    return life


@pytest.mark.parametrize("lives", [1, 2, 3])
@pytest.mark.parametrize("came", [0, 1, 2])
async def test_ranges_outlive_lives_that_end_before_the_replay_came_to_them(
    clock: VirtualClock, lives: int, came: int
) -> None:
    """Each life is given the first events again, handles none of them, and is killed."""
    store = stored(2, (5, 6), (9, 9))
    for number in range(lives):
        life = await next_life(store, number)
        life.offer(events(3, 2 + came))
        await clock.advance(10 * INTERVAL)  # what is saved is saved by time, too
        assert store.kept is not None
        assert store.kept.resume_token == f"token {number}"  # so it was saved in this life
        assert (store.kept.mark, store.kept.processed) == (2, ((5, 6), (9, 9)))
        await life.killed()


async def test_a_range_is_cut_where_the_replay_has_come_past_its_beginning(
    clock: VirtualClock,
) -> None:
    store = stored(2, (5, 8))
    life = await next_life(store, 1)
    life.offer(events(3, 4))
    life.driver.received = 6  # 5 and 6 came, and were passed over
    life.durability.schedule()
    await clock.advance(2 * INTERVAL)
    assert store.kept is not None
    assert store.kept.mark == 2
    assert store.kept.processed[-1] == (7, 8)
    assert {n for first, last in store.kept.processed for n in range(first, last + 1)} == {
        5,
        6,
        7,
        8,
    }
    await life.killed()


async def test_ranges_of_a_session_that_is_gone_are_not_carried_on(clock: VirtualClock) -> None:
    store = stored(2, (5, 6), session_id="sess_of_before")
    life = await next_life(store, 1)
    await clock.advance(2 * INTERVAL)
    assert store.kept is not None
    assert (store.kept.session_id, store.kept.processed) == (SESSION, ())
    await life.killed()


async def test_before_the_first_welcome_the_mark_is_the_stored_one(clock: VirtualClock) -> None:
    """A client that closes then acknowledges nothing less."""
    store = stored(2, (5, 6))
    life = Life(store, 1)
    await life.durability.open()
    life.driver.received = 2
    life.durability.start(life.driver)  # type: ignore[arg-type]
    assert life.durability.mark == 2
    await life.killed()


@pytest.mark.parametrize("known", [True, False])
async def test_what_earlier_lives_left_of_results_is_swept(
    clock: VirtualClock, tmp_path: Path, known: bool
) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    ours, others = spool / ChunkLog.name_for(JOB.job_id), spool / ChunkLog.name_for("job_9")
    ours.write_bytes(b"")
    others.write_bytes(b"left behind")

    class Spooling(Store):
        def spool(self, _target: str, _key: str) -> Path | None:
            return spool

    store = Spooling(every=20)
    store.kept = stored(2).kept if known else None
    life = await next_life(store, 1)
    assert not others.exists()
    assert ours.exists() is known
    assert spool.exists() is known
    await clock.settle()
    await life.killed()


async def test_the_numbers_of_a_new_session_settle_no_event_of_the_session_before(
    clock: VirtualClock,
) -> None:
    """An event whose handler still runs when the client gets a new session is not done with."""
    store = Store(every=20)
    life = await next_life(store, 0)
    life.driver.remembers = lambda _job_id: True  # type: ignore[attr-defined]
    life.durability.add_job(JOB)
    life.offer([replace(log(1), id="old")])
    await clock.advance(INTERVAL)
    life.driver.session_id, life.driver.received = "sess_2", 0  # type: ignore[misc]
    life.durability.hold_until_saved("sess_2", fresh=True)
    life.offer([Progress(seq=1, session_id="sess_2", job_id="job_2")])  # has no handler
    await clock.advance(2 * INTERVAL)
    assert life.tape.running == {1}
    assert store.kept is not None
    assert (store.kept.session_id, store.kept.mark) == ("sess_2", 1)
    assert [job.seen for job in store.kept.jobs] == [()]
    await life.killed()
