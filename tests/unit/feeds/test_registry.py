"""Feeds start with their first viewer, end after their last one, and are limited in number."""

from __future__ import annotations

import asyncio

import pytest

from arcp_client import Client
from arcp_client._feeds.registry import FeedRegistry, FeedUnavailable, TooManyFeeds
from arcp_client._tasks import cancel_and_wait
from arcp_client.errors import JobLost
from arcp_client.web._http.problems import problem
from tests.unit.web.kit import SOON, Gates


async def test_a_feed_is_dropped_after_its_last_viewer_and_a_new_one_has_all_events(
    client: Client, other: Client, gates: Gates
) -> None:
    job = await other.submit("say", {"lines": 20, "gate": "half"})
    feeds = FeedRegistry(client, linger=0.01)
    epochs = set()
    for _ in range(3):
        feed = await feeds.open(job.id)
        epochs.add(feed.kept.epoch)
        with feeds.viewing(feed):
            async with asyncio.timeout(SOON):
                while feed.kept.last < 10:
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
    assert (feed.ended, feed.kept.last) == ("success", 21)
    await feeds.close()


async def test_a_page_that_comes_while_its_feed_is_dropped_reconnects_to_a_new_one(
    client: Client, other: Client, gates: Gates
) -> None:
    job = await other.submit("gated", "one")
    feeds = FeedRegistry(client, linger=0.01)
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


async def test_a_job_can_be_viewed_again_while_its_unsubscription_is_pending(
    client: Client, other: Client, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slowly(tasks: list[asyncio.Task[None]]) -> None:
        await client.ping()
        await cancel_and_wait(tasks)

    monkeypatch.setattr("arcp_client._feeds.registry.cancel_and_wait", slowly)
    job = await other.submit("gated", "one")
    feeds = FeedRegistry(client, linger=0.0)
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


async def test_a_subscription_of_the_application_itself_is_kept(
    client: Client, other: Client, gates: Gates
) -> None:
    job = await other.submit("gated", "one")
    view = await client.watch(job.id, history=True)
    feeds = FeedRegistry(client, linger=0.01)
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


async def test_the_number_of_feeds_is_limited(client: Client, gates: Gates) -> None:
    feeds = FeedRegistry(client, limit=2)
    jobs = [await client.submit("gated", f"{n}") for n in range(3)]
    first, second = feeds.adopt(jobs[0]), feeds.adopt(jobs[1])
    with feeds.viewing(first), feeds.viewing(second), pytest.raises(TooManyFeeds) as refused:
        feeds.adopt(jobs[2])
    found = problem(refused.value)
    assert (found.status, found.code) == (503, "TOO_MANY_JOBS")
    with feeds.viewing(second):
        feeds.adopt(jobs[2])
    assert [feed.job.id for feed in feeds] == [jobs[1].id, jobs[2].id]
    for n in range(3):
        gates[f"{n}"].set()
        await jobs[n].result()
    await feeds.close()
    with pytest.raises(FeedUnavailable) as closed:
        feeds.adopt(jobs[0])
    found = problem(closed.value)
    assert (found.status, found.code) == (503, "SHUTTING_DOWN")
