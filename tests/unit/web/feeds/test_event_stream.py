"""A stream shows that it is alive, and does not wait without a limit for its reader."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any
from unittest import mock

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, make_mocked_request

from arcp_client import Client, events
from arcp_client._feeds import frames
from arcp_client._feeds.job_feed import JobFeed
from arcp_client._feeds.stream import FrameStream
from arcp_client.testing import VirtualClock
from arcp_client.web._feeds.event_stream import EventStream, OpenStreams
from tests.unit.web.kit import SOON, Gates, Parser, Site, site


async def test_an_idle_stream_sends_a_comment_at_intervals(
    dashboard: Site, other: Client, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcp_client._feeds.stream._KEEPALIVE", 0.0)
    monkeypatch.setattr("arcp_client.web._feeds.event_stream._POLL_INTERVAL", 0.01)
    job = await other.submit("gated", "one")
    url = dashboard.url(f"api/jobs/{job.id}/stream")
    told = b""
    async with asyncio.timeout(SOON), dashboard.http.get(url) as response:
        while told.count(b"\n:\n") < 3:
            told += await response.content.readany()
    assert told.startswith(b"retry: 1000\n\n")
    gates["one"].set()
    await job.result()


async def test_a_reader_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arcp_client.web._feeds.event_stream._WRITE_TIMEOUT", 0.05)
    ended: asyncio.Future[asyncio.Transport | None] = asyncio.get_running_loop().create_future()

    async def play(_: FrameStream, request: web.Request) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b":" + b" " * 65536 + b"\n\n"
        finally:
            ended.set_result(request.transport)

    async def handler(_: web.Request) -> web.StreamResponse:
        return EventStream(play)

    app = web.Application()
    app.router.add_get("/", handler)
    async with TestServer(app) as server:
        assert server.port is not None
        with socket.create_connection(("127.0.0.1", server.port)) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with asyncio.timeout(SOON):
                transport = await ended
                assert transport is None or transport.is_closing()
                while len(OpenStreams.of(app)):
                    await asyncio.sleep(0)


async def test_the_end_of_a_stream_does_not_wait_for_ever_for_its_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("arcp_client.web._feeds.event_stream._WRITE_TIMEOUT", 0.05)
    transports: list[asyncio.Transport] = []

    async def play(_: FrameStream, request: web.Request) -> AsyncIterator[bytes]:
        transport = request.transport
        assert transport is not None
        transports.append(transport)
        while not transport.get_write_buffer_size():
            yield b":" + b" " * 2000 + b"\n\n"

    async def handler(_: web.Request) -> web.StreamResponse:
        return EventStream(play)

    app = web.Application()
    app.router.add_get("/", handler)
    async with TestServer(app) as server:
        assert server.port is not None
        with socket.create_connection(("127.0.0.1", server.port)) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            async with asyncio.timeout(SOON):
                while not transports or not transports[0].is_closing():
                    await asyncio.sleep(0)


class Unsent(asyncio.Transport):
    """A connection with unsent data."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        return self.size

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        self.aborted = True


async def test_a_reader_of_the_end_of_a_stream_that_stops_later_is_disconnected_too(
    clock: VirtualClock,
) -> None:
    async def play(_: FrameStream, request: web.Request) -> AsyncIterator[bytes]:
        return
        yield b""

    transport = Unsent(3000)
    protocol = mock.Mock(transport=transport, _reading_paused=False)
    request = make_mocked_request("GET", "/", transport=transport, protocol=protocol)
    stream = EventStream(play)
    await stream.prepare(request)
    await stream.write_eof()
    for size in (2000, 1000):
        await asyncio.sleep(28.0)
        transport.size = size
        await asyncio.sleep(2.0)
        assert not transport.aborted
    await asyncio.sleep(60.0)
    assert transport.aborted


async def test_a_reader_that_disconnects_ends_its_own_stream_only(
    dashboard: Site, other: Client, gates: Gates
) -> None:
    job = await other.submit("say", {"lines": 40, "gate": "half"})
    for _ in range(5):
        await dashboard.tab(job.id).follow(lambda timeline: timeline.numbers)
    following = asyncio.create_task(dashboard.tab(job.id).follow())
    gates["half"].set()
    assert (await following).numbers == list(range(1, 42))


async def test_a_stream_is_bytes_that_no_browser_misreads() -> None:
    frame = frames.frame("job", frames.encoded({"a": "x\ny\r\u2028"}))
    assert frame == 'event: job\ndata: {"a":"x\\ny\\r\u2028"}\n\n'.encode()
    assert (
        frames.frame("e", b"1", id=frames.Position("ab", 3)) == b"id: ab-3\nevent: e\ndata: 1\n\n"
    )


@pytest.mark.parametrize(
    "value",
    ["half a \ud800 character", 10**40, float("nan"), float("inf"), {"a": [1e999]}],
    ids=repr,
)
async def test_values_that_json_cannot_represent_are_shown(
    dashboard: Site, client: Client, value: Any
) -> None:
    job = await client.submit("echo", 1)
    await job.result()
    feed = JobFeed(job)
    told = [
        events.Log(job_id=job.id, message=str(value)),
        events.Progress(job_id=job.id, current=1, message=str(value)),
        events.ToolCall(job_id=job.id, tool="t", call_id="1", args={"value": value}),
        events.Unknown(job_id=job.id, kind="x-odd", body={"value": value, str(value): 1}),
        events.Completed(job_id=job.id, value=value),
    ]
    for event in told:
        feed.add(event)
    found = feed.kept.read(0)
    assert found is not None
    [frame] = Parser().feed(found[1])
    assert len(frame.data) == 5
    [detail] = Parser().feed(feed.detail.frame)
    assert detail.data["events"] == 5
    assert json.loads(frames.encoded({"a": value}))
    assert len([*feed.lines()]) == 5
    feed.close()


@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/1.1"])
async def test_clients_of_http_1_0_are_streamed_to_as_well(
    dashboard: Site, other: Client, version: str
) -> None:
    job = await other.submit("echo", 1)
    await job.result()
    assert dashboard.server.port is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", dashboard.server.port)
    path = dashboard.url(f"api/jobs/{job.id}/stream").path
    writer.write(f"GET {path} {version}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    async with asyncio.timeout(SOON):
        told = await reader.read()
    writer.close()
    await writer.wait_closed()
    assert b"event: end\n" in told


@pytest.mark.parametrize("depth", [*range(950, 1010, 5), 100_000])
async def test_a_deeply_nested_event_does_not_end_a_feed(other: Client, depth: int) -> None:
    job = await other.submit("echo", 1)
    await job.result()
    args: list[object] = []
    for _ in range(depth):
        args = [args]
    feed = JobFeed(job)
    feed.add(events.ToolCall(job_id=job.id, tool="t", args=args))
    told = feed.kept.read(0)
    assert told is not None
    [frame] = Parser().feed(told[1])
    assert frame.data[0]["event"]["tool"] == "t"
    feed.close()


async def test_pages_show_that_a_feed_has_failed(
    dashboard: Site,
    other: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("that was unexpected")

    monkeypatch.setattr(JobFeed, "extend", fail)
    job = await other.submit("echo", 1)
    timeline = await dashboard.tab(job.id).follow()
    assert timeline.end == "lost"
    assert timeline.details[-1]["error"]["code"] == "JOB_LOST"
    assert "that was unexpected" in caplog.text


async def test_the_number_of_open_streams_is_limited(
    client: Client, other: Client, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OpenStreams, "full", property(lambda streams: len(streams) >= 2))
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


async def test_the_place_of_a_reader_that_disconnected_is_free_at_once(
    client: Client, other: Client, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcp_client._feeds.stream._KEEPALIVE", float("inf"))
    job = await other.submit("gated", "one")
    async with site(client) as served, asyncio.timeout(SOON):
        streams = OpenStreams.of(served.server.app)
        for path in (f"api/jobs/{job.id}/stream", "api/overview/stream"):
            async with served.http.get(served.url(path)) as response:
                await response.content.readany()
                assert len(streams) == 1
                response.close()
            while len(streams):
                await asyncio.sleep(0.01)
    gates["one"].set()
    await job.result()
