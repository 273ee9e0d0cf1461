"""`JobHandle.sse` and `Client.sse`: stream with positions, for any framework."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from arcp_client import (
    Choice,
    Client,
    Job,
    JobContext,
    Runtime,
    SqliteEventLog,
    SqliteStore,
    errors,
    events,
)
from arcp_client._feeds import browser_streams, frames
from arcp_client._feeds.job_feed import JobFeed, ResumePoint
from arcp_client.testing import VirtualClock
from arcp_client.web import SSE_HEADERS
from tests.unit.web.kit import SOON, Gates, Parser, Timeline, agents


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture
async def runtime(gates: Gates) -> AsyncIterator[Runtime]:
    async with Runtime() as runtime:
        agents(runtime, gates)
        yield runtime


@pytest.fixture
async def client(runtime: Runtime) -> AsyncIterator[Client]:
    async with Client(runtime) as client:
        yield client


class Browser:
    """What a browser keeps over its connections: the last id, and what the page has made of it."""

    def __init__(self) -> None:
        self.parser = Parser()
        self.timeline = Timeline()
        self.bytes = b""

    @property
    def last(self) -> str | None:
        return self.parser.last or None

    async def read(
        self, stream: AsyncGenerator[bytes, None], *, events: int | None = None
    ) -> Timeline:
        """Read to the end of the stream, or until the page has so many events."""
        self.parser.cut()
        async with asyncio.timeout(SOON), aclosing(stream):
            async for data in stream:
                self.bytes += data
                for frame in self.parser.feed(data):
                    self.timeline.take(frame)
                if events is not None and len(self.timeline.numbers) >= events:
                    break
        return self.timeline


def upto(n: int) -> list[int]:
    return list(range(1, n + 1))


def lines(timeline: Timeline) -> list[int]:
    """The lines of a job of `said` in the order in which the page received them."""
    assert timeline.numbers == list(range(timeline.numbers[0], timeline.numbers[-1] + 1))
    return [int(each["message"].rstrip(".")) for each in timeline.events if each["kind"] == "log"]


async def said(client: Client, lines: int, **more: Any) -> Job:
    """A job that has said so many lines, one event each, and its result."""
    job = await client.submit("say", {"lines": lines, **more})
    await job.result()
    return job


# ------------------------------------------------------------------------ one process


async def test_a_browser_receives_every_event_of_a_job_and_its_end(client: Client) -> None:
    job = await said(client, 200)
    browser = Browser()
    timeline = await browser.read(job.sse())
    assert browser.bytes.startswith(b"retry: 1000\n\nevent: job\n")
    assert timeline.resets == ["start"]
    assert timeline.numbers == upto(201)
    assert timeline.details[-1]["status"] == "success"
    assert timeline.end == "success"


async def test_a_browser_that_returns_continues_after_its_last_event(
    client: Client, gates: Gates
) -> None:
    job = await client.submit("say", {"lines": 100, "gate": "half"})
    browser = Browser()
    await browser.read(job.sse(), events=50)
    assert browser.last is not None
    gates["half"].set()
    await job.result()
    timeline = await browser.read(job.sse(last_event_id=browser.last))
    assert timeline.resets == ["start"]
    assert timeline.numbers == upto(101)
    again = await browser.read(job.sse(last_event_id=browser.last))
    assert (again.numbers, again.end) == (upto(101), "success")


@pytest.mark.parametrize(
    "last_event_id", ["", "nonsense", "a-1-", "x" * 9000, "\x00-1", "a\nid: b-1", "ü-3", "~beef-7"]
)
async def test_an_id_that_this_stream_has_not_sent_starts_anew(
    client: Client, last_event_id: str
) -> None:
    job = await said(client, 20)
    timeline = await Browser().read(job.sse(last_event_id=last_event_id))
    assert timeline.resets in (["start"], ["restarted"])
    assert timeline.numbers == upto(21)


@pytest.mark.parametrize("last_event_id", [7, b"a-1"])
async def test_an_id_that_is_no_text_is_refused(client: Client, last_event_id: Any) -> None:
    job = await said(client, 1)
    with pytest.raises(TypeError, match="last_event_id"):
        job.sse(last_event_id=last_event_id)
    with pytest.raises(TypeError, match="last_event_id"):
        await client.sse(job.id, last_event_id=last_event_id)


async def test_the_ids_of_frames_fit_a_header_whatever_ids_the_events_have(
    client: Client, gates: Gates
) -> None:
    job = await said(client, 1)
    feed = JobFeed(job)
    for odd in ("a\nb", "a\x00b", "a b", "ü", "x" * 300, "", "\ud800", "a-b", None):
        feed.add(events.Log(job_id=job.id, id=odd, message="line\nline\r\n\u2028"))
        after = feed.kept.last - 1
        found = feed.kept.read(after)
        assert found is not None
        [head, _, _, *rest] = found[1].split(b"\n")
        assert rest == [b"", b""]
        name, _, text = head.partition(b": ")
        assert name == b"id"
        assert text.isascii()
        assert text.decode().isprintable()
        assert len(text) < 128
        asked = frames.position(text.decode())
        assert asked is not None
        assert feed.resume_point(asked) == ResumePoint(feed.kept.last)
    feed.close()


async def test_an_idle_stream_sends_a_comment_every_fifteen_seconds(
    client: Client, gates: Gates, clock: VirtualClock
) -> None:
    job = await client.submit("gated", "one")
    loop = asyncio.get_running_loop()
    async with aclosing(job.sse()) as stream:
        at: list[float] = []
        async for data in stream:
            if data == b":\n\n":
                at.append(loop.time())
                if len(at) == 3:
                    break
    assert [round(after - before, 1) for before, after in itertools.pairwise(at)] == [15, 15]
    gates["one"].set()
    await job.result()


async def test_a_stream_ends_after_its_share_of_bytes_and_continues_with_the_next_request(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_streams, "_STREAM_BYTES", 200_000)
    job = await client.submit("say", {"lines": 1000, "size": 1000})
    browser = Browser()
    largest, requests = 0, 0
    job.sse()  # from now on the events are kept
    await job.result()
    while browser.timeline.end is None:
        before = len(browser.bytes)
        await browser.read(job.sse(last_event_id=browser.last))
        largest = max(largest, len(browser.bytes) - before)
        requests += 1
        if browser.timeline.end is None:
            assert browser.bytes.endswith(b"retry: 100\n\n")
    assert requests > 4
    assert largest < 200_000 + 64 * 1024 + 4096
    assert browser.timeline.resets == ["start"]
    assert browser.timeline.numbers == upto(1001)


async def test_a_slow_reader_holds_no_events_and_is_told_what_is_no_longer_kept(
    client: Client, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client._parts.streams._feeds, "_memory", 100_000)
    job = await client.submit("say", {"lines": 1000, "size": 1000, "gate": "half"})
    slow, quick = Browser(), Browser()
    stalled = job.sse()
    async with asyncio.timeout(SOON):
        for _ in range(4):  # retry, job, reset, events
            for frame in slow.parser.feed(await anext(stalled)):
                slow.timeline.take(frame)
    gates["half"].set()
    assert (await quick.read(job.sse())).end == "success"
    feed = client._parts.streams._feeds.get(job.id)
    assert feed is not None
    assert sum(map(len, feed.kept.entries())) <= 100_000
    timeline = await slow.read(stalled)
    assert timeline.resets == ["start", "expired"]
    assert timeline.numbers == list(range(timeline.numbers[0], 1002))


async def test_a_reader_that_leaves_releases_everything(client: Client, gates: Gates) -> None:
    job = await client.submit("gated", "one")
    feed = client._parts.streams._feeds

    async def viewers() -> int:
        return feed._feeds[job.id].viewers

    stream = job.sse()
    await anext(stream)
    assert (len(client._parts.streams), await viewers()) == (1, 1)
    await stream.aclose()
    assert (len(client._parts.streams), await viewers()) == (0, 0)

    waiting = asyncio.create_task(Browser().read(job.sse()))
    async with asyncio.timeout(SOON):
        while not len(client._parts.streams):
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (len(client._parts.streams), await viewers()) == (0, 0)

        dropped = job.sse()
        await anext(dropped)
        del dropped  # a framework may forget the generator
        gc.collect()
        while len(client._parts.streams):
            await asyncio.sleep(0)
        assert await viewers() == 0
    gates["one"].set()
    await job.result()


async def test_a_stream_ends_half_a_minute_after_a_frame_if_no_further_one_is_asked_for(
    client: Client, gates: Gates, clock: VirtualClock
) -> None:
    """A web server may keep a generator that it has dropped, until its memory is collected."""
    job = await client.submit("gated", "one")
    kept, read = job.sse(), job.sse()
    browser = Browser()
    await anext(kept)
    for _ in range(2):  # retry, job
        for frame in browser.parser.feed(await anext(read)):
            browser.timeline.take(frame)
    await clock.advance(29)
    assert len(client._parts.streams) == 2
    browser.parser.feed(await anext(read))
    await clock.advance(1)
    assert len(client._parts.streams) == 1
    with pytest.raises(StopAsyncIteration):
        await anext(kept)
    gates["one"].set()
    assert (await browser.read(read)).end == "success"


async def test_a_stream_that_is_asked_for_a_frame_while_it_ends_goes_on(
    client: Client, gates: Gates
) -> None:
    job = await client.submit("gated", "one")
    await Browser().read(job.sse(), events=1)
    stream = job.sse()
    reading = asyncio.ensure_future(Browser().read(stream))
    async with asyncio.timeout(SOON):
        while not stream.ag_running:  # type: ignore[attr-defined]
            await asyncio.sleep(0)
    await browser_streams._close(stream)
    gates["one"].set()
    assert (await reading).end == "success"


async def test_a_stream_that_is_never_read_counts_as_no_reader(
    client: Client, gates: Gates
) -> None:
    job = await client.submit("gated", "one")
    job.sse()
    assert len(client._parts.streams) == 0
    assert client._parts.streams._feeds._feeds[job.id].viewers == 0
    gates["one"].set()
    await job.result()


async def test_the_events_of_a_job_are_kept_for_ten_minutes_without_a_reader(
    client: Client, gates: Gates, clock: VirtualClock
) -> None:
    job = await client.submit("say", {"lines": 100, "gate": "half"})
    browser = Browser()
    await browser.read(job.sse(), events=50)
    await asyncio.sleep(590)
    assert client._parts.streams._feeds.get(job.id) is not None
    await asyncio.sleep(20)
    assert client._parts.streams._feeds.get(job.id) is None
    gates["half"].set()
    await job.result()
    timeline = await browser.read(job.sse(last_event_id=browser.last))  # from the replay buffer
    assert (timeline.resets, timeline.numbers) == (["start"], upto(101))


async def test_streams_end_with_the_client_and_say_no_end_of_the_job(
    runtime: Runtime, gates: Gates
) -> None:
    client = Client(runtime)
    async with client:
        job = await client.submit("gated", "one")
        browsers = [Browser() for _ in range(10)]
        reading = [asyncio.create_task(browser.read(job.sse())) for browser in browsers]
        async with asyncio.timeout(SOON):
            while not all(browser.timeline.numbers for browser in browsers):
                await asyncio.sleep(0.001)
    async with asyncio.timeout(SOON):
        for timeline in await asyncio.gather(*reading):
            assert timeline.end is None
    assert len(client._parts.streams) == 0
    with pytest.raises(errors.ClientClosed):
        job.sse()
    with pytest.raises(errors.ClientClosed):
        await client.sse(job.id)
    gates["one"].set()


async def test_end_streams_ends_the_open_streams_only(client: Client, gates: Gates) -> None:
    job = await client.submit("say", {"lines": 100, "gate": "half"})
    browser = Browser()
    reading = asyncio.create_task(browser.read(job.sse()))
    async with asyncio.timeout(SOON):
        while not browser.timeline.numbers:
            await asyncio.sleep(0.001)
        client.end_streams()
        assert (await reading).end is None
    gates["half"].set()
    timeline = await browser.read(job.sse(last_event_id=browser.last))
    assert (timeline.resets, timeline.numbers) == (["start"], upto(101))


async def test_a_job_beyond_those_that_may_be_streamed_is_refused(
    client: Client, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client._parts.streams._feeds, "_limit", 2)
    jobs = [await client.submit("gated", "one") for _ in range(3)]
    held = [job.sse() for job in jobs[:2]]
    for stream in held:
        await anext(stream)
    with pytest.raises(errors.TooManyStreams):
        jobs[2].sse()
    with pytest.raises(errors.TooManyStreams):
        await client.sse(jobs[2].id)
    await held[0].aclose()
    await client.sse(jobs[2].id)
    await held[1].aclose()
    gates["one"].set()
    for job in jobs:
        await job.result()


async def test_many_jobs_share_the_memory_of_the_streams(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds = client._parts.streams._feeds
    monkeypatch.setattr(feeds, "_total", 200_000)
    jobs = [await said(client, 200, size=1000) for _ in range(4)]
    for job in jobs:
        await Browser().read(job.sse())
    held = [sum(map(len, feed.kept.entries())) for feed in feeds]
    assert len(held) == 4
    assert sum(held) <= 200_000


async def test_the_token_of_the_client_is_masked(runtime: Runtime) -> None:
    async with Client(runtime, token="a-token-of-this-client") as client:
        job = await client.submit("echo", {"said": "a-token-of-this-client"})
        await job.result()
        browser = Browser()
        await browser.read(job.sse())
    assert b"a-token-of-this-client" not in browser.bytes
    assert b"said" in browser.bytes


def test_the_headers_keep_proxies_from_storing_and_holding_back_the_stream() -> None:
    assert dict(SSE_HEADERS) == {
        "Content-Type": "text/event-stream; charset=utf-8",
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",
    }


async def test_an_unknown_job_is_refused_before_the_response_begins(client: Client) -> None:
    with pytest.raises(errors.JobNotFound):
        await client.sse("job_nobody_has")


async def test_a_call_from_another_loop_is_refused(client: Client) -> None:
    job = await said(client, 1)

    def elsewhere() -> None:
        async def call() -> None:
            with pytest.raises(errors.LocalProtocolError):
                job.sse()
            with pytest.raises(errors.LocalProtocolError):
                await client.sse(job.id)

        asyncio.run(call())

    await asyncio.to_thread(elsewhere)


# ------------------------------------------------------------------------ other processes


async def test_a_browser_continues_at_another_client_after_its_last_event(
    runtime: Runtime, gates: Gates
) -> None:
    """As after a restart of the service, or in another process behind the same address."""
    async with Client(runtime) as submitter:
        job = await submitter.submit("say", {"lines": 3000, "gate": "half"})
        browser = Browser()
        async with Client(runtime) as first:
            await browser.read(await first.sse(job.id), events=700)
        gates["half"].set()
        await job.result()
        async with Client(runtime) as second:
            stream = await second.sse(job.id, last_event_id=browser.last)
            timeline = await browser.read(stream)
    assert timeline.resets == ["start"]
    assert lines(timeline) == list(range(3000))
    assert timeline.end == "success"


async def test_a_browser_continues_after_a_restart_of_the_client_that_submitted_the_job(
    runtime: Runtime, gates: Gates
) -> None:
    browser = Browser()
    async with Client(runtime) as first:
        job = await first.submit("say", {"lines": 100, "gate": "half"})
        await browser.read(job.sse(), events=50)
    gates["half"].set()
    async with Client(runtime) as second:
        stream = await second.sse(job.id, last_event_id=browser.last)
        timeline = await browser.read(stream)
    assert (timeline.resets, timeline.numbers) == (["start"], upto(101))


async def test_after_a_restart_with_a_store_a_client_without_one_continues_the_stream(
    runtime: Runtime, gates: Gates, tmp_path: Path
) -> None:
    """The session of the store receives only what it has not processed; others the history."""
    store = str(tmp_path / "service.db")
    browser, own = Browser(), Browser()
    async with Client(runtime, store=SqliteStore(store)) as first:
        job = await first.submit("say", {"lines": 100, "gate": "half"})
        await own.read(job.sse(), events=50)
        async with Client(runtime) as viewer:
            await browser.read(await viewer.sse(job.id), events=50)
        await first.detach()
    gates["half"].set()
    async with Client(runtime, store=SqliteStore(store)) as second:
        [same] = second.open_jobs()
        assert same.id == job.id
        stream = await second.sse(job.id, last_event_id=own.last)
        timeline = await own.read(stream)
        assert timeline.resets == ["start", "restarted"]  # told, not silent
        assert timeline.events[0]["kind"] == "gap"
        assert timeline.events[0]["reason"] == "not_retained"
        assert timeline.end == "success"
        async with Client(runtime) as viewer:
            stream = await viewer.sse(job.id, last_event_id=browser.last)
            timeline = await browser.read(stream)
    assert (timeline.resets, timeline.numbers) == (["start"], upto(101))


async def test_a_browser_that_is_ahead_of_a_new_process_waits_for_its_history(
    runtime: Runtime, gates: Gates
) -> None:
    async with Client(runtime) as submitter, Client(runtime) as first, Client(runtime) as second:
        job = await submitter.submit("say", {"lines": 3000, "gate": "half"})
        browser = Browser()
        await browser.read(await first.sse(job.id), events=1500)
        stream = await second.sse(job.id, last_event_id=browser.last)
        feed = second._parts.streams._feeds.get(job.id)
        assert feed is not None
        assert feed.kept.last < 1500
        reading = asyncio.create_task(browser.read(stream))
        gates["half"].set()
        timeline = await reading
    assert (timeline.resets, lines(timeline)) == (["start"], list(range(3000)))


async def test_a_position_that_never_arrives_resets_the_page(
    client: Client, gates: Gates, clock: VirtualClock
) -> None:
    job = await client.submit("say", {"lines": 100, "gate": "half"})
    loop = asyncio.get_running_loop()
    begun = loop.time()
    browser = Browser()
    stream = job.sse(last_event_id="01M8HS66Z82C9MBD9FFJ1ZPEF3-70")
    timeline = await browser.read(stream, events=50)
    assert timeline.resets == ["restarted"]
    assert timeline.numbers == upto(50)
    assert loop.time() - begun <= 3.0
    gates["half"].set()
    await job.result()


async def test_a_position_of_another_job_resets_the_page(client: Client) -> None:
    first, second = await said(client, 30), await said(client, 30)
    browser = Browser()
    await browser.read(first.sse())
    timeline = await browser.read(second.sse(last_event_id=browser.last))
    assert timeline.resets == ["start", "restarted"]
    assert timeline.numbers == upto(31)


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "file"])
async def test_a_restart_of_the_runtime_is_survived_with_a_durable_log(
    durable: bool, tmp_path: Path
) -> None:
    def made() -> Runtime:
        log = SqliteEventLog(str(tmp_path / "runtime.db")) if durable else None
        runtime = Runtime(event_log=log)
        agents(runtime, Gates())
        return runtime

    browser = Browser()
    async with made() as runtime, Client(runtime) as client:
        job = await said(client, 2000)
        await browser.read(job.sse(), events=600)
    known = lines(browser.timeline)  # the first ones were no longer in the replay buffer
    assert known[-1] < 1999
    async with made() as runtime, Client(runtime) as client:
        if not durable:
            with pytest.raises(errors.JobNotFound):
                await client.sse(job.id, last_event_id=browser.last)
            return
        timeline = await browser.read(await client.sse(job.id, last_event_id=browser.last))
    assert timeline.resets == ["start"]
    assert lines(timeline) == list(range(known[0], 2000))


async def test_questions_and_their_answers_are_events_of_every_stream(
    runtime: Runtime, client: Client
) -> None:
    @runtime.agent("asks_once")
    async def asks(input: Any, job: JobContext) -> Any:
        return await job.ask("Deploy?", options=[Choice("go", "Deploy now")], timeout=600)

    job = await client.submit("asks_once")
    told: list[dict[str, Any]] = []
    parser = Parser()
    async with asyncio.timeout(SOON), aclosing(await client.sse(job.id)) as stream:
        async for data in stream:
            for frame in parser.feed(data):
                for entry in frame.data if frame.kind == "events" else ():
                    told.append(entry["event"])
                    if entry["event"]["kind"] == "x-vendor.arcp-client.question":
                        await client.answer(job.id, entry["event"]["question_id"], "go")
    asked, answered, _ = told
    assert (asked["text"], asked["has_default"]) == ("Deploy?", False)
    assert asked["options"] == [{"value": "go", "label": "Deploy now"}]
    assert answered["kind"] == "x-vendor.arcp-client.answered"
    assert (answered["question_id"], answered["value"]) == (asked["question_id"], "go")
    assert (answered["by"], answered["client"].split()[0]) == ("anonymous", "arcp-client")
