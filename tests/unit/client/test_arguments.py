"""Arguments that no call accepts: refused at once, by name, before anything is sent.

A TypeError for a wrong type, a ValueError for a wrong value. `test_misuse` throws everything at
every call; here it is written down what each argument is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from arcp_client import (
    Buffer,
    Client,
    Job,
    MemoryStore,
    Reconnect,
    Runtime,
    SqliteStore,
    Timeouts,
    events,
)

NAN, INFINITE = float("nan"), float("inf")
NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001
SECONDS: list[Any] = ["5", True, NAN, INFINITE, -1, -0.5, 10**400, [5]]
TEXTS: list[Any] = [None, 5, b"text", ["text"], ""]
FLAGS: list[Any] = [None, 0, "yes"]

Asked = Callable[[Client, Job, Any], Any]

CALLS: dict[tuple[str, str], tuple[Asked, list[Any]]] = {
    ("submit", "agent"): (lambda c, _, v: c.submit(v), [*TEXTS, "Not A Name"]),
    ("submit", "input"): (lambda c, _, v: c.submit("echo", v), [object(), NAN, {1, 2}, print]),
    ("submit", "lease"): (
        lambda c, _, v: c.submit("echo", lease=v),
        [
            5,
            "fs.read",
            ["fs.read"],
            {"fs.read": "/src/**"},
            {"fs.read": 5},
            {"fs.read": [5]},
            {5: ["/"]},
        ],
    ),
    ("submit", "expires_at"): (
        lambda c, _, v: c.submit("echo", expires_at=v),
        [5, "2030-01-01", NAIVE],
    ),
    ("submit", "idempotency_key"): (
        lambda c, _, v: c.submit("echo", idempotency_key=v),
        [5, b"key", ""],
    ),
    ("submit", "max_runtime"): (
        lambda c, _, v: c.submit("echo", max_runtime=v),
        [*SECONDS, 0],
    ),
    ("submit", "trace_id"): (
        lambda c, _, v: c.submit("echo", trace_id=v),
        [5, "", "nope", "0" * 32],
    ),
    ("submit", "pause_lease"): (lambda c, _, v: c.submit("echo", pause_lease=v), FLAGS),
    ("submit", "retries"): (
        lambda c, _, v: c.submit("echo", retries=v),
        [None, "5", 1.5, True, -1, NAN],
    ),
    ("next_attempt", "after"): (
        lambda _, job, v: job.next_attempt(v),
        [5, b"job", "", "job_unknown"],
    ),
    ("submit", "work_id"): (lambda c, _, v: c.submit("echo", work_id=v), [5, b"work", ""]),
    ("submit", "parent"): (lambda c, _, v: c.submit("echo", parent=v), [5, b"job", ["job"], ""]),
    ("submit", "timeout"): (lambda c, _, v: c.submit("echo", timeout=v), SECONDS),
    ("watch", "job_id"): (lambda c, _, v: c.watch(v), TEXTS),
    ("watch", "history"): (lambda c, _, v: c.watch("job_1", history=v), FLAGS),
    ("watch", "from_seq"): (
        lambda c, _, v: c.watch("job_1", history=True, from_seq=v),
        ["5", 1.5, True, -1, NAN],
    ),
    ("watch", "timeout"): (lambda c, _, v: c.watch("job_1", timeout=v), SECONDS),
    ("jobs", "status"): (
        lambda c, _, v: anext(c.jobs(status=v)),
        [None, "running", [5], 5, {}, ["runing"], [""]],
    ),
    ("jobs", "agent"): (lambda c, _, v: anext(c.jobs(agent=v)), [5, b"echo", ""]),
    ("jobs", "created_after"): (
        lambda c, _, v: anext(c.jobs(created_after=v)),
        [5, "2030-01-01", NAIVE],
    ),
    ("jobs", "timeout"): (lambda c, _, v: anext(c.jobs(timeout=v)), SECONDS),
    ("job", "job_id"): (lambda c, _, v: c.job(v), TEXTS),
    ("cancel_job", "job_id"): (lambda c, _, v: c.cancel_job(v), TEXTS),
    ("cancel_job", "reason"): (lambda c, _, v: c.cancel_job("job_1", v), [5, b"why"]),
    ("answer", "job_id"): (lambda c, _, v: c.answer(v, "q_1", 1), TEXTS),
    ("answer", "question_id"): (lambda c, _, v: c.answer("job_1", v, 1), TEXTS),
    ("answer", "value"): (lambda c, _, v: c.answer("job_1", "q_1", v), [object(), NAN, {1, 2}]),
    ("answer", "idempotency_key"): (
        lambda c, _, v: c.answer("job_1", "q_1", 1, idempotency_key=v),
        [5, b"key", ""],
    ),
    ("answer", "timeout"): (lambda c, _, v: c.answer("job_1", "q_1", 1, timeout=v), SECONDS),
    ("questions", "timeout"): (lambda c, _, v: anext(c.questions(timeout=v)), SECONDS),
    ("inbox", "timeout"): (lambda c, _, v: anext(c.inbox(timeout=v)), SECONDS),
    ("sse", "job_id"): (lambda c, _, v: c.sse(v), TEXTS),
    ("sse", "last_event_id"): (lambda c, _, v: c.sse("job_1", last_event_id=v), [5, b"a-1"]),
    ("ping", "timeout"): (lambda c, _, v: c.ping(timeout=v), SECONDS),
    ("drain", "timeout"): (lambda c, _, v: c.drain(timeout=v), SECONDS),
    ("close", "timeout"): (lambda c, _, v: c.close(timeout=v), SECONDS),
    ("detach", "timeout"): (lambda c, _, v: c.detach(timeout=v), SECONDS),
    ("events", "kind"): (lambda c, _, v: c.events(v), [5, "", int, "log", [events.Log]]),
    ("on", "kind"): (lambda c, _, v: c.on(v)(print), [5, "", int, "log"]),
    ("on", "job"): (lambda c, _, v: c.on(job=v), [5, b"job", ""]),
    ("on", "order"): (lambda c, _, v: c.on(order=v), ["job", 1]),
    ("on", "batch"): (lambda c, _, v: c.on(batch=v), [None, 1, "yes"]),
    ("on", "on_error"): (lambda c, _, v: c.on(on_error=v), [None, "raise", 5]),
    ("on", "barrier"): (lambda c, _, v: c.on(barrier=v), FLAGS),
    ("on", "tx"): (lambda c, _, v: c.on(tx=v), [5, "postgresql://h", object()]),
    ("on", "handler"): (lambda c, _, v: c.on()(v), [None, 5, "print"]),
    ("subscribe", "handler"): (lambda c, _, v: c.subscribe(v), [None, 5, "print"]),
    ("subscribe", "job"): (lambda c, _, v: c.subscribe(print, job=v), [5, b"job", ""]),
    ("subscribe", "order"): (lambda c, _, v: c.subscribe(print, order=v), ["job", 1]),
    ("subscribe", "on_error"): (lambda c, _, v: c.subscribe(print, on_error=v), [None, "raise"]),
    ("subscribe", "batch"): (lambda c, _, v: c.subscribe(print, batch=v), [None, 1, "yes"]),
    ("subscribe", "tx"): (lambda c, _, v: c.subscribe(print, tx=v), [5, "postgresql://h"]),
    ("subscribe", "barrier"): (lambda c, _, v: c.subscribe(print, barrier=v), FLAGS),
    ("on_error", "hook"): (lambda c, _, v: c.on_error(v), [None, 5]),
    ("on_state", "hook"): (lambda c, _, v: c.on_state(v), [None, 5]),
    ("on_slow", "hook"): (lambda c, _, v: c.on_slow(v), [None, 5]),
    ("Job.cancel", "reason"): (lambda _, job, v: job.cancel(v), [5, b"why"]),
    ("Job.save", "path"): (lambda _, job, v: job.save(v), [None, 5, "", "a\0b"]),
    ("Job.sse", "last_event_id"): (lambda _, job, v: job.sse(last_event_id=v), [5, b"a-1"]),
    ("Job.send", "value"): (lambda _, job, v: job.send(v), [object(), NAN, {1, 2}]),
    ("Job.send", "mode"): (lambda _, job, v: job.send(1, mode=v), [None, "push", 5]),
    ("Job.send", "message_id"): (lambda _, job, v: job.send(1, message_id=v), [5, b"id", ""]),
    ("Job.send", "timeout"): (lambda _, job, v: job.send(1, timeout=v), SECONDS),
    ("Job.answer", "question_id"): (lambda _, job, v: job.answer(v, 1), TEXTS),
    ("Job.answer", "value"): (lambda _, job, v: job.answer("q_1", v), [object(), NAN, {1, 2}]),
    ("Job.events", "kind"): (lambda _, job, v: job.events(v), [5, "", int, "log"]),
}


@pytest.mark.parametrize(("call", "name"), CALLS)
async def test_a_call_says_which_argument_is_wrong(client: Client, call: str, name: str) -> None:
    job = await client.submit("echo", 1)
    await job.result()
    asked, values = CALLS[call, name]
    for value in values:
        with pytest.raises((TypeError, ValueError)) as caught:
            done = asked(client, job, value)
            if inspect.isawaitable(done):
                await done
        said = str(caught.value)
        assert type(caught.value) in (TypeError, ValueError), (value, caught.value)
        assert name in said, (value, said)
        assert len(said) < 300
    await client.ping()  # nothing of it went to the runtime, or ended the client


def test_every_argument_of_every_verb_is_in_the_table() -> None:
    listed = set(CALLS)
    for verb, member in inspect.getmembers(Client, inspect.isfunction):
        if verb.startswith("_"):
            continue
        for name, parameter in inspect.signature(member).parameters.items():
            if name != "self" and parameter.kind is not parameter.VAR_POSITIONAL:
                assert (verb, name) in listed, (verb, name)


MADE: dict[tuple[str, str], tuple[Callable[[Any], Any], list[Any]]] = {
    ("Client", "target"): (Client, [None, 5, b"ws://h", object()]),
    ("Client", "token"): (lambda v: Client("ws://h", token=v), [5, b"secret", ["secret"]]),
    ("Client", "info"): (lambda v: Client("ws://h", info=v), ["name", 5, {}]),
    ("Client", "features"): (lambda v: Client("ws://h", features=v), ["ack", 5, [5]]),
    ("Client", "order"): (lambda v: Client("ws://h", order=v), [None, "job"]),
    ("Client", "buffer"): (lambda v: Client("ws://h", buffer=v), [None, 5]),
    ("Client", "reconnect"): (lambda v: Client("ws://h", reconnect=v), [None, False]),
    ("Client", "store"): (lambda v: Client("ws://h", store=v), ["kept.db", 5]),
    ("Client", "key"): (lambda v: Client("ws://h", key=v), TEXTS),
    ("Client", "timeouts"): (lambda v: Client("ws://h", timeouts=v), [None, 5]),
    ("Client", "dialect"): (lambda v: Client("ws://h", dialect=v), [5, "", "perl"]),
    ("Client", "telemetry"): (lambda v: Client("ws://h", telemetry=v), [5, "otel", object()]),
    ("Client", "handler_timeout"): (
        lambda v: Client("ws://h", handler_timeout=v),
        [*SECONDS, 0],
    ),
    ("Buffer", "soft"): (lambda v: Buffer(soft=v), [None, "5", 1.5, True, 0, -1, NAN, 9000]),
    ("Buffer", "hard"): (lambda v: Buffer(hard=v), [None, 1e4, 0, -1, 1]),
    ("Buffer", "bytes"): (lambda v: Buffer(bytes=v), [None, 1.5, 0, INFINITE]),
    ("Buffer", "spill"): (lambda v: Buffer(spill=v), [None, 1.5, -1, INFINITE]),
    **{
        ("Timeouts", name): (lambda v, name=name: Timeouts(**{name: v}), [None, 0, *SECONDS])
        for name in ("connect", "open", "request", "close", "drain", "stall", "silence", "deadlock")
    },
    ("Reconnect", "wait"): (lambda v: Reconnect(wait=v), [None, 5]),
    ("Reconnect", "stop"): (lambda v: Reconnect(stop=v), [None, 5]),
    ("Reconnect", "reset_after"): (lambda v: Reconnect(reset_after=v), [None, *SECONDS]),
    ("Reconnect", "classify"): (lambda v: Reconnect(classify=v), [5, "always"]),
    ("MemoryStore", "every"): (lambda v: MemoryStore(every=v), [None, 1.5, 0, -1, "5"]),
    ("MemoryStore", "interval"): (lambda v: MemoryStore(interval=v), [None, 0, *SECONDS]),
    ("SqliteStore", "path"): (SqliteStore, [None, 5, "", "a\0b"]),
    ("SqliteStore", "every"): (lambda v: SqliteStore("x.db", every=v), [None, 1.5, 0, -1]),
    ("SqliteStore", "interval"): (lambda v: SqliteStore("x.db", interval=v), [None, 0, *SECONDS]),
}


@pytest.mark.parametrize(("cls", "name"), MADE)
def test_a_constructor_says_which_argument_is_wrong(cls: str, name: str) -> None:
    made, values = MADE[cls, name]
    for value in values:
        with pytest.raises((TypeError, ValueError), match=name) as caught:
            made(value)
        assert type(caught.value) in (TypeError, ValueError), value
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("cls", [Client, Buffer, Timeouts, Reconnect, MemoryStore, SqliteStore])
def test_every_argument_of_a_constructor_is_in_the_table(cls: type) -> None:
    for name in inspect.signature(cls).parameters:
        assert (cls.__name__, name) in MADE, name


async def test_no_time_at_all_is_a_time(runtime: Runtime) -> None:
    client = Client(runtime)
    await client.connect()
    await client.drain(timeout=0.0)
    await client.detach(timeout=0)
