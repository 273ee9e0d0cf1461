"""Half a character in a result: joined with its other half, else replaced."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client._wire.build import terminal_event
from arcp_client._wire.codec import ControlFrame, decode
from arcp_client._wire.halves import TextJoiner, whole_texts
from arcp_client.events import Completed

TEXTS = st.text(st.sampled_from("aé€😀\ud83d\ude00"), max_size=12)


def plain(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@given(TEXTS, st.lists(st.integers(0, 12)))
def test_a_text_is_the_same_wherever_it_was_cut(text: str, cuts: list[int]) -> None:
    joiner, places = TextJoiner(), sorted({0, *(min(cut, len(text)) for cut in cuts), len(text)})
    pieces = [text[start:end] for start, end in itertools.pairwise(places)]
    assert b"".join(map(joiner.add, pieces)) + joiner.end() == plain(text).encode()


@given(st.recursive(TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_every_text_of_a_value_is_whole(value: Any) -> None:
    whole = whole_texts(json.loads(json.dumps(value)))
    json.dumps(whole, ensure_ascii=False).encode()  # no half of anything is left
    assert json.dumps(whole).count("\\ufffd") >= 0


@pytest.mark.parametrize("value", [None, 1, 2.5, True, "", "a", [], {}, [1, {"a": None}]])
def test_what_is_whole_stays(value: Any) -> None:
    assert whole_texts(value) == value


def test_a_value_that_is_nested_deeply_is_followed_to_its_end() -> None:
    value: Any = "\ud800"
    for _ in range(100_000):
        value = [value]
    whole = whole_texts(value)
    while isinstance(whole, list):
        (whole,) = whole
    assert whole == "\ufffd"


@pytest.mark.parametrize("name", ["result", "output", "value"])
def test_the_value_of_a_terminal_message_is_whole(name: str) -> None:
    payload = {"final_status": "success", name: {"a\ud800": ["\udc00b", "😀"]}}
    frame = {"type": "job.result", "id": "x", "job_id": "j", "event_seq": 1, "payload": payload}
    data = json.dumps(frame).encode()
    decoded = decode(data)
    assert isinstance(decoded, ControlFrame)
    event = terminal_event(decoded, data)
    assert isinstance(event, Completed)
    assert event.value == {"a\ufffd": ["\ufffdb", "😀"]}
