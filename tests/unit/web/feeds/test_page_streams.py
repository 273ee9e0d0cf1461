"""All pages share one session, and a page that does not read affects no other page."""

from __future__ import annotations

import asyncio
import socket

from arcp_client import Client
from arcp_client.transcripts import Scrubber
from arcp_client.web._feeds.job_list import JobList
from tests.unit.web.conftest import Doorkeeper
from tests.unit.web.kit import SOON, Gates, Parser, Site, Timeline, site


async def test_a_hundred_pages_cost_the_runtime_one_session(
    client: Client, other: Client, door: Doorkeeper, gates: Gates
) -> None:
    assert door.sessions == 2
    job = await other.submit("say", {"lines": 200, "gate": "half"})
    async with site(client) as served:
        tabs = [served.tab(job.id) for _ in range(100)]
        followed = [asyncio.create_task(tab.follow()) for tab in tabs]
        async with asyncio.timeout(SOON):
            while not all(tab.timeline.numbers for tab in tabs):
                await asyncio.sleep(0.01)
        gates["half"].set()
        for timeline in await asyncio.gather(*followed):
            assert timeline.numbers == list(range(1, 202))
            assert timeline.end == "success"
        status, overview = await served.get("api/overview")
    assert status == 200
    assert [row["job_id"] for row in overview["jobs"]] == [job.id]
    assert door.sessions == 2


async def test_pages_that_open_at_once_share_one_subscription(
    client: Client, other: Client
) -> None:
    job = await other.submit("say", {"lines": 50})
    await job.result()
    async with site(client) as served:
        tabs = [served.tab(job.id) for _ in range(20)]
        timelines = await asyncio.gather(*(tab.follow() for tab in tabs))
        assert len({tab.parser.last for tab in tabs}) == 1  # one epoch
    assert all(timeline.numbers == list(range(1, 52)) for timeline in timelines)
    assert client.stats().received == 51  # and the runtime told it once


async def test_a_page_that_does_not_read_delays_no_other_page_and_learns_what_it_missed(
    client: Client, other: Client, gates: Gates
) -> None:
    """It holds a position, not a queue: what it is behind is bounded by what the feed keeps."""
    job = await other.submit("say", {"lines": 10_000, "size": 900, "gate": "half"})
    async with site(client, memory=1_000_000) as served:
        assert served.server.port is not None
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.connect(("127.0.0.1", served.server.port))
        path = served.url(f"api/jobs/{job.id}/stream").path
        slow.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        tab = served.tab(job.id)
        await tab.follow(lambda timeline: len(timeline.numbers) >= 1)
        slow.settimeout(SOON)
        begun = socket.MSG_PEEK | socket.MSG_WAITALL
        await asyncio.to_thread(slow.recv, 32_768, begun)  # its stream, before the second half
        gates["half"].set()
        quick = await tab.follow()
        assert quick.end == "success"
        total = quick.numbers[-1]
        assert total > 10_000
        timeline = await asyncio.to_thread(_drained, slow)
    assert timeline.end == "success"
    assert timeline.resets[0] == "start"
    assert "expired" in timeline.resets
    assert timeline.numbers == list(range(timeline.numbers[0], total + 1))


def _drained(slow: socket.socket) -> Timeline:
    """Everything that a page reads late, and what it makes of it."""
    timeline, parser, data = Timeline(), Parser(), b""
    with slow:
        while timeline.end is None:
            piece = slow.recv(65536)
            assert piece, "the stream was cut off"
            data += piece
            if data.startswith(b"HTTP/1.1"):
                if b"\r\n\r\n" not in data:
                    continue
                data = data.partition(b"\r\n\r\n")[2]
            while (chunk := _chunk(data)) is not None:
                for frame in parser.feed(chunk[0]):
                    timeline.take(frame)
                data = chunk[1]
    return timeline


def _chunk(data: bytes) -> tuple[bytes, bytes] | None:
    head, separator, rest = data.partition(b"\r\n")
    if not separator or len(rest) < int(head, 16) + 2:
        return None
    size = int(head, 16)
    return rest[:size], rest[size + 2 :]


async def test_the_job_list_has_every_job_and_its_changes(
    dashboard: Site, other: Client, gates: Gates
) -> None:
    first = await other.submit("gated", "one")
    rows: dict[str, str] = {}
    agents: dict[str, tuple[str, str | None]] = {}
    second = None
    async for frame in dashboard.frames("api/overview/stream"):
        if frame.kind == "overview":
            assert frame.data["schema"] == "arcp-client.web/1"
            assert frame.data["runtime"]["name"] == "dashboard-tests"
            assert {agent["name"] for agent in frame.data["agents"]} >= {"echo", "say"}
            changed = frame.data["jobs"]
        else:
            changed = [frame.data] if frame.kind == "job" else []
        for row in changed:
            rows[row["job_id"]] = row["status"]
            agents[row["job_id"]] = (row["agent"], row["version"])
        if rows.get(first.id) == "running" and second is None:
            second = await other.submit("echo", 1)
            gates["one"].set()
        if second is not None and rows == {first.id: "success", second.id: "success"}:
            break
    assert second is not None
    assert agents == {first.id: ("gated", None), second.id: ("echo", "1.0.0")}


async def test_the_row_of_a_viewed_job_changes_with_its_events(
    dashboard: Site, other: Client, gates: Gates
) -> None:
    job = await other.submit("gated", "one")
    looking = asyncio.create_task(dashboard.tab(job.id).follow())
    async for frame in dashboard.frames("api/overview/stream"):
        if frame.kind == "job" and frame.data["phase"] == "waiting":
            gates["one"].set()
        if frame.kind == "job" and frame.data["status"] == "success":
            break
    await looking


async def test_a_page_that_is_too_far_behind_receives_the_whole_job_list(
    dashboard: Site, client: Client
) -> None:
    job_list = JobList(client, lambda _: None, Scrubber())
    await client.submit("echo", 1)
    await job_list.refresh()
    assert job_list.since(0) is not None
    for _ in range(600):
        for row in job_list._rows.values():
            job_list._change("job", row)
    assert job_list.since(0) is None
    seen = job_list.last
    assert job_list.since(seen) == (seen, b"")
    await job_list.close()
