"""The client as users write it; mypy --strict and basedpyright accept every line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_type

from reactivex import Observable
from reactivex import operators as ops

from arcp_client import (
    Batch,
    Client,
    Event,
    Job,
    JobHandle,
    JobView,
    Order,
    Registration,
    Runtime,
    events,
)
from arcp_client.models import JobStatus, JobSummary, Result, Stats
from arcp_client.rx import concat_map_async, stream

client = Client("ws://127.0.0.1:7777/arcp")
embedded = Client(Runtime())


# -- handlers: the event has the type of the kinds


@client.on()
async def everything(event: Event) -> None: ...


@client.on(events.Log)
async def one(event: events.Log) -> None:
    assert_type(event.message, str)


@client.on(events.ToolCall, events.ToolResult)
async def two(event: events.ToolCall | events.ToolResult) -> None: ...


@client.on(events.Log, events.Thought, events.Status)
def three(event: events.Log | events.Thought | events.Status) -> int:
    return 1


@client.on(events.Log, events.Thought, events.Status, events.Metric, order=Order.JOB)
async def four(event: events.Log | events.Thought | events.Status | events.Metric) -> None: ...


@client.on(events.Log, job="job_1", on_error="stop", barrier=False)
async def wider(event: Event) -> None: ...


@client.on("acme.thing")
async def vendor(event: events.Unknown) -> None:
    assert_type(event.kind, str)


async def also_error(event: events.Log, error: Exception) -> None: ...


@client.on(events.Log, on_error=also_error)
async def with_hook(event: events.Log) -> None: ...


async def unchanged() -> None:
    assert_type(await one(events.Log(message="a", level="info")), None)
    assert_type(three(events.Thought(text="a")), int)


def subscriptions(job: Job) -> None:
    assert_type(client.subscribe(one, events.Log, job=job), Registration)
    assert_type(client.subscribe(everything), Registration)
    assert_type(client.subscribe(two, events.ToolCall, events.ToolResult), Registration)
    assert_type(client.subscribe(vendor, "acme.thing"), Registration)
    assert_type(client.subscribe(lambda event: print(event.message), events.Log).lag, int)


# -- handlers with a transaction: the event or the list, and a connection


@client.on(events.Log, tx=object())
async def in_a_transaction(event: events.Log, connection: object) -> None: ...


@client.on(events.Log, tx=object(), batch=True)
async def batch_in_a_transaction(batch: list[events.Log], connection: object) -> None: ...


@client.on(events.ToolCall, events.ToolResult, tx=object())
async def two_in_a_transaction(
    event: events.ToolCall | events.ToolResult, connection: object
) -> None: ...


# -- handlers of batches: a list of events of the types of the kinds


@client.on(batch=True)
async def batch_of_everything(batch: list[Event]) -> None: ...


@client.on(events.Log, batch=Batch(count=10, seconds=0.5))
async def batch_of_one(batch: list[events.Log]) -> None: ...


@client.on(events.Log, batch=True)
async def batch_as_sequence(batch: Sequence[Event]) -> None: ...


@client.on(events.ToolCall, events.ToolResult, batch=True)
async def batch_of_two(batch: list[events.ToolCall | events.ToolResult]) -> None: ...


@client.on(events.Log, events.Thought, events.Status, batch=True)
async def batch_of_three(batch: list[events.Log | events.Thought | events.Status]) -> None: ...


@client.on(events.Log, events.Thought, events.Status, events.Metric, batch=True)
async def batch_of_four(
    batch: list[events.Log | events.Thought | events.Status | events.Metric],
) -> None: ...


@client.on("acme.thing", batch=True)
async def batch_of_vendor(batch: list[events.Unknown]) -> None: ...


def batch_subscriptions(flag: bool) -> None:
    assert_type(client.subscribe(batch_of_one, events.Log, batch=True), Registration)
    assert_type(client.subscribe(batch_of_everything, batch=Batch()), Registration)
    two = client.subscribe(batch_of_two, events.ToolCall, events.ToolResult, batch=True)
    assert_type(two, Registration)
    assert_type(client.subscribe(batch_of_vendor, "acme.thing", batch=True), Registration)
    client.subscribe(one, events.Log, batch=False)
    client.on(events.Log, batch=flag)


# -- hooks


@client.on_slow
async def slow(registration: Registration, lag: int, seconds: float) -> None:
    registration.dispose()


# -- iterators


async def iterate(job: JobHandle) -> None:
    async for event in job:
        assert_type(event, Event)
    async for log in job.events(events.Log):
        assert_type(log, events.Log)
    async for either in job.events(events.Log, events.Progress):
        assert_type(either, events.Log | events.Progress)
    async for anything in client.events():
        assert_type(anything, Event)
    async for call in client.events(events.ToolCall):
        assert_type(call.tool, str)
    async for unknown in client.events("acme.thing"):
        assert_type(unknown, events.Unknown)
    async for chunk in job.chunks():
        assert_type(chunk, bytes)
    wanted: list[JobStatus] = ["running", "pending"]
    async for summary in client.jobs(status=wanted):
        assert_type(summary.status, str)
    async for summary in client.jobs(status=["success", "error", "cancelled", "timed_out"]):
        assert_type(summary, JobSummary)


async def match(job: JobHandle) -> str:
    async for event in job:
        match event:
            case events.ToolCall(tool=tool):
                return tool
            case events.Progress(current=current):
                print(current)
            case _:
                pass
    return ""


# -- verbs


async def verbs() -> None:
    async with client:
        job = await client.submit("agent", {"a": 1})
        assert_type(job, Job)
        assert_type(await job.result(), Result)
        assert_type(await client.watch("job_1"), JobView)
        assert_type(client.job("job_1"), JobHandle | None)
        assert_type(client.open_jobs(), list[Job])
        assert_type(await client.ping(), float)
        assert_type(client.stats(), Stats)


# -- Rx


def is_progress(event: Event) -> bool:
    return isinstance(event, events.Progress)


async def save(event: Event) -> int:
    return event.size


async def pipelines() -> None:
    assert_type(client.notifications, Observable[Event])
    saved = client.notifications.pipe(ops.filter(is_progress), concat_map_async(save))
    assert_type(saved, Observable[int])
    async for size in stream(saved):
        assert_type(size, int)
