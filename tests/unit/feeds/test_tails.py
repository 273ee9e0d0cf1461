"""A page that begins with a tail has the state of the whole job; it reads older events in pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcp_client import Client, Job, Runtime, events
from arcp_client._feeds import frames, history
from arcp_client._feeds.job_feed import JobFeed, ResumePoint
from arcp_client._feeds.kept_events import PAGE_EVENTS, TAIL_BYTES, TAIL_EVENTS
from tests.unit.web.kit import Frame, Gates, Parser, Site, Tab, agents


def upto(n: int) -> list[int]:
    return list(range(1, n + 1))


async def pages(site: Site, job_id: str, position: str | None) -> list[int]:
    """The numbers of all events up to a position, read in pages from the newest to the oldest."""
    found: list[int] = []
    while position is not None:
        url = site.url(f"api/jobs/{job_id}/events").with_query(until=position)
        async with site.http.get(url) as response:
            assert response.status == 200, await response.text()
            page = await response.json()
        numbers = [entry["n"] for entry in page["events"]]
        assert numbers
        assert len(numbers) <= PAGE_EVENTS
        found, position = numbers + found, page["before"]
    return found


async def test_a_page_receives_the_newest_events_and_reads_the_older_ones_in_pages(
    dashboard: Site, other: Client
) -> None:
    job = await other.submit("say", {"lines": 5000})
    whole = await dashboard.tab(job.id).follow()
    tab = Tab(dashboard.http, dashboard.tab(job.id).url.with_query(tail=300))
    told: list[Frame] = []
    tab.timeline.take = told.append  # type: ignore[method-assign]
    await tab.follow(lambda _: any(frame.kind == "end" for frame in told))
    (reset,) = [frame for frame in told if frame.kind == "reset"]
    total = reset.data["at"]
    assert total == len(whole.numbers)
    numbers = [entry["n"] for f in told if f.kind == "events" for entry in f.data]
    assert numbers == upto(total)[-300:]
    assert reset.data["older"] == total - 300
    assert (await pages(dashboard, job.id, reset.id)) + numbers == upto(total)
    detail = next(frame.data for frame in told if frame.kind == "job")
    assert detail["events"] == total, "the state is that of all events"


async def test_a_stream_without_a_tail_is_as_before(dashboard: Site, other: Client) -> None:
    job = await other.submit("say", {"lines": 10})
    async for frame in dashboard.frames(f"api/jobs/{job.id}/stream?tail=x"):
        if frame.kind == "reset":
            assert frame.data == {"reason": "start"}
        if frame.kind == "events":
            assert frame.data[0]["n"] == 1
            break


async def test_a_position_that_is_not_kept_is_refused_with_what_to_do(
    dashboard: Site, other: Client
) -> None:
    job = await other.submit("echo", 1)
    for position in ("", "nonsense", "~0123-7", "gone-3"):
        status, body = await dashboard.get(f"api/jobs/{job.id}/events?until={position}")
        assert (status, body["error"]["code"]) == (404, "NOT_KEPT")
        assert body["error"]["remedy"] == "reload the page"


async def test_a_shared_stream_takes_a_tail(dashboard: Site, other: Client) -> None:
    job = await other.submit("say", {"lines": 500})
    await dashboard.tab(job.id).follow()
    numbers: list[int] = []
    async for frame in dashboard.frames_raw("api/streams"):
        if frame.kind == "hello":
            path = f"api/jobs/{job.id}/stream?tail=20"
            status, _ = await dashboard.post(
                f"api/streams/{json.loads(frame.data)}", {"add": "a", "path": path, "after": None}
            )
            assert status == 202
            continue
        _name, kind, _position, data = frame.data.split(" ", 3)
        if kind == "events":
            numbers += [entry["n"] for entry in json.loads(data)]
        if kind == "end":
            break
    assert len(numbers) == 20


# ------------------------------------------------------------------------ the feed alone


async def first(job: Job, count: int) -> AsyncIterator[events.Event]:
    """So many events of a job."""
    async for event in job:
        yield event
        count -= 1
        if not count:
            return


async def ended_job(client: Client) -> Any:
    job = await client.submit("echo", None)
    await job.result()
    return job


async def test_a_tail_is_bounded_in_events_and_in_bytes(client: Client) -> None:
    feed = JobFeed(await ended_job(client))
    for _ in range(TAIL_EVENTS + 10):
        feed.add(events.Log(job_id=feed.job.id, message="x"))
    assert feed.kept.last - feed.kept.tail_start(10**6) == TAIL_EVENTS
    for _ in range(100):
        feed.add(events.Log(job_id=feed.job.id, message="x" * 20_000))
    after = feed.kept.tail_start(TAIL_EVENTS)
    assert sum(map(len, list(feed.kept.entries())[after - feed.kept.first + 1 :])) <= TAIL_BYTES
    feed.add(events.Log(job_id=feed.job.id, message="x" * TAIL_BYTES))
    assert feed.kept.tail_start(TAIL_EVENTS) == feed.kept.last - 1, "the newest is always in it"
    feed.close()


async def test_a_page_that_comes_back_far_behind_begins_with_the_newest_events(
    client: Client,
) -> None:
    feed = JobFeed(await ended_job(client))
    for n in range(100):
        feed.add(events.Log(job_id=feed.job.id, id=f"e{n + 1}", message="x"))
    feed.fail(asyncio.CancelledError())  # the history is complete
    assert feed.resume_point(frames.Position("e95", 95), 10) == ResumePoint(95)
    assert feed.resume_point(frames.Position("e5", 5), 10) == ResumePoint(90, "skipped")
    assert feed.resume_point(frames.Position("e5", 5)) == ResumePoint(5)
    assert feed.resume_point(frames.Position("gone", 5), 10) == ResumePoint(90, "restarted")
    feed.close()


async def test_a_tail_begins_after_a_history_that_arrives_quickly(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_PAUSE", 1000.0)
    monkeypatch.setattr(history, "_LONGEST", 1000.0)
    monkeypatch.setattr(history, "_RATE", -1)  # any rate is one of a history
    feed = JobFeed(await ended_job(client))
    assert feed.resume_point(None, 10) is None, "the history is about to arrive"
    for _ in range(3000):
        feed.add(events.Log(job_id=feed.job.id, message="x"))
    assert feed.resume_point(None, 10) is None, "it arrives"
    assert feed.resume_point(None) == ResumePoint(0, "start"), "others read it as it arrives"
    feed.add(events.Completed(job_id=feed.job.id))
    assert feed.resume_point(None, 10) == ResumePoint(2991, "start")
    feed.close()


async def test_a_tail_begins_with_the_last_past_event_that_the_runtime_named(
    client: Client, other: Client, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_PAUSE", 1000.0)
    monkeypatch.setattr(history, "_LONGEST", 1000.0)
    job = await other.submit("say", {"lines": 300, "gate": "half"})
    said = [event async for event in first(job, 150)]
    view = await client.watch(job.id, history=True)
    assert view.history_last == said[-1].id
    feed = JobFeed(view)
    for event in said[:-1]:
        feed.add(event)
        assert feed.resume_point(None, 10) is None
    before = feed.changed.revision
    feed.add(said[-1])
    assert feed.changed.revision > before, "readers are told at once"
    assert feed.resume_point(None, 10) == ResumePoint(140, "start")
    assert feed.resume_point(frames.Position("gone", 5)) == ResumePoint(0, "restarted")
    feed.close()
    gates["half"].set()
    await job.result()


async def test_a_tail_of_a_job_without_past_events_begins_at_once(
    client: Client, other: Client, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_PAUSE", 1000.0)
    job = await other.submit("say", {"lines": 1, "gate": "half"})
    feed = JobFeed(await client.watch(job.id, history=True))
    assert feed.resume_point(None, 10) == ResumePoint(0, "start")
    feed.close()
    gates["half"].set()
    await job.result()


async def test_a_tail_of_a_job_that_the_client_submitted_begins_with_what_it_has(
    client: Client, gates: Gates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_PAUSE", 1000.0)
    monkeypatch.setattr(history, "_LONGEST", 1000.0)
    job = await client.submit("say", {"lines": 20, "gate": "half"})
    said = [event async for event in first(job, 10)]
    view = await client.watch(job.id, history=True)
    assert view.history_last == said[-1].id
    feed = JobFeed(view)
    feed.extend(said[:-1])
    assert feed.resume_point(None, 5) is None
    feed.extend(said[-1:])
    assert feed.resume_point(None, 5) == ResumePoint(5, "start")
    feed.close()
    gates["half"].set()
    await job.result()


@settings(max_examples=50)
@given(
    sizes=st.lists(st.integers(0, 400), min_size=1, max_size=60),
    tail=st.integers(1, 30),
    memory=st.integers(2_000, 20_000),
)
async def test_the_tail_and_the_pages_before_it_are_all_kept_events_once(
    sizes: list[int], tail: int, memory: int
) -> None:
    async with Runtime() as runtime, Client(runtime) as client:
        agents(runtime, Gates())
        feed = JobFeed(await ended_job(client), memory=memory)
        for size in sizes:
            feed.add(events.Log(job_id=feed.job.id, message="x" * size))
        after = feed.kept.tail_start(tail)
        assert feed.kept.last - after <= tail
        (reset,) = Parser().feed(feed.reset("start", after, tail=True))
        assert reset.data["older"] == after - feed.kept.first + 1
        position: frames.Position | None = frames.position(reset.id)
        found = list(range(after + 1, feed.kept.last + 1))
        while position is not None:
            page = feed.kept.older(position)
            assert page is not None
            told = json.loads(page)
            found = [entry["n"] for entry in told["events"]] + found
            position = frames.position(told["before"])
        assert found == list(range(feed.kept.first, feed.kept.last + 1))
        feed.close()
