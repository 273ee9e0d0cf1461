"""Values out: envelopes as bytes, and users' values as JSON that does not change any more."""

from __future__ import annotations

import enum
import json
import types
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, SecretStr

from arcp_client._wire.codec import encode, parse, snapshot, to_json
from arcp_client.events import Log
from arcp_client.models import Lease
from tests.interop.rules import rule
from tests.nesting import nested, too_deep


def taken(value: Any) -> Any:
    return json.loads(bytes(snapshot(value)))


@rule("send-1")
def test_an_envelope_has_the_fields_of_the_specification_and_no_nulls() -> None:
    data = encode("session.ping", {"nonce": "n"}, id="e1")

    assert json.loads(data) == {
        "arcp": "1.1",
        "id": "e1",
        "type": "session.ping",
        "payload": {"nonce": "n"},
    }


def test_an_envelope_carries_what_it_is_given() -> None:
    data = encode(
        "job.event",
        {"kind": "log"},
        id="e1",
        session_id="s",
        job_id="j",
        trace_id="ab" * 16,
        event_seq=2**63 - 1,
        extensions={"x-vendor.acme.a": [1]},
    )

    assert json.loads(data) == {
        "arcp": "1.1",
        "id": "e1",
        "type": "job.event",
        "session_id": "s",
        "job_id": "j",
        "trace_id": "ab" * 16,
        "event_seq": 2**63 - 1,
        "extensions": {"x-vendor.acme.a": [1]},
        "payload": {"kind": "log"},
    }
    assert b"\n" not in data


def test_a_snapshot_goes_into_an_envelope_as_it_is() -> None:
    raw = snapshot({"a": [1, None, "ü"]})

    assert b'"input":' + bytes(raw) in encode("job.submit", {"input": raw}, id="e")


def test_a_lone_surrogate_is_sent_as_an_escape() -> None:
    data = encode("x", {"text": "\ud83d", "raw": snapshot({"n": 1.50})}, id="e")

    assert data.isascii()
    assert json.loads(data)["payload"] == {"text": "\ud83d", "raw": {"n": 1.5}}


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("Infinity"),
        10**5000,
        {(1, 2): 3},
        object(),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [v], lambda v: {"a": ({"b": v},)}])
def test_what_json_cannot_hold_is_refused_and_never_turned_into_null(value: Any, wrap: Any) -> None:
    for beside in ("plain", "\ud800"):  # a lone surrogate takes another way
        with pytest.raises(ValueError, match="not a JSON value"):
            encode("x", {"x": wrap(value), "y": beside}, id="e")


def test_a_null_and_the_word_nan_are_fine() -> None:
    payload = {"a": None, "b": "NaN null Infinity", "c": [None, 1.5, Decimal("1.50")], "d": ()}

    assert json.loads(encode("x", payload, id="e"))["payload"]["b"] == "NaN null Infinity"
    assert b'"c":[null,1.5,1.50]' in to_json(payload)


def test_a_cycle_is_refused_by_the_encoder() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="not a JSON value"):
        encode("x", {"a": loop}, id="e")


# ------------------------------------------------------------------------------- snapshots


class Colour(enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    BIG = 3


@dataclass
class Point:
    x: Any
    y: Any = None
    tags: list[Any] = field(default_factory=list)


class Model(BaseModel):
    name: str
    at: datetime | None = None
    inner: Model | None = None


class Struct(msgspec.Struct):
    a: Any


MOMENT = datetime(2026, 5, 13, 19, 42, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (0, 0),
        (2**200, 2**200),
        (1.5, 1.5),
        ("ü€😀", "ü€😀"),
        ("\ud83d", "\ud83d"),
        ([1, (2, 3)], [1, [2, 3]]),
        ({"a": {"b": None}}, {"a": {"b": None}}),
        ({1: "a", None: "b", False: "c"}, {"1": "a", "null": "b", "false": "c"}),
        (MOMENT, "2026-05-13T19:42:13Z"),
        (date(2026, 5, 13), "2026-05-13"),
        (timedelta(seconds=90), "PT90S"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), 1.1),
        (Decimal("3"), 3),
        (Decimal("3.00"), 3),
        (Decimal("12345678901234567890"), 12345678901234567890),
        (Decimal("1E+20"), 10**20),
        (Decimal("1E+40"), 1e40),
        (Colour.RED, "red"),
        (Size.BIG, 3),
        (
            Point(1, Point(MOMENT, tags=[b"".decode()])),
            {"x": 1, "y": {"x": "2026-05-13T19:42:13Z", "y": None, "tags": [""]}, "tags": []},
        ),
        (Point(Decimal("0.5"), [Struct(1)]), {"x": 0.5, "y": [{"a": 1}], "tags": []}),
        (
            [Model(name="n", at=MOMENT, inner=Model(name="m"))],
            [
                {
                    "name": "n",
                    "at": "2026-05-13T19:42:13Z",
                    "inner": {"name": "m", "at": None, "inner": None},
                }
            ],
        ),
        (Struct(Decimal("0.5")), {"a": 0.5}),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (Lease({"fs.read": ["/src/**"]}), {"fs.read": ["/src/**"]}),
        (msgspec.Raw(b'{"a":[1.50]}'), {"a": [1.5]}),
    ],
    ids=lambda value: "Raw" if isinstance(value, msgspec.Raw) else f"{value!r:.30}",  # no address
)
def test_a_snapshot_holds_values_of_many_types(value: Any, expected: Any) -> None:
    assert taken(value) == expected


@pytest.mark.parametrize("number", ["12345678901234567.89", "-0", "1.50", "1e22", "9" * 30])
def test_json_that_is_given_as_such_keeps_its_digits_and_loses_its_line_breaks(number: str) -> None:
    given = f'{{ "é 😀" :\n[ {number} ,\t"a  \\" {number}" ] }}'.encode()
    expected = f'{{"\\u00e9 \\ud83d\\ude00":[{number},"a  \\" {number}"]}}'
    assert bytes(snapshot(msgspec.Raw(given))).decode("ascii") == expected


def test_an_event_is_taken_as_its_fields() -> None:
    event = Log(message="m", ts=MOMENT, _frame=b"secret")

    assert taken({"seen": [event]}) == {"seen": [event.to_dict()]}


@rule("send-6", "send-10")
def test_a_snapshot_is_ascii_and_does_not_follow_later_changes() -> None:
    value = {"a": ["ü"]}
    raw = bytes(snapshot(value))
    value["a"].append("later")

    assert raw == b'{"a":["\\u00fc"]}'


def test_the_same_value_gives_the_same_bytes() -> None:
    value = {"b": 1, "a": [1.0, {"z": None, "y": "\ud800"}]}

    assert bytes(snapshot(value)) == bytes(snapshot(json.loads(json.dumps(value))))


CYCLE: dict[str, Any] = {}
CYCLE["self"] = [CYCLE]
ROUND = Point(1)
ROUND.y = ROUND
DEEP: list[Any] = nested(100_000, [])


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        {"a": [float("-inf")]},
        Point(float("nan")),
        Struct(float("inf")),
        Decimal("NaN"),
        Decimal("-Infinity"),
        Decimal("1E+400"),
        10**5000,
        b"bytes",
        bytearray(b"x"),
        memoryview(b"x"),
        {"a": b"x"},
        Point(b"x"),
        Struct(b"x"),
        {1, 2},
        frozenset({1}),
        CYCLE,
        ROUND,
        DEEP,
        object(),
        {"a": object()},
        {(1, 2): 3},
        {b"k": 1},
        int,
        Model,
        Point,
        lambda: None,
        SecretStr("s"),
        1j,
        iter([1]),
        msgspec.Raw(b"{"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="not a JSON value"):
        snapshot(value)


NESTED: dict[str, Any] = {"a": [1, {"b": []}]}
NESTED["a"][1]["b"].append(NESTED)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({1}, "$: set has no form in JSON"),
        ({"a": [1, 2, 3, {4}]}, "$.a[3]: set has no form in JSON"),
        ({"a b": {"c": (b"x",)}}, '$["a b"].c[0]: bytes has no form in JSON'),
        ({"a": {1: {"x": object()}}}, '$.a["1"].x: object has no form in JSON'),
        ([0, Point(frozenset())], "$[1].x: frozenset has no form in JSON"),
        ({"a": [Model]}, "$.a[0]: the class Model has no form in JSON"),
        ({"a": [float("nan")]}, "$.a[0]: nan is no number that JSON knows"),
        ({"a": Decimal("-Infinity")}, "$.a: -Infinity is no number that JSON knows"),
        ({"n": [10**5000]}, "$.n[0]: a whole number of too many digits"),
        ({"k": {(1, 2): 3}}, "$.k: a key of type tuple has no form in JSON"),
        (NESTED, "$.a[1].b[0]: Circular reference"),
        ({"deep": DEEP}, "it is nested too deeply"),
        ({"deep": nested(3000), "b": {1}}, "$.b: set has no form in JSON"),
        ({"deep": nested(too_deep())}, "nested too deeply"),
        ({"x" * 500: {1}}, f'$["{"x" * 40}…"]: set has no form in JSON'),
        ([{1}, b""], "$[0]: set has no form in JSON"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_refusal_names_the_path_and_the_type(value: Any, said: str) -> None:
    with pytest.raises(ValueError, match="not a JSON value") as caught:
        snapshot(value)
    assert str(caught.value).endswith(said)
    assert len(str(caught.value)) < 300


def test_a_value_that_stands_in_two_places_is_no_cycle() -> None:
    shared = [1]
    with pytest.raises(ValueError, match=r"\$\.c: set has no form"):
        snapshot({"a": shared, "b": shared, "c": {1}})


def test_a_refusal_says_why() -> None:
    with pytest.raises(ValueError, match="bytes has no form in JSON"):
        snapshot({"a": b"x"})
    with pytest.raises(ValueError, match="Circular"):
        snapshot(CYCLE)
    with pytest.raises(ValueError, match="object"):
        snapshot(object())


def test_the_words_of_another_library_in_a_refusal_are_cut_at_80_characters() -> None:
    with pytest.raises(ValueError, match="not a JSON value") as caught:
        snapshot(msgspec.Raw(b"9" * 5000))
    reason = str(caught.value).removeprefix("not a JSON value: ")
    assert len(reason) == 80
    assert str(caught.value.__cause__).startswith(reason)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"NaN", "NaN is not JSON"),
        (b"-Infinity", "-Infinity is not JSON"),
        (b"1e999", "number out of range"),
        (b"", "Expecting value"),
        (b"\xff", "invalid start byte"),
        (b"{", "Expecting property name"),
        (b"1 2", "Extra data"),
    ],
)
def test_the_tolerant_parser_is_strict_about_json(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(data)
