"""However the watching of a job ends, nothing is left of it: denied, dropped, or closed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tenacity import wait_fixed

from arcp_client import Client, JobContext, Reconnect, Runtime, events
from arcp_client.errors import ClientClosed, JobLost, PermissionDenied
from arcp_client.testing import Cut, FaultyConnector, FaultyProxy
from arcp_client.transports import WebSocketConnector

TOKENS = {"t-alice": "alice", "t-bob": "bob"}
AT_ONCE = Reconnect(wait=wait_fixed(0))


def runtime() -> tuple[Runtime, asyncio.Event]:
    made, gate = Runtime(auth=TOKENS), asyncio.Event()

    @made.agent("gated")
    async def gated(input: Any, job: JobContext) -> str:
        await job.log("before")
        await gate.wait()
        await job.log("after")
        return "done"

    return made, gate


async def test_a_watch_that_is_denied_is_known_to_nobody() -> None:
    served, gate = runtime()
    async with (
        served,
        Client(served, token="t-alice") as alice,
        Client(served, token="t-bob") as bob,
    ):
        job = await alice.submit("gated")
        for history in (False, True):
            with pytest.raises(PermissionDenied):
                await bob.watch(job.id, history=history)
            assert bob.job(job.id) is None
        gate.set()
        await job.result()
        assert await bob.ping() >= 0
        assert bob.stats().received == 0


async def test_a_watch_outlives_a_drop_and_ends_with_unsubscribe() -> None:
    served, gate = runtime()
    async with served, served.serve() as server, FaultyProxy(server.url) as proxy:
        submitter = Client(served, token="t-alice")
        observer = Client(proxy.url, token="t-alice", reconnect=AT_ONCE)
        async with submitter, observer:
            job = await submitter.submit("gated")
            view = await observer.watch(job.id, history=True)
            told = aiter(view)
            assert isinstance(await anext(told), events.Log)
            proxy.cut()
            again = await submitter.submit("gated")
            second = await observer.watch(again.id, history=True)
            await second.unsubscribe()
            with pytest.raises(JobLost, match="no longer watched"):
                await second.result()
            gate.set()
            kinds = [type(event) async for event in told]
            assert kinds == [events.Log, events.Completed]
            assert (await view.result()).value == "done"
            await again.result()
            assert observer.stats().reconnects == 1


async def test_to_watch_no_longer_does_not_wait_for_a_link_that_ends_meanwhile() -> None:
    served, gate = runtime()
    async with served, served.serve() as server, Client(served, token="t-alice") as submitter:
        job = await submitter.submit("gated")
        # The greeting and the subscription go out, and nothing behind them.
        connector = FaultyConnector(
            WebSocketConnector(server.url),
            plan=lambda link: [] if link else [Cut(after=2, way="out")],
        )
        async with Client(connector, token="t-alice", reconnect=AT_ONCE) as observer:
            view = await observer.watch(job.id)
            async with asyncio.timeout(10):
                await view.unsubscribe()
            with pytest.raises(JobLost, match="no longer watched"):
                await view.result()
        gate.set()
        await job.result()


async def test_to_watch_no_longer_what_a_closed_client_watched_is_refused() -> None:
    served, gate = runtime()
    async with served, Client(served, token="t-alice") as submitter:
        job = await submitter.submit("gated")
        async with Client(served, token="t-alice") as observer:
            view = await observer.watch(job.id)
        with pytest.raises(ClientClosed):
            await view.unsubscribe()
        gate.set()
        assert (await job.result()).value == "done"
