"""The table of jobs: what the runtime lists, what somebody looks at, and what changed of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from arcp_client import Client, JobSummary, Runtime, errors
from arcp_client.projection import JobProjection
from arcp_client.transcripts import Scrubber
from arcp_client.web.board import Board
from arcp_client.web.feeds import Feeds
from arcp_client.web.rows import row
from tests.unit.web.kit import SOON, Gates, agents, site


@pytest.fixture
def board(client: Client) -> Board:
    return Board(client, lambda _: None, Scrubber())


def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every refresh ask the runtime."""
    monkeypatch.setattr("arcp_client.web.board._EVERY", 0.0)
    monkeypatch.setattr("arcp_client.web.board._SHARE", 0)


async def test_a_row_says_where_a_job_stands(client: Client, board: Board) -> None:
    job = await client.submit("echo", 1)
    await job.result()
    await board.refresh()
    [row] = board.rows
    assert row["job_id"] == job.id
    assert (row["agent"], row["version"], row["status"]) == ("echo", "1.0.0", "success")
    assert row["created_at"].startswith("20")
    assert row["parent_job_id"] is None
    await board.close()


async def test_nothing_that_stayed_as_it_was_is_told_again(
    client: Client, other: Client, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    for _ in range(5):
        await (await other.submit("echo", 1)).result()
    await board.refresh()
    assert len(board.rows) == 5
    seen = board.last
    await board.refresh()
    assert board.since(seen) == (seen, b"")
    await board.close()


async def test_many_who_ask_at_once_ask_the_runtime_once(
    client: Client, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    listing = client.jobs

    def counted(**options: Any) -> Any:
        nonlocal asked
        asked += 1
        return listing(**options)

    monkeypatch.setattr(client, "jobs", counted)
    await asyncio.gather(*(board.refresh() for _ in range(50)))
    assert asked == 1
    await board.close()


async def test_more_jobs_than_the_table_takes_are_said(
    client: Client, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcp_client.web.board._MOST", 3)
    for n in range(5):
        await (await client.submit("echo", n)).result()
    await board.refresh()
    assert board.truncated
    assert len(board.rows) == 3
    await board.close()


async def test_a_runtime_that_lists_nothing_has_the_jobs_of_this_session(gates: Gates) -> None:
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


async def test_a_job_that_the_runtime_has_forgotten_is_gone(
    client: Client, other: Client, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    job = await other.submit("echo", 1)
    await job.result()
    await board.refresh()
    seen = len(board.rows)
    assert seen == 1

    async def nothing(**_: Any) -> Any:
        return
        yield

    monkeypatch.setattr(client, "jobs", nothing)
    last = board.last
    await board.refresh()
    changes = board.since(last)
    assert changes is not None
    assert b"event: gone" in changes[1]
    assert job.id.encode() in changes[1]
    assert board.rows == []
    await board.close()


async def test_a_listing_that_fails_leaves_the_table_as_it_was(
    client: Client, other: Client, board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    await (await other.submit("echo", 1)).result()
    await board.refresh()

    async def failing(**_: Any) -> Any:
        raise errors.RequestTimeout("no answer")
        yield

    monkeypatch.setattr(client, "jobs", failing)
    await board.refresh()
    assert len(board.rows) == 1
    await board.close()


async def test_nobody_looks_and_nobody_asks(client: Client, board: Board) -> None:
    with board.viewing():
        async with asyncio.timeout(SOON):
            while board._refreshed < 0:
                await asyncio.sleep(0.01)
        assert len(board._owner) == 1
    async with asyncio.timeout(SOON):
        while len(board._owner):
            await asyncio.sleep(0)
    await board.close()


@pytest.mark.parametrize(
    ("held", "seen", "shown"),
    [("running", None, "lost"), ("running", "running", "lost"), ("running", "error", "error")],
)
def test_w2_a_job_that_the_listing_has_lost_is_lost_unless_its_end_was_seen(
    held: str, seen: str | None, shown: str
) -> None:
    projection = JobProjection("job_1", status=seen) if seen is not None else None
    assert row("job_1", handle=handle(held), seen=projection, lost=True)["status"] == shown


def handle(status: str) -> Any:
    return SimpleNamespace(agent="a@1", status=status, progress=None)


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
def test_whoever_knows_of_the_end_knows_best(
    listed: str | None, held: str | None, seen: str | None, shown: str
) -> None:
    projection = JobProjection("job_1", status=seen) if seen is not None else None
    made = row(
        "job_1",
        summary=JobSummary("job_1", status=listed) if listed is not None else None,
        handle=handle(held) if held is not None else None,
        seen=projection,
    )
    assert made["status"] == shown


class TestFollowing:
    """W2: the table follows the jobs that its pages show first, and only while there are pages."""

    @staticmethod
    def made(client: Client, **options: Any) -> tuple[Feeds, Board]:
        feeds = Feeds(client, changed=lambda feed: board.touch(feed), **options)
        board = Board(client, feeds.get, Scrubber(), follow=feeds.follow)
        return feeds, board

    @staticmethod
    async def until(true: Callable[[], object]) -> None:
        async with asyncio.timeout(SOON):
            while not true():
                await asyncio.sleep(0.01)

    async def test_no_more_jobs_are_followed_than_there_is_room_for(
        self, client: Client, other: Client, gates: Gates
    ) -> None:
        for _ in range(30):
            await other.submit("gated", "one")
        feeds, board = self.made(client, limit=12)
        with board.viewing():
            await self.until(lambda: len(list(feeds)) == 4)
            assert len([row for row in board.rows if row["phase"] == "waiting"]) <= 4
            with contextlib.ExitStack() as pages:
                for row in board.rows[:12]:  # pages take the room of what nobody looks at
                    pages.enter_context(feeds.viewing(await feeds.open(row["job_id"])))
                assert len(list(feeds)) == 12
        gates["one"].set()
        await board.close()
        await feeds.close()

    async def test_all_ended_jobs_are_told_of_a_few_at_a_time(
        self, client: Client, other: Client
    ) -> None:
        for _ in range(12):
            with contextlib.suppress(errors.JobFailed):
                await (await other.submit("fail")).result()
        feeds, board = self.made(client)
        most = 0
        with board.viewing():

            def told() -> bool:
                nonlocal most
                most = max(most, len(list(feeds)))
                rows = board.rows
                return len(rows) == 12 and all(row["reason"] and row["ended_at"] for row in rows)

            await self.until(told)
        assert most <= 5
        assert not list(feeds)
        await board.close()
        await feeds.close()

    async def test_a_job_that_the_runtime_refuses_is_asked_for_once(
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
        feeds, board = self.made(client)
        with board.viewing():
            await self.until(lambda: asked)
            seen = board._refreshed
            await self.until(lambda: board._refreshed > seen)
        assert asked == 1
        gates["one"].set()
        await board.close()
        await feeds.close()
