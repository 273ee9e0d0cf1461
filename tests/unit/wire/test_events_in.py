"""Frames of jobs become the right events: every kind, odd values, all forms of timestamps."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from arcp_client import events
from arcp_client._wire.bodies import KINDS, LooseEvent, TypedEvent
from arcp_client._wire.codec import decode, fingerprint
from tests.interop.rules import rule
from tests.unit.wire.frames import BODIES, control, event, event_frame, frame


def test_the_samples_name_every_kind_of_the_specification() -> None:
    assert set(BODIES) == KINDS
    assert set(events.KINDS) == KINDS | {"result", "error", "gap"}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_known_kind_becomes_its_class_with_every_field(kind: str) -> None:
    data = event_frame(kind, BODIES[kind])
    read = event(data)

    assert isinstance(decode(data), TypedEvent)
    assert type(read) is events.KINDS[kind]
    assert (read.seq, read.kind, read.job_id, read.session_id) == (7, kind, "job_1", "sess_1")
    assert read.id == "01M8FG7VMNRJ7KBJC3XAC8W74H"
    assert read.trace_id == "ab" * 16
    assert read.ts == datetime(2026, 5, 13, 19, 42, 13, tzinfo=UTC)
    assert not read.redelivered
    plain = json.loads(json.dumps(read.to_dict()))
    for name, value in BODIES[kind].items():
        assert plain[name] == value, name
    assert read.raw["payload"] == {"kind": kind, "ts": "2026-05-13T19:42:13Z", "body": BODIES[kind]}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_event_that_may_have_been_seen_says_so(kind: str) -> None:
    assert event(event_frame(kind, BODIES[kind]), redelivered=True).redelivered


@pytest.mark.parametrize("kind", sorted(KINDS - {"result_chunk"}))
@pytest.mark.parametrize("body", [{}, None], ids=["empty", "null"])
@rule("accept-12")
def test_a_known_kind_without_a_body_has_the_defaults_of_its_class(kind: str, body: Any) -> None:
    read = event(event_frame(kind, body))

    assert read == events.KINDS[kind](
        seq=7,
        id=read.id,
        session_id="sess_1",
        job_id="job_1",
        ts=read.ts,
        trace_id=read.trace_id,
        _frame=read._frame,
    )


@pytest.mark.parametrize("kind", sorted(KINDS - {"result_chunk"}))
def test_a_known_kind_whose_fields_are_all_null_has_the_defaults_too(kind: str) -> None:
    bare = event(event_frame(kind, {}))
    nulls = event(event_frame(kind, dict.fromkeys(BODIES[kind])))

    assert type(nulls) is type(bare)
    for name in bare.__struct_fields__:
        if name != "_frame":
            assert getattr(nulls, name) == getattr(bare, name), name


def test_a_null_is_a_value_where_any_value_is_allowed() -> None:
    read = event(event_frame("tool_call", {"tool": "t", "args": None, "call_id": "c"}))

    assert isinstance(read, events.ToolCall)
    assert read.args is None
    assert read.tool == "t"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_unknown_fields_are_kept_in_raw(kind: str) -> None:
    body = {**BODIES[kind], "x_new": {"deep": [1, None]}}
    data = frame(
        "job.event",
        {"kind": kind, "body": body, "x_payload": 1},
        x_top="kept",
        timestamp="2026-05-13T19:42:13Z",
        extensions={"x-vendor.acme.a": True},
    )
    read = event(data)

    assert type(read) is events.KINDS[kind]
    assert read.raw["x_top"] == "kept"
    assert read.raw["extensions"] == {"x-vendor.acme.a": True}
    assert read.raw["payload"]["x_payload"] == 1
    assert read.raw["payload"]["body"] == body


@pytest.mark.parametrize(
    "kind", ["x-vendor.acme.heat", "trace_span", "result", "gap", "Log", "log "]
)
@pytest.mark.parametrize("body", [{"a": 1}, [1], "text", 5, None, True])
@rule("accept-12")
def test_an_unknown_kind_is_delivered_as_it_is(kind: str, body: Any) -> None:
    data = event_frame(kind, body)
    read = event(data)

    assert isinstance(decode(data), LooseEvent)
    assert type(read) is events.Unknown
    assert (read.kind, read.body, read.seq, read.job_id) == (kind, body, 7, "job_1")
    assert read.ts == datetime(2026, 5, 13, 19, 42, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("log", {"message": 5}),
        ("log", {"message": {"text": "m"}}),
        ("log", {"level": 30}),
        ("log", "a line"),
        ("log", ["a", "b"]),
        ("log", 7),
        ("thought", {"text": ["a"]}),
        ("tool_call", {"tool": {"name": "t"}}),
        ("status", {"phase": 3}),
        ("metric", {"name": "n", "value": "a lot"}),
        ("metric", {"name": "n", "dimensions": ["a"]}),
        ("progress", {"current": True}),
        ("progress", {"current": "half"}),
        ("artifact_ref", {"uri": 1}),
        ("result_chunk", {"chunk_seq": 0, "data": "x"}),
        ("result_chunk", {"result_id": "r", "data": "x"}),
        ("result_chunk", {"result_id": "r", "chunk_seq": -1, "data": "x"}),
        ("result_chunk", {"result_id": "r", "chunk_seq": 2**64, "data": "x"}),
        ("result_chunk", {"result_id": "r", "chunk_seq": 0, "data": {"x": 1}}),
        ("result_chunk", None),
    ],
)
def test_a_body_that_does_not_fit_its_kind_is_delivered_raw_with_a_warning(
    kind: str, body: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "arcp_client.wire"):
        read = event(event_frame(kind, body))

    assert type(read) is events.Unknown
    assert (read.kind, read.body, read.seq) == (kind, body, 7)
    assert [record.getMessage() for record in caplog.records] == [
        f"the body of a {kind} event does not fit its kind, delivered raw"
    ]


@pytest.mark.parametrize(
    ("kind", "body", "name", "expected"),
    [
        ("metric", {"value": 0.5800000000000001}, "value", 0.5800000000000001),
        ("metric", {"value": "0.42"}, "value", 0.42),
        ("metric", {"value": -1}, "value", -1),
        ("metric", {"value": 10**30}, "value", 10**30),
        ("progress", {"current": 1.5, "total": 1}, "current", 1.5),
        ("progress", {"current": 130, "total": 120}, "current", 130),
        ("progress", {"current": "12", "total": None}, "current", 12),
        ("artifact_ref", {"byte_size": "12"}, "byte_size", 12),
        ("result_chunk", {"result_id": "r", "chunk_seq": "3", "data": ""}, "chunk_seq", 3),
        (
            "result_chunk",
            {"result_id": "r", "chunk_seq": 0, "data": "", "more": None},
            "more",
            True,
        ),
        (
            "result_chunk",
            {"result_id": "r", "chunk_seq": 0, "data": "", "encoding": "x"},
            "encoding",
            "x",
        ),
        ("tool_call", {"args": ["free", "form"]}, "args", ["free", "form"]),
        ("tool_result", {"error": "a text"}, "error", "a text"),
    ],
)
@rule("accept-12")
def test_odd_values_that_can_be_understood_are(
    kind: str, body: Any, name: str, expected: Any
) -> None:
    read = event(event_frame(kind, body))

    assert type(read) is events.KINDS[kind]
    assert getattr(read, name) == expected


@pytest.mark.parametrize("level", ["INFO", "Info", "info"])
@rule("accept-12")
def test_the_level_of_a_log_line_is_lower_case(level: str) -> None:
    read = event(event_frame("log", {"level": level, "message": "m"}))

    assert isinstance(read, events.Log)
    assert read.level == "info"
    assert read.raw["payload"]["body"]["level"] == level


@rule("accept-12")
def test_an_event_without_a_job_belongs_to_the_session() -> None:
    read = event(frame("job.event", {"kind": "status", "body": {"phase": "back_pressure"}}))

    assert isinstance(read, events.Status)
    assert read.job_id is None
    assert read.seq is None


EAST = timezone(timedelta(hours=2))
BASE = datetime(2026, 5, 13, 19, 42, 13, tzinfo=UTC)


@pytest.mark.parametrize("kind", ["log", "x-vendor.acme.a"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-05-13T19:42:13Z", BASE),
        ("2026-05-13T19:42:13.1Z", BASE.replace(microsecond=100_000)),
        ("2026-05-13T19:42:13.12Z", BASE.replace(microsecond=120_000)),
        ("2026-05-13T19:42:13.123Z", BASE.replace(microsecond=123_000)),
        ("2026-05-13T19:42:13.1234Z", BASE.replace(microsecond=123_400)),
        ("2026-05-13T19:42:13.12345Z", BASE.replace(microsecond=123_450)),
        ("2026-05-13T19:42:13.123456Z", BASE.replace(microsecond=123_456)),
        ("2026-05-13T19:42:13.1234564Z", BASE.replace(microsecond=123_456)),
        ("2026-05-13T19:42:13.12345642Z", BASE.replace(microsecond=123_456)),
        ("2026-05-13T19:42:13.123456421Z", BASE.replace(microsecond=123_456)),
        ("2026-05-13T19:42:13+00:00", BASE),
        ("2026-05-13T19:42:13.1234560+00:00", BASE.replace(microsecond=123_456)),
        ("2026-05-13T21:42:13+02:00", BASE),
        ("2026-05-13T14:12:13.5-05:30", BASE.replace(microsecond=500_000)),
        ("2026-05-13T19:42:13-00:00", BASE),
        ("2026-05-13T19:42:13", BASE),
        ("2026-05-13 19:42:13", BASE),
        ("2026-05-13t19:42:13z", BASE),
        ("2026-05-13T19:41:60Z", BASE - timedelta(seconds=13)),
        ("soon", None),
        ("", None),
        ("2026-05-13", None),
        ("2026-W20-3", None),
        ("2026-13-45T19:42:13Z", None),
        ("2026-05-13T19:42:61Z", None),
        (1778701333, None),
        (1778701333.5, None),
        (True, None),
        ({"seconds": 1}, None),
        (None, None),
    ],
)
@rule("accept-13")
def test_timestamps_are_read_in_every_form_and_are_absent_otherwise(
    kind: str, text: Any, expected: datetime | None
) -> None:
    read = event(event_frame(kind, {}, ts=text))

    assert read.ts == expected
    assert read.ts is None or read.ts.tzinfo is not None  # so that any two can be compared
    assert read.raw["payload"]["ts"] == text


@rule("accept-12")
def test_an_event_without_a_timestamp_has_none() -> None:
    read = event(frame("job.event", {"kind": "log", "body": {"level": "info", "message": "m"}}))

    assert read.ts is None


# ----------------------------------------------------------------------------- terminals


def test_a_result_becomes_completed() -> None:
    data = frame(
        "job.result",
        {
            "final_status": "success",
            "result": {"a": 1},
            "summary": "done",
            "completed_at": "2026-05-13T19:42:13Z",
        },
        job_id="job_1",
        event_seq=8,
        trace_id="ab" * 16,
    )
    read = event(data, redelivered=True)

    assert isinstance(read, events.Completed)
    assert (read.seq, read.job_id, read.value, read.summary) == (8, "job_1", {"a": 1}, "done")
    assert read.ts == read.completed_at == BASE
    assert (read.kind, read.result_id, read.redelivered) == ("result", None, True)
    assert read.terminal
    assert read.raw["payload"]["summary"] == "done"


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        ({"result": 1}, 1),
        ({"output": 1}, 1),
        ({"value": 1}, 1),
        ({"result": 0, "output": 1}, 0),
        ({"output": False, "value": 1}, False),
        ({"result": ""}, ""),
        ({"result": []}, []),
        ({"result": None, "output": 1}, None),  # the runtime said that there is no value
        ({"result": None}, None),
        ({}, None),
    ],
)
@rule("accept-14")
def test_the_value_of_a_result_is_found_under_every_name(payload: Any, value: Any) -> None:
    read = event(frame("job.result", {"final_status": "success", **payload}, job_id="j"))

    assert isinstance(read, events.Completed)
    assert read.value == value
    assert type(read.value) is type(value)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (12, 12),
        (0, 0),
        (12.0, 12),
        (12.5, None),
        (-1, None),
        ("12", None),
        (True, None),
        (None, None),
    ],
)
def test_a_chunked_result_names_its_chunks_and_perhaps_its_size(
    size: Any, expected: int | None
) -> None:
    read = event(
        frame("job.result", {"final_status": "success", "result_id": "r", "result_size": size})
    )

    assert isinstance(read, events.Completed)
    assert (read.value, read.result_id, read.result_size) == (None, "r", expected)


def test_a_result_without_a_status_is_a_success() -> None:
    assert isinstance(event(frame("job.result", {"result": 1})), events.Completed)
    assert isinstance(event(frame("job.result", {"final_status": None})), events.Completed)


@pytest.mark.parametrize("word", ["success", "SUCCESS", "completed"])
def test_success_has_several_spellings(word: str) -> None:
    assert isinstance(event(frame("job.result", {"final_status": word})), events.Completed)


def test_a_job_error_becomes_failed() -> None:
    read = event(
        frame(
            "job.error",
            {
                "final_status": "error",
                "code": "BUDGET_EXHAUSTED",
                "message": "spent",
                "retryable": False,
                "details": {"currency": "USD"},
            },
            job_id="job_1",
            event_seq=9,
        )
    )

    assert isinstance(read, events.Failed)
    assert (read.status, read.code, read.message) == ("error", "BUDGET_EXHAUSTED", "spent")
    assert (read.retryable, read.details) == (False, {"currency": "USD"})
    assert (read.seq, read.job_id, read.kind, read.ts) == (9, "job_1", "error", None)
    assert read.terminal


@pytest.mark.parametrize(
    ("kind", "payload", "status", "code"),
    [
        ("job.result", {"final_status": "cancelled"}, "cancelled", "CANCELLED"),
        ("job.result", {"final_status": "timed_out"}, "timed_out", "TIMEOUT"),
        ("job.result", {"final_status": "timedout"}, "timed_out", "TIMEOUT"),
        ("job.result", {"final_status": "canceled"}, "cancelled", "CANCELLED"),
        ("job.result", {"final_status": "Timed-Out"}, "timed_out", "TIMEOUT"),
        ("job.result", {"final_status": "error"}, "error", "INTERNAL_ERROR"),
        ("job.result", {"final_status": "failed", "code": "X"}, "error", "X"),
        ("job.error", {"final_status": "cancelled"}, "cancelled", "CANCELLED"),
        ("job.error", {"code": "CANCELLED"}, "cancelled", "CANCELLED"),
        ("job.error", {"code": "TIMEOUT"}, "timed_out", "TIMEOUT"),
        ("job.error", {"code": "LEASE_EXPIRED"}, "error", "LEASE_EXPIRED"),
        ("job.error", {"code": "TIMEOUT", "final_status": "error"}, "error", "TIMEOUT"),
        ("job.error", {"code": "x.new"}, "error", "x.new"),
        ("job.error", {"code": None}, "error", "INTERNAL_ERROR"),
        ("job.error", {}, "error", "INTERNAL_ERROR"),
    ],
)
@rule("accept-15")
def test_a_job_that_did_not_succeed_failed_whatever_message_says_so(
    kind: str, payload: Any, status: str, code: str
) -> None:
    read = event(frame(kind, payload, job_id="j"))

    assert isinstance(read, events.Failed)
    assert (read.status, read.code) == (status, code)


@pytest.mark.parametrize(
    ("payload", "retryable"),
    [
        ({"code": "INTERNAL_ERROR"}, True),
        ({"code": "HEARTBEAT_LOST"}, True),
        ({"code": "LEASE_EXPIRED"}, False),
        ({"code": "x.new"}, False),
        ({"code": "x.new", "retryable": True}, True),
        ({"code": "INTERNAL_ERROR", "retryable": False}, False),
        ({"code": "INTERNAL_ERROR", "retryable": None}, True),
        ({"code": "BUDGET_EXHAUSTED", "retryable": "yes"}, False),
        ({}, False),  # no word of the runtime's, so nobody may repeat the job because of it
    ],
)
def test_the_word_of_the_runtime_on_retrying_is_kept(payload: Any, retryable: bool) -> None:
    read = event(frame("job.error", payload, job_id="j"))

    assert isinstance(read, events.Failed)
    assert read.retryable is retryable


@pytest.mark.parametrize(
    ("payload", "details"),
    [
        ({"details": {"a": 1}}, {"a": 1}),
        ({"details": [1]}, [1]),
        ({"details": "text"}, "text"),
        ({"details": None, "detail": "text"}, "text"),
        ({"detail": "text"}, "text"),
        ({"details": None}, None),
        ({}, None),
    ],
)
@rule("accept-5")
def test_details_may_be_anything(payload: Any, details: Any) -> None:
    read = event(frame("job.error", {"code": "X", **payload}, job_id="j"))

    assert isinstance(read, events.Failed)
    assert read.details == details


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"message": "m", "summary": "s"}, "m"),
        ({"message": "", "summary": "s"}, "s"),
        ({"message": None}, ""),
        ({}, ""),
        ({"final_status": "paused"}, "the job ended as 'paused'"),
        ({"message": "\ud800"}, "\ufffd"),
    ],
)
@rule("accept-5")
def test_the_message_of_a_failure_may_be_missing(payload: Any, message: str) -> None:
    read = event(frame("job.error", {"code": "X", **payload}, job_id="j"))

    assert isinstance(read, events.Failed)
    assert read.message == message


def test_a_status_that_nobody_knows_is_no_success() -> None:
    read = event(frame("job.result", {"final_status": "x" * 500, "result": 1}, job_id="j"))

    assert isinstance(read, events.Failed)
    assert (read.status, read.code, read.retryable) == ("error", "INTERNAL_ERROR", False)
    assert len(read.message) < 120
    assert read.raw["payload"]["result"] == 1


@pytest.mark.parametrize("kind", ["job.result", "job.error"])
@rule("accept-14")
def test_a_terminal_may_name_its_job_in_the_payload(kind: str) -> None:
    assert event(frame(kind, {"job_id": "j"})).job_id == "j"
    assert event(frame(kind, {"job_id": "other"}, job_id="j")).job_id == "j"
    assert event(frame(kind, {"job_id": 5})).job_id is None


def test_a_control_frame_keeps_what_this_package_does_not_know() -> None:
    read = control("x-vendor.acme.hello", {"a": None, "b": {"c": [1]}}, correlation_id="r1")

    assert read.type == "x-vendor.acme.hello"
    assert read.payload == {"a": None, "b": {"c": [1]}}
    assert read.correlation_id == "r1"


def test_a_control_frame_may_carry_a_number() -> None:
    assert control("job.cancelled", {"reason": "r"}, event_seq=5, job_id="j").event_seq == 5


# ----------------------------------------------------------------------- copies of an event


def mark(data: bytes) -> str | None:
    read = decode(data)
    assert isinstance(read, TypedEvent | LooseEvent)
    return fingerprint(read)


@pytest.mark.parametrize("kind", [*sorted(KINDS), "x-vendor.acme.a"])
def test_a_copy_of_an_event_is_known_by_its_content(kind: str) -> None:
    body = BODIES.get(kind, {"a": [1, None]})
    first = event_frame(kind, body, id="e1", event_seq=1, session_id="s1")
    copy = event_frame(kind, body, id="e2", event_seq=9, session_id="s2", trace_id=None)

    assert mark(first) == mark(copy) is not None
    assert mark(event_frame(kind, body, ts="2026-05-13T19:42:13.001Z")) != mark(first)
    assert mark(event_frame(kind, body, ts=None)) is None


def test_events_with_other_contents_are_other_events() -> None:
    texts = ["a", "b", "\ud800", "\udfff", "\ufffd"]
    marks = {
        mark(event_frame(kind, {name: text}))
        for kind, name in (("log", "message"), ("thought", "text"), ("x-vendor.acme.a", "x"))
        for text in texts
    }

    assert len(marks) == 3 * len(texts)
    assert None not in marks


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="from 3.12 on, C code has a recursion limit of its own"
)
def test_an_event_that_is_nested_too_deeply_for_where_it_is_looked_at_has_no_fingerprint() -> None:
    deep: Any = 1
    for _ in range(700):
        deep = [deep]
    read = decode(event_frame("x-vendor.acme.a", deep))
    assert isinstance(read, LooseEvent)

    def further_down(levels: int) -> str | None:
        return further_down(levels - 1) if levels else fingerprint(read)

    assert fingerprint(read)
    assert further_down(500) is None


def test_the_size_of_an_event_is_that_of_its_frame() -> None:
    data = event_frame("log", {"message": "m"})

    assert event(data).size == len(data)
    assert events.Gap(first=1).size == 0
