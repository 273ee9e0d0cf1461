"""Numbers of an event are written with the digits that its frame has."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client import _digits as digits
from arcp_client._wire.build import to_event
from arcp_client._wire.codec import EventFrame, decode
from arcp_client.events import Completed
from arcp_client.transcripts import EventLine, Scrubber, encode
from tests.exact_numbers import NUMBERS


def listed(items: list[str]) -> str:
    return f"[{','.join(items)}]"


def named(items: dict[str, str]) -> str:
    fields = ",".join(f"{json.dumps(name)}:{value}" for name, value in items.items())
    return f"{{{fields}}}"


NUMBER = r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?"
text = st.recursive(
    st.from_regex(NUMBER, fullmatch=True)
    | st.text(max_size=6).map(json.dumps)
    | st.sampled_from(["true", "false", "null"]),
    lambda inner: (
        st.lists(inner, max_size=3).map(listed)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3).map(named)
    ),
    max_leaves=8,
)


@given(text)
def test_what_is_read_is_written_again_as_it_was(value: str) -> None:
    assert digits.dumps(digits.loads(value.encode()), ascii=True) == value


@given(st.lists(text, min_size=1, max_size=3))
def test_an_event_line_has_the_numbers_of_the_frame(values: list[str]) -> None:
    args = named({f"a{n}": value for n, value in enumerate(values)})
    data = (
        b'{"arcp":"1.1","id":"e1","type":"job.event","session_id":"s","job_id":"j","event_seq":1,'
        b'"payload":{"kind":"tool_call","ts":"2026-01-01T12:15:15.5Z","body":{"tool":"t",'
        b'"call_id":"c","args":%b}}}' % args.encode()
    )
    frame = decode(data)
    assert isinstance(frame, EventFrame)
    line = digits.loads(encode(EventLine(event=to_event(frame, data))))
    assert digits.dumps(line["event"]["args"], ascii=True) == args


def test_secrets_are_masked_and_counts_are_not() -> None:
    fields = {"tokens": digits.Digits("1.50"), "password": digits.Digits("1.50")}
    assert digits.dumps(Scrubber()(fields)) == '{"tokens":1.50,"password":"**********"}'


def test_a_text_that_looks_like_a_mark_stays_a_text() -> None:
    value = {"a": digits.Digits(NUMBERS[1]), "b": "\ue000", "c": f'"{NUMBERS[1]}"'}
    assert digits.dumps(value) == f'{{"a":{NUMBERS[1]},"b":"\ue000","c":"\\"{NUMBERS[1]}\\""}}'


def test_a_number_with_an_endless_exponent_is_refused_and_its_frame_is_read_without_digits() -> (
    None
):
    number = b"1e1000000000000000000"
    with pytest.raises(ValueError, match="out of range: 1e10000"):
        digits.loads(number)
    data = (
        b'{"arcp":"1.1","id":"e1","type":"job.event","session_id":"s","job_id":"j","event_seq":1,'
        b'"x":%b,"payload":{"kind":"metric","ts":"2026-01-01T12:15:15.5Z",'
        b'"body":{"name":"m","value":1.50}}}' % number
    )
    frame = decode(data)
    assert isinstance(frame, EventFrame)
    event = to_event(frame, data)
    assert digits.value_of(event, "value") == digits.fields_of(event)["value"] == 1.5


def test_a_result_with_half_a_surrogate_pair_has_its_digits_and_the_replacement() -> None:
    frame = rb'{"payload":{"result":{"half":"\ud800","n":[1.50,-0]}}}'
    done = Completed(value={"half": "\ufffd", "n": [1.5, 0]})
    event = msgspec.structs.replace(done, _frame=frame)
    assert digits.dumps(digits.value_of(event, "value")) == '{"half":"\ufffd","n":[1.50,-0]}'


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_json_cannot_hold_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        digits.dumps([value, digits.Digits("1.50")])
