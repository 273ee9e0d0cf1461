"""What both checkers must refuse: a line here that passes is reported as an unused ignore."""
# pyright: reportUnnecessaryTypeIgnoreComment=error

from __future__ import annotations

from arcp_client import Client as AsyncClient
from arcp_client.sync import Client, Event, Portal, Runtime, events

client = Client("ws://127.0.0.1:7777/arcp")


def of_log(event: events.Log) -> None: ...


def two_arguments(event: Event, more: int) -> None: ...


def kinds_and_handlers_that_do_not_fit() -> None:
    client.on(events.Progress, thread=True)(of_log)  # type: ignore[arg-type]
    client.on()(of_log)  # type: ignore[arg-type]
    client.on(events.Log)(two_arguments)  # type: ignore[arg-type]


def of_logs(batch: list[events.Log]) -> None: ...


def batches_and_handlers_that_do_not_fit() -> None:
    client.on(events.Log, batch=True)(of_log)  # type: ignore[arg-type]
    client.on(events.Log)(of_logs)  # type: ignore[arg-type]
    client.on(events.Progress, batch=True)(of_logs)  # type: ignore[arg-type]
    client.on(batch=True)(of_logs)  # type: ignore[arg-type]
    client.on(events.Log, batch=3)  # type: ignore[call-overload]
    client.subscribe(of_logs, events.Log, batch=False)  # type: ignore[call-overload]
    client.subscribe(of_log, events.Log, batch=True)  # type: ignore[call-overload]


def arguments_that_do_not_exist() -> None:
    client.on(events.Log, thread="yes")  # type: ignore[call-overload]
    client.on(of_log)  # type: ignore[call-overload]
    client.subscribe(of_log, events.Progress)  # type: ignore[arg-type]
    Client(Runtime(), portal=3)  # type: ignore[arg-type]
    AsyncClient(Runtime(), portal=Portal())  # type: ignore[call-arg]


async def plain(number: int) -> int:
    return number


def arguments_that_do_not_fit() -> None:
    with Portal() as portal:
        portal.run(plain, "a")  # type: ignore[arg-type]
        portal.run(len, "a")  # type: ignore[arg-type]
