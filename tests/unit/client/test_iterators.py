"""Iterating over a client's session and its jobs (D8)."""

from __future__ import annotations

import asyncio

import pytest

from arcp_client import Client, Runtime, events
from arcp_client.errors import ClientClosed
from tests.unit.client.conftest import Gates


async def test_a_job_can_be_iterated_again_and_late(client: Client) -> None:
    job = await client.submit("say", ["a", "b"])
    await job.result()
    for _ in range(2):
        lines = [event.message async for event in job.events(events.Log)]
        assert lines == ["a", "b"]
    assert isinstance([event async for event in job][-1], events.Completed)


async def test_two_iterators_at_once_each_get_every_event(client: Client) -> None:
    job = await client.submit("say", [str(n) for n in range(50)])

    async def lines() -> list[str]:
        return [event.message async for event in job.events(events.Log)]

    one, two = await asyncio.gather(lines(), lines())
    assert one == two == [str(n) for n in range(50)]


async def test_the_session_iterator_gets_the_events_of_every_job(client: Client) -> None:
    everything = client.events(events.Log)
    for line in ("a", "b"):
        await (await client.submit("say", [line])).result()
    assert [(await anext(everything)).message for _ in range(2)] == ["a", "b"]


async def test_a_local_close_raises_client_closed_in_every_iterator(
    runtime: Runtime, gates: Gates
) -> None:
    """D8: never a quiet end."""
    async with Client(runtime) as client:
        job = await client.submit("gated", "never")
        of_job, of_session = aiter(job), client.events()
        assert isinstance(await anext(of_job), events.Event)
    for iterator in (of_job, of_session):
        with pytest.raises(ClientClosed):
            async for _ in iterator:
                pass


async def test_breaking_out_leaves_no_iterator_behind(client: Client, gates: Gates) -> None:
    """D8."""
    job = await client.submit("gated", "it")
    async for _ in job:
        break
    gates["it"].set()
    await job.result()
    assert client.stats().queued == 0


async def test_a_result_waits_for_no_iterator(client: Client) -> None:
    """D9."""
    job = await client.submit("say", ["a", "b"])
    kept = aiter(job)
    assert (await job.result()).value == 2
    assert (await anext(kept)).seq is not None


async def test_an_iterator_in_a_handler_gets_what_comes_while_the_handler_waits(
    client: Client,
) -> None:
    """D10: calls inside a handler just work."""
    lines: list[str] = []

    @client.on(events.Status)
    async def handle(event: events.Status) -> None:
        child = await client.submit("say", ["a", "b"])
        lines.extend([one.message async for one in child.events(events.Log)])

    job = await client.submit("stuck")
    while len(lines) < 2:
        await client.ping()
    await job.cancel()
    assert lines == ["a", "b"]
