"""Questions (X4 to X15): whatever devices, expiries and kills do, each is answered at most once.

Agents ask through a runtime with a log in a file. Devices answer at the same time, questions expire
in the same moment, jobs are cancelled, and the runtime is killed and started again. Every device
must see the same winner, and every agent continue with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arcp_client._wire import names
from arcp_client.errors import LinkLost, QuestionExpired
from arcp_client.runtime import JobContext, Limits, Runtime, SqliteEventLog
from arcp_client.runtime._dialogue.question import ANSWERED, DEFAULTED, EXPIRED, NEXT, WITHDRAWN
from arcp_client.runtime._log.entries import Entry
from arcp_client.testing import VirtualClock
from tests.property.seeds import explore
from tests.unit.runtime.peer import Frame, Peer

QUESTIONS = 3
"""Questions that each job asks, one after the other."""
CLOSES = {names.ANSWERED, names.EXPIRED, names.WITHDRAWN}


PICK = st.integers(0, 59)


class MortalLog(SqliteEventLog):
    """A log whose process may be killed: from then on nothing is written."""

    killed = False

    async def write(self, entries: Sequence[Entry]) -> None:
        if self.killed:
            await asyncio.Event().wait()
        await super().write(entries)


class Device:
    """A client that reads everything and remembers it."""

    def __init__(self) -> None:
        self.peer: Peer | None = None
        self.reader: asyncio.Task[None] | None = None
        self.frames: list[Frame] = []

    async def connect(self, runtime: Runtime) -> None:
        self.peer = await Peer.to(runtime)
        await self.peer.hello()
        self.reader = asyncio.ensure_future(self._read(self.peer))

    async def _read(self, peer: Peer) -> None:
        with contextlib.suppress(LinkLost):
            while True:
                self.frames.append(await peer.read())

    async def leave(self) -> None:
        if self.peer is not None:
            await self.peer.close()
            assert self.reader is not None
            await asyncio.wait([self.reader])
            self.peer = None


class Asking(RuleBasedStateMachine):
    @initialize(devices=st.integers(2, 5))
    def begin(self, devices: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.clock = VirtualClock()
        self.runner = asyncio.Runner(loop_factory=self.clock.new_loop)
        self.devices = [Device() for _ in range(devices)]
        self.works = 0
        self.got: dict[tuple[str, int], list[Any]] = defaultdict(list)
        self.kept: dict[tuple[str, int], set[Any]] = defaultdict(set)
        self.inputs: dict[str, Any] = {}
        self.sent = 0
        self.since = 0
        self.run(self.live())

    def run(self, coro: Coroutine[Any, Any, Any]) -> None:
        async def whole() -> None:
            await coro
            await self.clock.settle()

        self.runner.run(whole())

    async def live(self) -> None:
        self.log = MortalLog(Path(self.folder.name) / "log.db")
        self.runtime = Runtime(
            event_log=self.log, heartbeat_interval=None, limits=Limits(retention=1e9)
        )

        @self.runtime.agent("asks")
        async def asks(input: Any, job: JobContext) -> Any:
            for n in range(QUESTIONS):
                default = {"default": "none"} if input["default"] else {}
                try:
                    answer = await job.ask(f"{n}?", timeout=input["timeout"], **default)
                except QuestionExpired:
                    answer = None
                self.got[job.id, n].append(answer)
                if answer is not None:
                    self.kept[input["work"], n].add(answer)

        for device in self.devices:
            await device.connect(self.runtime)

    # -- what happens

    @rule(timeout=st.sampled_from([10, 1000, 1000]), default=st.booleans())
    @precondition(lambda self: self.works < 12)
    def submit(self, timeout: int, default: bool) -> None:
        self.works += 1
        self.since += 1
        self.run(self._submit(f"w{self.works}", {"timeout": timeout, "default": default}))

    async def _submit(self, work: str, input: Any) -> None:
        peer = self.devices[0].peer
        assert peer is not None
        await peer.send(
            "job.submit",
            {"agent": "asks", "input": {**input, "work": work}, names.WORK_ID: work},
            trace_id=f"{self.works:032x}",
        )
        self.inputs[work] = input

    def open_questions(self) -> list[tuple[str, str]]:
        asked, closed = {}, set()
        for frame in self.devices[0].frames:
            body = frame["payload"].get("body") or {}
            if frame["payload"].get("kind") == names.QUESTION:
                asked[body["question_id"]] = frame["job_id"]
            elif frame["payload"].get("kind") in CLOSES:
                closed.add(body["question_id"])
        return [(job, question) for question, job in asked.items() if question not in closed]

    def picked(self, pick: int) -> tuple[str, str] | None:
        """One of the open questions. What is drawn never depends on how many there are."""
        found = self.open_questions()
        return found[pick % len(found)] if found else None

    @rule(pick=PICK, some=st.sets(st.integers(0, 4), min_size=1), late=st.booleans())
    def answer(self, pick: int, some: set[int], late: bool) -> None:
        """Several devices answer at the same time, perhaps when the question expires."""
        found = self.picked(pick)
        if found is None:
            return
        devices = [self.devices[n % len(self.devices)] for n in some]
        self.since += 1
        if late:
            self.wait(10.0)
        self.run(self._answer(devices, *found, key="key"))

    async def _answer(
        self, some: list[Device], job_id: str, question_id: str, key: str | None
    ) -> None:
        for device in some:
            self.sent += 1
            assert device.peer is not None
            payload = {"job_id": job_id, "question_id": question_id, "value": f"a{self.sent}"}
            if key is not None:
                payload["idempotency_key"] = f"{key}{self.sent}"
            await device.peer.send(names.ANSWER, payload)

    @rule(pick=PICK)
    def answer_in_time(self, pick: int) -> None:
        """All devices answer at the same time."""
        found = self.picked(pick)
        self.since += 1
        if found is not None:
            self.run(self._answer(self.devices, *found, key=None))

    @rule(seconds=st.sampled_from([1.0, 9.999]))
    def wait(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        found = self.picked(pick)
        if found is not None:
            peer = self.devices[0].peer
            assert peer is not None
            self.run(peer.send("job.cancel", {"job_id": found[0]}))

    @precondition(lambda self: self.since >= 4)
    @rule(pick=PICK, turns=st.integers(0, 40))
    def kill(self, pick: int, turns: int) -> None:
        """Kill the runtime, with answers under way; begin its work again."""
        self.runner.run(self._kill(self.picked(pick), turns))
        self.since = 0
        self.run(self.live())
        ended = self.ended_work()
        for work, input in list(self.inputs.items()):
            if work not in ended:
                self.run(self._submit(work, input))

    async def _kill(self, chosen: tuple[str, str] | None = None, turns: int = 0) -> None:
        if chosen is not None:
            await self._answer(self.devices, *chosen, None)
            for _ in range(turns):
                await asyncio.sleep(0)
        self.log.killed = True
        for device in self.devices:
            await device.leave()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60):
                await self.runtime.close()

    def ended_work(self) -> set[str]:
        ended = set()
        for frame in self.frames():
            if frame["type"] == "job.result" or (
                frame["type"] == "job.error" and frame["payload"]["code"] == "CANCELLED"
            ):
                ended.add(self.work_of(frame["job_id"]))
        return ended

    def work_of(self, job_id: str) -> str:
        for frame in self.frames():
            if frame["type"] == "job.accepted" and frame["payload"]["job_id"] == job_id:
                return f"w{int(frame['payload']['trace_id'], 16)}"
        return ""

    def frames(self) -> list[Frame]:
        return [frame for device in self.devices for frame in device.frames]

    # -- what must hold

    @invariant()
    def each_question_has_one_winner(self) -> None:
        values: dict[str, set[Any]] = defaultdict(set)
        for frame in self.frames():
            payload = frame["payload"]
            body = payload.get("body") or {}
            if payload.get("kind") == names.ANSWERED:
                values[body["question_id"]].add(body["value"])
            elif frame["type"] == names.ANSWER_TAKEN:
                values[payload["question_id"]].add(payload["value"])
            elif payload.get("code") == "QUESTION_ANSWERED":
                values[payload["details"]["question_id"]].add(payload["details"]["value"])
        assert all(len(each) == 1 for each in values.values()), values
        self.winners = {question: next(iter(each)) for question, each in values.items()}

    @invariant()
    def each_job_closes_a_question_at_most_once(self) -> None:
        closed: dict[tuple[int, str, str], int] = defaultdict(int)
        for at, device in enumerate(self.devices):
            for frame in device.frames:
                if frame["payload"].get("kind") in CLOSES:
                    closed[at, frame["job_id"], frame["payload"]["body"]["question_id"]] += 1
        assert all(count == 1 for count in closed.values())

    @invariant()
    def each_agent_continues_once_with_what_was_taken(self) -> None:
        said: dict[str, list[Any]] = defaultdict(list)
        for frame in self.devices[0].frames:
            body = frame["payload"].get("body") or {}
            if frame["payload"].get("kind") in CLOSES - {names.WITHDRAWN}:
                said[frame["job_id"]].append(body.get("value"))
        # Work that was begun again continued with the same answers.
        assert all(len(values) == 1 for values in self.kept.values()), self.kept
        for (job_id, n), got in self.got.items():
            assert len(got) == 1
            if n < len(said[job_id]):
                assert said[job_id][n] == got[0]

    def teardown(self) -> None:
        if not hasattr(self, "runner"):
            return
        for _ in range(QUESTIONS):  # nothing hangs: the last question expires
            self.run(asyncio.sleep(1000))
        left = self.runtime._core.jobs.open()
        self.runner.run(self._kill())
        self.runner.close()
        self.folder.cleanup()
        assert not left


@pytest.mark.timeout(300)
def test_questions_are_answered_at_most_once_and_never_lost() -> None:
    explore(Asking, "tests/property/test_questions.py", quick=6)


def test_a_closed_question_never_changes() -> None:
    assert set(NEXT["open"]) == {ANSWERED, DEFAULTED, EXPIRED, WITHDRAWN}
    assert all(not NEXT[state] for state in NEXT["open"])
