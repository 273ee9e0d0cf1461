"""Each call of a replica to the database fails once, and no observer, request or job is lost.

A scenario over two replicas is recorded, and then repeated with one call that fails: a sample by
default, and each of them with ``ARCP_SLOW=1``. ``INTERRUPT="fault: call"`` repeats one, and
``INTERRUPT_SEED=n`` takes another sample.

Each scenario is also repeated with statements and answers that take long, by seeds from
``INTERRUPT_SEED`` on.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import os
import random
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import pytest

from arcp_client import Client, events
from arcp_client._wire import names
from arcp_client.errors import ArcpError, StorageError
from arcp_client.runtime import JobContext, Limits, Runtime, Webhook
from arcp_client.runtime._dialogue import elsewhere
from arcp_client.runtime._jobs import mirrors
from arcp_client.runtime._log import (
    journal,
    postgres_dialogue,
    postgres_directory,
    postgres_unclaimed,
)
from arcp_client.runtime._log.postgres import PostgresEventLog
from tests.postgres import Cluster
from tests.replicas.conftest import Gate, with_agents
from tests.replicas.interruptions import AWAY, Call, Interruption, Turns, persistent
from tests.unit.runtime.peer import Frame, bodies
from tests.unit.runtime.webhooks.receiver import SECRET, Receiver

SLOW = "ARCP_SLOW" in os.environ
ONE = os.environ.get("INTERRUPT")
SEED = int(os.environ.get("INTERRUPT_SEED", "1"))
DELAYED = 60 if SLOW else 2
AT_ONCE = 4
BOUND = 600.0
"""Seconds for one run, on a machine that is busy with other things."""
LOOKS = 60
"""Looks for changes by each replica, while nothing else happens, after which a run hangs.

The slowest that a replica waits for otherwise is the end of its lease, after about 10 looks.
"""


LEFT = {
    "open job": "SELECT id, agent, runner FROM jobs WHERE ended_at IS NULL",
    "message": "SELECT job_id, message_id, state FROM messages WHERE state = 'offered'",
    "answer": "SELECT id, question_id FROM answers",
    "question": "SELECT id, status FROM questions WHERE status IN ('asked', 'open')",
    "webhook call": "SELECT id, replica FROM calls",
    "delegated": "SELECT session_id, job_id FROM watches WHERE delegated",
    "input": "SELECT id, runner FROM jobs WHERE request IS NOT NULL",
}
"""What must come to its end, as statements that find what has not."""


class World:
    """Two replicas, and what their agents and webhooks did.

    Args:
        interruption: lets a call fail.
    """

    def __init__(self, cluster: Cluster, schema: str, interruption: Interruption) -> None:
        self.cluster = cluster
        self.schema = schema
        self.interruption = interruption
        self.gates: dict[Any, Gate] = {}
        self.got: list[Any] = []
        self.messages: list[Any] = []
        self.runtimes: dict[str, Runtime] = {}
        self._reader: Any = None

    async def end_if_idle(self, bound: asyncio.Timeout) -> None:
        """End a run once nothing happens any more, however slow the machine is."""
        before: tuple[int, dict[str, int]] = (-1, {})
        while True:
            looks: dict[str, int] = {
                name: runtime._core._directory._polls  # type: ignore[attr-defined]
                for name, runtime in self.runtimes.items()
                if not runtime._core.closed
            }
            moves, since = before
            if moves != self.interruption.moves or since.keys() != looks.keys():
                before = self.interruption.moves, looks
            elif looks and all(looks[name] - since[name] >= LOOKS for name in looks):
                bound.reschedule(asyncio.get_running_loop().time())
                return
            await asyncio.sleep(0.1)

    async def replica(self, name: str, **options: Any) -> Runtime:
        """A replica that has joined."""
        log = PostgresEventLog(
            self.cluster.dsn, lease=15.0, schema=self.schema, replica=f"{self.schema}_{name}"
        )
        runtime = Runtime(event_log=log, name=f"{self.schema} {name}", **options)
        self._agents(with_agents(runtime, self.gates))
        self.runtimes[name] = runtime
        return runtime

    def _agents(self, runtime: Runtime) -> None:
        @runtime.agent("asks")
        async def asks(input: Any, job: JobContext) -> Any:
            self.got.append(await job.ask("Deploy?", options=["yes", "no"]))
            return self.got[-1]

        @runtime.agent("listens")
        async def listens(input: Any, job: JobContext) -> Any:
            async for message in job.inbox():
                self.messages.append(message.value)
                if message.value == "stop":
                    break
            return len(self.messages)

        @runtime.agent("waits")
        async def waits(input: Any, job: JobContext) -> Any:
            await job.cancelled.wait()

        @runtime.agent("delegates")
        async def delegates(input: Any, job: JobContext) -> Any:
            await self.gate(input).next()
            child = await insist(lambda: job.delegate("count", 4))
            return await child.result()

    def gate(self, name: Any) -> Gate:
        return self.gates.setdefault(name, Gate())

    async def begin(self, runtime: Runtime) -> None:
        """Let a replica join; its calls are counted from now on."""
        name = next(name for name, each in self.runtimes.items() if each is runtime)
        interrupt(runtime, self.interruption, name)
        await runtime.__aenter__()
        self.interruption.joined.add(name)

    async def settled(self, jobs: Sequence[str], receiver: Receiver) -> None:
        """Wait until nothing waits in the database, and nothing is left over in the replicas."""
        while {call["data"]["job_id"] for call in receiver.calls}.issuperset(jobs) is False:
            receiver.came.clear()
            await receiver.came.wait()
        while await self.left():
            await asyncio.sleep(0.05)

    async def left(self) -> list[str]:
        """What has not come to its end."""
        left = [
            f"{what}: {dict(row)}"
            for what, statement in LEFT.items()
            for row in await self.rows(statement)
        ]
        held = {row["id"]: row["holder"] for row in await self.rows("SELECT * FROM sessions")}
        for name, runtime in self.runtimes.items():
            if runtime._core.closed:
                continue
            sessions = runtime._core.sessions
            known = set(sessions.ids())
            replica = f"{self.schema}_{name}"
            left += [
                f"{name}: session {id} in the database only"
                for id, holder in held.items()
                if holder == replica and id not in known
            ]
            left += [
                f"{name}: session {id} in memory only" for id in known if held.get(id) != replica
            ]
            for id in known:
                session = sessions.get(id)
                if session is not None and session.outlet is None and session.expiry is None:
                    left.append(f"{name}: session {id} never expires")
            left += [f"{name}: job {job.id} is open" for job in runtime._core.jobs.open()]
        return left

    async def rows(self, statement: str, *values: Any) -> list[Any]:
        if self._reader is None:
            self._reader = await asyncpg.connect(
                self.cluster.dsn, server_settings={"search_path": self.schema}
            )
        rows: list[Any] = await self._reader.fetch(statement, *values)
        return rows

    async def end(self) -> None:
        """Delete the schema."""
        await self.rows(f"DROP SCHEMA {self.schema} CASCADE")
        await self._reader.close()


def interrupt(runtime: Runtime, interruption: Interruption, name: str) -> None:
    """Let calls fail of a replica that has not begun."""
    log: Any = runtime._core._event_log
    log._database.connection_class = interruption.connections(name)


def check_events(frames: Sequence[Frame], *statuses: str) -> None:
    """A job's progress is counted without a hole, and ends with one terminal event."""
    counts = [int(f["current"]) for f in bodies(list(frames), "progress")]
    assert counts == list(range(1, len(counts) + 1)), counts
    ends = [f for f in frames if f["type"] in ("job.result", "job.error")]
    assert len(ends) == 1, ends
    assert frames[-1] is ends[0]
    assert ends[0]["payload"]["final_status"] in statuses, ends


async def insist(call: Callable[[], Awaitable[Any]]) -> Any:
    """Make a request of a client until it is not refused as retryable."""
    while True:
        try:
            return await call()
        except ArcpError as error:
            if not getattr(error, "retryable", False):
                raise
            await asyncio.sleep(0.05)


async def seen(view: Any) -> list[events.Event]:
    """The events of a job, as an iterator of a client gets them."""
    return [event async for event in view.events()]


def check_seen(found: Sequence[events.Event]) -> None:
    assert not any(isinstance(event, events.Gap) for event in found), found
    counts = [int(event.current) for event in found if isinstance(event, events.Progress)]
    assert counts == list(range(1, len(counts) + 1))
    ends = [event for event in found if isinstance(event, events.Completed | events.Failed)]
    assert len(ends) == 1
    assert found[-1] is ends[0]


async def life(world: World, receiver: Receiver, stack: AsyncExitStack) -> None:
    """Sessions move between two replicas while jobs, questions and messages are under way."""
    hook = Webhook(receiver.url, secret=SECRET)
    a, b = [await world.replica(name, webhooks=[hook]) for name in ("a", "b")]

    @b.agent("special")
    async def special(input: Any, job: JobContext) -> Any:
        for n in range(input):
            await job.progress(n + 1, input)
        return input

    for runtime in (a, b):
        await world.begin(runtime)
    owner = await stack.enter_async_context(persistent(a, b))
    phone = await stack.enter_async_context(persistent(b, a))
    client = Client(Turns(b, a))
    await stack.enter_async_context(client)

    counted = await owner.submit("gated", 1, idempotency_key="one")
    gate = world.gate(1)
    await phone.ask("job.subscribe", {"job_id": counted, "history": True})
    view = await insist(lambda: client.watch(counted, history=True))
    viewed = asyncio.create_task(seen(view))
    stack.callback(viewed.cancel)
    own = await insist(lambda: client.submit("gated", 2, idempotency_key="own"))
    own_seen = asyncio.create_task(seen(own))
    stack.callback(own_seen.cancel)
    gate.emit(3)
    world.gate(2).emit(3)
    await owner.until(lambda: len(owner.of(counted)) >= 3)
    await owner.hop()
    gate.emit(3)
    await phone.until(lambda: len(phone.of(counted)) >= 6)
    await phone.hop()
    gate.emit(2)

    elsewhere = await phone.submit("special", 2, idempotency_key="two")
    await phone.until(lambda: phone.ended(elsewhere))

    parent = await owner.submit("delegates", 3, idempotency_key="three")
    await owner.hop()
    world.gate(3).emit(1)
    await owner.until(lambda: owner.ended(parent))
    children = [body["child_job_id"] for body in bodies(owner.of(parent), "delegate")]
    await owner.until(lambda: all(owner.ended(child) for child in children))

    asking = await owner.submit("asks", None, idempotency_key="four")
    await owner.until(lambda: bodies(owner.of(asking), names.QUESTION) or owner.ended(asking))
    for body in bodies(owner.of(asking), names.QUESTION):
        await phone.hop()
        listed = await phone.ask(names.LIST_QUESTIONS, {"follow": True})
        if not owner.ended(asking):
            assert [q["question_id"] for q in listed["payload"]["questions"]] == [
                body["question_id"]
            ]
            answer = {"job_id": asking, "question_id": body["question_id"], "value": "yes"}
            taken = await phone.ask(names.ANSWER, {**answer, "idempotency_key": "k"})
            assert taken["type"] == names.ANSWER_TAKEN, taken
    await owner.until(lambda: owner.ended(asking))

    steered = await owner.submit("listens", None, idempotency_key="five")
    assert await phone.submit("listens", None, idempotency_key="five") == steered
    for value in ("hello", "stop"):
        message = {"job_id": steered, "message_id": value, "value": value}
        queued = await phone.ask(names.SEND, message)
        assert queued["type"] == names.QUEUED, queued
    await owner.until(lambda: owner.ended(steered))
    assert world.messages == ["hello", "stop"]

    waiting = await owner.submit("waits", None, idempotency_key="six")
    assert await phone.submit("waits", None, idempotency_key="six") == waiting
    cancelled = await phone.ask("job.cancel", {"job_id": waiting, "reason": "enough"})
    assert cancelled["type"] == "job.cancelled", cancelled
    await owner.until(lambda: owner.ended(waiting))
    await owner.acknowledge()

    await insist(lambda: client.ping())
    submitted = [counted, own.id, elsewhere, parent, *children, asking, steered, waiting]
    for each in (owner, phone):
        page = await each.ask("session.list_jobs", {})
        listed_ids = [job["job_id"] for job in page["payload"]["jobs"]]
        assert len(set(listed_ids)) == len(listed_ids)
        more = set(listed_ids) - set(submitted)  # a child that its cancelled parent does not know
        assert set(submitted) <= set(listed_ids)
        assert not more or parent in world.interruption.cancelled
    gate.emit(0)
    world.gate(2).emit(0)
    for each in (owner, phone):
        await each.until(lambda each=each: each.ended(counted))  # type: ignore[misc]
    check_seen(await viewed)
    check_seen(await own_seen)
    await world.settled(submitted, receiver)
    assert (owner.odd, phone.odd) == ([], [])
    stopped = {waiting, *world.interruption.cancelled}
    for job_id in submitted:
        statuses = ["cancelled"] if job_id in stopped else ["success"]
        if parent in stopped and job_id in children:
            statuses.append("cancelled")
        for each in (owner, phone):
            if frames := each.of(job_id):
                check_events(frames, *statuses)
    for job_id in (counted, parent, *children, asking, steered, waiting):
        assert owner.ended(job_id)


async def hand_over(world: World, receiver: Receiver, stack: AsyncExitStack) -> None:
    """A replica ends, and hands its waiting jobs and its sessions to another one."""
    hook = Webhook(receiver.url, secret=SECRET)
    limits = Limits(max_concurrent_jobs=1)
    a, b = [await world.replica(name, webhooks=[hook], limits=limits) for name in ("a", "b")]
    for runtime in (a, b):
        await world.begin(runtime)
    owner = await stack.enter_async_context(persistent(a, b))
    phone = await stack.enter_async_context(persistent(b, a))
    running = await owner.submit("gated", 1, idempotency_key="one")
    pending = [await owner.submit("gated", n, idempotency_key=f"{n}") for n in (2, 3)]
    for job_id in (running, *pending):
        await phone.ask("job.subscribe", {"job_id": job_id, "history": True})
    world.gate(1).emit(3)
    await owner.until(lambda: len(owner.of(running)) >= 3)
    closing = asyncio.create_task(a.close(timeout=BOUND))
    stack.callback(closing.cancel)
    await owner.until(lambda: owner.at is b)
    for n in (1, 2, 3):
        world.gate(n).emit(2)
        world.gate(n).emit(0)
    for each in (owner, phone):
        await each.until(lambda each=each: all(map(each.ended, (running, *pending))))  # type: ignore[misc]
    await closing
    await world.settled([running, *pending], receiver)
    assert (owner.odd, phone.odd) == ([], [])
    for job_id in (running, *pending):
        for each in (owner, phone):
            check_events(each.of(job_id), "success")


async def stay(world: World, receiver: Receiver, stack: AsyncExitStack) -> None:
    """Each session stays on its replica, while jobs and requests cross over."""
    a, b = [await world.replica(name) for name in ("a", "b")]

    @b.agent("special")
    async def special(input: Any, job: JobContext) -> Any:
        while await world.gate("special").next():
            await job.progress(1)
        return input

    for runtime in (a, b):
        await world.begin(runtime)
    owner = await stack.enter_async_context(persistent(a))
    phone = await stack.enter_async_context(persistent(b))
    elsewhere = await owner.submit("special", 1, idempotency_key="one")
    here = await owner.submit("gated", 1, idempotency_key="two")
    await phone.ask("job.subscribe", {"job_id": here, "history": True})
    world.gate(1).emit(2)
    await phone.until(lambda: len(phone.of(here)) >= 2)
    world.gate("special").emit(1)
    world.gate("special").emit(0)
    await owner.until(lambda: owner.ended(elsewhere))
    waiting = await phone.submit("waits", None, idempotency_key="three")
    assert await owner.submit("waits", None, idempotency_key="three") == waiting
    await owner.ask("job.subscribe", {"job_id": waiting, "history": True})
    cancelled = await owner.ask("job.cancel", {"job_id": waiting, "reason": "enough"})
    assert cancelled["type"] == "job.cancelled", cancelled
    await owner.until(lambda: owner.ended(waiting))
    await phone.until(lambda: phone.ended(waiting))
    world.gate(1).emit(2)
    world.gate(1).emit(0)
    for each in (owner, phone):
        await each.until(lambda each=each: each.ended(here))  # type: ignore[misc]
    await world.settled([], receiver)
    assert (owner.odd, phone.odd) == ([], [])
    check_events(owner.of(elsewhere), "success")
    for each in (owner, phone):
        check_events(each.of(here), "success")
        check_events(each.of(waiting), "cancelled")


async def succeed(world: World, receiver: Receiver, stack: AsyncExitStack) -> None:
    """The lease of a replica passes, and another one takes over its sessions and its questions."""
    hook = Webhook(receiver.url, secret=SECRET)
    a, b = [await world.replica(name, webhooks=[hook]) for name in ("a", "b")]
    for runtime in (a, b):
        await world.begin(runtime)
    owner = await stack.enter_async_context(persistent(a, b))
    twin = await stack.enter_async_context(persistent(b, a))
    work = {names.WORK_ID: "w"}
    first = await owner.submit("asks", None, idempotency_key="one", **work)
    await owner.until(lambda: bodies(owner.of(first), names.QUESTION) or owner.ended(first))
    second = await twin.submit("asks", None, idempotency_key="two", **work)
    await twin.until(lambda: bodies(twin.of(second), names.QUESTION) or twin.ended(second))
    if world.interruption.cancelled:
        return  # without both, nothing is taken over
    running = await owner.submit("gated", 1, idempotency_key="three")
    await twin.ask("job.subscribe", {"job_id": running, "history": True})
    world.gate(1).emit(2)
    for each in (owner, twin):
        await each.until(lambda each=each: len(each.of(running)) >= 2)  # type: ignore[misc]
    runners = {row["id"]: row["runner"] for row in await world.rows("SELECT * FROM jobs")}
    await world.rows("UPDATE replicas SET until = '-infinity' WHERE id = $1", runners[first])
    await owner.until(lambda: owner.ended(first))
    (body,) = bodies(twin.of(second), names.QUESTION)[-1:]
    answer = {"job_id": second, "question_id": body["question_id"], "value": "yes"}
    taken = await twin.ask(names.ANSWER, {**answer, "idempotency_key": "k"})
    assert taken["type"] == names.ANSWER_TAKEN, taken
    await twin.until(lambda: twin.ended(second))
    again = await owner.submit("asks", None, idempotency_key="four", **work)
    await owner.until(lambda: owner.ended(again))
    world.gate(1).emit(0)
    for each in (owner, twin):
        await each.until(lambda each=each: each.ended(running))  # type: ignore[misc]
    await world.settled([first, second, running, again], receiver)
    assert (owner.odd, twin.odd) == ([], [])
    for job_id, each in ((first, owner), (second, twin), (running, owner), (running, twin)):
        gone = runners[job_id] == runners[first]
        check_events(each.of(job_id), "error" if gone else "success")
    stopped = again in world.interruption.cancelled
    check_events(owner.of(again), "cancelled" if stopped else "success")
    assert set(world.got) == {"yes"}


SCENARIOS = {"life": life, "hand over": hand_over, "stay": stay, "succeed": succeed}


class Failures(logging.Handler):
    """What is logged of exceptions that were not handled."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.name in ("asyncio", "arcp_client.tasks"):
            self.found.append(logging.Formatter("%(name)s: %(message)s").format(record))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls and retries come soon, and requests are refused soon."""
    make_impatient(monkeypatch)


def make_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (postgres_directory, postgres_dialogue, postgres_unclaimed):
        monkeypatch.setattr(module, "_POLL", 0.4)
    monkeypatch.setattr(mirrors, "_RETRY", 0.05)
    monkeypatch.setattr(elsewhere, "_LOOK", 0.2)
    monkeypatch.setattr(journal, "_PATIENCE", AWAY / 3)


async def run(
    cluster: Cluster, schema: str, scenario: str, interruption: Interruption, receiver: Receiver
) -> str | None:
    """Run a scenario; what went wrong."""
    world = World(cluster, schema, interruption)
    wrong = None
    try:
        async with asyncio.timeout(BOUND) as bound, AsyncExitStack() as stack:
            stack.callback(asyncio.create_task(world.end_if_idle(bound)).cancel)
            await SCENARIOS[scenario](world, receiver, stack)
    except Exception as error:
        cause = error.__cause__ if isinstance(error, TimeoutError) else error
        traced = traceback.extract_tb(None if cause is None else cause.__traceback__)
        where = [f"{f.name}:{f.lineno}" for f in traced][-4:]
        wrong = f"{type(error).__name__} {error} {where} {await world.left()}"
    for runtime in world.runtimes.values():
        try:
            await asyncio.wait_for(runtime.close(), BOUND)
        except Exception as error:
            wrong = f"{wrong or ''} close: {error!r}"
    await asyncio.sleep(0)
    tasks = [t.get_name() for t in asyncio.all_tasks() if schema in t.get_name()]
    if tasks:
        wrong = f"{wrong or ''} tasks: {tasks}"
    await world.end()
    return wrong


def runs(calls: Sequence[Call]) -> dict[str, tuple[str, Call]]:
    """Each call with each fault, by name. Of a poll, which is repeated for ever, the first two."""
    return {
        f"{fault}: {call}": (fault, call)
        for call in calls
        if call.nth <= 2 or not call.polls
        for fault in call.faults
    }


def sampled(names: Iterable[str], count: int) -> list[str]:
    """A sample that depends on the names and the seed only."""

    def order(name: str) -> bytes:
        return hashlib.sha256(f"{SEED} {name}".encode()).digest()

    return sorted(names, key=order)[: None if SLOW else count]


@asynccontextmanager
async def nothing_left() -> AsyncIterator[list[str]]:
    """Notes the exceptions that are logged, and the timers that remain, in the list."""
    failures = Failures()
    logging.getLogger().addHandler(failures)
    try:
        yield failures.found
    finally:
        logging.getLogger().removeHandler(failures)
    timers = [
        str(timer)
        for timer in asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
        if not timer.cancelled() and "arcp_client" in str(timer)
    ]
    failures.found += timers


@pytest.mark.timeout(3600 if SLOW else 300)
@pytest.mark.parametrize(
    ("scenario", "count"), [("life", 14), ("hand over", 8), ("stay", 6), ("succeed", 8)]
)
async def test_a_call_that_fails_once_loses_nothing(
    scenario: str, count: int, cluster: Cluster, schema: str
) -> None:
    wrong: list[str] = []
    async with nothing_left() as left, Receiver() as receiver:
        recorded = Interruption()
        assert await run(cluster, schema, scenario, recorded, receiver) is None
        possible = runs(recorded.calls)
        chosen = [ONE] if ONE else sampled(possible, count)
        names_left, numbers = iter(chosen), itertools.count()
        struck = 0

        async def work() -> None:
            nonlocal struck
            for name in names_left:
                fault, _, call = name.partition(": ")
                interruption = Interruption(call, fault=fault)
                own = f"{schema}_{next(numbers)}"
                found = await run(cluster, own, scenario, interruption, receiver)
                struck += interruption.struck
                if found is not None:
                    wrong.append(f'INTERRUPT="{name}"\n{found}')

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    print(f"{scenario}: {len(chosen)} of {len(possible)} faults, {struck} struck")
    assert not wrong, "\n".join(wrong)
    assert not left, left
    assert struck >= len(chosen) / 2  # the polls of another run come at other times


@pytest.mark.timeout(3600 if SLOW else 300)
@pytest.mark.parametrize("scenario", list(SCENARIOS))
async def test_calls_that_take_long_lose_nothing(
    scenario: str, cluster: Cluster, schema: str
) -> None:
    """Others continue meanwhile: an answer is out of date when it comes, or a wake-up early."""
    wrong: list[str] = []
    seeds = iter(range(SEED, SEED + DELAYED))

    async def work() -> None:
        for seed in seeds:
            interruption = Interruption(delays=random.Random(f"{scenario} {seed}"))
            found = await run(cluster, f"{schema}_{seed}", scenario, interruption, receiver)
            if found is not None:
                wrong.append(f"INTERRUPT_SEED={seed}\n{found}")

    async with nothing_left() as left, Receiver() as receiver:
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    assert not wrong, "\n".join(wrong)
    assert not left, left


@pytest.mark.parametrize(
    ("scenario", "fault", "words"),
    [
        pytest.param(scenario, fault, words, id=id)
        for id, scenario, fault, *words in (
            ("a-job-is-run-if-the-answer-to-its-acceptance-was-lost",
             "life", "unknown", "accept < Admission._enter", "submit COMMIT"),
            ("a-job-is-run-if-its-link-was-cancelled-while-it-was-accepted",
             "life", "cancelled", "accept < Admission._enter", "submit COMMIT"),
            ("a-job-is-followed-if-its-link-was-cancelled-while-another-replica-accepted-it",
             "stay", "cancelled", "accept < Admission._send_elsewhere", "COMMIT"),
            ("a-child-ends-if-its-parent-was-cancelled-while-it-was-accepted",
             "life", "cancelled", "Admission.delegate", "COMMIT"),
            ("a-child-is-accepted-if-the-answer-was-lost",
             "life", "unknown", "Admission.delegate", "COMMIT"),
            ("a-session-is-left-if-its-link-was-cancelled-while-it-was-opened",
             "life", "cancelled", "PostgresSessions.open", "COMMIT"),
            ("a-session-is-entered-or-left-if-its-link-was-cancelled-while-it-was-taken-over",
             "life", "cancelled", "PostgresSessions.take", "COMMIT #2"),
            ("the-input-of-a-job-is-deleted-although-that-failed-once",
             "life", "refused", "_forget_inputs", "#2."),
            ("clients-move-although-the-announcement-of-the-end-failed-once",
             "hand over", "refused", "drain", "#1."),
            ("a-job-is-handed-on-once-if-the-answer-was-lost",
             "hand over", "unknown", "UnclaimedJobs.release", "COMMIT"),
        )
    ],
)  # fmt: skip
async def test_what_was_once_lost(
    scenario: str, fault: str, words: list[str], cluster: Cluster, schema: str
) -> None:
    async with nothing_left() as left, Receiver() as receiver:
        interruption = Interruption(*words, fault=fault)
        assert await run(cluster, schema, scenario, interruption, receiver) is None
    assert interruption.struck, words
    assert not left, left


@pytest.mark.parametrize("fault", ["refused", "unknown"])
async def test_a_replica_joins_at_its_second_attempt_whatever_failed_in_the_first(
    fault: str, cluster: Cluster, schema: str
) -> None:
    """Its own registration does not count as that of another replica of its name."""

    async def join(interruption: Interruption) -> None:
        world = World(cluster, schema, interruption)
        runtime = await world.replica("a")
        interrupt(runtime, interruption, "a")
        interruption.joined.add("a")
        try:
            await runtime._core.begin()
        except StorageError:
            await runtime._core.begin()
        interruption.joined.clear()
        async with runtime, Client(runtime) as client:
            assert (await (await client.submit("count", 2)).result()).value == 2

    await join(Interruption())  # makes the schema
    recorded = Interruption()
    await join(recorded)
    calls = [call for call in recorded.calls if fault in call.faults]
    assert len(calls) > 5
    async with nothing_left() as left:
        for call in calls:
            interruption = Interruption(str(call), fault=fault)
            await join(interruption)
            assert interruption.struck, call
    assert not left, left
