"""The blocking client as users write it; mypy --strict and basedpyright accept every line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_type

from reactivex import Observable

from arcp_client.models import JobStatus, JobSummary, Result, Stats
from arcp_client.sync import (
    Batch,
    Client,
    Event,
    EventIterator,
    Job,
    JobHandle,
    JobView,
    Order,
    Portal,
    Registration,
    Runtime,
    errors,
    events,
)

client = Client("ws://127.0.0.1:7777/arcp")


# -- handlers: the event has the type of the kinds


@client.on(thread=True)
def everything(event: Event) -> None: ...


@client.on(events.Log)
def one(event: events.Log) -> None:
    assert_type(event.message, str)


@client.on(events.ToolCall, events.ToolResult, thread=True, order=Order.JOB)
def two(event: events.ToolCall | events.ToolResult) -> None: ...


@client.on("acme.thing", thread=False, on_error="stop", barrier=False)
def vendor(event: events.Unknown) -> None: ...


@client.on(events.Log)
async def on_the_loop(event: events.Log) -> None: ...


def subscriptions(job: Job) -> None:
    assert_type(client.subscribe(one, events.Log, job=job, thread=True), Registration)
    assert_type(client.subscribe(everything), Registration)
    assert_type(client.subscribe(vendor, "acme.thing").lag, int)
    client.subscribe(one, events.Log).dispose()


# -- handlers of batches: a list of events of the types of the kinds


@client.on(batch=True)
def batch_of_everything(batch: list[Event]) -> None: ...


@client.on(events.Log, batch=Batch(count=10, seconds=0.5), thread=True)
def batch_of_one(batch: list[events.Log]) -> None: ...


@client.on(events.Log, batch=True)
def batch_as_sequence(batch: Sequence[Event]) -> None: ...


@client.on(events.ToolCall, events.ToolResult, batch=True, thread=True)
def batch_of_two(batch: list[events.ToolCall | events.ToolResult]) -> None: ...


@client.on(events.Log, events.Thought, events.Status, batch=True)
def batch_of_three(batch: list[events.Log | events.Thought | events.Status]) -> None: ...


@client.on(events.Log, events.Thought, events.Status, events.Metric, batch=True)
def batch_of_four(
    batch: list[events.Log | events.Thought | events.Status | events.Metric],
) -> None: ...


@client.on("acme.thing", batch=True)
def batch_of_vendor(batch: list[events.Unknown]) -> None: ...


def batch_subscriptions(flag: bool) -> None:
    assert_type(client.subscribe(batch_of_one, events.Log, batch=True, thread=True), Registration)
    assert_type(client.subscribe(batch_of_everything, batch=Batch()), Registration)
    two = client.subscribe(batch_of_two, events.ToolCall, events.ToolResult, batch=True)
    assert_type(two, Registration)
    assert_type(client.subscribe(batch_of_vendor, "acme.thing", batch=True), Registration)
    client.subscribe(one, events.Log, batch=False)
    client.on(events.Log, batch=flag)


@client.on_error
def failed(error: errors.HandlerError) -> None: ...


@client.on_slow
def slow(registration: Registration, lag: int, seconds: float) -> None:
    registration.dispose()


# -- iterators


def iterate(job: JobHandle) -> None:
    for event in job:
        assert_type(event, Event)
    for log in job.events(events.Log):
        assert_type(log, events.Log)
    for either in client.events(events.Log, events.Progress):
        assert_type(either, events.Log | events.Progress)
    assert_type(client.events(), EventIterator[Event])
    client.events("acme.thing").close()
    for chunk in job.chunks():
        assert_type(chunk, bytes)
    wanted: list[JobStatus] = ["running", "pending"]
    for summary in client.jobs(status=wanted):
        assert_type(summary, JobSummary)
    assert_type(client.notifications, Observable[Event])


# -- verbs


def verbs() -> None:
    with client:
        job = client.submit("agent", {"a": 1})
        assert_type(job, Job)
        assert_type(job.result(timeout=3), Result)
        assert_type(client.watch("job_1"), JobView)
        assert_type(client.job("job_1"), JobHandle | None)
        assert_type(client.open_jobs(), list[Job])
        assert_type(client.ping(), float)
        assert_type(client.stats(), Stats)
        client.submit("agent", parent=job).cancel("enough")
        client.connected(timeout=3)


# -- one thread for several clients


async def asynchronous(number: int, *, more: str = "") -> str:
    return more * number


def portals(runtime: Runtime) -> None:
    with Portal() as portal:
        assert_type(portal.run(asynchronous, 3, more="a"), str)
        assert_type(portal.call(len, "abc"), int)
        Client(runtime, portal=portal).close(timeout=1)
        portal.run(runtime.close)
