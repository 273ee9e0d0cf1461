"""Every page shows the state of the link, and misses no event when the link is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from arcp_client import Client, Reconnect, Runtime
from arcp_client.testing import FaultyProxy
from tests.unit.web.kit import SOON, Gates, Timeline, agents, site

QUICK = Reconnect(wait=lambda _: 0.01)


@pytest.fixture
async def proxy(url: str) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy.for_url(url) as proxy:
        yield proxy


async def test_pages_show_a_lost_link_and_miss_no_event(
    proxy: FaultyProxy, other: Client, gates: Gates
) -> None:
    job = await other.submit("say", {"lines": 200, "gate": "half"})
    async with Client(proxy.url, token="t", reconnect=QUICK) as client, site(client) as served:
        tab = served.tab(job.id)

        def cut_off(timeline: Timeline) -> bool:
            return any(link["state"] == "reconnecting" for link in timeline.links)

        def back(timeline: Timeline) -> bool:
            return timeline.links[-1]["state"] == "live"

        await tab.follow(lambda timeline: len(timeline.numbers) >= 100)
        assert tab.timeline.links[-1]["state"] == "live"
        assert tab.timeline.links[-1]["resumed"] is False
        with proxy.refuse():
            following = asyncio.create_task(tab.follow())
            await proxy.cut()
            async with asyncio.timeout(SOON):
                while not cut_off(tab.timeline):
                    await asyncio.sleep(0.01)
            lost = next(link for link in tab.timeline.links if link["state"] == "reconnecting")
            assert lost["cause"]
            assert lost["attempt"] >= 1
            assert isinstance(lost["retry_in"], float)
            assert isinstance(lost["retry_at"], int)
        async with asyncio.timeout(SOON):
            while not back(tab.timeline):
                await asyncio.sleep(0.01)
        assert tab.timeline.links[-1]["resumed"] is True
        assert tab.timeline.links[-1]["reconnects"] == 1
        gates["half"].set()
        timeline = await following
    assert timeline.numbers == list(range(1, 202))
    assert timeline.resets == ["start"]
    assert timeline.links[-1]["gap"] is None


async def test_counters_are_sent_while_no_event_arrives(
    client: Client, other: Client, gates: Gates
) -> None:
    job = await other.submit("say", {"lines": 20, "gate": "half"})
    async with site(client) as served:
        timeline = await served.tab(job.id).follow(
            lambda timeline: timeline.links and timeline.links[-1]["received"] == 10
        )
        link = timeline.links[-1]
        assert link["processed"] <= link["received"]
        assert link["lag_events"] >= 0
        assert link["lag_seconds"] >= 0.0
        gates["half"].set()
        await job.result()


async def test_after_a_restart_of_the_runtime_lost_events_appear_as_a_gap(
    gates: Gates, door: object
) -> None:
    first = Runtime(name="first")
    agents(first, gates)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(first)
        server = await stack.enter_async_context(first.serve())
        proxy = await stack.enter_async_context(FaultyProxy.for_url(server.url))
        async with Client(proxy.url, reconnect=QUICK) as client, site(client) as served:
            job = await client.submit("gated", "never")
            tab = served.tab(job.id)
            await tab.follow(lambda timeline: timeline.numbers)
            second = Runtime(name="second")
            agents(second, gates)
            port = server.port
            with proxy.refuse():
                await proxy.cut()
                await server.close()
                await first.close()
            async with second, second.serve(port=port):
                timeline = await tab.follow(
                    lambda timeline: (
                        timeline.end
                        or (timeline.links and timeline.links[-1]["gap"] and timeline.end)
                    )
                )
                assert timeline.links[-1]["state"] == "live"
                assert timeline.links[-1]["resumed"] is False
                assert [each["kind"] for each in timeline.events][-1] == "gap"
                assert timeline.end == "lost"
                assert timeline.details[-1]["error"]["message"]
                again = await second_job(served.client)
                found = await served.tab(again).follow()
                assert found.end == "success"
                status, overview = await served.get("api/overview")
                assert status == 200
                assert overview["runtime"]["name"] == "second"
                assert overview["link"]["gap"]["reason"] == "unknown_end"


async def second_job(client: Client) -> str:
    return (await client.submit("echo", 1)).id


async def test_pages_stay_open_and_show_that_the_client_is_closed(
    client: Client, other: Client, gates: Gates
) -> None:
    job = await other.submit("gated", "one")
    async with site(client) as served:
        tab = served.tab(job.id)
        following = asyncio.create_task(
            tab.follow(
                lambda timeline: timeline.links[-1:] and timeline.links[-1]["state"] == "closed"
            )
        )
        async with asyncio.timeout(SOON):
            while not tab.timeline.numbers:
                await asyncio.sleep(0.01)
        await client.close()
        timeline = await following
    assert timeline.end is None
    gates["one"].set()
    await job.result()
