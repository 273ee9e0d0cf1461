"""The conformance kit of event logs: what a runtime and its clients rely on in an `EventLog`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from arcp_client import events
from arcp_client.client import Client
from arcp_client.errors import JobFailed, QuestionAnswered
from arcp_client.job import Job
from arcp_client.runtime import EventLog, JobContext, Runtime
from arcp_client.stores.memory import MemoryStore
from arcp_client.testing._checks import expect, raises, run_all

__all__ = ["EVENT_LOG_CHECKS", "EventLogCase", "check_event_log"]

_NAME = "conformance"


@dataclass(frozen=True, slots=True)
class EventLogCase:
    """What a check of an event log gets.

    Attributes:
        make: makes a new and empty log.
        again: opens the data of a closed log as a later process would; ``None`` if it cannot be.
    """

    make: Callable[[], EventLog]
    again: Callable[[EventLog], EventLog] | None = None


EventLogCheck: TypeAlias = Callable[[EventLogCase], Awaitable[None]]


def _runtime(log: EventLog) -> Runtime:
    runtime = Runtime(name=_NAME, event_log=log)

    @runtime.agent("work")
    async def work(input: Any, job: JobContext) -> Any:
        for n in range(input):
            await job.log(f"step {n}")
        return {"steps": input}

    @runtime.agent("wait")
    async def wait(input: Any, job: JobContext) -> None:
        await job.log("waiting")
        await job.cancelled.wait()

    @runtime.agent("stream")
    async def stream(input: Any, job: JobContext) -> Any:
        for n in range(input):
            yield f"{n};"

    @runtime.agent("ask")
    async def ask(input: Any, job: JobContext) -> Any:
        return [await job.ask(f"{n}?") for n in range(input)]

    @runtime.agent("listen")
    async def listen(input: Any, job: JobContext) -> Any:
        taken = [(await job.inbox.take()).value for _ in range(input)]
        await job.status("done")
        await job.cancelled.wait()
        return taken

    return runtime


async def has_the_members_of_the_interface(case: EventLogCase) -> None:
    """The bounds are positive, an empty log opens empty, and close is idempotent."""
    log = case.make()
    expect(isinstance(log, EventLog), "a log has every member of EventLog")
    expect(isinstance(log.durable, bool), "durable is True or False")
    for name in ("max_events", "max_bytes"):
        value = getattr(log, name)
        expect(type(value) is int and value >= 1, f"{name} is an integer from 1 on")
    stored = await log.open()
    expect(not stored.sessions and not stored.jobs, "a new log opens without sessions and jobs")
    await log.close()
    await log.close()


async def a_runtime_works_with_it(case: EventLogCase) -> None:
    """Jobs run, stream results and end; a session is resumed after its link was dropped."""
    store = MemoryStore()
    async with _runtime(case.make()) as runtime:
        async with Client(runtime) as client:
            job = await client.submit("work", 3)
            logs = [event.message async for event in job.events(events.Log)]
            expect(logs == ["step 0", "step 1", "step 2"], "every event arrives, in order")
            streamed = await client.submit("stream", 3)
            expect((await streamed.result()).value == "0;1;2;", "a streamed result arrives whole")
        first = Client(runtime, store=store)
        await first.connect()
        job_id = (await first.submit("work", 1)).id
        await first.detach()
        async with Client(runtime, store=store) as second:
            expect(second.resumed, "a session is resumed within its window")
            known = await second.watch(job_id, history=True)
            expect((await known.result()).value == {"steps": 1}, "an ended job keeps its result")


async def a_session_and_its_jobs_survive_a_restart(case: EventLogCase) -> None:
    """With ``again``: sessions resume, and jobs keep events, ids and results over a restart."""
    if case.again is None:
        return
    log, store = case.make(), MemoryStore()
    async with _runtime(log) as runtime:
        first = Client(runtime, store=store)
        await first.connect()
        job = await first.submit("work", 3)
        before = [(event.id, event.kind) async for event in job]
        await first.detach()
    async with _runtime(case.again(log)) as runtime:
        async with Client(runtime, store=store) as second:
            expect(second.resumed, "a session is resumed after a restart of the runtime")
            more = await second.submit("work", 1)
            expect((await more.result()).value == {"steps": 1}, "a resumed session takes new jobs")
        async with Client(runtime) as other:
            watched = await other.watch(job.id, history=True)
            after = [(event.id, event.kind) async for event in watched]
            expect(after == before, "the events of a job keep order and ids over a restart")
            expect((await watched.result()).value == {"steps": 3}, "a result survives a restart")


async def events_that_were_not_received_are_sent_after_a_restart(case: EventLogCase) -> None:
    """With ``again``: a session that was left early gets the rest from the next runtime."""
    if case.again is None:
        return
    log, store = case.make(), MemoryStore()
    async with _runtime(log) as runtime:
        first = Client(runtime, store=store)
        await first.connect()
        job = await first.submit("wait")
        await first.detach()
    async with _runtime(case.again(log)) as runtime, Client(runtime, store=store) as second:
        (left,) = second.open_jobs()
        expect(left.id == job.id, "the job of an earlier process is open in the next one")
        error = await raises(
            JobFailed, left.result(), "a job that a restart ended fails, and its session learns it"
        )
        expect(error.retryable, "a job that a restart ended may be submitted again")


async def a_key_stands_for_its_job_after_a_restart(case: EventLogCase) -> None:
    """With ``again``: a submit with a known key starts no second job after a restart (§7.2)."""
    if case.again is None:
        return
    log = case.make()
    async with _runtime(log) as runtime, Client(runtime) as client:
        job = await client.submit("work", 1, idempotency_key="k")
        await job.result()
    async with _runtime(case.again(log)) as runtime, Client(runtime) as client:
        same = await client.submit("work", 1, idempotency_key="k")
        expect(same.id == job.id, "a key stands for its job after a restart")
        listed = [each.job_id async for each in client.jobs()]
        expect(listed == [job.id], "a repeated submit starts no second job")


async def questions_and_messages_are_events(case: EventLogCase) -> None:
    """A question is answered once, and messages are consumed in order or returned."""
    async with _runtime(case.make()) as runtime, Client(runtime) as client:
        job = await client.submit("ask", 1)
        question = await _question(job)
        taken = await client.answer(job.id, question.question_id, "first", idempotency_key="k")
        again = await client.answer(job.id, question.question_id, "first", idempotency_key="k")
        expect(again.at == taken.at, "an answer under a known key is the same answer")
        late = await raises(
            QuestionAnswered,
            client.answer(job.id, question.question_id, "second"),
            "one answer is taken, and a later one is refused",
        )
        expect(late.value == "first", "a late answer is told of the one that was taken")
        expect((await job.result()).value == ["first"], "an agent gets the answer to its question")
        heard = await client.submit("listen", 2)
        for n in range(3):
            await heard.send(n, message_id=f"m{n}")
        await anext(heard.events(events.Status))
        await heard.cancel()
        moved = [
            (type(event).__name__, event.message_id)
            async for event in heard.events(events.Consumed, events.Returned)
        ]
        expect(
            moved == [("Consumed", "m0"), ("Consumed", "m1"), ("Returned", "m2")],
            "messages are consumed in order, and the rest is returned at the end",
        )


async def work_that_is_begun_again_gets_its_answers(case: EventLogCase) -> None:
    """With ``again``: answers and open questions of a ``work_id`` survive a restart."""
    if case.again is None:
        return
    log = case.make()
    async with _runtime(log) as runtime, Client(runtime) as client:
        job = await client.submit("ask", 2, work_id="w")
        asked = [await _question(job)]
        await client.answer(job.id, asked[0].question_id, "first")
        asked.append(await _question(job, after=asked[0].question_id))
    async with _runtime(case.again(log)) as runtime, Client(runtime) as client:
        left = [each async for each in client.questions()]
        expect(
            [(each.question_id, each.waiting) for each in left] == [(asked[1].question_id, False)],
            "an open question of interrupted work stays open over a restart",
        )
        await client.answer(job.id, asked[1].question_id, "second")
        again = await client.submit("ask", 2, work_id="w")
        expect(
            (await again.result()).value == ["first", "second"],
            "work that is attempted again gets the stored answers",
        )
        repeated = [event.question_id async for event in again.events(events.Question)]
        expect(
            repeated == [each.question_id for each in asked],
            "work that is attempted again asks no question anew",
        )


async def messages_are_returned_by_a_restart(case: EventLogCase) -> None:
    """With ``again``: a restart returns the messages that the agent has not taken, once."""
    if case.again is None:
        return
    log = case.make()
    async with _runtime(log) as runtime, Client(runtime) as client:
        job = await client.submit("listen", 1)
        for n in range(3):
            await job.send(n, message_id=f"m{n}")
        await anext(job.events(events.Status))
    async with _runtime(case.again(log)) as runtime, Client(runtime) as client:
        ended = await client.watch(job.id, history=True)
        moved = [
            (type(event).__name__, event.message_id)
            async for event in ended.events(events.Sent, events.Consumed, events.Returned)
            if not isinstance(event, events.Sent)
        ]
        expect(
            moved == [("Consumed", "m0"), ("Returned", "m1"), ("Returned", "m2")],
            "a message that was not taken when its runtime ended is returned, once and in order",
        )


async def _question(job: Job, after: str = "") -> events.Question:
    async for event in job.events(events.Question):
        if event.question_id != after:
            return event
    raise AssertionError("the job ended without a question")


EVENT_LOG_CHECKS: tuple[EventLogCheck, ...] = (
    has_the_members_of_the_interface,
    a_runtime_works_with_it,
    a_session_and_its_jobs_survive_a_restart,
    events_that_were_not_received_are_sent_after_a_restart,
    a_key_stands_for_its_job_after_a_restart,
    questions_and_messages_are_events,
    work_that_is_begun_again_gets_its_answers,
    messages_are_returned_by_a_restart,
)
"""The checks of `check_event_log`, to run each as a test of its own with an `EventLogCase`."""


async def check_event_log(
    make: Callable[[], EventLog], *, again: Callable[[EventLog], EventLog] | None = None
) -> None:
    """Check that an event log does what a runtime and its clients rely on.

    The log is used through runtimes and clients, as in a program.

    Args:
        make: makes a new and empty log; called once for each check.
        again: opens the data of a log that ``make`` returned and that was closed, as a later
            process would. Required for a durable log.

    Raises:
        AssertionError: the log violates a rule; the message says which, a note names the check.
        ValueError: the log is durable, and ``again`` is missing.
    """
    if again is None and make().durable:
        raise ValueError("a durable log is checked over a restart: give again=")
    case = EventLogCase(make, again)
    names = [check.__name__ for check in EVENT_LOG_CHECKS]
    await run_all([partial(check, case) for check in EVENT_LOG_CHECKS], names)
