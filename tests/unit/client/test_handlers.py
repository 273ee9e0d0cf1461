"""Handlers of a client: registering, failing, taking too long, falling behind."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from arcp_client import Client, Credential, Order, Registration, Runtime, SqliteEventLog, events
from arcp_client.errors import HandlerError
from tests.loops import LOOP
from tests.unit.client.conftest import Gates


async def test_on_gives_the_function_back_unchanged(client: Client) -> None:
    async def handle(event: events.Log) -> None: ...

    assert client.on(events.Log)(handle) is handle


async def test_on_without_parentheses_is_a_mistake_and_says_so(client: Client) -> None:
    with pytest.raises(TypeError, match="parentheses"):
        client.on(lambda event: None)  # type: ignore[call-overload]


@pytest.mark.parametrize("kind", ["log", "", 3, int, None])
async def test_a_kind_is_an_event_class_or_the_name_of_a_vendors(
    client: Client, kind: object
) -> None:
    for register in (client.on, client.events):
        with pytest.raises(TypeError):
            register(kind)  # type: ignore[operator]
    with pytest.raises(TypeError):
        client.subscribe(print, kind)  # type: ignore[call-overload]


async def test_a_handler_is_callable_and_on_error_one_of_three(client: Client) -> None:
    with pytest.raises(TypeError, match="handler"):
        client.subscribe(3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="on_error"):
        client.on(on_error="ignore")(print)  # type: ignore[call-overload]


async def test_a_handler_of_one_job_sees_that_job_only(client: Client) -> None:
    seen: list[str] = []
    first = await client.submit("gated", "first")
    client.subscribe(lambda event: seen.append(event.message), events.Log, job=first)
    second = await client.submit("say", ["x", "y"])
    await second.result()
    assert seen in ([], ["before"])
    await first.cancel()


async def test_a_disposed_registration_is_called_no_more(client: Client) -> None:
    seen: list[str] = []
    registration = client.subscribe(lambda event: seen.append(event.message), events.Log)
    await (await client.submit("say", ["a"])).result()
    registration.dispose()
    await (await client.submit("say", ["b"])).result()
    assert seen == ["a"]


async def test_a_handler_may_dispose_its_own_registration_and_runs_to_its_end(
    client: Client,
) -> None:
    seen: list[str] = []

    async def handle(event: events.Log) -> None:
        registration.dispose()
        await asyncio.sleep(0)
        seen.append(event.message)

    registration = client.subscribe(handle, events.Log, barrier=False)
    await (await client.submit("say", ["a", "b"])).result()
    await client.drain()
    await asyncio.sleep(0)
    assert seen == ["a"]


async def test_a_handler_may_register_and_dispose_others(client: Client) -> None:
    seen: list[tuple[str, str]] = []
    others: list[Registration] = []

    def other(event: events.Log) -> None:
        seen.append(("other", event.message))

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        seen.append(("first", event.message))
        if event.message == "on":
            others.append(client.subscribe(other, events.Log))
        if event.message == "off":
            others.pop().dispose()

    for line in ("on", "between", "off", "after"):
        await (await client.submit("say", [line])).result()
    assert [line for who, line in seen if who == "first"] == ["on", "between", "off", "after"]
    assert ("other", "between") in seen
    assert ("other", "after") not in seen


async def test_failures_go_to_the_hooks_with_the_event_and_the_cause(client: Client) -> None:
    failures: list[HandlerError] = []

    @client.on_error
    async def hook(failure: HandlerError) -> None:
        failures.append(failure)

    @client.on(events.Log)
    def broken(event: events.Log) -> None:
        raise ValueError(event.message)

    await (await client.submit("say", ["a", "b"])).result()
    async with asyncio.timeout(5.0):
        while len(failures) < 2:
            await asyncio.sleep(0)
    assert [str(failure.__cause__) for failure in failures] == ["a", "b"]
    assert [failure.event.message for failure in failures] == ["a", "b"]
    assert "broken" in (failures[0].handler or "")


@pytest.mark.parametrize("order", Order)
async def test_a_base_exception_leaves_nobody_waiting(client: Client, order: Order) -> None:
    failures: list[HandlerError] = []
    client.on_error(failures.append)
    seen: list[str] = []

    class Outcome(BaseException):
        pass

    @client.on(events.Log, order=order)
    async def handle(event: events.Log) -> None:
        if event.message == "b":
            raise Outcome
        seen.append(event.message)

    job = await client.submit("say", ["a", "b", "c"])
    assert (await asyncio.wait_for(job.result(), 5.0)).value == 3
    assert seen == ["a", "c"]
    async with asyncio.timeout(5.0):  # an error may be reported after the result is there
        while not failures:
            await asyncio.sleep(0)
    assert [failure.event.message for failure in failures] == ["b"]


async def raises(_event: events.Log) -> None:
    raise ValueError("oh")


async def is_slow(_event: events.Log) -> None:
    await asyncio.get_running_loop().create_future()


async def cancels_itself(_event: events.Log) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def leaves(_event: events.Log) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("wrap", [lambda handler: handler, partial], ids=["plain", "partial"])
@pytest.mark.parametrize("handler", [raises, is_slow, cancels_itself, leaves])
@pytest.mark.parametrize("order", Order)
async def test_a_failure_names_the_handler_however_it_failed(
    runtime: Runtime,
    caplog: pytest.LogCaptureFixture,
    order: Order,
    handler: Callable[[Any], Any],
    wrap: Callable[[Any], Any],
) -> None:
    failures: list[HandlerError] = []
    async with Client(runtime, order=order, handler_timeout=0.01) as client:
        client.on_error(failures.append)
        client.subscribe(wrap(handler), events.Log)
        await (await client.submit("say", ["a"])).result()
        await client.drain()
        await asyncio.sleep(0)
    [failure] = failures
    assert failure.handler == handler.__qualname__
    told = [str(failure), str(failure.__cause__), *caplog.messages]
    assert handler.__qualname__ in told[0]
    assert not any("lane" in text or "partial" in text for text in told)


async def test_failures_without_a_hook_are_logged(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    @client.on(events.Log)
    async def broken(event: events.Log) -> None:
        raise ValueError("oh")

    await (await client.submit("say", ["a"])).result()
    assert any("broken" in message for message in caplog.messages)
    assert caplog.records[0].levelno == logging.ERROR


async def test_an_on_error_of_its_own_is_awaited_before_the_next_event(client: Client) -> None:
    steps: list[str] = []

    async def on_error(event: events.Log, error: Exception) -> None:
        await asyncio.sleep(0.001)
        steps.append(f"error {error}")

    @client.on(events.Log, on_error=on_error)
    async def broken(event: events.Log) -> None:
        steps.append(event.message)
        raise ValueError(event.message)

    await (await client.submit("say", ["a", "b"])).result()
    assert steps == ["a", "error a", "b", "error b"]


@pytest.mark.parametrize("order", list(Order))
async def test_handler_timeout_cancels_one_call_and_the_next_one_follows(
    runtime: Runtime, order: Order
) -> None:
    failures: list[HandlerError] = []
    seen: list[str] = []
    async with Client(runtime, order=order, handler_timeout=0.01) as client:
        client.on_error(failures.append)

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            if event.message == "stuck":
                await asyncio.get_running_loop().create_future()
            seen.append(event.message)

        await (await client.submit("say", ["stuck", "a", "b"])).result()
        await asyncio.sleep(0)
    assert seen == ["a", "b"]
    [failure] = failures
    assert isinstance(failure.__cause__, TimeoutError)


async def test_the_last_call_of_a_lane_can_time_out_long_after_the_traffic_has_ended(
    runtime: Runtime,
) -> None:
    failures: list[HandlerError] = []
    async with Client(runtime, handler_timeout=0.02) as client:
        client.on_error(failures.append)

        @client.on(events.Completed)
        async def handle(event: events.Completed) -> None:
            await asyncio.get_running_loop().create_future()

        await (await client.submit("echo", 1)).result()
        await client.drain()
        await asyncio.sleep(0)
        assert len(failures) == 1
        assert client.stats().queued == 0


async def test_stats_count_what_came_and_what_is_done(client: Client, gates: Gates) -> None:
    started = asyncio.Event()

    @client.on(events.Log, barrier=False)
    async def handle(event: events.Log) -> None:
        started.set()
        await gates["handler"].wait()

    job = await client.submit("say", ["a", "b"])
    await job.result()
    await started.wait()
    stats = client.stats()
    assert stats.received >= 3
    assert stats.processed == stats.received - 2
    assert stats.queued == 2
    assert stats.lag > 0 or LOOP == "uvloop"  # its clock has milliseconds
    assert (stats.spilled, stats.repeated, stats.gaps, stats.reconnects) == (0, 0, 0, 0)
    assert stats.last_message is not None
    assert stats.last_disconnect is None
    gates["handler"].set()
    await client.drain()
    stats = client.stats()
    assert stats.processed == stats.received
    assert (stats.queued, stats.lag) == (0, 0.0)


def test_stats_before_the_first_link_are_zero() -> None:
    stats = Client("ws://127.0.0.1:9/arcp").stats()
    assert (stats.received, stats.queued, stats.last_message) == (0, 0, None)


async def test_on_slow_takes_a_function_and_gives_it_back(client: Client) -> None:
    def hook(registration: Registration, lag: int, seconds: float) -> None: ...

    assert client.on_slow(hook) is hook
    with pytest.raises(TypeError):
        client.on_slow(3)  # type: ignore[arg-type]


class Gateway:
    """Issues one credential a job."""

    async def issue(self, wanted: object) -> list[Credential]:
        return [Credential(id="cred_1", value=SecretStr("old"))]

    async def revoke(self, job_id: str, credential_id: str) -> None: ...


async def test_a_rotated_credential_moves_into_the_job_and_is_masked_in_the_event(
    tmp_path: Path,
) -> None:
    """D14."""
    statuses: list[events.Status] = []
    gate = asyncio.Event()
    async with Runtime(
        provisioner=Gateway(),
        event_log=SqliteEventLog(tmp_path / "runtime.db"),  # only it may hold credentials
        auth={"t": "me"},
        policy=lambda wish: True,
    ) as runtime:

        @runtime.agent("gated")
        async def gated(input: object, job: object) -> None:
            await gate.wait()

        async with Client(runtime, token="t") as client:
            client.subscribe(statuses.append, events.Status)
            job = await client.submit("gated", lease={"model.use": ["gpt-*"]})
            assert job.credentials["cred_1"].value.get_secret_value() == "old"
            runtime.rotate(job.id, Credential(id="cred_1", value=SecretStr("s3cret")))
            gate.set()
            await job.result()
            assert job.credentials["cred_1"].value.get_secret_value() == "s3cret"
    [status] = [one for one in statuses if one.phase == "credential_rotated"]
    for text in (repr(status), str(status.raw), str(status.to_dict())):
        assert "s3cret" not in text
