"""Frames that no good client sends: each is answered, nothing breaks, nobody else notices.

``ARCP_FUZZ`` says how many frames each transport gets (17,000 make 51,000), ``ARCP_FUZZ_SEED``
which ones.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections import Counter
from itertools import islice
from typing import Any

import pytest

from arcp_client.errors import LinkLost
from arcp_client.runtime import JobContext, Limits
from arcp_client.runtime._connection.connection import Connection
from arcp_client.runtime._sessions.session import ServerSession
from tests.contract.conftest import Worlds
from tests.contract.hostile import Hostile
from tests.contract.requirements import requirement
from tests.contract.world import World
from tests.unit.runtime.peer import Frame, Peer, seqs

COUNT = int(os.environ.get("ARCP_FUZZ", "3000"))
SEED = int(os.environ.get("ARCP_FUZZ_SEED", "7"))
BATCH = 50
LARGEST = 65_536
LIMITS = Limits(
    frame_bytes=LARGEST, event_bytes=1000, retained_jobs=50, sessions_per_principal=50
)  # fmt: skip

SILENT = (b"session.ack", b"session.pong", b"job.unsubscribe")


async def hostile_world(worlds: Worlds) -> World:
    world = await worlds(limits=LIMITS, auth={"t": "them", "good": "us"})

    @world.runtime.agent("quick")
    @world.runtime.agent("quick", "1")
    async def quick(input: Any, job: JobContext) -> int:
        await job.log("ran")
        return 1

    return world


class Attacker:
    """Sends frames in batches and accounts for every one.

    Attributes:
        sent: frames so far.
        codes: how often which answer came.
    """

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        # One limit for both ends: the largest frame of a runtime counts its own events too.
        largest = LARGEST + 1000
        self.hostile = Hostile(seed, largest=largest, lines=world.kind == "stdio")
        self._frames = self.hostile.frames()
        self._largest = largest
        self._syncs = 0
        self.sent = 0
        self.codes: Counter[str] = Counter()
        self.peer: Peer

    async def begin(self) -> None:
        self.peer = await self._world.peer(token="t")
        self.hostile.job_id = (await self.peer.submit("quick"))["payload"]["job_id"]

    async def batch(self) -> None:
        """Send some frames, and read until each has its answer."""
        waiting: dict[str, bytes] = {}
        oversized = b""
        for id, data in islice(self._frames, BATCH):
            self.sent += 1
            if len(data) > self._largest and self._world.kind != "stdio":
                oversized = data
                break
            waiting[id] = data
            await self.peer.raw(data)
        anonymous = 0
        for _ in range(3):  # a resume is answered by a task, a little later than the rest
            for answer in await self._answers():
                if waiting.pop(_answered(answer), None) is None:
                    anonymous += 1
        missing = [d for d in waiting.values() if not any(s in d for s in SILENT)]
        assert len(missing) <= anonymous <= len(waiting), (len(missing), anonymous, missing)
        if oversized:
            await self._oversized(oversized)

    async def _answers(self) -> list[Frame]:
        """What came without a number until all that was sent before has been handled."""
        self._syncs += 1
        nonce = f"sync{self._syncs}"
        await self.peer.send("session.ping", {"nonce": nonce})
        answers = []
        while True:
            frame = await self.peer.read()
            if frame["payload"].get("ping_nonce") == nonce:
                return answers
            if "event_seq" not in frame:
                answers.append(frame)
                self.codes[frame["payload"].get("code", frame["type"])] += 1

    async def _oversized(self, data: bytes) -> None:
        """A WebSocket ends by it and the session is resumed; memory refuses it at once."""
        if self._world.kind == "memory":
            with pytest.raises(Exception, match="over this side's limit"):
                await self.peer.raw(data)
            return
        await self.peer.raw(data)
        with pytest.raises(LinkLost):
            while True:
                await self.peer.transport.receive()
        block = self.peer.block()
        self.peer = await self._world.stranger()
        if (await self.peer.hello(token="t", resume=block))["type"] != "session.welcome":
            # One of the frames has acknowledged what was not read yet.
            assert (await self.peer.hello(token="t"))["type"] == "session.welcome"


def _answered(frame: Frame) -> str:
    return str(frame["payload"].get("request_id", ""))


async def watched(world: World, over: asyncio.Event) -> tuple[list[int], int]:
    """Somebody else's session with a job, for as long as the attack lasts."""
    peer = await world.peer(token="good")
    run = await world.job(peer)
    count = 0
    numbers: list[int] = []
    while not over.is_set():
        await run.job.progress(count)
        count += 1
        numbers.append((await peer.until("job.event"))["event_seq"])
        assert (await peer.ask("session.list_jobs"))["payload"]["jobs"][0]["job_id"] == run.id
        for _ in range(20):
            await asyncio.sleep(0)
    run.finish("not disturbed")
    frames = await peer.follow(run.id)
    assert frames[-1]["payload"]["result"] == "not disturbed"
    return numbers + seqs(frames), count


def living(kind: type) -> int:
    gc.collect()
    return sum(isinstance(each, kind) for each in gc.get_objects())


@requirement("R-12-2", "R-8.3-1")
@pytest.mark.timeout(60 + COUNT / 50)
async def test_every_hostile_frame_is_answered_and_nobody_else_notices(
    worlds: Worlds, caplog: pytest.LogCaptureFixture
) -> None:
    # A record that is kept holds its error, and that the frames of its calls.
    caplog.set_level(logging.ERROR, "arcp_client")
    world = await hostile_world(worlds)
    over = asyncio.Event()
    attacker = Attacker(world, SEED)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(watched(world, over))
        await attacker.begin()
        while attacker.sent < COUNT:
            await attacker.batch()
        over.set()
    numbers, count = watching.result()
    assert numbers == list(range(1, count + 2))
    assert attacker.codes["INVALID_REQUEST"] > COUNT / 4
    assert attacker.codes["INTERNAL_ERROR"] == 0, caplog.text
    assert not [r for r in caplog.records if r.levelname == "ERROR"]
    # It still works, and holds no more than its limits say.
    _, frames = await attacker.peer.run("quick")
    assert frames[-1]["type"] == "job.result"
    assert living(Connection) <= 2
    assert living(ServerSession) <= LIMITS.sessions_per_principal
    page = await attacker.peer.ask("session.list_jobs", {"limit": 1000})
    assert len(page["payload"]["jobs"]) <= LIMITS.retained_jobs


@requirement("R-6.1-2", "R-12-2")
@pytest.mark.timeout(60 + COUNT / 50)
async def test_hostile_strangers_get_one_answer_and_no_session(
    worlds: Worlds, caplog: pytest.LogCaptureFixture
) -> None:
    # A record that is kept holds its error, and that the frames of its calls.
    caplog.set_level(logging.ERROR, "arcp_client")
    world = await hostile_world(worlds)
    hostile = Hostile(SEED, largest=LARGEST, lines=world.kind == "stdio")

    async def greet(data: bytes) -> None:
        stranger = Peer(await world.link())
        await stranger.raw(data)
        reply = await one(stranger)
        if reply is not None:
            assert reply["type"] == "session.error", reply
            if reply["payload"]["code"] in ("RESUME_WINDOW_EXPIRED", "PERMISSION_DENIED"):
                assert (await stranger.hello(token="t"))["type"] == "session.welcome"
        await stranger.close()

    frames = (data for _, data in islice(hostile.frames(), max(COUNT // 20, 30)))
    if world.kind == "memory":
        frames = (data for data in frames if len(data) <= LARGEST)
    # A link that ends by a large frame waits a second for its peer.
    while some := list(islice(frames, 1 if world.kind == "stdio" else 50)):
        await asyncio.gather(*map(greet, some))
    assert not [r for r in caplog.records if r.levelname == "ERROR"]
    async with asyncio.timeout(10):
        while living(Connection) > 0:  # the last ones are still saying goodbye
            await asyncio.sleep(0)


async def one(stranger: Peer) -> Frame | None:
    """The answer; ``None`` where a WebSocket ended by a frame that was too large."""
    try:
        return await stranger.read()
    except LinkLost as lost:
        if lost.close_code != 1009:
            raise
        return None
