"""What user code raises fails its own call; functions whose body would never run are refused.

Rules D15 and D16, wherever users hand functions in.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from arcp_client import Client, Runtime, events
from arcp_client._arguments import a_function
from arcp_client.acp import AcpClient, updates
from arcp_client.errors import (
    ArcpError,
    ConnectFailed,
    HandlerError,
    JobFailed,
    LinkLost,
    RequestError,
)
from arcp_client.policy import Reconnect, Timeouts
from arcp_client.runtime import JobContext, Limits, SqliteEventLog
from arcp_client.rx import EventChannel, concat_map_async, concat_map_async_by


class PanicException(BaseException):
    """As exceptions of foreign runtimes derive from BaseException."""


RAISED: dict[str, Callable[[], BaseException]] = {
    "PanicException": PanicException,
    "BaseExceptionGroup": lambda: BaseExceptionGroup("several", [PanicException(), ValueError()]),
    "GeneratorExit": GeneratorExit,
    "SystemExit": lambda: SystemExit(2),
}
raised = pytest.mark.parametrize("name", RAISED)


def raising(name: str) -> Callable[..., Any]:
    async def function(*_: Any) -> Any:
        raise RAISED[name]()

    return function


def raising_at_once(name: str) -> Callable[..., Any]:
    def function(*_: Any) -> Any:
        raise RAISED[name]()

    return function


# -- D15: agents


@raised
@pytest.mark.parametrize("make", [raising, raising_at_once])
async def test_an_agent_that_raises_a_base_exception_fails_its_job_by_name(
    name: str, make: Callable[[str], Any]
) -> None:
    runtime = Runtime(limits=Limits(max_concurrent_jobs=1))
    runtime.agent("breaks")(make(name))

    @runtime.agent("works")
    async def works(value: Any, job: JobContext) -> Any:
        return value

    async with runtime, Client(runtime) as client:
        job = await client.submit("breaks")
        with pytest.raises(JobFailed, match=name) as caught:
            await job.result()
        assert caught.value.code == "INTERNAL_ERROR"
        # Its slot is free, and the runtime goes on.
        assert (await (await client.submit("works", 1)).result()).value == 1


@raised
async def test_a_stream_of_chunks_that_raises_a_base_exception_fails_its_job(name: str) -> None:
    runtime = Runtime()

    @runtime.agent("breaks")
    async def breaks(_: Any, job: JobContext) -> AsyncIterator[str]:
        yield "one"
        raise RAISED[name]()

    async with runtime, Client(runtime) as client:
        with pytest.raises(JobFailed, match=name):
            await (await client.submit("breaks")).result()


@raised
async def test_an_authenticator_that_raises_a_base_exception_refuses(name: str) -> None:
    async with Runtime(auth=raising(name)) as runtime:
        client = Client(runtime, token="secret", timeouts=Timeouts(open=0.3))
        with pytest.raises(ArcpError):
            await client.connect()
        await client.close()


@raised
async def test_a_provisioner_that_raises_a_base_exception_refuses_the_job(
    name: str, tmp_path: Path
) -> None:
    class Provisions:
        async def issue(self, wanted: Any) -> Any:
            raise RAISED[name]()

        async def revoke(self, job_id: str, credential_id: str) -> None:
            """Nothing was issued."""

    log = SqliteEventLog(tmp_path / "runtime.db")  # credentials need one that is durable
    runtime = Runtime(provisioner=Provisions(), event_log=log)
    runtime.agent("works")(raising(name))
    async with runtime, Client(runtime) as client:
        with pytest.raises(RequestError, match="no credentials"):
            await client.submit("works")


@raised
async def test_a_policy_that_raises_a_base_exception_opens_nothing(name: str) -> None:
    runtime = Runtime(auth={"a": "anna", "b": "bert"}, policy=raising_at_once(name))

    @runtime.agent("works")
    async def works(value: Any, job: JobContext) -> Any:
        return value

    async with runtime, Client(runtime, token="a") as anna, Client(runtime, token="b") as bert:
        job = await anna.submit("works", 1)
        with pytest.raises(RequestError):
            await bert.watch(job.id)
        assert (await job.result()).value == 1


# -- D15: the client


@raised
async def test_handlers_and_hooks_that_raise_base_exceptions_are_told_and_the_client_goes_on(
    name: str,
) -> None:
    runtime = Runtime()

    @runtime.agent("speaks")
    async def speaks(_: Any, job: JobContext) -> str:
        await job.log("one")
        await job.log("two")
        return "done"

    told: list[HandlerError] = []
    seen: list[str] = []
    client = Client(runtime)
    client.on_state(raising(name))
    client.on_error(raising(name))
    client.on_error(told.append)
    client.subscribe(raising(name), events.Log, on_error=raising_at_once(name))
    client.subscribe(raising(name), events.Log)

    @client.on(events.Log)
    async def note(event: events.Log) -> None:
        seen.append(event.message)

    async with runtime, client:
        assert (await (await client.submit("speaks")).result()).value == "done"
        await client.drain()
        assert seen == ["one", "two"]
    assert {type(error.__cause__.__cause__ or error.__cause__).__name__ for error in told} >= {name}


@raised
@pytest.mark.parametrize("make", [raising, raising_at_once])
async def test_a_token_provider_that_raises_a_base_exception_has_failed(
    name: str, make: Callable[[str], Any]
) -> None:
    async with Runtime() as runtime:
        client = Client(runtime, token=make(name), timeouts=Timeouts(open=0.3))
        with pytest.raises(ConnectFailed, match=name):
            await client.connect()
        await client.close()


@raised
async def test_a_reconnect_policy_that_raises_a_base_exception_ends_the_client(name: str) -> None:
    class Refuses:
        target = "nowhere"

        async def connect(self) -> Any:
            raise ConnectFailed("refused")

    client = Client(Refuses(), reconnect=Reconnect(classify=raising_at_once(name)))
    with pytest.raises(LinkLost, match=name):
        await client.connect()
    await client.close()


# -- D16


async def streams(_: Any) -> AsyncIterator[int]:
    yield 1


def generates(_: Any) -> Iterator[int]:
    yield 1


class Streams:
    async def __call__(self, _: Any) -> AsyncIterator[int]:
        yield 1

    def generates(self, _: Any) -> Iterator[int]:
        yield 1


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def drained(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def wrapper(*args: Any) -> None:
        async for _ in function(*args):
            pass

    return wrapper


NEVER_RUN = {
    "async generator": streams,
    "generator": generates,
    "partial": functools.partial(functools.partial(streams)),
    "callable object": Streams(),
    "method": Streams().generates,
    "partial of a callable object": functools.partial(Streams()),
    "decorated": decorated(streams),
    "decorated twice": decorated(decorated(generates)),
}


def client() -> Client:
    return Client(Runtime())


def acp() -> AcpClient:
    return AcpClient(["agent"])


ENTRY_POINTS: dict[str, Callable[[Any], object]] = {
    "client.on": lambda function: client().on(events.Log)(function),
    "client.subscribe": lambda function: client().subscribe(function, events.Log),
    "a handler's on_error": lambda function: client().subscribe(
        print, events.Log, on_error=function
    ),
    "client.on_error": lambda function: client().on_error(function),
    "client.on_state": lambda function: client().on_state(function),
    "client.on_slow": lambda function: client().on_slow(function),
    "client.notifications": lambda function: client().notifications.subscribe(function),
    "token": lambda function: Client(Runtime(), token=function),
    "classify": lambda function: Reconnect(classify=function),
    "concat_map_async": concat_map_async,
    "concat_map_async on_error": lambda function: concat_map_async(print, on_error=function),
    "concat_map_async_by": lambda function: concat_map_async_by(lambda _: 1, function),
    "the key of concat_map_async_by": lambda function: concat_map_async_by(function, print),
    "the key of a channel": lambda function: EventChannel(overflow="coalesce", key=function),
    "acp on": lambda function: acp().on(updates.Update)(function),
    "acp subscribe": lambda function: acp().subscribe(function, updates.Update),
    "acp on_permission": lambda function: AcpClient(["agent"], on_permission=function),
    "acp on_elicitation": lambda function: AcpClient(["agent"], on_elicitation=function),
    "acp on_error": lambda function: acp().on_error(function),
    "acp on_closed": lambda function: acp().on_closed(function),
    "acp on_strange": lambda function: acp().on_strange(function),
    "acp on_request": lambda function: acp().on_request("_vendor/ask")(function),
    "acp on_notification": lambda function: acp().on_notification("_vendor/told")(function),
    "auth": lambda function: Runtime(auth=function),
    "policy": lambda function: Runtime(policy=function),
}


@pytest.mark.parametrize("kind", NEVER_RUN)
@pytest.mark.parametrize("entry", ENTRY_POINTS)
async def test_a_function_whose_body_would_never_run_is_refused(entry: str, kind: str) -> None:
    with pytest.raises(TypeError, match="generator function, whose body would never run"):
        ENTRY_POINTS[entry](NEVER_RUN[kind])


@pytest.mark.parametrize("entry", ["acp on_error", "acp on_closed", "policy", "classify"])
def test_where_nothing_awaits_a_coroutine_function_is_refused(entry: str) -> None:
    with pytest.raises(TypeError, match="is not awaited"):
        ENTRY_POINTS[entry](raising("SystemExit"))


def test_an_agent_may_be_an_async_generator_and_no_generator() -> None:
    runtime = Runtime()
    runtime.agent("streams")(streams)
    with pytest.raises(TypeError, match="a generator function"):
        runtime.agent("generates")(generates)


@pytest.mark.parametrize(
    "function",
    [
        print,
        len,
        lambda _: None,
        drained(streams),
        decorated(print),
        Streams,
        raising("SystemExit"),
    ],
)
def test_functions_that_run_are_taken(function: Any) -> None:
    a_function("a handler", function)
