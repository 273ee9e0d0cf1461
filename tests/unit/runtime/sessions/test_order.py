"""The order law: on every connection the numbers rise by one, whatever happens (§8.3)."""

from __future__ import annotations

import asyncio
import os
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from arcp_client._wire.stamp import EventIds, Record, job_part
from arcp_client.errors import LinkLost
from arcp_client.runtime import JobContext, Limits, Runtime
from arcp_client.runtime._log.replay_buffers import JobHistory, SessionLog
from arcp_client.runtime._sessions.session import ServerSession, SubscriptionFeed
from tests.unit.runtime.peer import Frame, Peer, seqs

JOBS = 8
EVENTS = int(os.environ.get("ARCP_ORDER_EVENTS", "1000"))  # of each job


class Follower:
    """A client that is cut at random and resumes, and keeps every numbered frame it was sent."""

    def __init__(self, runtime: Runtime, dice: random.Random, cuts: int) -> None:
        self.runtime = runtime
        self.dice = dice
        self.cuts = cuts
        self.frames: list[Frame] = []
        self.peer = Peer(None)  # type: ignore[arg-type]

    async def open(self) -> None:
        self.peer = await Peer.to(self.runtime)
        await self.peer.hello()

    async def follow(self, jobs: set[str]) -> None:
        open_ = set(jobs)
        until_cut = self.dice.randrange(200, 900)
        while open_:
            frame = await self.peer.read()
            if "event_seq" not in frame:
                continue
            self.frames.append(frame)
            # The law, on this connection and over all of them.
            assert frame["event_seq"] == len(self.frames)
            if frame["type"] != "job.event":
                open_.discard(frame["job_id"])
            if len(self.frames) % 100 == 0 and self.dice.random() < 0.5:
                await self.peer.send("session.ack", {"last_processed_seq": len(self.frames)})
            until_cut -= 1
            if until_cut == 0 and self.cuts:
                self.cuts -= 1
                until_cut = self.dice.randrange(200, 900)
                await self.again()
        await self.peer.close()

    async def again(self) -> None:
        block = self.peer.block(len(self.frames))
        if self.dice.random() < 0.5:
            await self.peer.cut()
        fresh = await Peer.to(self.runtime)
        reply = await fresh.hello(resume=block)
        assert reply["type"] == "session.welcome", reply
        self.peer = fresh


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.usefixtures("untraced")
async def test_eight_jobs_three_observers_watchdogs_and_cuts(seed: int) -> None:
    dice = random.Random(seed)
    async with Runtime(limits=Limits(lag_events=300, lag_delay=0.002)) as runtime:

        @runtime.agent("busy")
        async def busy(input: Any, job: JobContext) -> None:
            async def half(count: int) -> None:
                for n in range(count):
                    await job.metric("cost.x", 0.0001, "USD")
                    if dice.random() < 0.02:
                        await asyncio.sleep(0)
                    if n % 50 == 0:
                        await job.progress(n)

            await asyncio.gather(half(EVENTS // 4), half(EVENTS // 4))

        @runtime.agent("doomed")
        async def doomed(input: Any, job: JobContext) -> None:
            while True:
                await job.log("still here")
                await asyncio.sleep(0.001)

        owner = Follower(runtime, dice, cuts=10)
        observers = [Follower(runtime, dice, cuts=5) for _ in range(3)]
        for follower in (owner, *observers):
            await follower.open()
        jobs = set()
        for n in range(JOBS):
            lease = {"cost.budget": ["USD:1"]}
            accepted = await owner.peer.submit("busy", n, lease_request=lease)
            jobs.add(accepted["payload"]["job_id"])
        timed = await owner.peer.submit("doomed", max_runtime_sec=1)
        soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat().replace("+00:00", "Z")
        expiring = await owner.peer.submit("doomed", lease_constraints={"expires_at": soon})
        jobs |= {timed["payload"]["job_id"], expiring["payload"]["job_id"]}
        for observer in observers:
            for job_id in jobs:
                request = {"job_id": job_id, "history": True}
                await observer.peer.ask("job.subscribe", request)
        async with asyncio.TaskGroup() as group:
            for follower in (owner, *observers):
                group.create_task(follower.follow(jobs))
        of_owner = by_job(owner.frames)
        assert set(of_owner) == jobs
        for observer in observers:
            # Every event once, in the order of the job, under the id it has everywhere.
            seen = by_job(observer.frames)
            for job_id in jobs:
                assert without_pressure(seen[job_id]) == without_pressure(of_owner[job_id])
        ends = {f["payload"].get("code") for f in owner.frames if f["type"] == "job.error"}
        assert ends == {"TIMEOUT", "LEASE_EXPIRED"}


def by_job(frames: list[Frame]) -> dict[str, list[Frame]]:
    found: dict[str, list[Frame]] = {}
    for frame in frames:
        found.setdefault(frame["job_id"], []).append(frame)
    return found


def without_pressure(frames: list[Frame]) -> list[tuple[str, Any]]:
    return [(f["id"], f["payload"]) for f in frames]


async def test_a_cost_and_what_is_left_of_it_are_neighbours(
    runtime: Runtime, open_peer: Any
) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> None:
        async def spend() -> None:
            for _ in range(100):
                await job.metric("cost.x", 0.01, "USD")

        await asyncio.gather(*(spend() for _ in range(4)))

    peer = await open_peer(runtime)
    _, frames = await peer.run("a", lease_request={"cost.budget": ["USD:100"]})
    names = [f["payload"]["body"]["name"] for f in frames[:-1]]
    assert names == ["cost.x", "cost.budget.remaining"] * 400
    left = [f["payload"]["body"]["value"] for f in frames[1:-1:2]]
    assert left == [round(100 - 0.01 * n, 2) for n in range(1, 401)]


# ------------------------------------------------------------- the log, the cursor, the resume

IDS = EventIds()
JOB = job_part("job_x", "a" * 32)


def record(n: int) -> Record:
    return Record(IDS.next(), b"job.event", JOB, str(n).encode())


class Link:
    """What a connection does, one frame at a time, when the machine says so."""

    def __init__(self, session: ServerSession, cursor: int) -> None:
        self.session: ServerSession | None = session
        self.cursor = cursor
        self.got: list[int] = []
        self.broken = False

    def wake(self) -> None: ...

    def control(self, frame: bytes) -> None: ...

    def displace(self) -> None:
        self.session = None

    def overrun(self) -> None:
        self.broken = True
        session, self.session = self.session, None
        if session is not None:
            session.detach(self)

    def step(self) -> None:
        session = self.session
        if session is None or self.cursor >= session.log.settled:
            return
        seq = self.cursor + 1
        if seq <= session.log.floor:
            self.overrun()
            return
        self.cursor = seq
        kept = session.log[seq]
        session.sending(seq, kept)
        self.got.append(int(kept.payload))
        session.progress()


@settings(max_examples=60, stateful_step_count=60)
class SessionMachine(RuleBasedStateMachine):
    """One submitting session and one observer of its job, over links that come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.history = JobHistory(max_events=40, max_bytes=10_000_000)
        self.owner = ServerSession("sess_a", "p", SessionLog(30, 10_000_000))
        self.observer = ServerSession("sess_b", "p", SessionLog(30, 10_000_000))
        self.count = 0
        self.told = False
        self.feed: SubscriptionFeed | None = None
        self.first = 0
        self.links: dict[ServerSession, Link] = {}
        self.received: dict[ServerSession, list[int]] = {self.owner: [], self.observer: []}

    @rule(count=st.integers(1, 12))
    def emit(self, count: int) -> None:
        for _ in range(count):
            item = record(self.count)
            self.count += 1
            self.history.append(self.owner.append(item), item)
            if self.feed is not None:
                self.feed.push()

    @precondition(lambda self: self.feed is None)
    @rule(history=st.booleans())
    def subscribe(self, history: bool) -> None:
        self.first = self.history.floor if history else self.history.end

        def broken(_: SubscriptionFeed) -> None:
            self.told = True

        self.feed = SubscriptionFeed(self.observer, "job_x", self.history, self.first, broken)
        self.feed.push()

    @rule(which=st.booleans(), back=st.integers(0, 3))
    def connect(self, which: bool, back: int) -> None:
        session = self.owner if which else self.observer
        got = self.received[session]
        last = max(len(got) - back, 0)
        if last < session.log.floor:
            return  # refused: RESUME_WINDOW_EXPIRED
        del got[last:]
        link = Link(session, last)
        link.got = got
        self.links[session] = link
        session.attach(link)

    @rule(which=st.booleans(), count=st.integers(1, 20))
    def send(self, which: bool, count: int) -> None:
        link = self.links.get(self.owner if which else self.observer)
        for _ in range(count if link else 0):
            assert link is not None
            link.step()

    @rule(which=st.booleans())
    def drop(self, which: bool) -> None:
        link = self.links.pop(self.owner if which else self.observer, None)
        if link is not None and link.session is not None:
            link.session.detach(link)
            link.session = None

    @rule(which=st.booleans(), back=st.integers(0, 5))
    def acknowledge(self, which: bool, back: int) -> None:
        session = self.owner if which else self.observer
        session.acknowledge(max(len(self.received[session]) - back, 0))

    @rule()
    def over_acknowledge(self) -> None:
        floor = self.owner.log.floor
        assert not self.owner.acknowledge(self.owner.sent + 1)
        assert self.owner.log.floor == floor

    @invariant()
    def what_was_received_is_the_stream_from_its_start(self) -> None:
        for session, start in ((self.owner, 0), (self.observer, self.first)):
            got = self.received[session]
            assert got == list(range(start, start + len(got)))
            log = session.log
            assert log.floor <= log.last
            assert len(log) == log.last - log.floor <= 30

    @invariant()
    def an_observer_that_lost_something_was_told(self) -> None:
        if self.feed is not None and self.feed.next < self.history.floor:
            # It waits for room; the next push tells it.
            assert not self.observer.room or self.told

    def teardown(self) -> None:
        for session, start in ((self.owner, 0), (self.observer, self.first)):
            if session is self.observer and self.feed is None:
                continue
            self.connect(session is self.owner, 0)
            link = self.links.get(session)
            if link is None or link.session is None:
                continue
            for _ in range(500):
                link.step()
            if not link.broken and not (session is self.observer and self.told):
                assert self.received[session] == list(range(start, self.count))


TestSessionMachine = SessionMachine.TestCase


async def test_a_frame_sent_while_the_link_dies_is_sent_again(runtime: Runtime) -> None:
    peer = await Peer.to(runtime)
    await peer.hello()

    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> None:
        for n in range(200):
            await job.log(str(n))

    accepted = await peer.submit("a")
    seen: list[int] = []
    for _ in range(40):
        try:
            for _ in range(5):
                seen += seqs([await peer.read()])
        except LinkLost:
            pass
        block = peer.block(len(seen))
        await peer.cut()
        peer = await Peer.to(runtime)
        assert (await peer.hello(resume=block))["type"] == "session.welcome"
    seen += seqs(await peer.follow(accepted["payload"]["job_id"])) if len(seen) < 201 else []
    assert seen == list(range(1, 202))
    await peer.close()
