"""This client with scripted runtimes: what each dialect does differently, and what comes of it."""

from __future__ import annotations

import asyncio
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tenacity import wait_fixed

from arcp_client import Buffer, Client, JobView, Reconnect, SqliteStore, Timeouts, events
from arcp_client._wire.ids import is_trace_id
from arcp_client.errors import (
    AgentNotFound,
    ConnectFailed,
    JobCancelled,
    JobLost,
    JobNotFound,
    JobTimedOut,
    RequestTimeout,
    UnknownCode,
)
from arcp_client.testing import ScriptedRuntime, VirtualClock
from arcp_client.testing.scripted import (
    Accept,
    Chunk,
    Drop,
    Emit,
    Fail,
    Finish,
    Later,
    Raw,
    Refuse,
    Spawn,
    Wait,
    Withhold,
)
from tests.dialects import PLAYED
from tests.interop.rules import rule

every_dialect = pytest.mark.parametrize("dialect", PLAYED)

AGENTS: dict[str, list[Any]] = {
    "say": [Emit("progress", {"current": 1}), Finish({"a": 1})],
    "nothing": [Finish()],
    "gated": [Emit("progress", {"current": 1}), Wait("go"), Finish("done")],
    "early": [Emit("progress", {"current": 1}), Finish("done"), Accept()],
    "late": [Fail("TIMEOUT", "too late", "timed_out")],
    "chunks": [Chunk("one "), Chunk("two "), Chunk(b"\xff")],
    "parent": [Spawn("say"), Emit("progress", {"current": 1}), Wait("go"), Finish("parent")],
    "twice": [
        Raw(
            {
                "type": "job.event",
                "id": "e1",
                "event_seq": 1,
                "payload": {
                    "kind": "result_chunk",
                    "body": {"result_id": "r", "chunk_seq": 0, "data": "a", "encoding": "utf8"},
                },
            }
        ),
        Raw(
            {
                "type": "job.event",
                "id": "e2",
                "event_seq": 2,
                "payload": {
                    "kind": "result_chunk",
                    "body": {"result_id": "r", "chunk_seq": 0, "data": "a", "encoding": "utf8"},
                },
            }
        ),
        Raw(
            {
                "type": "job.result",
                "id": "e3",
                "event_seq": 3,
                "payload": {"final_status": "success", "result_id": "r"},
            }
        ),
    ],
}


def scripted(dialect: str, **options: Any) -> ScriptedRuntime:
    return ScriptedRuntime(dialect, agents={**AGENTS, **options.pop("agents", {})}, **options)


def client_of(runtime: ScriptedRuntime, **options: Any) -> Client:
    options.setdefault("timeouts", Timeouts(open=5, request=5, close=1))
    return Client(runtime, token="t", reconnect=Reconnect(wait=wait_fixed(0.01)), **options)


# ------------------------------------------------------------------ what each would not take


@rule("send-1", "send-2", "send-3", "send-6", "send-7", "send-8", "send-9", "send-11")
@every_dialect
async def test_no_runtime_objects_to_anything_that_is_sent(dialect: str) -> None:
    async with scripted(dialect) as runtime:
        async with client_of(runtime) as client, client_of(runtime) as observer:
            await client.ping()
            job = await client.submit("gated", lease={"cost.budget": ["USD:1"]}, max_runtime=60)
            view = await observer.watch(job.id, history=True)
            _ = [summary async for summary in client.jobs()]
            await view.unsubscribe()
            runtime.drop()
            await client.ping()
            await job.cancel()
        assert runtime.objections == []
        ids = [frame["id"] for frame in runtime.heard]
        assert len(set(ids)) == len(ids)
        assert all(frame["session_id"] for frame in runtime.heard)
        traces = [frame["trace_id"] for frame in runtime.of("job.submit")]
        assert all(is_trace_id(trace) for trace in traces)
        types = {frame["type"] for frame in runtime.heard}
        assert "session.resume" not in types
        assert "null" not in re.sub(r"'input': None", "", str(runtime.heard)).lower()


@rule("ruby: leases")
@rule("note-4")
@rule("send-6")
@every_dialect
async def test_a_lease_is_asked_for_in_the_form_that_its_runtime_grants(dialect: str) -> None:
    async with scripted(dialect) as runtime, client_of(runtime) as client:
        lease = {"fs.read": ["**"], "fs.write": ["/tmp/**"]}
        await client.submit("gated", lease=lease)
        runtime.drop()
        await runtime.until_linked(2)
        await client.submit("say", lease=lease)
        for submit in runtime.of("job.submit"):
            extra = {"capabilities": ["fs.read"]} if dialect == "ruby" else {}
            assert submit["payload"]["lease_request"] == {**lease, **extra}


# ------------------------------------------------------------------ closes


@rule("java: close")
@rule("note-2")
@rule("send-5", "accept-26")
@pytest.mark.parametrize(
    ("dialect", "said"),
    [
        ("spec", ["session.close"]),
        ("python", ["session.bye"]),
        ("typescript", ["session.bye"]),
        ("csharp", ["session.close"]),
        ("java", []),
        ("go", ["session.close"]),
        ("ruby", ["session.bye"]),
    ],
)
async def test_a_session_is_closed_as_its_runtime_understands_it(
    dialect: str, said: list[str]
) -> None:
    """Its jobs run on, but for those of a runtime that ends them with their session (S21)."""
    async with scripted(dialect) as runtime:
        async with client_of(runtime) as client:
            job = await client.submit("gated")
        await runtime.until_left()
        heard = [f["type"] for f in runtime.heard if f["type"] in ("session.bye", "session.close")]
        assert heard == said
        assert runtime.jobs[job.id].status == ("error" if dialect == "typescript" else "running")


@rule("accept-26")
@pytest.mark.parametrize("kind", ["session.closed", "session.bye"])
async def test_a_runtime_that_ends_the_session_is_gone_back_to(kind: str) -> None:
    async with scripted("csharp") as runtime, client_of(runtime) as client:
        runtime.send({"type": kind, "payload": {"reason": "restart"}})
        await runtime.until_linked(2)
        assert (await (await client.submit("say")).result()).value == {"a": 1}


# ------------------------------------------------------------------ the handshake


@rule("java: wrong token")
@rule("note-2")
@rule("accept-4")
@every_dialect
async def test_a_refused_token_is_said_and_the_link_is_closed_from_here(dialect: str) -> None:
    async with scripted(dialect, tokens=["good"]) as runtime:
        client = client_of(runtime, timeouts=Timeouts(open=0.2))
        # Java only closes the socket: there is nothing to tell a bad token from a bad network by.
        wanted = "no session with" if dialect == "java" else "invalid bearer token"
        with pytest.raises(Exception, match=wanted):
            await client.connect()
        await runtime.until_left()
        await client.close()


@rule("accept-4")
async def test_silence_instead_of_a_welcome_is_bounded() -> None:
    async with scripted("typescript", answers={"session.hello": [Withhold()] * 99}) as runtime:
        client = client_of(runtime, timeouts=Timeouts(connect=0.05, open=0.1))
        with pytest.raises(ConnectFailed):
            await client.connect()
        await client.close()


@rule("note-13")
@rule("accept-4")
@pytest.mark.parametrize("answer", [None, Drop(), Withhold()])
async def test_the_older_family_is_refused_within_the_bound_of_the_handshake(answer: Any) -> None:
    answers = {"session.hello": [answer] * 99}
    async with scripted("legacy", answers=answers) as runtime:
        client = client_of(runtime, timeouts=Timeouts(connect=0.1, open=0.2))
        named = (
            r"session\.rejected.*session\.open, tool\.invoke" if answer is None else "no session"
        )
        with pytest.raises(ConnectFailed, match=named):
            await client.connect()
        await client.close()


@rule("note-13")
@rule("accept-4", "accept-27")
@pytest.mark.parametrize(
    "kind", ["session.accepted", "session.unauthenticated", "job.started", "nack"]
)
async def test_whatever_the_older_family_says_is_named(kind: str) -> None:
    frame = {"type": kind, "payload": {}, "timestamp": "2026-01-01T00:00:00Z"}
    async with scripted("legacy", answers={"session.hello": [Raw(frame)]}) as runtime:
        client = client_of(runtime)
        with pytest.raises(ConnectFailed, match=kind):
            await client.connect()
        assert runtime.links == 1  # another try would not help
        await client.close()


# ------------------------------------------------------------------ whose error is it


@rule(
    "typescript: refusals",
    "csharp: refusals",
    "java: refused submit",
    "typescript: refused submit",
)
@rule("accept-6", "accept-7", "accept-8", "send-11")
@every_dialect
@pytest.mark.parametrize("bad", [0, 1, 2])
async def test_an_error_fails_its_own_request_and_nothing_else(dialect: str, bad: int) -> None:
    agents = ["nobody" if n == bad else "gated" for n in range(3)]
    async with scripted(dialect) as runtime, client_of(runtime) as client:
        running = await client.submit("gated")
        answers = await asyncio.gather(
            *(client.submit(agent) for agent in agents),
            client.ping(),
            return_exceptions=True,
        )
        failed = [n for n, answer in enumerate(answers) if isinstance(answer, BaseException)]
        assert failed == [bad]
        assert isinstance(answers[bad], AgentNotFound)
        runtime.open("go")
        assert (await running.result()).value == "done"


@rule("accept-8")
@every_dialect
async def test_a_refused_request_about_a_running_job_does_not_end_it(dialect: str) -> None:
    async with scripted(dialect) as runtime, client_of(runtime) as client:
        job = await client.submit("gated")
        runtime.next("job.cancel", Refuse("PERMISSION_DENIED"))
        with pytest.raises(Exception, match="as the script says"):
            await job.cancel()
        assert job.status == "running"
        runtime.open("go")
        assert (await job.result()).value == "done"


@rule("accept-5")
@every_dialect
async def test_a_code_that_nobody_knows_is_kept(dialect: str) -> None:
    async with scripted(dialect) as runtime, client_of(runtime) as client:
        runtime.next("session.list_jobs", Refuse("RATE_LIMITED"))
        with pytest.raises(UnknownCode) as caught:
            _ = [job async for job in client.jobs()]
        assert caught.value.code == "RATE_LIMITED"


@rule("accept-27")
async def test_a_request_that_is_never_answered_ends() -> None:
    async with scripted("java", features=["heartbeat"]) as runtime, client_of(runtime) as client:
        runtime.next("job.submit", Withhold())
        with pytest.raises(RequestTimeout):
            await client.submit("say", timeout=0.05)
        assert (await (await client.submit("say")).result()).value == {"a": 1}


# ------------------------------------------------------------------ acceptances and events


@rule("accept-9")
async def test_a_child_that_nobody_asked_for_takes_no_submits_place() -> None:
    async with scripted("typescript") as runtime, client_of(runtime) as client:
        parent, other = await asyncio.gather(client.submit("parent"), client.submit("say"))
        assert (await other.result()).value == {"a": 1}
        (child,) = [job for job in runtime.jobs.values() if job.parent]
        assert {parent.id, other.id, child.id} == set(runtime.jobs)
        handle = client.job(child.id)
        assert handle is not None
        assert (await handle.result()).value == {"a": 1}
        runtime.open("go")
        assert (await parent.result()).value == "parent"


@rule("accept-10")
@every_dialect
async def test_events_and_the_end_may_come_before_the_acceptance(dialect: str) -> None:
    async with scripted(dialect) as runtime, client_of(runtime) as client:
        job = await client.submit("early")
        assert (await job.result()).value == "done"
        assert [event.kind async for event in job] == ["progress", "result"]


@rule("accept-11")
@every_dialect
async def test_budgets_are_amounts_however_they_are_written(dialect: str) -> None:
    async with scripted(dialect) as runtime, client_of(runtime) as client:
        job = await client.submit("gated", lease={"cost.budget": ["USD:1.10", "EUR:2"]})
        if dialect == "ruby":
            assert job.lease["cost.budget"] == ("USD:1.10", "EUR:2")
        else:
            assert job.budget == {"USD": Decimal("1.1"), "EUR": Decimal(2)}


@rule("accept-12")
async def test_an_event_of_no_job_belongs_to_the_session() -> None:
    async with scripted("csharp") as runtime, client_of(runtime) as client:
        seen: list[events.Event] = []
        client.subscribe(lambda event: seen.append(event), events.Status)
        await client.submit("gated")
        body = {"phase": "back_pressure"}
        runtime.send({"type": "job.event", "payload": {"kind": "status", "body": body}})
        await client.ping()
        await client.drain()
        assert [(event.job_id, event.kind) for event in seen] == [(None, "status")]


# ------------------------------------------------------------------ ends


@rule("accept-14")
@every_dialect
async def test_a_result_is_found_under_every_name_and_nothing_is_none(dialect: str) -> None:
    async with scripted(dialect) as runtime, client_of(runtime) as client:
        assert (await (await client.submit("say")).result()).value == {"a": 1}
        assert (await (await client.submit("nothing")).result()).value is None


@rule("accept-15", "accept-16")
@every_dialect
async def test_cancelled_and_timed_out_are_failures_in_whatever_message(dialect: str) -> None:
    async with scripted(dialect) as runtime, client_of(runtime) as client:
        late = await client.submit("late")
        with pytest.raises(JobTimedOut):
            await late.result()
        job = await client.submit("gated")
        await job.cancel()
        with pytest.raises(JobCancelled):
            await job.result()
        assert (late.status, job.status) == ("timed_out", "cancelled")
        last = [event async for event in job][-1]
        assert isinstance(last, events.Failed)
        assert last.status == "cancelled"


@rule("accept-16")
@every_dialect
async def test_a_cancel_of_a_job_that_just_ended_returns(dialect: str) -> None:
    async with scripted(dialect) as runtime, client_of(runtime) as client:
        job = await client.submit("gated")
        runtime.next("job.cancel", Withhold())
        cancelling = asyncio.ensure_future(job.cancel())
        await runtime.until("job.cancel")
        runtime.open("go")
        await cancelling
        assert (await job.result()).value == "done"


@rule("accept-17")
@every_dialect
async def test_the_terminal_message_ends_a_chunked_result(dialect: str) -> None:
    async with scripted(dialect) as runtime, client_of(runtime) as client:
        result = await (await client.submit("chunks")).result()
        assert result.value == b"one two \xff"
        twice = await (await client.submit("twice")).result() if dialect == "python" else None
        assert twice is None or twice.value == "a"


# ------------------------------------------------------------------ numbers, histories, listings


@rule("accept-18")
@every_dialect
async def test_no_event_is_lost_or_repeated_when_a_job_is_watched(dialect: str) -> None:
    async with scripted(dialect) as runtime, client_of(runtime) as client:
        job = await client.submit("gated")
        async with client_of(runtime) as observer:
            own = await observer.submit("say")  # numbers of its own, which may collide
            await own.result()
            view = await observer.watch(job.id, history=True)
            runtime.open("go")
            assert [event.kind async for event in view] == ["progress", "result"]
            more = await observer.submit("say")
            await more.result()
            assert observer.stats().gaps == 0


def _progress(number: int, seq: int) -> dict[str, Any]:
    stamp = f"2026-01-01T00:00:0{number}Z"
    payload = {"kind": "progress", "ts": stamp, "body": {"current": number}}
    head = {"type": "job.event", "id": f"e{number}", "job_id": "job_a", "event_seq": seq}
    return {**head, "payload": payload}


_CONFIRMED = Raw(
    {
        "type": "job.subscribed",
        "payload": {"job_id": "job_a", "current_status": "running", "replayed": True},
    }
)
_DONE = {
    "type": "job.result",
    "job_id": "job_a",
    "payload": {"final_status": "success", "output": "done"},
}


@rule("go: event order", "java: event order")
@rule("note-7")
@rule("accept-18")
@pytest.mark.parametrize("dialect", ["go", "java", "spec"])
async def test_events_that_overtake_one_another_come_in_order_over_the_same_link(
    dialect: str,
) -> None:
    def racing(number: int) -> Raw:
        payload = {"kind": "progress", "ts": "2026-01-01T00:00:00Z", "body": {"current": number}}
        head = {"type": "job.event", "id": f"e{number}", "event_seq": number}
        return Raw({**head, "payload": payload})

    end = {"final_status": "success", "result": "done"}
    last = Raw({"type": "job.result", "id": "end", "event_seq": 9, "payload": end})
    agents = {"racing": [*map(racing, (2, 1, 3, 6, 4, 5, 7)), last, racing(8)]}
    async with scripted(dialect, agents=agents) as runtime, client_of(runtime) as client:
        job = await client.submit("racing")
        seen = [event.current async for event in job.events(events.Progress)]
        assert seen == [1, 2, 3, 4, 5, 6, 7, 8]
        assert (await job.result()).value == "done"
        assert (client.stats().reconnects, client.stats().gaps) == (0, 0)


@rule("accept-20")
async def test_a_history_that_repeats_and_mixes_events_gives_each_once_and_in_order() -> None:
    async with scripted("go") as runtime, client_of(runtime) as client:
        runtime.next("job.subscribe", _CONFIRMED)
        runtime.next("session.ping", Later(by=7))  # it is read after the history was sent
        view = await client.watch("job_a", history=True)
        for seq, number in enumerate((2, 3, 1, 2, 3, 1), start=1):
            runtime.send(_progress(number, seq))
        runtime.send({**_DONE, "event_seq": 7})
        seen = [event.current async for event in view.events(events.Progress)]
        assert seen == [1, 2, 3]
        assert (await view.result()).value == "done"
        assert client.stats().gaps == 0


@rule("accept-20")
async def test_whoever_watches_a_much_watched_job_has_its_past_in_order_and_then_its_present() -> (
    None
):
    steps: list[Any] = []
    for number in range(1, 9):
        steps.append(Emit("progress", {"current": number}))
        steps += [Wait("first")] if number == 3 else [Wait("second")] if number == 6 else []
    agents = {"much": [*steps, Finish("done")]}
    async with scripted("go", agents=agents) as runtime, client_of(runtime) as client:
        job = await client.submit("much")
        async with client_of(runtime) as one, client_of(runtime) as other:
            views = [await one.watch(job.id)]  # its log begins where it came in
            runtime.open("first")
            async for event in job.events(events.Progress):
                if event.current == 6:
                    break
            seen: list[float] = []
            other.on(events.Progress)(lambda event: seen.append(event.current))
            views.append(await other.watch(job.id, history=True))
            await other.ping()  # what was sent as history is here
            sent = [frame for frame in runtime.said if frame.get("session_id") == other.session.id]
            past = [f["payload"]["body"]["current"] for f in sent if f["type"] == "job.event"]
            assert past == [4, 5, 6, 1, 2, 3, 4, 5, 6]
            runtime.open("second")
            for view in views:
                assert (await view.result()).value == "done"
            assert seen == [1, 2, 3, 4, 5, 6, 7, 8]
            assert other.stats().gaps == one.stats().gaps == 0


@rule("accept-20")
async def test_a_history_that_waits_on_disk_is_put_in_order_too() -> None:
    flood = [Emit("log", {"level": "info", "message": str(n)}) for n in range(2000)]
    steps = [Emit("progress", {"current": n}) for n in range(1, 7)]
    agents = {
        "flood": [*flood, Finish("end")],
        "much": [*steps[:3], Wait("first"), *steps[3:], Wait("second"), Finish("done")],
    }
    async with scripted("go", agents=agents) as runtime, client_of(runtime) as owner:
        job = await owner.submit("much")
        async with client_of(runtime) as one:
            await one.watch(job.id)
            runtime.open("first")
            async for event in job.events(events.Progress):
                if event.current == 6:
                    break
            seen: list[float] = []
            logs: list[int] = []
            spilled = 0
            buffer = Buffer(soft=16, hard=64)
            async with client_of(runtime, buffer=buffer) as slow:
                slow.on(events.Progress)(lambda event: seen.append(event.current))

                @slow.on(events.Log)
                async def handle(event: events.Log) -> None:
                    nonlocal spilled
                    if not logs:
                        view = await slow.watch(job.id, history=True)
                        spilled = slow.stats().spilled
                        assert view.id == job.id
                    logs.append(int(event.message))

                flooding = await slow.submit("flood")
                assert (await flooding.result()).value == "end"
                view = await slow.watch(job.id)
                runtime.open("second")
                assert (await view.result()).value == "done"
    assert spilled > 0
    assert logs == list(range(2000))
    assert seen == [1, 2, 3, 4, 5, 6]


@rule("accept-20")
def test_a_history_whose_end_is_not_told_is_waited_for_only_so_long() -> None:
    async def scenario() -> None:
        async with scripted("go") as runtime, client_of(runtime) as client:
            runtime.next("job.subscribe", _CONFIRMED)
            runtime.next("session.ping", Withhold())
            view = await client.watch("job_a", history=True)
            for seq, number in enumerate((3, 2, 1), start=1):
                runtime.send(_progress(number, seq))
            progress = aiter(view.events(events.Progress))
            began = asyncio.get_running_loop().time()
            assert [(await anext(progress)).current for _ in range(3)] == [1, 2, 3]
            assert asyncio.get_running_loop().time() - began <= 2.0  # of the virtual clock
            runtime.send(_progress(4, 4))
            assert (await anext(progress)).current == 4
            runtime.send({**_DONE, "event_seq": 5})
            assert (await view.result()).value == "done"

    VirtualClock().run(scenario())


@rule("accept-20")
async def test_a_link_that_drops_amid_a_history_loses_none_of_what_came() -> None:
    async with scripted("go") as runtime, client_of(runtime) as client:
        runtime.next("job.subscribe", _CONFIRMED)
        runtime.next("session.ping", Withhold())
        view = await client.watch("job_a", history=True)
        for seq, number in enumerate((2, 3, 1), start=1):
            runtime.send(_progress(number, seq))
        progress = aiter(view.events(events.Progress))
        runtime.drop()
        assert [(await anext(progress)).current for _ in range(3)] == [1, 2, 3]


@rule("accept-21")
@every_dialect
async def test_listings_are_read_in_every_form(dialect: str) -> None:
    async with scripted(dialect) as runtime, client_of(runtime) as client:
        assert [job async for job in client.jobs()] == []
        job = await client.submit("gated")
        (found,) = [summary async for summary in client.jobs()]
        assert (found.job_id, found.status) == (job.id, "running")
        assert found.created_at is not None


# ------------------------------------------------------------------ resumes


@rule("accept-22", "accept-23", "send-4")
@every_dialect
async def test_an_idle_session_is_resumed_wherever_the_runtime_looks_for_it(dialect: str) -> None:
    async with scripted(dialect) as runtime, client_of(runtime) as client:
        await (await client.submit("say")).result()
        runtime.drop()
        # TypeScript refuses whoever missed nothing, and takes it from one event earlier.
        await runtime.until_linked(3 if dialect == "typescript" else 2)
        await client.ping()
        assert client.resumed
        assert client.stats().gaps == 0
        assert len(runtime.sessions) == 1


@rule("accept-22")
def test_a_typescript_job_that_died_with_its_link_is_lost_and_said_to_be() -> None:
    async def scenario() -> None:
        async with scripted("typescript") as runtime, client_of(runtime) as client:
            job = await client.submit("gated")
            await anext(aiter(job))
            runtime.drop()
            await runtime.until_linked(2)
            runtime.open("go")
            with pytest.raises(JobLost):
                await job.result()

    VirtualClock().run(scenario())


@rule("ruby: running jobs")
@rule("note-3")
@rule("accept-22")
async def test_a_ruby_session_hears_of_its_job_again_by_subscribing_to_it() -> None:
    steps = [Emit("progress", {"current": n}) for n in (1, 2)]
    agents = {"two": [steps[0], Wait("go"), steps[1], Wait("end"), Finish("done")]}
    async with scripted("ruby", agents=agents) as runtime, client_of(runtime) as client:
        job = await client.submit("two")
        progress = aiter(job.events(events.Progress))
        await anext(progress)
        runtime.drop()
        await runtime.until("job.subscribe")
        await client.ping()  # it was answered
        runtime.open("go")
        assert (await anext(progress)).current == 2
        runtime.open("end")
        assert (await job.result()).value == "done"
        assert (client.stats().reconnects, client.stats().gaps) == (1, 0)
        assert len(runtime.sessions) == 1


@rule("python: early resumes", "java: early resumes", "go: early resumes")
@rule("accept-24")
@pytest.mark.parametrize(
    ("dialect", "code"),
    [
        ("python", "PERMISSION_DENIED"),
        ("java", "RESUME_WINDOW_EXPIRED"),
        ("go", "RESUME_WINDOW_EXPIRED"),
    ],
)
async def test_a_runtime_that_believes_in_the_old_link_is_asked_again(
    dialect: str, code: str
) -> None:
    async with scripted(dialect) as runtime, client_of(runtime) as client:
        await (await client.submit("say")).result()
        error = {"code": code, "message": "the session is still connected"}
        kind = "job.error" if dialect == "java" else "session.error"
        runtime.next("session.hello", Raw({"type": kind, "payload": error}))
        runtime.drop()
        await runtime.until_linked(3)
        await client.ping()
        assert client.resumed


# ------------------------------------------------------------------ heartbeats


@rule("accept-25")
@every_dialect
def test_an_idle_link_is_pinged_and_a_silent_one_left(dialect: str) -> None:
    async def scenario() -> None:
        async with scripted(dialect) as runtime, client_of(runtime) as client:
            await runtime.until("session.ping", 2)
            assert client.stats().reconnects == 0
            runtime.next("session.ping", *[Withhold()] * 4)
            await runtime.until_linked(2)

    VirtualClock().run(scenario())


@rule("accept-25")
@pytest.mark.parametrize(
    "frame",
    [
        {"type": "session.error", "payload": {"code": "HEARTBEAT_LOST"}},
        {"type": "session.closed", "payload": {"reason": "HEARTBEAT_LOST"}},
        None,
    ],
)
async def test_a_lost_heartbeat_is_told_in_three_ways(frame: dict[str, Any] | None) -> None:
    async with scripted("csharp") as runtime, client_of(runtime) as client:
        job = await client.submit("gated")
        if frame is None:
            runtime.drop()
        else:
            runtime.send(frame)
        await runtime.until_linked(2)
        await client.ping()
        assert job.status == "running"


# ------------------------------------------------------------------ who may cancel


@rule("send-12")
@every_dialect
async def test_a_watched_job_cannot_be_cancelled(dialect: str) -> None:
    async with scripted(dialect) as runtime, client_of(runtime) as client:
        job = await client.submit("gated")
        async with client_of(runtime) as observer:
            view = await observer.watch(job.id)
            assert isinstance(view, JobView)
            assert not hasattr(view, "cancel")
        assert runtime.of("job.cancel") == []


async def test_a_job_that_nobody_knows_is_not_found() -> None:
    async with scripted("go") as runtime, client_of(runtime) as client:
        with pytest.raises(JobNotFound):
            await client.watch("job_nobody")


# ------------------------------------------------------------------ acknowledgements

UNTOLD = ("python", "go")
COUNTS: list[Any] = [
    *(Emit("progress", {"current": n}) for n in range(25)),
    Wait("go"),
    *(Emit("progress", {"current": n}) for n in range(25, 40)),
    Finish("done"),
]


@rule("python: histories", "go: histories")
@rule("note-6")
@rule("send-9")
@every_dialect
def test_acknowledgements_take_nothing_from_the_history_of_a_watcher(dialect: str) -> None:
    async def scenario() -> None:
        async with (
            scripted(dialect, agents={"counts": COUNTS}) as runtime,
            client_of(runtime) as submitter,
            client_of(runtime) as observer,
        ):
            job = await submitter.submit("counts")
            async for event in job.events(events.Progress):
                if event.current == 24:
                    break
            await asyncio.sleep(1)  # an acknowledgement is sent after 750 ms at most
            view = await observer.watch(job.id, history=True)
            runtime.open("go")
            seen = [event async for event in view]
            assert [e.current for e in seen if isinstance(e, events.Progress)] == list(range(40))
            assert observer.stats().gaps == 0
            assert bool(runtime.of("session.ack")) is (dialect not in UNTOLD)

    VirtualClock().run(scenario())


@rule("send-9")
def test_only_what_was_processed_is_acknowledged() -> None:
    async def scenario() -> None:
        gate, third = asyncio.Event(), asyncio.Event()
        async with scripted("spec", agents={"counts": COUNTS}) as runtime:
            async with client_of(runtime) as client:

                @client.on(events.Event)
                async def slow(event: events.Event) -> None:
                    if event.seq == 3:
                        third.set()
                        await gate.wait()

                runtime.open("go")
                job = await client.submit("counts")
                await third.wait()
                await asyncio.sleep(1)
                assert told(runtime) == [2]
                gate.set()
                await job.result()
            assert told(runtime) == sorted(told(runtime))
            assert told(runtime)[-1] == 41

    VirtualClock().run(scenario())


@rule("send-9")
def test_events_that_are_numbered_apart_are_not_acknowledged_in_the_sessions_numbers() -> None:
    async def scenario() -> None:
        async with (
            scripted("ruby", agents={"counts": COUNTS}) as runtime,
            client_of(runtime) as submitter,
        ):
            job = await submitter.submit("counts")
            await anext(aiter(job))
            async with client_of(runtime) as observer:
                await (await observer.submit("say")).result()
                view = await observer.watch(job.id, history=True)
                runtime.open("go")
                await view.result()
                session = observer.session.id
            assert max(told(runtime, session)) == 1  # its one own event has a number, no end has

    VirtualClock().run(scenario())


def told(runtime: ScriptedRuntime, session: str | None = None) -> list[int]:
    acks = [f for f in runtime.of("session.ack") if session in (None, f["session_id"])]
    return [frame["payload"]["last_processed_seq"] for frame in acks]


# ------------------------------------------------------------------ one's own new job


@rule("java: repeated submits", "go: own jobs")
@rule("note-10")
@rule("accept-9")
@pytest.mark.parametrize("key", [None, "k"])
@every_dialect
def test_a_job_that_a_submit_has_started_is_not_subscribed_to(
    dialect: str, key: str | None
) -> None:
    async def scenario() -> None:
        async with scripted(dialect) as runtime, client_of(runtime) as client:
            job = await client.submit("gated", idempotency_key=key)
            await asyncio.sleep(1)
            runtime.open("go")
            assert [getattr(e, "current", e.kind) async for e in job] == [1, "result"]
            # Of an acceptance of Java or Ruby nothing tells whose it is.
            ambiguous = key is not None and dialect == "java"
            assert bool(runtime.of("job.subscribe")) is ambiguous
            assert client.stats().repeated == 0 or ambiguous

    VirtualClock().run(scenario())


@rule("accept-9")
@pytest.mark.parametrize("traces", [False, True], ids=["fresh traces", "one trace"])
@every_dialect
def test_a_job_that_another_session_has_just_started_under_the_key_is_followed(
    dialect: str, traces: bool
) -> None:
    async def scenario() -> None:
        trace = {"trace_id": "ab" * 16} if traces else {}
        async with (
            scripted(dialect) as runtime,
            client_of(runtime) as one,
            client_of(runtime) as other,
        ):
            first = await one.submit("gated", idempotency_key="k", **trace)
            second = await other.submit("gated", idempotency_key="k", **trace)
            assert second.id == first.id
            await asyncio.sleep(10)
            runtime.open("go")
            for job in (first, second):
                assert (await job.result()).value == "done"

    VirtualClock().run(scenario())


@rule("note-10")
@every_dialect
def test_a_client_that_begins_again_handles_each_event_once(dialect: str, tmp_path: Path) -> None:
    """Where a session subscribes to its own job, one runtime sends every event twice."""
    handled: list[int] = []
    redelivered: list[int] = []
    half = asyncio.Event()

    async def record(event: events.Progress) -> None:
        handled.append(int(event.current))
        if event.redelivered:
            redelivered.append(int(event.current))
        if event.current == 24:
            half.set()

    async def scenario() -> None:
        async with scripted(dialect, agents={"counts": COUNTS}) as runtime:
            first = client_of(runtime, store=SqliteStore(tmp_path / "a.db"))
            first.subscribe(record, events.Progress)
            await first.connect()
            # The trace of the caller may be an earlier job's as well, so the session subscribes.
            await first.submit("counts", idempotency_key="k", trace_id="ab" * 16)
            await half.wait()
            await first.detach()
            second = client_of(runtime, store=SqliteStore(tmp_path / "a.db"))
            second.subscribe(record, events.Progress)
            async with second:
                (job,) = second.open_jobs()
                _ = [summary async for summary in second.jobs()]
                runtime.open("go")
                if dialect == "typescript":  # the job died with its link
                    with pytest.raises(JobLost):
                        await job.result()
                else:
                    assert (await job.result()).value == "done"
            wanted = 25 if dialect == "typescript" else 40
            assert handled == list(range(wanted))
            assert redelivered == []

    VirtualClock().run(scenario())
