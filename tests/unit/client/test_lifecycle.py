"""Connecting, states, and the three ways to leave (S9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from pydantic import SecretStr

from arcp_client import Client, Closed, Connecting, Job, Live, Runtime, Timeouts, events
from arcp_client.errors import (
    ClientClosed,
    ConnectFailed,
    HandlerFailed,
    LinkLost,
    LocalProtocolError,
    Unauthenticated,
)
from arcp_client.testing import ScriptedRuntime
from arcp_client.testing.scripted import Finish, Wait
from arcp_client.transports import WebSocketConnector
from tests.dialects import PLAYED
from tests.interop.rules import rule


async def test_a_client_is_live_inside_its_block_and_closed_after_it(runtime: Runtime) -> None:
    client = Client(runtime)
    assert client.state == Connecting(0)
    async with client:
        assert client.state == Live(resumed=False)
        assert client.session.runtime.name == "unit"
        assert "heartbeat" in client.session.features
        assert not client.resumed
    assert client.state == Closed(None)


async def test_states_replay_the_present_one_and_complete_at_the_end(runtime: Runtime) -> None:
    client = Client(runtime)
    seen: list[object] = []
    client.states.subscribe(seen.append, on_completed=lambda: seen.append("end"))
    async with client:
        late: list[object] = []
        client.states.subscribe(late.append)
        assert late == [Live(resumed=False)]
    assert seen == [Connecting(0), Connecting(1), Live(False), Closed(None), "end"]


async def test_a_state_hook_may_use_the_client(runtime: Runtime) -> None:
    client = Client(runtime)
    answers: list[float] = []
    answered = asyncio.Event()

    @client.on_state
    async def changed(state: object) -> None:
        if isinstance(state, Live):
            answers.append(await client.ping())
            answered.set()

    async with client:
        await answered.wait()
    assert answers[0] >= 0


async def test_what_needs_a_session_says_so_before_connect(runtime: Runtime) -> None:
    client = Client(runtime)
    with pytest.raises(LocalProtocolError, match="connect"):
        await client.submit("echo")
    with pytest.raises(LocalProtocolError, match="connect"):
        _ = client.session
    with pytest.raises(LocalProtocolError, match="connect"):
        await client.connected()


async def test_a_closed_client_refuses_everything_and_connects_no_more(runtime: Runtime) -> None:
    client = Client(runtime)
    async with client:
        pass
    for call in (client.connect, client.ping, lambda: client.submit("echo"), client.connected):
        with pytest.raises(ClientClosed):
            await call()


async def test_closing_twice_and_from_many_tasks_is_harmless(runtime: Runtime) -> None:
    client = Client(runtime)
    await client.connect()
    await asyncio.gather(client.close(), client.close(), client.detach(), client.close())
    await client.close()
    assert client.state == Closed(None)


async def test_a_client_that_was_never_connected_can_be_closed(runtime: Runtime) -> None:
    client = Client(runtime)
    await client.close()
    assert client.state == Closed(None)
    with pytest.raises(ClientClosed):
        await client.connect()


async def test_close_ends_the_session_and_leaves_the_jobs_running(runtime: Runtime) -> None:
    async with Client(runtime) as client:
        job = await client.submit("stuck")
    async with Client(runtime) as other:
        statuses = {summary.job_id: summary.status async for summary in other.jobs()}
    assert statuses[job.id] == "running"


async def test_a_waiter_for_a_result_gets_client_closed_when_the_client_is_closed(
    runtime: Runtime,
) -> None:
    async with Client(runtime) as client:
        job = await client.submit("stuck")
        waiting = asyncio.ensure_future(job.result())
        await asyncio.sleep(0)
    with pytest.raises(ClientClosed):
        await waiting
    with pytest.raises(ClientClosed):
        await job.result()


async def test_an_iterator_ends_with_client_closed_and_never_quietly(runtime: Runtime) -> None:
    seen: list[str] = []
    async with Client(runtime) as client:
        job = await client.submit("stuck")
        of_job, of_session = aiter(job), client.events()
        seen.append((await anext(of_job)).kind)
    for iterator in (of_job, of_session):
        with pytest.raises(ClientClosed):
            while True:
                await anext(iterator)
    assert seen == ["status"]


async def test_close_inside_a_handler_works_and_that_handler_runs_to_its_end(
    runtime: Runtime,
) -> None:
    client = Client(runtime)
    ended = asyncio.Event()

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        await client.close()
        await asyncio.sleep(0)
        ended.set()

    await client.connect()
    await client.submit("say", ["one"])
    await ended.wait()
    assert client.state == Closed(None)


async def test_closing_another_client_inside_a_handler_leaves_that_handler_registered(
    client: Client, runtime: Runtime
) -> None:
    handled: list[str] = []
    other = Client(runtime)
    await other.connect()

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        await other.close()
        handled.append(event.message)

    job = await client.submit("say", ["a", "b"])
    await job.result()
    assert handled == ["a", "b"]


async def test_close_waits_for_handlers_within_its_bound_only(runtime: Runtime) -> None:
    client = Client(runtime)
    started = asyncio.Event()

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        started.set()
        await asyncio.Event().wait()

    await client.connect()
    await client.submit("say", ["one"])
    await started.wait()
    await client.close(timeout=0.05)
    assert client.state == Closed(None)


async def test_close_lets_handlers_finish_what_arrived(runtime: Runtime) -> None:
    handled: list[str] = []
    async with Client(runtime) as client:

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            await asyncio.sleep(0.001)
            handled.append(event.message)

        job = await client.submit("say", [str(n) for n in range(20)])
        async for _ in job:
            pass
    assert handled == [str(n) for n in range(20)]


async def test_an_exception_in_the_block_passes_through_and_nothing_waits(
    runtime: Runtime,
) -> None:
    client = Client(runtime)
    with pytest.raises(KeyError):
        async with client:

            @client.on(events.Log)
            async def handle(event: events.Log) -> None:
                await asyncio.Event().wait()

            await client.submit("say", ["one"])
            raise KeyError("user")
    assert isinstance(client.state, Closed)


async def test_drain_waits_for_the_handlers_of_what_arrived(client: Client) -> None:
    handled: list[str] = []
    gate = asyncio.Event()

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        await gate.wait()
        handled.append(event.message)

    job = await client.submit("say", ["a", "b"])
    async for _ in job:
        pass
    with pytest.raises(TimeoutError):
        await client.drain(timeout=0.01)
    gate.set()
    await client.drain()
    assert handled == ["a", "b"]


async def test_a_handler_registered_with_stop_closes_the_client_when_it_fails(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(runtime)

    @client.on(events.Log, on_error="stop")
    async def handle(event: events.Log) -> None:
        raise RuntimeError("broken")

    await client.connect()
    job = await client.submit("say", ["one"])
    with pytest.raises(HandlerFailed):
        await job.result()
        await client.connected()
    assert isinstance(client.state, Closed)
    assert isinstance(client.state.cause, HandlerFailed)
    assert isinstance(client.state.cause.__cause__, RuntimeError)


async def test_result_raises_when_a_handler_of_an_earlier_event_stopped_the_client(
    runtime: Runtime,
) -> None:
    """D9: the job succeeded, and the handlers of its events did not run to the end."""
    failing = asyncio.Event()
    handled: list[str] = []
    client = Client(runtime)

    @client.on(events.Log, on_error="stop")
    async def handle(event: events.Log) -> None:
        await failing.wait()
        handled.append(event.message)
        raise RuntimeError("broken")

    async with client:
        job = await client.submit("say", ["one", "two"])
        async for event in job:
            if isinstance(event, events.Completed):
                break
        waiting = asyncio.create_task(job.result())
        await asyncio.sleep(0)
        failing.set()
        for attempt in (waiting, job.result()):
            with pytest.raises(HandlerFailed) as caught:
                await attempt
            assert isinstance(caught.value.__cause__, RuntimeError)
        assert isinstance(client.state, Closed)
    assert handled == ["one"]


# -- authentication and failure to connect


async def test_a_refused_token_is_permanent() -> None:
    async with Runtime(auth={"right": "alice"}) as runtime:
        with pytest.raises(Unauthenticated):
            await Client(runtime, token="wrong").connect()
        async with Client(runtime, token=SecretStr("right")) as client:
            assert isinstance(client.state, Live)


async def test_a_token_provider_is_asked_once_more_after_a_refusal() -> None:
    async with Runtime(auth={"right": "alice"}) as runtime:
        tokens = iter(["stale", "right"])

        async def provide() -> str:
            return next(tokens)

        async with Client(runtime, token=provide) as client:
            assert isinstance(client.state, Live)

        asked = 0

        def same() -> str:
            nonlocal asked
            asked += 1
            return "stale"

        with pytest.raises(Unauthenticated):
            await Client(runtime, token=same).connect()
        assert asked == 2


async def test_a_token_provider_that_raises_gives_connect_failed_without_its_text() -> None:
    async with Runtime() as runtime:

        def broken() -> str:
            raise RuntimeError("secret-in-text")

        client = Client(runtime, token=broken, timeouts=Timeouts(open=0.05))
        with pytest.raises(ConnectFailed) as caught:
            await client.connect()
        assert "RuntimeError" in str(caught.value)
        assert "secret-in-text" not in str(caught.value)


async def test_nobody_listening_gives_connect_failed_naming_the_last_cause() -> None:
    client = Client(
        WebSocketConnector("ws://127.0.0.1:1/arcp"), timeouts=Timeouts(open=0.2, connect=0.1)
    )
    with pytest.raises(ConnectFailed, match=r"127\.0\.0\.1:1") as caught:
        await client.connect()
    assert caught.value.attempts >= 1
    assert isinstance(client.state, Closed)


async def test_cancelling_connect_leaves_a_client_that_can_be_closed(runtime: Runtime) -> None:
    client = Client(WebSocketConnector("ws://127.0.0.1:1/arcp"))
    connecting = asyncio.ensure_future(client.connect())
    await asyncio.sleep(0)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    await client.close()
    assert client.state == Closed(None)


async def test_waiters_are_told_when_the_tasks_of_the_client_are_cancelled(
    runtime: Runtime,
) -> None:
    client = Client(runtime)
    await client.connect()
    job = await client.submit("stuck")
    for task in asyncio.all_tasks():
        if task.get_name() == "arcp_client:reconnect":
            task.cancel()
    with pytest.raises(LinkLost, match="cancelled from outside"):
        await asyncio.wait_for(job.result(), 5.0)
    assert isinstance(client.state, Closed)
    await client.close()


WAITS: dict[str, Callable[[Client, Job], Awaitable[Any]]] = {
    "connect": lambda client, _: client.connect(),
    "connected": lambda client, _: client.connected(),
    "close": lambda client, _: client.close(),
    "detach": lambda client, _: client.detach(),
    "drain": lambda client, _: client.drain(),
    "ping": lambda client, _: client.ping(),
    "submit": lambda client, _: client.submit("echo"),
    "watch": lambda client, _: client.watch("job_other"),
    "jobs": lambda client, _: anext(client.jobs()),
    "events": lambda client, _: anext(client.events()),
    "cancel_job": lambda client, job: client.cancel_job(job.id),
    "job.cancel": lambda _, job: job.cancel(),
    "job.result": lambda _, job: job.result(),
    "job.chunks": lambda _, job: anext(job.chunks()),
    "job.save": lambda _, job: job.save("/nonexistent/result"),
    "job.events": lambda _, job: anext(job.events()),
    "async for": lambda _, job: anext(aiter(job)),
}
CALLS: dict[str, Callable[[Client, Job], Any]] = {
    "on": lambda client, _: client.on()(print),
    "subscribe": lambda client, _: client.subscribe(print),
    "events": lambda client, _: client.events(),
    "notifications": lambda client, _: client.notifications.subscribe(),
    "stats": lambda client, _: client.stats(),
    "job.events": lambda _, job: job.events(),
    "job.notifications": lambda _, job: job.notifications.subscribe(),
}


@pytest.mark.parametrize("call", WAITS.values(), ids=WAITS)
async def test_a_wait_in_the_loop_of_another_thread_is_refused(
    client: Client, call: Callable[[Client, Job], Awaitable[Any]]
) -> None:
    job = await client.submit("stuck")

    async def wait() -> None:
        async with asyncio.timeout(5.0):
            await call(client, job)

    with pytest.raises(LocalProtocolError, match="another event loop.*run_coroutine_threadsafe"):
        await asyncio.to_thread(asyncio.run, wait())
    assert isinstance(client.state, Live)
    await client.ping()


async def test_an_iterator_goes_on_in_the_loop_of_its_client_only(client: Client) -> None:
    iterator = client.events()
    job = await client.submit("say", ["a"])
    await job.result()
    with pytest.raises(LocalProtocolError, match="another event loop"):
        await asyncio.to_thread(asyncio.run, _next_of(iterator))
    first = await asyncio.wait_for(anext(iterator), 5.0)
    assert first.seq == 1


async def _next_of(iterator: AsyncIterator[events.Event]) -> events.Event:
    return await anext(iterator)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_call_in_another_thread_is_refused(
    client: Client, call: Callable[[Client, Job], Any]
) -> None:
    job = await client.submit("stuck")
    with pytest.raises(LocalProtocolError, match="another event loop"):
        await asyncio.to_thread(call, client, job)
    await client.ping()


async def test_a_registration_is_not_disposed_of_in_another_thread(client: Client) -> None:
    seen: list[events.Event] = []
    registration = client.subscribe(seen.append, events.Log)
    with pytest.raises(LocalProtocolError, match="another event loop"):
        await asyncio.to_thread(registration.dispose)
    await (await client.submit("say", ["a"])).result()
    assert len(seen) == 1
    registration.dispose()


def test_between_two_runs_of_its_loop_a_client_takes_calls() -> None:
    client, seen = Client(Runtime()), []
    with asyncio.Runner() as runner:
        runner.run(client.connect())
        client.subscribe(seen.append)
        assert client.stats().received == 0
        runner.run(client.close())


@pytest.mark.parametrize("closes", [True, False])
def test_in_a_second_loop_a_client_says_that_it_is_over(closes: bool) -> None:
    client = Client(Runtime())

    async def once() -> None:
        await client.connect()
        if closes:
            await client.close()

    asyncio.run(once())
    with pytest.raises(
        ClientClosed, match="was closed" if closes else "loop of the client has ended"
    ):
        asyncio.run(once())
    asyncio.run(client.close())
    assert isinstance(client.state, Closed)


@pytest.mark.parametrize(
    "arguments",
    [{"handler_timeout": 0}, {"handler_timeout": -1}, {"dialect": "klingon"}],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="handler_timeout|dialect"):
        Client("ws://127.0.0.1:1/arcp", **arguments)  # type: ignore[arg-type]


def test_a_target_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="target"):
        Client(42)  # type: ignore[arg-type]


# ------------------------------------------------------------------ jobs that end with a session


@rule("typescript: running jobs")
@rule("note-9")
@pytest.mark.parametrize("leave", ["close", "detach"])
@pytest.mark.parametrize("dialect", PLAYED)
async def test_s21_who_leaves_is_told_which_open_jobs_end_with_the_session(
    dialect: str, leave: str, caplog: pytest.LogCaptureFixture
) -> None:
    agents = {"gated": [Wait("never")], "short": [Finish()]}
    async with ScriptedRuntime(dialect, agents=agents) as runtime:
        client = Client(runtime, token="t", timeouts=Timeouts(close=0.5))
        await client.connect()
        await (await client.submit("short")).result()
        job = await client.submit("gated")
        assert client.session.jobs_run_on is (dialect != "typescript")
        await getattr(client, leave)()
        said = [r.getMessage() for r in caplog.records if "end with this session" in r.getMessage()]
        assert len(said) == (dialect == "typescript")
        assert all(text.startswith("1 open jobs") and job.id in text for text in said)


async def test_s21_without_open_jobs_there_is_nothing_to_tell(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        ScriptedRuntime("typescript", agents={"short": [Finish()]}) as runtime,
        Client(runtime, token="t") as client,
    ):
        await (await client.submit("short")).result()
    assert caplog.records == []
