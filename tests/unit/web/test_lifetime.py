"""When it ends, it ends: streams at once, and no task, timer or socket is left."""

from __future__ import annotations

import asyncio
import socket

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from arcp_client import Client
from arcp_client._tasks import cancel_and_wait
from arcp_client.errors import JobLost
from arcp_client.web import add_routes, serve
from arcp_client.web.feeds import Feeds
from arcp_client.web.problems import Problem
from arcp_client.web.streams import Streams
from tests.unit.web.kit import SOON, Gates, Tab, site


async def test_streams_end_at_once_when_the_server_does(
    client: Client, other: Client, gates: Gates
) -> None:
    job = await other.submit("gated", "one")
    before = asyncio.all_tasks()
    server = serve(client)
    await server.__aenter__()
    async with aiohttp.ClientSession() as http:
        base = URL(server.url)
        tabs = [Tab(http, base / f"api/jobs/{job.id}/stream") for _ in range(10)]
        tabs.append(Tab(http, base / "api/overview/stream"))
        following = [asyncio.create_task(tab.follow()) for tab in tabs]
        async with asyncio.timeout(SOON):
            while not all(tab.timeline.numbers for tab in tabs[:-1]):
                await asyncio.sleep(0.01)
            await server.close()
            await server.close()
            for timeline in await asyncio.gather(*following):  # each is ended, none is cut off
                assert timeline.end is None
    assert server.port != 0
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port))
    left = asyncio.all_tasks() - before
    assert not [task for task in left if not task.done() and "arcp_client.web" in task.get_name()]
    gates["one"].set()
    await job.result()


async def test_a_page_that_does_not_read_does_not_hold_it_up(client: Client, other: Client) -> None:
    job = await other.submit("say", {"lines": 3000, "size": 4000})
    await job.result()
    async with site(client, memory=64 << 20) as served:
        assert served.server.port is not None
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            slow.connect(("127.0.0.1", served.server.port))
            path = served.url(f"api/jobs/{job.id}/stream").path
            slow.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            await served.tab(job.id).follow()
            async with asyncio.timeout(SOON):  # aiohttp itself would wait for a minute
                await served.server.close()


async def test_a_feed_goes_a_while_after_its_last_viewer_and_comes_back_whole(
    client: Client, other: Client, gates: Gates
) -> None:
    job = await other.submit("say", {"lines": 20, "gate": "half"})
    feeds = Feeds(client, linger=0.01)
    epochs = set()
    for _ in range(3):
        feed = await feeds.open(job.id)
        epochs.add(feed.epoch)
        with feeds.viewing(feed):
            async with asyncio.timeout(SOON):
                while feed.last < 10:
                    await asyncio.sleep(0.01)
        async with asyncio.timeout(SOON):
            while feeds.get(job.id) is not None or not feed.over:
                await asyncio.sleep(0.01)
        assert isinstance(feed.error, JobLost)  # it is subscribed to no longer
    assert len(epochs) == 3
    gates["half"].set()
    await job.result()
    feed = await feeds.open(job.id)
    with feeds.viewing(feed):
        async with asyncio.timeout(SOON):
            while not feed.over:
                await asyncio.sleep(0.01)
    assert (feed.ended, feed.last) == ("success", 21)
    await feeds.close()


async def test_who_comes_when_a_feed_goes_is_asked_to_come_again(
    client: Client, other: Client, gates: Gates
) -> None:
    job = await other.submit("gated", "one")
    feeds = Feeds(client, linger=0.01)
    feed = await feeds.open(job.id)
    async with asyncio.timeout(SOON):
        while feeds.get(job.id) is not None:
            await asyncio.sleep(0.01)
    with feeds.viewing(feed) as there:
        assert not there
    again = await feeds.open(job.id)
    with feeds.viewing(again) as there:
        assert there
    gates["one"].set()
    await job.result()
    await feeds.close()


async def test_a_job_that_is_just_being_left_can_be_looked_at_again(
    client: Client, other: Client, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slowly(tasks: list[asyncio.Task[None]]) -> None:
        await client.ping()
        await cancel_and_wait(tasks)

    monkeypatch.setattr("arcp_client.web.feeds.cancel_and_wait", slowly)
    job = await other.submit("gated", "one")
    feeds = Feeds(client, linger=0.0)
    await feeds.open(job.id)
    while feeds.get(job.id) is not None:
        await asyncio.sleep(0)  # and not a turn longer
    feeds._linger = SOON
    feed = await feeds.open(job.id)
    with feeds.viewing(feed) as there:
        assert there
        await client.ping()
        gates["one"].set()
        async with asyncio.timeout(SOON):
            while not feed.over:
                await asyncio.sleep(0.01)
    assert feed.ended == "success"
    await feeds.close()


async def test_a_job_that_the_application_watches_too_is_not_left(
    client: Client, other: Client, gates: Gates
) -> None:
    job = await other.submit("gated", "one")
    view = await client.watch(job.id, history=True)
    feeds = Feeds(client, linger=0.01)
    feed = await feeds.open(job.id)
    with feeds.viewing(feed):
        pass
    async with asyncio.timeout(SOON):
        while not feed.over:
            await asyncio.sleep(0.01)
    gates["one"].set()
    async with asyncio.timeout(SOON):
        assert (await view.result()).value == "one"
    await feeds.close()


async def test_there_is_a_limit_to_the_number_of_feeds(client: Client, gates: Gates) -> None:
    feeds = Feeds(client, limit=2)
    jobs = [await client.submit("gated", f"{n}") for n in range(3)]
    first, second = feeds.adopt(jobs[0]), feeds.adopt(jobs[1])
    with feeds.viewing(first), feeds.viewing(second), pytest.raises(Problem) as refused:
        feeds.adopt(jobs[2])
    assert (refused.value.status, refused.value.code) == (503, "TOO_MANY_JOBS")
    with feeds.viewing(second):
        feeds.adopt(jobs[2])
    assert [feed.job.id for feed in feeds] == [jobs[1].id, jobs[2].id]
    for n in range(3):
        gates[f"{n}"].set()
        await jobs[n].result()
    await feeds.close()
    with pytest.raises(Problem, match="stopped"):
        feeds.adopt(jobs[0])


async def test_there_is_a_limit_to_the_number_of_streams(
    client: Client, other: Client, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Streams, "full", property(lambda streams: len(streams) >= 2))
    job = await other.submit("gated", "one")
    async with site(client) as served:
        tabs = [served.tab(job.id) for _ in range(2)]
        following = [asyncio.create_task(tab.follow()) for tab in tabs]
        async with asyncio.timeout(SOON):
            while not all(tab.timeline.numbers for tab in tabs):
                await asyncio.sleep(0.01)
        status, found = await served.get(f"api/jobs/{job.id}/stream")
        assert (status, found["error"]["code"]) == (503, "TOO_MANY_PAGES")
        gates["one"].set()
        await asyncio.gather(*following)


async def test_the_client_stays_with_whoever_made_it(client: Client) -> None:
    async with site(client) as served:
        await served.get("api/overview")
    assert await client.ping() >= 0.0
    async with site(client) as served:
        assert (await served.get("api/overview"))[0] == 200


async def test_what_was_looked_at_is_watched_no_longer_when_the_client_goes_on(
    client: Client, other: Client, gates: Gates
) -> None:
    job = await other.submit("say", {"lines": 20, "gate": "half"})
    async with site(client) as served:
        await served.tab(job.id).follow(lambda timeline: len(timeline.numbers) >= 10)
    received = client.stats().received
    gates["half"].set()
    await job.result()
    await client.ping()
    assert client.stats().received == received == 10


async def test_an_application_that_never_started_leaves_nothing(client: Client) -> None:
    app = web.Application()
    add_routes(app, client)
    app.freeze()
    await app.shutdown()
    await app.cleanup()


async def test_the_place_of_a_reader_that_has_gone_is_free_at_once(
    client: Client, other: Client, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcp_client.web.streams._BEAT", float("inf"))
    job = await other.submit("gated", "one")
    async with site(client) as served, asyncio.timeout(SOON):
        streams = Streams.of(served.server.app)
        for path in (f"api/jobs/{job.id}/stream", "api/overview/stream"):
            async with served.http.get(served.url(path)) as response:
                await response.content.readany()
                assert len(streams) == 1
                response.close()
            while len(streams):
                await asyncio.sleep(0.01)
    gates["one"].set()
    await job.result()
