"""``client.notifications``: every event, hot, in order, each observer on its own (D4)."""

from __future__ import annotations

import asyncio
import logging

import pytest
from reactivex import Observer
from reactivex import operators as ops

from arcp_client import Buffer, Client, Runtime, events
from arcp_client.errors import Unauthenticated
from arcp_client.events import Event
from arcp_client.rx import concat_map_async, stream
from tests.unit.client.conftest import Gates


def is_log(event: events.Event) -> bool:
    return isinstance(event, events.Log)


async def test_observers_get_every_event_in_order_and_then_the_end(runtime: Runtime) -> None:
    seen: list[object] = []
    async with Client(runtime) as client:
        client.notifications.pipe(ops.filter(is_log)).subscribe(
            lambda event: seen.append(event.message),  # type: ignore[attr-defined]
            on_completed=lambda: seen.append("end"),
        )
        await (await client.submit("say", ["a", "b"])).result()
    assert seen == ["a", "b", "end"]


async def test_an_observer_object_gets_every_event_and_then_the_end(runtime: Runtime) -> None:
    seen: list[str] = []
    observer: Observer[Event] = Observer(
        lambda event: seen.append(event.kind), on_completed=lambda: seen.append("end")
    )
    async with Client(runtime) as client:
        client.notifications.subscribe(observer)
        await (await client.submit("say", ["a"])).result()
    assert seen == ["log", "result", "end"]


async def test_an_observer_that_joins_during_a_batch_gets_the_rest_of_it(client: Client) -> None:
    late: list[int | None] = []

    def join(event: Event) -> None:
        if event.seq == 1:
            client.notifications.subscribe(lambda later: late.append(later.seq))

    client.notifications.subscribe(join)
    await (await client.submit("say", ["a", "b"])).result()
    assert late == [2, 3]


async def test_an_observer_may_cause_the_next_event(client: Client) -> None:
    """Its context is not in use then."""
    seen: list[int] = []
    notifications = client.notifications

    def again(event: Event) -> None:
        seen.append(len(seen))
        if len(seen) == 1:
            notifications.accept([event], 0.0)  # type: ignore[attr-defined]

    notifications.subscribe(again)
    await (await client.submit("say", [])).result()
    assert seen == [0, 1]


async def test_it_is_hot_and_a_late_observer_of_a_closed_client_gets_the_end(
    runtime: Runtime,
) -> None:
    seen: list[object] = []
    async with Client(runtime) as client:
        await (await client.submit("say", ["a"])).result()
        client.notifications.subscribe(seen.append)
    client.notifications.subscribe(seen.append, on_completed=lambda: seen.append("end"))
    assert seen == ["end"]


async def test_it_errors_when_the_client_failed_for_good() -> None:
    ends: list[object] = []
    async with Runtime(auth={"right": "me"}) as runtime:
        client = Client(runtime, token="wrong")
        client.notifications.subscribe(on_error=ends.append, on_completed=lambda: ends.append(0))
        with pytest.raises(Unauthenticated):
            await client.connect()
    [error] = ends
    assert isinstance(error, Unauthenticated)


async def test_an_observer_that_raises_at_the_end_is_logged_and_the_others_get_the_end(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    ends: list[int] = []

    def broken() -> None:
        raise ValueError("at the end")

    async with Client(runtime) as client:
        client.notifications.subscribe(on_completed=broken)
        client.notifications.subscribe(on_completed=lambda: ends.append(1))
    assert ends == [1]
    (record,) = (one for one in caplog.records if one.levelno == logging.ERROR)
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "at the end"


async def test_an_observer_that_raises_ends_only_itself(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[object] = []
    errors: list[Exception] = []

    def broken(event: events.Event) -> None:
        raise ValueError("observer")

    client.notifications.subscribe(broken, on_error=errors.append)
    client.notifications.subscribe(seen.append)
    assert (await (await client.submit("say", ["a", "b"])).result()).value == 2
    assert len(seen) >= 3
    assert [str(error) for error in errors] == ["observer"]
    assert any(record.levelno == logging.ERROR for record in caplog.records)


async def test_a_coroutine_function_is_refused(client: Client) -> None:
    async def observer(event: events.Event) -> None: ...

    with pytest.raises(TypeError, match="concat_map_async"):
        client.notifications.subscribe(observer)


async def test_a_disposed_observer_is_called_no_more(client: Client) -> None:
    seen: list[object] = []
    subscription = client.notifications.subscribe(seen.append)
    await (await client.submit("say", ["a"])).result()
    count = len(seen)
    subscription.dispose()
    await (await client.submit("say", ["b"])).result()
    assert len(seen) == count


async def test_what_an_operator_of_this_package_holds_counts_as_waiting(
    runtime: Runtime, gates: Gates
) -> None:
    """D4: the reader stops for it, and goes on."""
    seen: list[str] = []
    async with Client(runtime, buffer=Buffer(soft=8, hard=8)) as client:

        async def save(event: events.Event) -> None:
            await gates["save"].wait()
            seen.append(event.message)  # type: ignore[attr-defined]

        client.notifications.pipe(ops.filter(is_log), concat_map_async(save)).subscribe()
        job = await client.submit("say", [str(n) for n in range(500)])
        await client.ping()
        assert client.stats().queued > 0
        gates["save"].set()
        await job.result()
        await client.drain()
        assert seen == [str(n) for n in range(500)]
        assert client.stats().queued == 0


async def test_a_stream_over_it_says_it_is_done_by_asking_for_the_next(client: Client) -> None:
    lines: list[str] = []
    async with stream(client.notifications.pipe(ops.filter(is_log))) as logs:
        await (await client.submit("say", ["a", "b"])).result()
        async for event in logs:
            lines.append(event.message)  # type: ignore[attr-defined]
            if len(lines) == 2:
                break
        assert client.stats().queued == 1
    assert client.stats().queued == 0
    assert lines == ["a", "b"]


async def test_a_jobs_own_notifications_complete_with_its_end(client: Client, gates: Gates) -> None:
    seen: list[object] = []
    job = await client.submit("gated", "it")
    job.notifications.subscribe(seen.append, on_completed=lambda: seen.append("end"))
    await (await client.submit("say", ["other"])).result()
    gates["it"].set()
    await job.result()
    await asyncio.sleep(0)
    assert seen[-1] == "end"
    assert all(one.job_id == job.id for one in seen[:-1])  # type: ignore[attr-defined]


async def test_the_reader_calls_observers_and_operators_but_no_handlers_and_no_iterators(
    client: Client,
) -> None:
    """So observers and operators must not block, and handlers and iterators may."""
    tasks: dict[str, set[asyncio.Task[object] | None]] = {}

    def note(where: str) -> bool:
        tasks.setdefault(where, set()).add(asyncio.current_task())
        return True

    async def work(event: Event) -> None:
        note("concat_map_async")

    def observe(event: Event) -> None:
        note("observer")

    client.notifications.subscribe(observe)
    client.notifications.pipe(
        ops.filter(lambda event: note("operator")), concat_map_async(work)
    ).subscribe()

    @client.on(Event)
    async def handler(event: Event) -> None:
        note("handler")

    @client.on(Event)
    def plain_handler(event: Event) -> None:
        note("plain handler")

    job = await client.submit("say", ["a", "b"])
    async for _ in job:
        note("iterator")
    await client.drain()

    [reader] = tasks["observer"]
    assert tasks["operator"] == {reader}
    assert reader is not None
    assert "reader" in reader.get_name()
    assert tasks["iterator"] == {asyncio.current_task()}
    for where in ("handler", "plain handler", "concat_map_async"):
        assert tasks[where]
        assert reader not in tasks[where]
