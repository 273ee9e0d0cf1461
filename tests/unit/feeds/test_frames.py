"""An event is encoded and masked in the same way by the short path and by that of transcripts."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arcp_client import transcripts
from arcp_client._feeds import frames
from arcp_client._wire.build import to_event
from arcp_client._wire.codec import decode_event
from arcp_client.events import Event, Gap, Thought
from arcp_client.transcripts import Scrubber

SECRETS = ['pa55"wörd', "hunter2", "abc", "li\nne4"]
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            "password: hunter3",
            "the hunter2 of all",
            "PASSWORD=x",
            'pa55"wörd',
            "Bearer abcdefgh",
            "see https://me:you@host/x",
            "abc",
            "Abc abcd",
            "a\\b",
            "a li\nne4",
            "café",
        ]
    ),
)
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70), st.sampled_from(["1.50", "-0", "1e3", "12345678901234567.89"])
)
BODIES = st.one_of(
    st.tuples(st.just("log"), st.fixed_dictionaries({"level": TEXTS, "message": TEXTS})),
    st.tuples(st.just("thought"), st.fixed_dictionaries({"text": TEXTS})),
    st.tuples(st.just("status"), st.fixed_dictionaries({"phase": TEXTS, "message": TEXTS})),
    st.tuples(
        st.just("progress"),
        st.fixed_dictionaries({"current": NUMBERS}, optional={"total": NUMBERS, "units": TEXTS}),
    ),
    st.tuples(
        st.just("metric"),
        st.fixed_dictionaries(
            {"name": TEXTS, "value": NUMBERS},
            optional={"dimensions": st.dictionaries(st.sampled_from(["jw-t", "a"]), TEXTS)},
        ),
    ),
    st.tuples(
        st.just("result_chunk"),
        st.fixed_dictionaries(
            {
                "result_id": TEXTS,
                "chunk_seq": st.integers(0, 9),
                "data": TEXTS,
                "encoding": st.just("utf8"),
                "more": st.booleans(),
            }
        ),
    ),
    st.tuples(
        st.just("tool_call"),
        st.fixed_dictionaries(
            {"tool": TEXTS, "args": st.dictionaries(st.sampled_from(["se-cret", "q"]), TEXTS)}
        ),
    ),
)


def envelope_of(kind: str, body: dict[str, Any], *, ids: str = "1") -> bytes:
    """The frame with these values; a number in a string is put in as it is written."""
    frame = {
        "arcp": "1.1",
        "id": f"evt_{ids}",
        "type": "job.event",
        "session_id": "sess_1",
        "job_id": "job_1",
        "event_seq": 1,
        "payload": {"kind": kind, "ts": "2026-01-01T00:00:00.000001Z", "body": body},
    }
    text = json.dumps(frame, ensure_ascii=False)
    for name in ("current", "total", "value"):
        if isinstance(body.get(name), str):
            text = text.replace(f'"{name}": "{body[name]}"', f'"{name}": {body[name]}')
    return text.encode()


def received(kind: str, body: dict[str, Any], *, ids: str = "1") -> Event:
    """The event of such a frame."""
    data = envelope_of(kind, body, ids=ids)
    return to_event(decode_event(data), data)


def as_in_a_transcript(event: Event, scrubber: Scrubber) -> Any:
    line = transcripts.encode(transcripts.entry(event, 0.0), scrubber)
    return frames.decoded(line)["event"]


@given(told=BODIES, secrets=st.sets(st.sampled_from(SECRETS)), ids=TEXTS)
@example(told=("thought", {"text": "nothing"}), secrets=set(), ids="1")
@example(told=("progress", {"current": "1.50"}), secrets=set(), ids="1")
@example(told=("thought", {"text": "a li\nne4"}), secrets={"li\nne4"}, ids="1")
@example(told=("thought", {"text": "the hunter2 of all"}), secrets={"hunter2"}, ids="1")
@example(
    told=("metric", {"name": "n", "value": 1, "dimensions": {"jw-t": "x"}}), secrets=set(), ids="1"
)
def test_an_event_is_encoded_and_masked_as_in_a_transcript(
    told: tuple[str, dict[str, Any]], secrets: set[str], ids: str
) -> None:
    event, scrubber = received(*told, ids=ids), Scrubber(secrets)
    encoded = frames.decoded(frames.plain(event, scrubber))
    expected = as_in_a_transcript(event, scrubber)
    assert encoded == expected
    assert str(encoded) == str(expected), "digits and order, too"


@pytest.mark.parametrize(
    "event",
    [
        Thought(text="\ud800"),
        Gap(first=1, last=2, reason="lost"),
        received("progress", {"current": 2**70}),
        received("log", {"level": "info", "message": "x" * 100_000}),
    ],
    ids=["surrogate", "gap", "integer", "long"],
)
def test_an_event_that_is_rare_is_encoded_and_masked_as_in_a_transcript(event: Event) -> None:
    assert frames.decoded(frames.plain(event, Scrubber())) == as_in_a_transcript(event, Scrubber())


def test_further_names_of_secrets_are_masked() -> None:
    event = received("thought", {"text": "colour: scarlet"})
    assert b"scarlet" not in frames.plain(event, Scrubber(names=["colour"]))
    assert b"colour: scarlet" in frames.plain(event, Scrubber())


def test_long_ids_of_a_peer_are_not_kept() -> None:
    scrubber = Scrubber()
    frames.plain(Thought(text="t", trace_id="a" * 100), scrubber)
    tracemalloc.start()
    try:
        for n in range(100):
            frames.plain(Thought(text="t", trace_id=f"{n:0100000}"), scrubber)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("evt_1-12", ("evt_1", 12)),
        ("~epoch-0", ("~epoch", 0)),
        ("a-b:c.d-3", ("a-b:c.d", 3)),
        ("x" * 80 + "-1", ("x" * 80, 1)),
        ("a-" + "9" * 15, ("a", 10**15 - 1)),
    ],
)
def test_a_position_is_read_as_it_is_written(text: str, expected: tuple[str, int]) -> None:
    found = frames.position(text)
    assert found == expected
    assert str(found) == text


@pytest.mark.parametrize(
    "text",
    [None, "", "abc", "abc-", "-3", "a b-3", "a-3\n", "x" * 81 + "-1", "a-" + "1" * 16, "a-\u0663"],
)
def test_a_text_that_is_no_position_is_none(text: str | None) -> None:
    assert frames.position(text) is None


def test_a_value_is_one_line_of_json_with_the_digits_of_its_numbers() -> None:
    line = b'{"a":1.10,"b":["\\u00e9",12345678901234567890123]}'
    assert frames.exact(frames.decoded(line)) == line
    assert frames.encoded({"a": [1, "é", None]}) == '{"a":[1,"é",null]}'.encode()


def test_a_value_that_json_cannot_represent_is_a_line_of_ascii() -> None:
    line = frames.encoded({"é": "\ud800"})
    assert line.isascii()
    assert frames.decoded(line) == {"é": "\ud800"}


@pytest.mark.parametrize(
    ("event", "mark", "id"),
    [
        (b'{"id":"evt_1","kind":"log"}', "evt_1", "evt_1"),
        (b'{"id":"%b"}' % (b"x" * 80), "x" * 80, "x" * 80),
        (b'{"id":"%b"}' % (b"x" * 81), None, "x" * 81),
        (b'{"id":"a b"}', None, "a b"),
        (b'{"id":""}', None, ""),
        (b'{"id":null}', None, ""),
        (b"{}", None, ""),
        (rb'{"id":"\ud800"}', None, ""),
    ],
)
def test_an_event_is_marked_by_its_id_if_that_fits_a_header(
    event: bytes, mark: str | None, id: str
) -> None:
    assert frames.mark_of(frames.entry(5, event)) == mark
    assert frames.id_of(event) == id


def test_events_are_sent_with_their_numbers_and_the_position_of_the_last_one() -> None:
    entries = [frames.entry(at, b'{"id":"e"}') for at in (10, 20)]
    numbered = b'[{"n":6,"at":10,"event":{"id":"e"}},{"n":7,"at":20,"event":{"id":"e"}}]'
    assert frames.numbered(entries, 7) == numbered
    sent = frames.batch(entries, frames.Position("m", 7))
    assert sent == b"id: m-7\nevent: events\ndata: %b\n\n" % numbered
    assert frames.frame("end", b"{}") == b"event: end\ndata: {}\n\n"
