"""What a client keeps (S1, S10): whenever it is killed, the next one loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pydantic import SecretStr

from arcp_client import Order
from arcp_client._link import durability
from arcp_client._link.durability import Durability
from arcp_client.errors import StoreLocked
from arcp_client.events import Completed, Event, Log
from arcp_client.models import Checkpoint, OpenJob
from arcp_client.testing import VirtualClock
from tests.property.tables import Row, rows_of
from tests.unit.dispatch.kit import SESSION, Hub, Tape, log

JOBS = ("job_1", "job_2", "job_3")
INTERVAL = 1.0


class Store:
    """Keeps one checkpoint; a client that is killed leaves its lock to nobody."""

    durable = True
    interval = INTERVAL

    def __init__(self, every: int) -> None:
        self.every = every
        self.kept: Checkpoint | None = None
        self.locked = False
        self.works = True

    async def acquire(self, _target: str, _key: str) -> Checkpoint | None:
        if self.locked:
            raise StoreLocked("somebody holds it")
        self.locked = True
        return self.kept

    async def save(self, _target: str, _key: str, checkpoint: Checkpoint) -> None:
        if not self.works:
            raise OSError("no room")
        self.kept = checkpoint

    async def delete(self, _target: str, _key: str) -> None:
        self.kept = None

    async def release(self, _target: str, _key: str) -> None:
        self.locked = False

    def spool(self, _target: str, _key: str) -> Path | None:
        return None


class Driver:
    """Stands for the driver and its session: what it was given it has received."""

    session_id = SESSION

    def __init__(self, received: int, token: str) -> None:
        self.session = self
        self.received = received
        self.resume_token = SecretStr(token)

    def flush(self) -> None:
        """Nothing waits here."""

    def reorder_block_end(self, number: int) -> int:
        return number

    def ackable(self, mark: int) -> int:
        return mark


class Life:
    """A client, from its start to its end or to the death of its process."""

    def __init__(self, store: Store, number: int) -> None:
        self.hub = Hub()
        self.tape = Tape()
        self.durability = Durability(
            store, "target", "key", fan_out=self.hub.fan_out, back_pressure=self.hub.back_pressure
        )
        # Two lanes a job: one may be done with its end before the other with what led there.
        self.hub.subscribe(self.tape.handle, Log, order=Order.JOB)
        self.hub.subscribe(self.tape.handle, Completed, order=Order.JOB)
        self.driver = Driver(0, f"token {number}")

    async def begin(self) -> Checkpoint | None:
        """Go on from what is kept."""
        kept = await self.durability.open()
        self.driver.received = kept.mark if kept is not None else 0
        self.durability.start(self.driver)  # type: ignore[arg-type]
        self.durability.hold_until_saved(SESSION, fresh=kept is None)
        return kept

    def offer(self, events: list[Event]) -> None:
        for event in events:
            self.driver.received = max(self.driver.received, event.seq or 0)
        self.durability.offer(events)
        self.durability.schedule()

    def let_go(self) -> None:
        """No handler waits any more."""
        for seq in tuple(self.tape.running):
            self.tape.gate(seq).set()

    async def killed(self) -> None:
        """Nothing is saved, and all tasks end."""
        writer = self.durability._writer
        if writer is not None:
            await writer.stop()
        while self.tape.running:
            self.let_go()
            await asyncio.sleep(0)


class Keeping(RuleBasedStateMachine):
    """Jobs run, handlers return in any order, and the process may be killed at any moment."""

    @initialize(every=st.sampled_from([1, 2, 5, 20]))
    def begin(self, every: int) -> None:
        self.clock = VirtualClock()
        self.runner = asyncio.Runner(loop_factory=self.clock.new_loop)
        self.store = Store(every)
        self.events: list[Event] = []  # as the runtime has them, in the order of their numbers
        self.opened: list[str] = []
        self.ended: dict[str, int] = {}
        self.handled: set[int] = set()  # in some life
        self.lives = 0
        self.run(self.live())
        self.a_job_is_accepted(JOBS[0])
        self.time_passes()

    def run(self, coro: Coroutine[Any, Any, Any]) -> None:
        """Run something, and then everything that can run without time passing."""

        async def all_of_it() -> None:
            await coro
            await self.clock.settle()

        self.runner.run(all_of_it())

    def do(self, act: Callable[..., object], *arguments: Any) -> None:
        async def acted() -> None:
            act(*arguments)

        self.run(acted())

    async def live(self) -> None:
        self.lives += 1
        self.life = Life(self.store, self.lives)
        kept = await self.life.begin()
        await self.clock.settle()
        # A job of which nothing was saved yet: who submits it again is told of it again.
        known = kept.jobs + kept.ended if kept is not None else ()
        self.opened = [job for job in self.opened if job in {each.job_id for each in known}]
        self.offered = [event for event in self.events if not _known(kept, event.seq or 0)]
        # The runtime sends all events after the mark again, those that were processed too.
        self.life.driver.received = len(self.events)
        if self.offered:
            self.life.offer(self.offered)

    def open(self, job: str) -> None:
        self.life.durability.add_job(OpenJob(job, "agent", f"key of {job}", "hash"))

    @property
    def seen(self) -> set[int]:
        """What handlers of this life were called with."""
        return {seq for seq in self.life.tape.starts if seq is not None}

    @property
    def done(self) -> set[int]:
        return {seq for seq in self.life.tape.ends if seq is not None}

    # ------------------------------------------------------------------ what happens

    @rule(job=st.sampled_from(JOBS))
    def a_job_is_accepted(self, job: str) -> None:
        if job not in self.opened and all(event.job_id != job for event in self.events):
            self.opened.append(job)
            self.do(self.open, job)

    @precondition(lambda self: set(self.opened) - set(self.ended))
    @rule(which=st.integers(0, 2), count=st.integers(1, 5), end=st.booleans())
    def a_job_has_news(self, which: int, count: int, end: bool) -> None:
        running = [job for job in self.opened if job not in self.ended]
        job = running[which % len(running)]
        events: list[Event] = []
        for _ in range(count):
            events.append(log(len(self.events) + len(events) + 1, job))
        if end:
            last = len(self.events) + len(events) + 1
            events.append(Completed(seq=last, session_id=SESSION, job_id=job, value=job))
            self.ended[job] = last
        self.events += events
        self.offered += events
        self.do(self.life.offer, events)

    @precondition(lambda self: self.life.tape.running)
    @rule(which=st.integers(0, 2))
    def a_handler_returns(self, which: int) -> None:
        running = sorted(seq for seq in self.life.tape.running if seq is not None)
        self.do(self.life.tape.gate(running[which % len(running)]).set)

    @rule()
    def time_passes(self) -> None:
        self.run(self.clock.advance(2 * INTERVAL))

    @rule(works=st.sampled_from([True, True, False]))
    def the_store_breaks_or_is_mended(self, works: bool) -> None:
        self.store.works = works

    @rule()
    def what_there_is_is_saved(self) -> None:
        self.run(self.life.durability.flush())
        kept = self.store.kept
        if not self.store.works or kept is None:
            return
        assert kept.mark == self.mark
        open_still = {job for job in self.opened if not self.is_over(job)}
        assert {job.job_id for job in kept.jobs} == open_still
        assert {job.job_id for job in kept.ended} == set(self.opened) - open_still

    @precondition(lambda self: len(self.events) > 3 * self.lives)
    @rule()
    def the_process_is_killed(self) -> None:
        kept, seen = self.store.kept, self.seen
        self.handled |= self.done
        for number in seen:
            assert kept is not None, "a handler saw an event, and nobody knows"
            assert number <= kept.reserved or _known(kept, number)
        self.run(self.life.killed())
        self.store.locked = False
        self.run(self.live())

    # ------------------------------------------------------------------ what always holds

    @property
    def mark(self) -> int:
        """Everything up to it was handled, in this life or before it."""
        missing = [e.seq or 0 for e in self.events if (e.seq or 0) not in self.done | self.before]
        return min(missing, default=len(self.events) + 1) - 1

    @property
    def before(self) -> set[int]:
        """What an earlier life was done with, as this one was told."""
        offered = {event.seq for event in self.offered}
        return {e.seq for e in self.events if e.seq is not None and e.seq not in offered}

    def is_over(self, job: str) -> bool:
        """Everything of a job was handled, its end included."""
        if job not in self.ended:
            return False
        of_job = {event.seq for event in self.events if event.job_id == job}
        return of_job <= self.done | self.before

    @invariant()
    def only_what_was_handled_counts(self) -> None:
        kept = self.store.kept
        for event in self.events:
            if _known(kept, event.seq or 0):
                assert event.seq in self.handled | self.done

    @invariant()
    def a_job_is_kept_until_its_end_was_handled(self) -> None:
        kept = self.store.kept
        if kept is None:
            return
        for job in kept.jobs:
            end = self.ended.get(job.job_id)
            assert end is None or not _known(kept, end), "its end would not come again"
        assert not {job.job_id for job in kept.jobs} & {job.job_id for job in kept.ended}

    @invariant()
    def what_is_acknowledged_is_kept(self) -> None:
        assert self.life.durability.mark <= (self.store.kept.mark if self.store.kept else 0)

    @invariant()
    def lanes_keep_their_order(self) -> None:
        for job in JOBS:
            numbers = [e.seq for e in self.offered if e.job_id == job and isinstance(e, Log)]
            started = [seq for seq in self.life.tape.starts if seq in set(numbers)]
            assert started == numbers[: len(started)]

    def teardown(self) -> None:
        if not hasattr(self, "life"):
            return
        try:
            self.check_the_end()
        finally:
            self.run(self.life.killed())
            self.runner.close()

    def check_the_end(self) -> None:
        """The store works and handlers return: an orderly end keeps all of it."""
        self.store.works = True
        for _ in range(2 * len(self.offered) + 2):
            self.time_passes()
            self.do(self.life.let_go)
        assert self.done | self.before == {event.seq for event in self.events}
        self.run(self.life.durability.close(forget=False))
        kept = self.store.kept
        assert kept is not None
        assert kept.mark == len(self.events)
        assert {job.job_id for job in kept.jobs} == set(self.opened) - set(self.ended)
        assert not self.store.locked


def _known(kept: Checkpoint | None, number: int) -> bool:
    """Whether a checkpoint says that this event was processed."""
    if kept is None:
        return False
    return number <= kept.mark or any(first <= number <= last for first, last in kept.processed)


# ------------------------------------------------------------------ the table, row by row

PATHS = {"OUT": (), "HOLDING": ("open",), "SAVING": ("open", "start")}
PATHS["FROZEN"] = (*PATHS["SAVING"], "freeze")


async def _is_in(state: str, life: Life, store: Store, number: int) -> bool:
    """Whether everything that can be seen from outside is as it should be in a state."""
    other = Durability(
        store, "target", "key", fan_out=life.hub.fan_out, back_pressure=life.hub.back_pressure
    )
    locked = False
    try:
        await other.open()
    except StoreLocked:
        locked = True
    else:
        await other.close(forget=False)
    before = store.kept
    life.durability.add_job(OpenJob(f"job_{number}", "agent", "key", "hash"))
    await life.durability.flush()
    saves = store.kept != before
    return (locked, saves) == {
        "OUT": (False, False),
        "HOLDING": (True, False),
        "SAVING": (True, True),
        "FROZEN": (True, False),
    }[state]


@pytest.mark.parametrize("row", rows_of(durability), ids=str)
def test_the_life_of_a_checkpoint_goes_by_the_table(row: Row) -> None:
    """S9, S10."""

    async def scene() -> None:
        store = Store(every=1)
        life = Life(store, 1)
        verbs: dict[str, Callable[[], Any]] = {
            "open": life.durability.open,
            "start": lambda: life.durability.start(life.driver),  # type: ignore[arg-type]
            "freeze": life.durability.freeze,
            "close": lambda: life.durability.close(forget=False),
        }

        async def do(verb: str) -> None:
            done = verbs[verb]()
            if done is not None:
                await done
            if verb == "start":
                life.durability.hold_until_saved(SESSION, fresh=True)

        for verb in PATHS[row.state]:
            await do(verb)
        assert await _is_in(row.state, life, store, 1)
        await do(row.on)
        assert await _is_in(row.to, life, store, 2)
        await life.durability.close(forget=True)

    VirtualClock().run(scene())


TestKeeping = Keeping.TestCase
TestKeeping.settings = settings(max_examples=60, stateful_step_count=40)
