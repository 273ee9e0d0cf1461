"""The inventory of jobs (§6.6)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from arcp_client.runtime import JobContext, Limits
from tests.unit.runtime.conftest import MakeRuntime
from tests.unit.runtime.sessions.test_resume import started

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


async def test_an_entry_says_what_the_specification_lists(runtime: Any, open_peer: Any) -> None:
    peer = await open_peer(runtime)
    stepper, job_id = await started(runtime, peer)
    await stepper.emit(4)
    page = await peer.ask("session.list_jobs")
    assert page["type"] == "session.jobs"
    assert page["payload"]["next_cursor"] is None
    (job,) = page["payload"]["jobs"]
    assert job["job_id"] == job_id
    assert job["agent"] == "stepper"
    assert job["status"] == "running"
    assert job["parent_job_id"] is None
    assert job["last_event_seq"] == 4
    assert job["created_at"].endswith("Z")
    assert len(job["trace_id"]) == 32
    assert job["lease"]["tool.call"] == ["*"]
    assert "credentials" not in job
    stepper.end.set()


async def test_an_empty_listing_is_an_empty_array(runtime: Any, open_peer: Any) -> None:
    peer = await open_peer(runtime)
    assert (await peer.ask("session.list_jobs", {}))["payload"]["jobs"] == []


async def test_filters_narrow_the_listing(runtime: Any, open_peer: Any) -> None:
    release = asyncio.Event()

    @runtime.agent("a", "1")
    async def a1(input: Any, job: JobContext) -> None: ...

    @runtime.agent("a", "2")
    async def a2(input: Any, job: JobContext) -> None:
        await release.wait()

    @runtime.agent("b")
    async def b(input: Any, job: JobContext) -> None:
        raise ValueError

    peer = await open_peer(runtime)
    ended, _ = await peer.run("a@1")
    open_ = (await peer.submit("a@2"))["payload"]["job_id"]
    failed, _ = await peer.run("b")

    async def listed(**wanted: Any) -> list[str]:
        page = await peer.ask("session.list_jobs", {"filter": wanted})
        return [job["job_id"] for job in page["payload"]["jobs"]]

    now = datetime.now(UTC)
    assert await listed() == [ended, open_, failed]
    assert await listed(status=["running", "pending"]) == [open_]
    assert await listed(status=["success", "error"]) == [ended, failed]
    assert await listed(agent="a") == [ended, open_]
    assert await listed(agent="a@2") == [open_]
    assert await listed(agent="a@2", status=["success"]) == []
    assert await listed(created_after=(now - timedelta(hours=1)).isoformat()) == [
        ended,
        open_,
        failed,
    ]
    assert await listed(created_after=(now + timedelta(hours=1)).isoformat()) == []
    assert await listed(created_after="2020-01-01T00:00:00") == [ended, open_, failed]
    release.set()


async def test_pages_neither_miss_nor_repeat_while_jobs_come(runtime: Any, open_peer: Any) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> None: ...

    peer = await open_peer(runtime)
    jobs = [(await peer.run("a"))[0] for _ in range(7)]
    seen: list[str] = []
    cursor = None
    for _ in range(10):
        page = await peer.ask("session.list_jobs", {"limit": 3, "cursor": cursor})
        assert len(page["payload"]["jobs"]) <= 3
        seen += [job["job_id"] for job in page["payload"]["jobs"]]
        cursor = page["payload"]["next_cursor"]
        if cursor is None:
            break
        if len(jobs) < 9:
            jobs.append((await peer.run("a"))[0])
    assert seen == jobs


@pytest.mark.parametrize(
    "payload",
    [
        {"limit": 0},
        {"limit": 1001},
        {"limit": "ten"},
        {"cursor": "made up"},
        {"cursor": "é"},
        {"cursor": 7},
        {"filter": {"created_after": "yesterday"}},
        {"filter": {"status": "running"}},
        {"filter": []},
    ],
)
async def test_a_listing_that_makes_no_sense_is_refused(
    runtime: Any, open_peer: Any, payload: Any
) -> None:
    peer = await open_peer(runtime)
    answer = await peer.ask("session.list_jobs", payload)
    assert answer["payload"]["code"] == "INVALID_REQUEST"


async def test_a_page_is_bounded_in_bytes_too(make: MakeRuntime, open_peer: Any) -> None:
    runtime = make(limits=Limits(lease_bytes=2**20))

    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> None: ...

    peer = await open_peer(runtime)
    lease = {"fs.read": [f"/{n}/" + "x" * 480 for n in range(250)]}
    for _ in range(20):
        await peer.run("a", lease_request=lease)
    seen, cursor, pages = 0, None, 0
    while True:
        page = await peer.ask("session.list_jobs", {"limit": 1000, "cursor": cursor})
        seen += len(page["payload"]["jobs"])
        cursor = page["payload"]["next_cursor"]
        pages += 1
        if cursor is None:
            break
    assert (seen, pages) == (20, 3)
