"""What both checkers must refuse: a line here that passes is reported as an unused ignore."""
# pyright: reportUnnecessaryTypeIgnoreComment=error

from __future__ import annotations

from arcp_client import Client, Event, JobContext, Registration, events

client = Client("ws://127.0.0.1:7777/arcp")


async def of_log(event: events.Log) -> None: ...


async def of_unknown(event: events.Unknown) -> None: ...


def two_arguments(event: Event, more: int) -> None: ...


def kinds_and_handlers_that_do_not_fit() -> None:
    client.on(events.Progress)(of_log)  # type: ignore[arg-type]
    client.on(events.Log, events.Progress)(of_log)  # type: ignore[arg-type]
    client.on()(of_log)  # type: ignore[arg-type]
    client.on("acme.thing")(of_log)  # type: ignore[arg-type]
    client.on(events.Log)(of_unknown)  # type: ignore[arg-type]
    client.on(events.Log)(two_arguments)  # type: ignore[arg-type]


def of_logs(batch: list[events.Log]) -> None: ...


def batches_and_handlers_that_do_not_fit() -> None:
    client.on(events.Log, batch=True)(of_log)  # type: ignore[arg-type]
    client.on(events.Log)(of_logs)  # type: ignore[arg-type]
    client.on(events.Progress, batch=True)(of_logs)  # type: ignore[arg-type]
    client.on(batch=True)(of_logs)  # type: ignore[arg-type]
    client.on(events.Log, tx=object())(of_log)  # type: ignore[arg-type]
    client.on(events.Log, batch=3)  # type: ignore[call-overload]
    client.subscribe(of_logs, events.Log, batch=False)  # type: ignore[call-overload]
    client.subscribe(of_log, events.Log, batch=True)  # type: ignore[call-overload]


def bare() -> None:
    client.on(of_log)  # type: ignore[call-overload]


def arguments_that_do_not_exist() -> None:
    client.on(events.Log, order="job")  # type: ignore[call-overload]
    client.on(events.Log, on_error="ignore")  # type: ignore[call-overload]
    client.on(3)  # type: ignore[call-overload]
    client.subscribe(of_log, events.Progress)  # type: ignore[arg-type]
    client.events(int)  # type: ignore[type-var]


async def items_of_another_type() -> None:
    async for event in client.events(events.Log):
        progress: events.Progress = event  # type: ignore[assignment]
        print(progress)
    result: str = await (await client.submit("agent")).result()  # type: ignore[assignment]
    print(result)


async def words_that_the_specification_does_not_have(job: JobContext) -> None:
    async for summary in client.jobs(status=["runing"]):  # type: ignore[list-item]
        print(summary)
    await job.log("info", "text")  # type: ignore[arg-type]
    await job.log("text", level="warning")  # type: ignore[arg-type]


def hooks(registration: Registration) -> None:
    client.on_slow(lambda lag: print(lag))  # type: ignore[arg-type,misc]
    registration.lag = 3  # type: ignore[misc]


def events_are_frozen(event: Event) -> None:
    event.seq = 3  # type: ignore[misc]
