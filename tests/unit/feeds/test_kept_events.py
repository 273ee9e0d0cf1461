"""Events are kept as they were received, and encoded when a page first reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client import Client, Runtime, events
from arcp_client._feeds import frames
from arcp_client._feeds.frames import Position
from arcp_client._feeds.job_feed import JobFeed
from arcp_client._feeds.kept_events import KeptEvents, Unencoded
from arcp_client._wire.build import to_event
from arcp_client._wire.codec import decode, decode_event
from arcp_client.events import Event
from tests.unit.feeds.test_frames import BODIES, SECRETS, TEXTS, envelope_of, received
from tests.unit.web.kit import Gates, agents

JSON_BODIES = st.one_of(
    BODIES,
    st.tuples(
        st.just("tool_result"),
        st.fixed_dictionaries(
            {"call_id": TEXTS, "result": st.dictionaries(st.sampled_from(["token", "q"]), TEXTS)}
        ),
    ),
    st.tuples(
        st.just("artifact_ref"),
        st.fixed_dictionaries({"uri": TEXTS, "content_type": st.just("text/plain")}),
    ),
    st.tuples(st.just("x-vendor.other"), st.fixed_dictionaries({"a": TEXTS})),
)


def log(n: int, *, message: str = "x") -> Unencoded:
    return Unencoded(0, n, envelope_of("log", {"level": "info", "message": message}, ids=f"{n}"))


def entry(item: Unencoded) -> bytes:
    event = to_event(decode_event(item.envelope), item.envelope)
    return frames.entry(item.at, msgspec_json(event))


def msgspec_json(event: Event) -> bytes:
    return json.dumps(event.to_dict(), default=str).encode()


@given(
    told=st.lists(JSON_BODIES, min_size=1, max_size=12),
    secrets=st.sets(st.sampled_from(SECRETS)),
    together=st.integers(1, 12),
    seq=st.none() | st.integers(1, 9),
)
async def test_an_event_that_is_encoded_later_is_the_same_as_one_encoded_at_once(
    told: list[tuple[str, dict[str, Any]]], secrets: set[str], together: int, seq: int | None
) -> None:
    async with Runtime() as runtime, Client(runtime) as client:
        agents(runtime, Gates())
        job = await client.submit("echo", None)
        await job.result()
        feed = JobFeed(job, secrets=secrets)
        seen = []
        for kind, body in told:
            data = envelope_of(kind, body)
            frame: Any = decode(data)
            frame.event_seq = seq  # as for runtimes whose numbers cannot be relied on
            seen.append(to_event(frame, data))
        for begin in range(0, len(seen), together):
            feed.extend(seen[begin : begin + together])
        entries = list(feed.kept.entries())
        assert [feed.kept.entry(n + 1) for n in range(len(seen))] == entries
        for event, kept in zip(seen, entries, strict=True):
            expected = frames.plain(event, feed.scrubber)
            assert kept.partition(b',"event":')[2] == expected + b"}"
        feed.close()


async def test_a_secret_that_becomes_known_later_is_masked_in_earlier_events() -> None:
    async with Runtime() as runtime, Client(runtime) as client:
        agents(runtime, Gates())
        job = await client.submit("echo", None)
        await job.result()
        feed = JobFeed(job)
        feed.extend([received("log", {"level": "info", "message": "it is hunter2"})])
        feed.scrubber = type(feed.scrubber)(["hunter2"])
        assert b"hunter2" not in feed.kept.entry(1)
        feed.close()


@pytest.mark.parametrize("redelivered", [False, True])
async def test_an_event_without_an_envelope_or_that_came_again_is_encoded_as_it_is(
    redelivered: bool,
) -> None:
    data = envelope_of("log", {"level": "info", "message": "x"})
    made = to_event(decode_event(data), data, redelivered)
    async with Runtime() as runtime, Client(runtime) as client:
        agents(runtime, Gates())
        job = await client.submit("echo", None)
        await job.result()
        feed = JobFeed(job)
        feed.extend([made, events.Log(job_id=job.id, message="no envelope")])
        first, second = map(json.loads, feed.kept.entries())
        assert first["event"]["redelivered"] is redelivered
        assert second["event"]["message"] == "no envelope"
        feed.close()


def test_only_what_is_read_is_encoded() -> None:
    encoded: list[int | None] = []

    def encode(item: Unencoded) -> bytes:
        encoded.append(item.seq)
        return entry(item)

    kept = KeptEvents(1 << 20, encode)
    kept.extend([log(n) for n in range(1, 101)])
    assert encoded == []
    after = kept.tail_start(10)
    assert after == 90
    found = kept.read(after)
    assert found is not None
    assert found[0] == 100
    assert sorted(encoded, key=str) == sorted(range(91, 101), key=str), "each once"
    assert kept.number_of(Position("evt_50", 50)) == 50
    assert kept.number_of(Position("evt_40", 7)) == 40
    assert kept.number_of(Position("evt_100", 7)) == 100
    assert kept.number_of(Position("gone", 7)) is None
    assert len(encoded) <= 14, "a search decodes ids only"


@given(
    sizes=st.lists(st.tuples(st.integers(0, 600), st.booleans()), min_size=1, max_size=60),
    memory=st.integers(500, 8_000),
    read=st.integers(0, 60),
)
def test_the_memory_is_bounded_whether_events_are_encoded_or_not(
    sizes: list[tuple[int, bool]], memory: int, read: int
) -> None:
    kept = KeptEvents(memory, entry)
    for n, (size, at_once) in enumerate(sizes, 1):
        item = log(n, message="x" * size)
        kept.extend([entry(item) if at_once else item])
        if kept.first <= read <= kept.last:
            kept.entry(read)
        held = sum(map(len, kept.entries()))
        largest = max(size for size, _ in sizes) + 600
        assert held <= memory * 2 + largest, "an entry is less than twice as large as its envelope"
        assert kept.last == n
        assert [json.loads(each)["event"]["seq"] for each in kept.entries()] == [1] * (
            n - kept.first + 1
        )
