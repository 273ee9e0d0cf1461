"""The job list combines the runtime's listing with the events of jobs, and numbers its changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from arcp_client import Client, JobSummary, Runtime, Verdict, errors
from arcp_client._feeds.registry import FeedRegistry
from arcp_client._feeds.rows import row
from arcp_client.projection import JobProjection
from arcp_client.transcripts import Scrubber
from arcp_client.web._feeds.job_list import JobList
from tests.unit.web.kit import SOON, Gates, agents, site

NOW = datetime(2026, 5, 13, 19, 42, tzinfo=UTC)


@pytest.fixture
def job_list(client: Client) -> JobList:
    return JobList(client, lambda _: None, Scrubber())


def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every refresh ask the runtime."""
    monkeypatch.setattr("arcp_client.web._feeds.job_list._LIST_INTERVAL", 0.0)
    monkeypatch.setattr("arcp_client.web._feeds.job_list._LIST_SHARE", 0)


async def test_a_row_shows_the_state_of_a_job(client: Client, job_list: JobList) -> None:
    job = await client.submit("echo", 1)
    await job.result()
    await job_list.refresh()
    [row] = job_list.rows
    assert row["job_id"] == job.id
    assert (row["agent"], row["version"], row["status"]) == ("echo", "1.0.0", "success")
    assert row["created_at"].startswith("20")
    assert row["parent_job_id"] is None
    await job_list.close()


async def test_unchanged_rows_are_not_sent_again(
    client: Client, other: Client, job_list: JobList, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    for _ in range(5):
        await (await other.submit("echo", 1)).result()
    await job_list.refresh()
    assert len(job_list.rows) == 5
    seen = job_list.last
    await job_list.refresh()
    assert job_list.since(seen) == (seen, b"")
    await job_list.close()


async def test_many_simultaneous_refreshes_cause_one_listing(
    client: Client, job_list: JobList, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    listing = client.jobs

    def counted(**options: Any) -> Any:
        nonlocal asked
        asked += 1
        return listing(**options)

    monkeypatch.setattr(client, "jobs", counted)
    await asyncio.gather(*(job_list.refresh() for _ in range(50)))
    assert asked == 1
    await job_list.close()


async def test_a_job_list_with_too_many_jobs_is_truncated_and_says_so(
    client: Client, job_list: JobList, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcp_client.web._feeds.job_list._ROWS", 3)
    for n in range(5):
        await (await client.submit("echo", n)).result()
    await job_list.refresh()
    assert job_list.truncated
    assert len(job_list.rows) == 3
    await job_list.close()


async def test_without_a_listing_the_jobs_of_this_session_are_shown(gates: Gates) -> None:
    async with Runtime() as runtime:
        agents(runtime, gates)
        without = ["ack", "heartbeat", "subscribe", "progress", "result_chunk"]
        async with Client(runtime, features=without) as client, site(client) as served:
            with pytest.raises(errors.FeatureNotNegotiated):
                await anext(client.jobs())
            job = await client.submit("gated", "one")
            statuses = []
            async for frame in served.frames("api/overview/stream"):
                rows = frame.data["jobs"] if frame.kind == "overview" else [frame.data]
                if frame.kind in ("overview", "job"):
                    statuses += [row["status"] for row in rows if row["job_id"] == job.id]
                if statuses[-1:] == ["running"]:
                    gates["one"].set()
                if statuses[-1:] == ["success"]:
                    break


async def test_a_job_that_the_runtime_has_dropped_is_removed_from_the_list(
    client: Client, other: Client, job_list: JobList, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    job = await other.submit("echo", 1)
    await job.result()
    await job_list.refresh()
    seen = len(job_list.rows)
    assert seen == 1

    async def nothing(**_: Any) -> Any:
        return
        yield

    monkeypatch.setattr(client, "jobs", nothing)
    last = job_list.last
    await job_list.refresh()
    changes = job_list.since(last)
    assert changes is not None
    assert b"event: gone" in changes[1]
    assert job.id.encode() in changes[1]
    assert job_list.rows == []
    await job_list.close()


async def test_a_listing_that_fails_leaves_the_job_list_unchanged(
    client: Client, other: Client, job_list: JobList, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    await (await other.submit("echo", 1)).result()
    await job_list.refresh()

    async def failing(**_: Any) -> Any:
        raise errors.RequestTimeout("no answer")
        yield

    monkeypatch.setattr(client, "jobs", failing)
    await job_list.refresh()
    assert len(job_list.rows) == 1
    await job_list.close()


async def test_without_viewers_the_runtime_is_not_asked(client: Client, job_list: JobList) -> None:
    with job_list.viewing():
        async with asyncio.timeout(SOON):
            while job_list._refreshed < 0:
                await asyncio.sleep(0.01)
        assert len(job_list._owner) == 1
    async with asyncio.timeout(SOON):
        while len(job_list._owner):
            await asyncio.sleep(0)
    await job_list.close()


@pytest.mark.parametrize(
    ("held", "seen", "shown"),
    [("running", None, "lost"), ("running", "running", "lost"), ("running", "error", "error")],
)
def test_w2_an_unlisted_job_is_lost_unless_its_end_is_known(
    held: str, seen: str | None, shown: str
) -> None:
    projection = JobProjection("job_1", status=seen) if seen is not None else None
    made = row("job_1", NOW, handle=handle(held), seen=projection, lost=True)
    assert made.status == shown


def handle(status: str) -> Any:
    verdict = Verdict("working", "working")
    return SimpleNamespace(agent="a@1", status=status, progress=None, verdict=verdict)


@pytest.mark.parametrize(
    ("listed", "held", "seen", "shown"),
    [
        ("running", None, None, "running"),
        ("success", "running", None, "success"),  # it is watched no longer, and has ended since
        ("running", "success", None, "success"),  # the listing is older
        ("running", "running", "cancelled", "cancelled"),
        ("pending", "running", None, "running"),
        (None, "running", "pending", "running"),
        (None, "pending", None, "pending"),
        ("error", "running", "running", "error"),
    ],
)
def test_a_final_status_wins_over_other_statuses(
    listed: str | None, held: str | None, seen: str | None, shown: str
) -> None:
    projection = JobProjection("job_1", status=seen) if seen is not None else None
    made = row(
        "job_1",
        NOW,
        summary=JobSummary("job_1", status=listed) if listed is not None else None,
        handle=handle(held) if held is not None else None,
        seen=projection,
    )
    assert made.status == shown


class TestFollowing:
    """W2: the table follows the jobs that its pages show first, and only while there are pages."""

    @staticmethod
    def made(client: Client, **options: Any) -> tuple[FeedRegistry, JobList]:
        feeds = FeedRegistry(client, changed=lambda feed: job_list.touch(feed), **options)
        job_list = JobList(client, feeds.get, Scrubber(), follow=feeds.follow)
        return feeds, job_list

    @staticmethod
    async def until(true: Callable[[], object]) -> None:
        async with asyncio.timeout(SOON):
            while not true():
                await asyncio.sleep(0.01)

    async def test_jobs_are_followed_as_long_as_there_is_room(
        self, client: Client, other: Client, gates: Gates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("arcp_client._feeds.registry.FOLLOWED", 20)
        for _ in range(30):
            await other.submit("gated", "one")
        feeds, job_list = self.made(client, limit=12)
        with job_list.viewing():
            await self.until(lambda: len(list(feeds)) == 20)
            assert len([row for row in job_list.rows if row["phase"] == "waiting"]) <= 20
            with contextlib.ExitStack() as pages:
                for row in job_list.rows[:12]:  # pages do not take the room of the list
                    pages.enter_context(feeds.viewing(await feeds.open(row["job_id"])))
                assert len(list(feeds)) >= 20
        gates["one"].set()
        await job_list.close()
        await feeds.close()

    async def test_jobs_that_a_page_shows_are_followed_first(
        self, client: Client, other: Client, gates: Gates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("arcp_client.web._feeds.job_list._FOLLOWED", 2)
        jobs = [await other.submit("gated", "one") for _ in range(6)]
        feeds, job_list = self.made(client, linger=0.01)
        with job_list.viewing():
            await self.until(lambda: len(list(feeds)) == 2)
            shown = {jobs[0].id, jobs[1].id}  # the oldest ones
            job_list.show(shown)
            await self.until(lambda: {feed.job.id for feed in feeds} == shown)
            followed = {row["job_id"] for row in job_list.rows if row["followed"]}
            assert followed == shown
        gates["one"].set()
        await job_list.close()
        await feeds.close()

    async def test_a_page_of_a_followed_job_begins_with_its_first_event(
        self, client: Client, other: Client, gates: Gates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("arcp_client._feeds.registry._LIGHT", 2000)
        job = await other.submit("say", {"lines": 100, "gate": "half"})
        feeds, job_list = self.made(client)
        with job_list.viewing():
            await self.until(lambda: [feed for feed in feeds if feed.kept.last >= 50])
            [light] = feeds
            assert light.kept.first > 1, "the list keeps few events"
            feed = await feeds.open(job.id)
            with feeds.viewing(feed):
                await self.until(lambda: feed.kept.last >= 50)
                assert feed.kept.first == 1
                assert feed is feeds.get(job.id)
        gates["half"].set()
        await job_list.close()
        await feeds.close()

    async def test_all_ended_jobs_are_looked_up_a_few_at_a_time(
        self, client: Client, other: Client
    ) -> None:
        for _ in range(12):
            with contextlib.suppress(errors.JobFailed):
                await (await other.submit("fail")).result()
        feeds, job_list = self.made(client)
        most = 0
        with job_list.viewing():

            def told() -> bool:
                nonlocal most
                most = max(most, len(list(feeds)))
                rows = job_list.rows
                return len(rows) == 12 and all(row["failure"] and row["ended_at"] for row in rows)

            await self.until(told)
        assert most <= 5
        assert not list(feeds)
        await job_list.close()
        await feeds.close()

    async def test_a_job_that_the_runtime_refuses_is_requested_once(
        self, client: Client, other: Client, gates: Gates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        at_once(monkeypatch)
        await other.submit("gated", "one")
        asked = 0

        async def refuse(*_: Any, **__: Any) -> Any:
            nonlocal asked
            asked += 1
            raise errors.PermissionDenied("not yours")

        monkeypatch.setattr(client, "watch", refuse)
        feeds, job_list = self.made(client)
        with job_list.viewing():
            await self.until(lambda: asked)
            seen = job_list._refreshed
            await self.until(lambda: job_list._refreshed > seen)
        assert asked == 1
        gates["one"].set()
        await job_list.close()
        await feeds.close()
