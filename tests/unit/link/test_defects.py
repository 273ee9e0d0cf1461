"""A defect of this package ends the client and is logged; what a transport raises loses a link."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from arcp_client import Client, Runtime
from arcp_client._dispatch.jobstreams import JobStreams
from arcp_client._link.ingress import Ingress
from arcp_client._link.reconnect import ReconnectManager
from arcp_client._protocol.session import Session
from arcp_client.errors import ClientClosed
from arcp_client.runtime import JobContext
from arcp_client.state import Closed, Live
from arcp_client.testing import VirtualClock
from arcp_client.transports.base import Transport
from tests.unit.link.line import Line


class Defect(Exception):
    """Neither a LinkLost nor a ValueError, as the errors of an old msgspec were."""


def breaks(*_: Any, **__: Any) -> Any:
    raise Defect


def a_runtime() -> Runtime:
    runtime = Runtime(heartbeat_interval=1.0)

    @runtime.agent("echo")
    async def echo(value: Any, job: JobContext) -> Any:
        return value

    return runtime


PLACES: list[tuple[type, str]] = [
    (Session, "receive"),
    (Session, "tick"),
    (JobStreams, "accept"),
    (Ingress, "next_wait"),
    (ReconnectManager, "opened"),
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place[0].__name__}.{place[1]}")
async def test_a_defect_ends_the_client_once_and_is_logged_with_its_traceback(
    place: tuple[type, str],
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_runtime() as runtime:
        line = Line(runtime)
        client = Client(line)
        if place[1] != "opened":
            await client.connect()
            job = await client.submit("echo", 1)
        monkeypatch.setattr(*place, breaks)
        with pytest.raises(ClientClosed, match="a defect of arcp-client ended the client: Defect"):
            if place[1] == "opened":
                await client.connect()
            else:
                for _ in range(200):  # the reader looks up after many frames only
                    await client.ping()
                await clock.advance(10.0)
                await client.submit("echo", 2)
                await job.result()
                await client.ping()
        monkeypatch.undo()
        assert isinstance(client.state, Closed)
        assert len(line.attempts) == 1
        logged = [r for r in caplog.records if r.exc_info and r.exc_info[0] is Defect]
        assert logged
        assert "please report it" in logged[0].getMessage()
        await client.close()


def that_fails(verb: str, error: BaseException) -> Callable[[Transport], Any]:
    def step(transport: Transport) -> None:
        async def fails(*_: Any) -> Any:
            raise error

        setattr(transport, verb, fails)

    return step


@pytest.mark.parametrize("error", [Defect("odd"), asyncio.CancelledError(), SystemExit(2)])
@pytest.mark.parametrize("verb", ["receive", "send"])
async def test_whatever_a_transport_raises_is_a_lost_link(
    verb: str, error: BaseException, clock: VirtualClock
) -> None:
    async with a_runtime() as runtime:
        line = Line(runtime, [that_fails(verb, error)])
        async with Client(line) as client:
            assert isinstance(client.state, Live)
            assert (await (await client.submit("echo", 1)).result()).value == 1
        assert len(line.attempts) == 2
