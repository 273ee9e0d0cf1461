"""Events as values: matched, compared, hashed, copied, pickled, printed, and put into models."""

from __future__ import annotations

import copy
import gc
import json
import pickle
from datetime import UTC, datetime
from typing import Any

import msgspec
import pydantic
import pytest
from pydantic import BaseModel, TypeAdapter

from arcp_client import Choice, events
from arcp_client.events import KINDS, Completed, Event, Failed, Gap, Log, Status, ToolCall, Unknown
from tests.nesting import near_the_limit, nested, too_deep

MOMENT = datetime(2026, 5, 13, 19, 42, 13, 123_456, tzinfo=UTC)
BASE: dict[str, Any] = {
    "seq": 7,
    "id": "e1",
    "session_id": "sess_1",
    "job_id": "job_1",
    "ts": MOMENT,
    "trace_id": "ab" * 16,
    "redelivered": True,
    "_frame": b'{"type":"x","payload":{"a":1}}',
}
SAMPLES: list[Event] = [
    events.Log(**BASE, level="warn", message="m"),
    events.Thought(**BASE, text="t"),
    events.ToolCall(**BASE, tool="t", args={"a": [1]}, call_id="c"),
    events.ToolResult(**BASE, call_id="c", result=[1], error=None),
    events.Status(**BASE, phase="p", message="m"),
    events.Metric(**BASE, name="n", value=1.5, unit="u", dimensions={"d": "x"}),
    events.ArtifactRef(**BASE, uri="u", content_type="c", byte_size=1, sha256="s"),
    events.Delegate(**BASE, child_job_id="j", delegate_id="d", agent="a"),
    events.Progress(**BASE, current=1, total=2.5, units="u", message="m"),
    events.ResultChunk(**BASE, result_id="r", chunk_seq=3, data="d", encoding="base64", more=False),
    events.Question(
        **BASE,
        question_id="q",
        text="t",
        schema={"enum": [1]},
        options=[Choice(1, "one")],
        to=["a"],
        expires_at=MOMENT,
        has_default=True,
        default=1,
        lease_paused=True,
    ),
    events.Answered(**BASE, question_id="q", value=[1], by="b", client="c", at=MOMENT),
    events.Expired(**BASE, question_id="q", defaulted=True, value=1, lease_expires_at=MOMENT),
    events.Withdrawn(**BASE, question_id="q", reason="agent"),
    events.Sent(**BASE, message_id="m", mode="steer", value={"a": 1}, by="b", client="c"),
    events.Consumed(**BASE, message_id="m", at=1),
    events.Returned(**BASE, message_id="m"),
    events.Completed(**BASE, value={"a": 1}, result_size=1, summary="s", completed_at=MOMENT),
    events.Failed(**BASE, status="timed_out", code="TIMEOUT", message="m", details={"a": 1}),
    events.Gap(**BASE, first=3, last=4, reason="overflow"),
    events.Unknown(**BASE, kind="x-vendor.acme.a", body={"b": [None]}),
    events.Unknown(**BASE, kind="log", body="does not fit"),
]
IDS = [f"{type(event).__name__}-{event.kind}" for event in SAMPLES]

every_class = pytest.mark.parametrize("event", SAMPLES, ids=IDS)


def test_the_samples_cover_every_class() -> None:
    assert {type(event) for event in SAMPLES} == set(Event.__subclasses__())
    assert set(KINDS.values()) | {Unknown} == set(Event.__subclasses__())
    assert {cls.__name__ for cls in (Event, *Event.__subclasses__())} | {"KINDS"} == set(
        events.__all__
    )


def test_a_kind_names_exactly_one_class() -> None:
    for kind, cls in KINDS.items():
        assert cls().kind == kind


def test_only_results_and_errors_end_a_job() -> None:
    assert {type(event) for event in SAMPLES if event.terminal} == {Completed, Failed}


# ------------------------------------------------------------------------------- values


@every_class
def test_an_event_cannot_be_changed(event: Event) -> None:
    for name in event.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(event, name, None)
    with pytest.raises(AttributeError):
        event.new = 1  # type: ignore[attr-defined]


@every_class
def test_equal_events_are_equal_and_have_equal_hashes(event: Event) -> None:
    same = copy.deepcopy(event)

    assert same == event
    assert hash(same) == hash(event)
    assert {event, same} == {event}
    assert event != msgspec.structs.replace(event, seq=8)


@every_class
def test_an_event_survives_pickle_and_copy(event: Event) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(event, protocol))
        assert type(again) is type(event)
        assert again == event
        assert again.raw == event.raw
    assert copy.copy(event) == event
    assert copy.deepcopy(event) == event


@every_class
def test_waiting_events_do_not_wake_the_garbage_collector(event: Event) -> None:
    assert not gc.is_tracked(event)


def test_fields_are_named_never_positional() -> None:
    with pytest.raises(TypeError):
        Log("message")  # type: ignore[call-arg,arg-type]
    assert ToolCall.__match_args__ == ()


def describe(event: Event) -> str:
    match event:
        case events.ToolCall(tool=tool, args={"q": query}):
            return f"{tool}: {query}"
        case events.Progress(current=n, total=None):
            return f"{n}"
        case events.Progress(current=n, total=t):
            return f"{n} of {t}"
        case events.Status(phase="back_pressure", job_id=None):
            return "slow"
        case events.Gap(first=first, last=None, reason="unknown_end"):
            return f"from {first}"
        case events.Completed() | events.Failed():
            return "ended"
        case events.Unknown(kind="x-vendor.acme.heat", body={"celsius": heat}):
            return f"{heat} °C"
        case events.Event(kind=kind):
            return kind


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (events.ToolCall(tool="search", args={"q": "x", "n": 1}), "search: x"),
        (events.ToolCall(tool="search", args=["q"]), "tool_call"),
        (events.Progress(current=1), "1"),
        (events.Progress(current=1, total=2), "1 of 2"),
        (events.Status(phase="back_pressure"), "slow"),
        (events.Status(phase="back_pressure", job_id="j"), "status"),
        (events.Gap(first=3, reason="unknown_end"), "from 3"),
        (events.Completed(), "ended"),
        (events.Failed(), "ended"),
        (events.Unknown(kind="x-vendor.acme.heat", body={"celsius": 40}), "40 °C"),
        (events.Unknown(kind="x-vendor.acme.heat", body=40), "x-vendor.acme.heat"),
    ],
)
def test_events_are_matched_by_class_and_field(event: Event, text: str) -> None:
    assert describe(event) == text


# -------------------------------------------------------------------------- raw, to_dict


def test_raw_is_the_whole_envelope_decoded_anew() -> None:
    event = Log(_frame=b'{"type":"job.event","x":[1]}')
    event.raw["x"].append(2)

    assert event.raw == {"type": "job.event", "x": [1]}


@pytest.mark.parametrize("frame", [b"", b"[]", b"5"])
def test_an_event_without_an_envelope_has_an_empty_raw(frame: bytes) -> None:
    assert Gap(_frame=frame).raw == {}


@pytest.mark.parametrize(
    ("frame", "raw"),
    [
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (b'{"a":"\\ud83d"}', {"a": "\ud83d"}),
        (b'{"a":"\xff"}', {"a": "\ufffd"}),
        (b'{"a":1e400,"b":1.5}', {"a": "1e400", "b": 1.5}),
        (b'{"a":%b}' % (b"9" * 5000), {"a": "9" * 5000}),
    ],
)
def test_raw_shows_what_was_tolerated(frame: bytes, raw: dict[str, Any]) -> None:
    assert Log(_frame=frame).raw == raw


@every_class
def test_the_dict_of_an_event_is_plain_json(event: Event) -> None:
    plain = event.to_dict()

    assert json.loads(json.dumps(plain)) == plain
    assert plain["kind"] == event.kind
    assert plain["ts"] == "2026-05-13T19:42:13.123456Z"
    assert set(plain) == set(event.__struct_fields__) - {"_frame"}
    for name, value in plain.items():
        if name not in {"ts", "completed_at", "expires_at", "at", "lease_expires_at", "options"}:
            assert value == getattr(event, name)


@pytest.mark.parametrize("depth", [*range(950, 1010, 3), 100_000])
def test_a_dict_is_made_of_what_is_nested_too_deeply(depth: int) -> None:
    is_whole_or_says_so(depth)


def test_a_dict_is_made_of_what_is_nested_nearly_too_deeply_for_this_python() -> None:
    for depth in near_the_limit():
        is_whole_or_says_so(depth)


def is_whole_or_says_so(depth: int) -> None:
    plain = ToolCall(tool="t", args={"a": nested(depth), "b": {"c": [1]}}).to_dict()
    assert plain["tool"] == "t"
    assert plain["args"]["b"] == {"c": [1]}
    inner, levels = plain["args"]["a"], 0
    while isinstance(inner, list):
        inner, levels = inner[0], levels + 1
    if depth >= too_deep():
        assert inner == "(nested too deeply)"
    else:
        assert inner == "(nested too deeply)" or (inner, levels) == (1, depth)


def test_a_dict_shares_nothing_with_its_event() -> None:
    event = ToolCall(args={"a": [1]})
    event.to_dict()["args"]["a"].append(2)

    assert event.args == {"a": [1]}


# ------------------------------------------------------------------------------- repr


def test_a_repr_names_the_class_and_what_is_set() -> None:
    assert repr(Log(seq=3, level="warn", message="m")) == "Log(seq=3, level='warn', message='m')"
    assert repr(Log(job_id="j", redelivered=True, id="e", session_id="s", trace_id="t")) == (
        "Log(id='e', job_id='j', redelivered=True, level='info', message='')"
    )
    assert repr(Gap(first=3, last=4)) == "Gap(first=3, last=4, reason='lost')"
    assert repr(Gap(first=3)) == "Gap(first=3, reason='lost')"
    assert repr(events.ResultChunk(more=False)).endswith("more=False)")
    assert repr(Status(ts=MOMENT, phase="p")) == (
        "Status(ts=2026-05-13 19:42:13.123456+00:00, phase='p')"
    )


def test_the_repr_of_an_unknown_event_names_its_kind() -> None:
    assert (
        repr(Unknown(kind="x-vendor.acme.a", body=1)) == "Unknown(kind='x-vendor.acme.a', body=1)"
    )
    assert repr(Unknown(kind="log", body="x")) == "Unknown(kind='log', body='x')"
    assert repr(Log(kind="odd")).startswith("Log(kind='odd', ")


DEEP: Any = 1
for _ in range(900):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "value",
    ["x" * 1_000_000, ["x" * 1000] * 1000, {f"k{n}": n for n in range(10_000)}, DEEP, 10**4000],
    ids=["text", "list", "dict", "nested", "integer"],
)
def test_a_repr_is_short_whatever_the_event_holds(value: Any) -> None:
    for event in (
        ToolCall(args=value, tool="t"),
        Unknown(kind="k", body=value),
        Completed(value=value),
        Failed(details=value),
    ):
        assert len(repr(event)) < 250
    text = str(value)[:1_000_000] if not isinstance(value, list | int) else "x"
    everywhere = Log(id=text, job_id=text, kind=text, message=text, level=text)
    assert len(repr(everywhere)) < 600


def test_a_repr_never_shows_the_envelope() -> None:
    assert "cAnArY" not in repr(Log(_frame=b'{"token":"cAnArY"}'))
    assert "cAnArY" not in str(Log(_frame=b'{"token":"cAnArY"}'))


# ------------------------------------------------------------------------------ pydantic


class Record(BaseModel):
    event: Event
    others: list[Event] = []
    call: ToolCall | None = None
    either: ToolCall | Log | None = None


@every_class
def test_an_event_is_a_field_of_a_model_as_it_is(event: Event) -> None:
    record = Record(event=event, others=[event])

    assert record.event is event
    assert record.others[0] is event
    assert record.model_dump()["event"] == event.to_dict()


@every_class
def test_a_model_with_an_event_survives_json(event: Event) -> None:
    record = Record(event=event)
    again = Record.model_validate_json(record.model_dump_json())

    assert type(again.event) is type(event)
    assert again.event.raw == {}  # the envelope is not part of what is written
    assert again.event == msgspec.structs.replace(event, _frame=b"")


def test_a_field_of_one_class_takes_only_that_class() -> None:
    with pytest.raises(pydantic.ValidationError):
        Record(event=Gap(), call=Log())  # type: ignore[arg-type]
    with pytest.raises(pydantic.ValidationError, match="expected kind 'tool_call'"):
        Record.model_validate({"event": {}, "call": {"kind": "log"}})
    assert Record.model_validate({"event": {}, "call": {"tool": "t"}}).call == ToolCall(tool="t")


def test_a_union_of_classes_is_told_apart_by_kind() -> None:
    read = Record.model_validate({"event": {}, "either": {"kind": "log", "message": "m"}})

    assert read.either == Log(message="m")


@pytest.mark.parametrize(
    ("value", "event"),
    [
        ({}, Unknown()),
        ({"kind": "x-vendor.a", "body": 1}, Unknown(kind="x-vendor.a", body=1)),
        ({"kind": "log", "body": 1}, Unknown(kind="log", body=1)),
        ({"kind": "log", "message": "m", "x_new": 1}, Log(message="m")),
        ({"kind": "log", "_frame": "eyJhIjoxfQ=="}, Log()),
        ({"kind": "gap", "first": "3"}, Gap(first=3)),
    ],
)
def test_a_dict_becomes_the_class_of_its_kind(value: dict[str, Any], event: Event) -> None:
    assert TypeAdapter(Event).validate_python(value) == event


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        "log",
        [],
        {"kind": 5},
        {"kind": ["log"]},
        {"kind": "log", "message": 5},
        {"kind": "log", "ts": "soon"},
        {"kind": "gap", "reason": "bored"},
        {"kind": "error", "status": "odd"},
    ],
    ids=str,
)
def test_anything_else_is_no_event(value: Any) -> None:
    with pytest.raises(pydantic.ValidationError):
        TypeAdapter(Event).validate_python(value)


@pytest.mark.parametrize("mode", ["validation", "serialization"])
@every_class
def test_the_json_schema_of_a_class_lists_its_fields(event: Event, mode: Any) -> None:
    cls = type(event)
    schema = TypeAdapter(cls).json_schema(mode=mode)

    assert schema["type"] == "object"
    assert schema["title"] == cls.__name__
    assert schema["description"]
    assert set(schema["properties"]) == set(event.to_dict())
    assert schema["properties"]["seq"]["anyOf"] == [{"type": "integer"}, {"type": "null"}]
    assert schema["properties"]["ts"]["anyOf"][0] == {"type": "string", "format": "date-time"}
    required = set(schema.get("required", ()))
    assert required == (set(event.to_dict()) if mode == "serialization" else set())


def test_the_json_schema_has_the_types_of_the_fields() -> None:
    properties = TypeAdapter(Failed).json_schema()["properties"]

    assert properties["kind"]["const"] == "error"
    assert properties["status"]["enum"] == ["cancelled", "error", "timed_out"]
    assert properties["retryable"]["type"] == "boolean"
    assert "const" not in TypeAdapter(Unknown).json_schema()["properties"]["kind"]


def test_the_json_schema_of_any_event_lists_every_class() -> None:
    schema = TypeAdapter(Event).json_schema()

    assert {each["title"] for each in schema["anyOf"]} == {
        cls.__name__ for cls in Event.__subclasses__()
    }


def test_a_model_names_the_schema_of_an_event_once() -> None:
    schema = Record.model_json_schema()

    assert {"Event", "ToolCall"} <= set(schema["$defs"])
    assert schema["properties"]["event"] == {"$ref": "#/$defs/Event"}
    assert schema["properties"]["others"]["items"] == {"$ref": "#/$defs/Event"}
    json.dumps(schema)
