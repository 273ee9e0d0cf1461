"""A page that is cut off, hidden or slow receives every event once and in order, or a reset."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcp_client import Client, Runtime, events
from arcp_client._feeds import frames
from arcp_client._feeds.job_feed import JobFeed
from arcp_client._feeds.kept_events import BATCH_BYTES, BATCH_EVENTS
from tests.unit.web.kit import Gates, Parser, Site, Tab, agents, site


def upto(n: int) -> list[int]:
    return list(range(1, n + 1))


async def test_a_page_receives_all_events_from_the_first_to_the_end(
    dashboard: Site, other: Client
) -> None:
    job = await other.submit("say", {"lines": 2000})
    timeline = await dashboard.tab(job.id).follow()
    assert timeline.resets == ["start"]
    assert timeline.numbers == upto(len(timeline.numbers))
    logged = [each["message"] for each in timeline.events if each["kind"] == "log"]
    assert logged == [f"{n}".ljust(10, ".") for n in range(2000)]
    assert timeline.events[-1]["kind"] == "result"
    assert timeline.end == "success"
    assert timeline.details[-1]["status"] == "success"


async def test_a_page_that_reconnects_continues_after_its_last_event(
    dashboard: Site, other: Client, gates: Gates
) -> None:
    job = await other.submit("say", {"lines": 100, "gate": "half"})
    tab = dashboard.tab(job.id)
    await tab.follow(lambda timeline: len(timeline.numbers) >= 50)
    gates["half"].set()
    await job.result()
    timeline = await tab.follow()
    assert timeline.resets == ["start"]
    assert timeline.numbers == upto(101)


async def test_the_header_of_the_browser_wins_over_the_position_in_the_url(
    dashboard: Site, other: Client
) -> None:
    job = await other.submit("say", {"lines": 100})
    first = dashboard.tab(job.id)
    whole = await first.follow()
    ids = [event["id"] for event in whole.events]
    again = Tab(dashboard.http, first.url.with_query(after=f"{ids[9]}-10"))
    assert (await again.follow()).numbers == upto(101)[10:]
    again = Tab(dashboard.http, again.url, parser=Parser(last=f"{ids[89]}-90"))
    assert (await again.follow()).numbers == upto(101)[90:]
    assert again.timeline.resets == []
    assert whole.numbers == upto(101)


async def test_a_page_that_has_all_events_receives_only_the_end(
    dashboard: Site, other: Client
) -> None:
    job = await other.submit("echo", 1)
    tab = dashboard.tab(job.id)
    await tab.follow()
    again = Tab(dashboard.http, tab.url, parser=Parser(last=tab.parser.last))
    timeline = await again.follow()
    assert (timeline.numbers, timeline.resets, timeline.end) == ([], [], "success")


@pytest.mark.parametrize(
    "position", ["nonsense", "-1", "a-", "a-1-2", "A-1", "0-99999999999999999", "ü-1", "x" * 5000]
)
async def test_a_page_with_an_unknown_position_starts_anew(
    dashboard: Site, other: Client, position: str
) -> None:
    job = await other.submit("echo", 1)
    tab = dashboard.tab(job.id)
    tab.url = tab.url.with_query(after=position)
    timeline = await tab.follow()
    assert timeline.resets in (["start"], ["restarted"])
    assert timeline.numbers == upto(len(timeline.numbers))


async def test_after_a_restart_of_the_web_server_pages_continue_after_their_last_event(
    client: Client, other: Client
) -> None:
    job = await other.submit("say", {"lines": 3000})
    await job.result()
    async with site(client) as before:
        tab = before.tab(job.id)
        await tab.follow(lambda timeline: timeline.numbers)
    assert len(tab.timeline.numbers) < 3000
    async with site(client) as after:
        tab.http, tab.url = after.http, after.tab(job.id).url
        timeline = await tab.follow()
    assert timeline.resets == ["start"]
    assert timeline.numbers == upto(len(timeline.numbers))
    logged = [each["message"].rstrip(".") for each in timeline.events if each["kind"] == "log"]
    assert logged == [f"{n}" for n in range(3000)]


async def test_a_page_whose_position_is_no_longer_kept_is_reset_to_the_oldest_event(
    client: Client, other: Client, gates: Gates
) -> None:
    job = await other.submit("say", {"lines": 400, "size": 1000, "gate": "half"})
    async with site(client, memory=100_000) as served:
        tab = served.tab(job.id)
        await tab.follow(lambda timeline: timeline.numbers)
        held = tab.timeline.numbers[-1]
        gates["half"].set()
        await job.result()
        timeline = await tab.follow()
    assert timeline.resets[-1] == "expired"
    first = timeline.numbers[0]
    assert first > held
    assert timeline.numbers == list(range(first, 402))
    assert len(timeline.numbers) < 120


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(min_value=1, max_value=200_000), max_size=8))
async def test_a_stream_that_is_cut_anywhere_loses_and_repeats_no_event(
    cuts: list[int],
) -> None:
    gates = Gates()
    async with Runtime() as runtime, Client(runtime) as client, Client(runtime) as other:
        agents(runtime, gates)
        async with site(client) as served:
            # Some 30 batches, so that cuts are in and between them.
            job = await other.submit("say", {"lines": 300, "size": 4000, "gate": "half"})
            tab = served.tab(job.id)
            await tab.follow(lambda timeline: len(timeline.numbers) >= 150)
            gates["half"].set()
            for cut in cuts:
                if tab.timeline.end is None:
                    await tab.follow(at_most=cut)
            timeline = tab.timeline if tab.timeline.end else await tab.follow()
    assert timeline.resets == ["start"]
    assert timeline.numbers == upto(301)


# ------------------------------------------------------------------------ the feed alone


async def test_a_batch_is_bounded_in_events_and_in_bytes(client: Client) -> None:
    job = await client.submit("echo", None)
    await job.result()
    feed = JobFeed(job)
    for n in range(BATCH_EVENTS + 10):
        feed.add(events.Log(job_id=job.id, message=f"{n}"))
    last, frame = feed.kept.read(0) or (0, b"")
    assert len(frame) < BATCH_BYTES + 200
    for _ in range(10):
        feed.add(events.Log(job_id=job.id, message="x" * BATCH_BYTES))
    after = BATCH_EVENTS + 10
    for n in range(1, 11):  # one that is larger than any batch goes alone
        last, frame = feed.kept.read(after + n - 1) or (0, b"")
        assert last == after + n
    feed.close()


async def test_readers_at_the_same_position_share_one_frame(client: Client) -> None:
    job = await client.submit("echo", None)
    await job.result()
    feed = JobFeed(job)
    feed.add(events.Log(job_id=job.id, message="x"))
    first, second = feed.kept.read(0), feed.kept.read(0)
    assert first is not None
    assert second is not None
    assert first[1] is second[1]
    feed.close()


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(min_value=0, max_value=3000)),
            st.tuples(st.just("read"), st.integers(min_value=0, max_value=2)),
        ),
        max_size=60,
    )
)
async def test_readers_at_any_pace_miss_no_event_without_a_reset(
    steps: list[tuple[str, int]],
) -> None:
    async with Runtime() as runtime, Client(runtime) as client:
        agents(runtime, Gates())
        job = await client.submit("echo", None)
        await job.result()
        feed = JobFeed(job, memory=2_000)
        readers: list[list[int]] = [[], [], []]
        places = [0, 0, 0]
        for step, number in steps:
            if step == "add":
                feed.add(events.Log(job_id=job.id, message="x" * number))
                assert (
                    sum(map(len, feed.kept.entries())) < 2_000 + 4_000
                )  # the limit, and one event
                continue
            place = feed.resume_point(frames.Position(f"~{feed.kept.epoch}", places[number]))
            assert place is not None
            after, reason, _ = place
            if reason is not None:
                assert reason == "expired"
                readers[number].clear()
            found = feed.kept.read(after)
            if found is None:
                assert after == feed.kept.last
                continue
            [frame] = Parser().feed(found[1])
            new = [entry["n"] for entry in frame.data]
            assert new[0] == after + 1
            readers[number] += new
            places[number] = found[0]
            assert readers[number] == list(range(readers[number][0], found[0] + 1))
        feed.close()


@given(st.text(max_size=60))
def test_a_text_that_is_no_position_is_ignored(text: str) -> None:
    found = frames.position(text)
    assert found is None or str(found) == text or found.n == int(text.rpartition("-")[2])


@given(
    st.from_regex(r"~?[0-9A-Za-z_.:-]{1,80}", fullmatch=True),
    st.integers(min_value=0, max_value=10**15 - 1),
)
def test_a_position_is_read_back_from_its_text(mark: str, n: int) -> None:
    place = frames.Position(mark, n)
    assert frames.position(str(place)) == place


async def test_a_line_of_an_agent_cannot_end_a_frame(dashboard: Site, other: Client) -> None:
    evil = "a\n\nevent: end\ndata: {}\n\n\r\r\u2028x"
    job = await other.submit("emit", [["log", {"level": "info", "message": evil}]])
    timeline = await dashboard.tab(job.id).follow()
    assert timeline.events[0]["message"] == evil
    assert timeline.end == "success"
