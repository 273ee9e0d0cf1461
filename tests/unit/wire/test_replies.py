"""Replies of runtimes in all their shapes become the same values, and nothing raises."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from arcp_client._dialects import recognise
from arcp_client._wire.names import FEATURES, HISTORY_LAST
from arcp_client._wire.replies import (
    read_accepted,
    read_budget,
    read_jobs,
    read_lease,
    read_refusal,
    read_subscribed,
    read_welcome,
    reply_to,
)
from arcp_client.models import AgentDeclaration, AgentInfo, JobSummary, Lease, LeaseConstraints
from tests.interop.rules import rule
from tests.unit.wire.frames import CANARY, control

OFFERED = frozenset(FEATURES)
MOMENT = datetime(2026, 5, 13, 19, 30, tzinfo=UTC)


def welcome(payload: dict[str, Any], **top: Any) -> Any:
    frame = control("session.welcome", payload, **top)
    return read_welcome(frame, OFFERED, recognise(frame.payload, frame.id).name)


# ------------------------------------------------------------------------------- welcome


@rule("accept-3")
def test_a_welcome_of_the_specification_is_read() -> None:
    read = welcome(
        {
            "runtime": {"name": "acme", "version": "2.1", "sdk": "arcp-client/0.1.0"},
            "resume_token": CANARY,
            "resume_window_sec": 600,
            "heartbeat_interval_sec": 30,
            "capabilities": {
                "encodings": ["json"],
                "features": ["heartbeat", "ack", "x-vendor.new"],
                "agents": [
                    {"name": "a", "versions": ["1", "2"], "default": "2", "bare": True},
                    {"name": "b"},
                    "c",
                    {"name": "d", "versions": None, "default": None},
                    {
                        "name": "e",
                        "x-vendor.arcp-client.declarations": [
                            {"description": "E", "input_schema": {"type": "object"}},
                            {"version": 1, "description": 2, "input_schema": "x"},
                            "f",
                        ],
                    },
                    {"name": "f", "x-vendor.arcp-client.declarations": "g"},
                    {"version": "1"},
                    {"name": ""},
                    5,
                    None,
                ],
            },
        }
    )

    assert read.info.id == "sess_1"
    assert (read.info.runtime.name, read.info.runtime.version) == ("acme", "2.1")
    assert read.info.features == {"heartbeat", "ack"}
    assert read.info.heartbeat_interval == 30.0
    assert read.info.resume_window == 600.0
    assert read.info.dialect == "arcp-client"
    assert read.info.agents == (
        AgentInfo("a", ("1", "2"), "2"),
        AgentInfo("b"),
        AgentInfo("c"),
        AgentInfo("d"),
        AgentInfo(
            "e",
            declarations=(AgentDeclaration(None, "E", {"type": "object"}), AgentDeclaration()),
        ),
        AgentInfo("f"),
    )
    assert read.resume_token.get_secret_value() == CANARY
    assert CANARY not in repr(read)


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"runtime": None, "capabilities": None, "resume_token": None, "resume_window_sec": None},
        {"runtime": "acme", "capabilities": [], "resume_token": 5, "resume_window_sec": "600"},
        {"runtime": [], "capabilities": {"features": "ack", "agents": {"a": 1}}},
        {"capabilities": {"features": [1, None, ["ack"]], "agents": None}},
        {"resume_token": "", "resume_window_sec": 0, "heartbeat_interval_sec": -1},
        {"resume_window_sec": True, "heartbeat_interval_sec": 10**400},
        {"resume_window_sec": 1e300},
    ],
)
@rule("accept-1", "accept-3")
def test_everything_in_a_welcome_may_be_missing_or_wrong(payload: dict[str, Any]) -> None:
    read = welcome(payload)

    assert read.info.id == "sess_1"
    assert read.info.features == frozenset()
    assert read.info.agents == ()
    assert read.info.heartbeat_interval is None
    assert read.info.resume_window is None
    assert read.resume_token is None
    assert read.info.runtime.name == ""


@rule("accept-1")
def test_the_session_id_may_stand_in_the_payload() -> None:
    assert welcome({"session_id": "sess_2"}, session_id=None).info.id == "sess_2"
    assert welcome({"session_id": "sess_2"}).info.id == "sess_1"
    assert welcome({"session_id": 5}, session_id=None).info.id == ""


@rule("accept-1")
def test_a_runtime_may_be_named_flat() -> None:
    info = welcome({"runtime_name": "acme", "runtime_version": "1"}).info

    assert (info.runtime.name, info.runtime.version, info.dialect) == ("acme", "1", "ruby")


@rule("accept-2")
def test_a_heartbeat_that_was_not_negotiated_has_no_interval() -> None:
    payload = {"heartbeat_interval_sec": 30, "capabilities": {"features": ["ack"]}}

    assert welcome(payload).info.heartbeat_interval is None


@rule("accept-2")
def test_features_are_those_that_both_sides_offered() -> None:
    frame = control("session.welcome", {"capabilities": {"features": ["ack", "heartbeat"]}})

    assert read_welcome(frame, frozenset({"ack", "subscribe"}), "unknown").info.features == {"ack"}


# ------------------------------------------------------------------------------ acceptance


def test_an_acceptance_of_the_specification_is_read() -> None:
    read = read_accepted(
        control(
            "job.accepted",
            {
                "job_id": "job_1",
                "agent": "a@2",
                "lease": {"fs.read": ["/src/**"], "cost.budget": ["USD:5.00"]},
                "lease_constraints": {"expires_at": "2026-05-13T21:30:00+02:00", "x": 1},
                "budget": {"USD": 5.0},
                "credentials": [
                    {
                        "id": "cred_1",
                        "scheme": "x-new",
                        "value": CANARY,
                        "endpoint": "https://models.example",
                        "profile": "openai",
                        "constraints": {"model.use": ["gpt-*"]},
                        "x_extra": 1,
                    }
                ],
                "accepted_at": "2026-05-13T19:30:00Z",
                "trace_id": "ab" * 16,
                "parent_job_id": "job_0",
                "delegate_id": "d1",
            },
        )
    )

    assert read is not None
    assert (read.job_id, read.agent, read.accepted_at) == ("job_1", "a@2", MOMENT)
    assert read.lease == Lease({"fs.read": ["/src/**"], "cost.budget": ["USD:5.00"]})
    assert read.constraints == LeaseConstraints.model_validate({"expires_at": MOMENT, "x": 1})
    assert read.budget == {"USD": Decimal(5)}
    (credential,) = read.credentials
    assert (credential.id, credential.scheme, credential.profile) == ("cred_1", "x-new", "openai")
    assert credential.value.get_secret_value() == CANARY
    assert credential.endpoint == "https://models.example"
    assert credential.constraints == {"model.use": ["gpt-*"]}
    assert credential.model_extra == {"x_extra": 1}
    assert (read.trace_id, read.parent_job_id, read.delegate_id) == ("ab" * 16, "job_0", "d1")
    assert CANARY not in repr(read)


@pytest.mark.parametrize(
    "rest",
    [
        {},
        dict.fromkeys(("agent", "lease", "lease_constraints", "budget", "credentials", "trace_id")),
        {"agent": 5, "lease": [], "lease_constraints": "none", "credentials": {"a": 1}},
        {"accepted_at": "soon", "credentials": ["x", None], "parent_job_id": 5},
    ],
)
@rule("accept-11")
def test_an_acceptance_needs_no_more_than_the_job(rest: dict[str, Any]) -> None:
    read = read_accepted(control("job.accepted", {"job_id": "job_1", **rest}))

    assert read is not None
    assert read.job_id == "job_1"
    assert (read.agent, read.lease, read.constraints) == ("", Lease(), LeaseConstraints())
    assert (read.budget, read.credentials, read.accepted_at) == (None, (), None)
    assert (read.trace_id, read.parent_job_id, read.delegate_id) == (None, None, None)


@pytest.mark.parametrize("reader", [read_accepted, read_subscribed])
def test_the_job_and_the_trace_may_stand_in_the_envelope(reader: Any) -> None:
    read = reader(control("job.accepted", {}, job_id="job_1", trace_id="ab" * 16))

    assert (read.job_id, read.trace_id) == ("job_1", "ab" * 16)


@pytest.mark.parametrize("reader", [read_accepted, read_subscribed])
@pytest.mark.parametrize("job_id", [None, "", 5, {}])
def test_a_reply_that_names_no_job_is_none(reader: Any, job_id: Any) -> None:
    assert reader(control("job.accepted", {"job_id": job_id})) is None


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"id": None, "value": None},
        {"id": 5, "value": ["x"], "endpoint": {}, "profile": 1, "constraints": [], "scheme": None},
        {"model_config": 1, "copy": 2, "_private": 3, "self": 4, "cls": 5, "": 6},
        {"\ud800": "x", "id": "\ud800"},
    ],
)
def test_a_credential_keeps_what_fits(entry: dict[str, Any]) -> None:
    read = read_accepted(control("job.accepted", {"job_id": "j", "credentials": [entry]}))

    assert read is not None
    (credential,) = read.credentials
    assert credential.value.get_secret_value() == ""
    assert (credential.scheme, credential.endpoint, credential.profile) == ("bearer", None, None)
    assert repr(credential)


@pytest.mark.parametrize(
    "text", ["soon", "2026-05-13", "0001-01-01T00:00:00+10:00", 1778701333, ["x"]]
)
def test_an_end_of_a_lease_that_cannot_be_read_is_reported(
    text: Any, caplog: pytest.LogCaptureFixture
) -> None:
    payload = {"job_id": "j", "lease_constraints": {"expires_at": text}}
    with caplog.at_level(logging.WARNING, "arcp_client.wire"):
        read = read_accepted(control("job.accepted", payload))

    assert read is not None
    assert read.constraints.expires_at is None
    assert "expires_at" in caplog.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-05-13T19:30:00Z", MOMENT),
        ("2026-05-13T19:30:00.000000000Z", MOMENT),
        ("2026-05-13T21:30:00+02:00", MOMENT),
        ("2026-05-13T19:30:00", MOMENT),
        ("2026-05-13T19:29:60Z", MOMENT),
    ],
)
def test_the_end_of_a_lease_is_a_moment_in_utc(text: str, expected: datetime) -> None:
    read = read_accepted(
        control("job.accepted", {"job_id": "j", "lease_constraints": {"expires_at": text}})
    )

    assert read is not None
    assert read.constraints.expires_at == expected
    assert read.constraints.expires_at.tzinfo is UTC


def test_constraints_with_names_that_are_no_text_keep_the_end() -> None:
    stated = {"expires_at": "2026-05-13T19:30:00Z", "\ud800": 1}
    read = read_accepted(control("job.accepted", {"job_id": "j", "lease_constraints": stated}))

    assert read is not None
    assert read.constraints.expires_at == MOMENT


@pytest.mark.parametrize(
    ("lease", "expected"),
    [
        ({"fs.read": ["/a", "/b"]}, {"fs.read": ("/a", "/b")}),
        ({"fs.read": []}, {"fs.read": ()}),
        ({"fs.read": ["/a", 5, None]}, {"fs.read": ("/a",)}),
        ({"fs.read": "/a", "x": {"y": 1}, "z": None}, {}),
        (
            {"id": "lease_1", "capabilities": ["fs.read:/a"], "issued_at": "…", "model.use": ["m"]},
            {"capabilities": ("fs.read:/a",), "model.use": ("m",)},
        ),
        ({"": ["/a"]}, {}),
        ({"\ud800": ["\ud800"]}, {"\ufffd": ("\ufffd",)}),
        ([], {}),
        ("all", {}),
        (None, {}),
    ],
)
@rule("accept-11")
def test_a_lease_keeps_every_namespace_that_has_patterns(
    lease: Any, expected: dict[str, tuple[str, ...]]
) -> None:
    assert read_lease(lease) == Lease(expected)


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (5, "5"),
        (5.0, "5"),
        (1.5, "1.5"),
        (0, "0"),
        ("1.00", "1.00"),
        ("USD:1.00", "1.00"),
        ("USD: 1.00 ", "1.00"),
        ("0.1234567890123456789", "0.1234567890123456789"),
        (0.5800000000000001, "0.58"),
        (-0.2599999999999999, "-0.26"),
        (0.1 + 0.2, "0.3"),
        (4.999999999999999, "5"),
        (1e22, "10000000000000000000000"),
        (1e-7, "1E-7"),
        (-0.26, "-0.26"),
        ("USD:-0.26", "-0.26"),
        (10**20, "100000000000000000000"),
        (123456.78, "123456.78"),
    ],
)
@rule("accept-11", "accept-12")
def test_a_budget_is_read_from_every_form_and_without_binary_noise(
    amount: Any, expected: str
) -> None:
    budget = read_budget({"USD": amount})

    assert budget is not None
    assert str(budget["USD"]) == expected


@pytest.mark.parametrize(
    "amount",
    [
        True,
        None,
        "",
        "five",
        "USD",
        "USD:",
        "NaN",
        "Infinity",
        "USD:NaN",
        "1e9",
        "1_000",
        "1,000",
        "٣",
        "USD:1:2x",
        "9" * 5000,
        10**400,
        1e300,
        [1],
        {"amount": 1},
    ],
)
def test_an_amount_that_cannot_be_read_is_left_out(amount: Any) -> None:
    assert read_budget({"USD": amount, "EUR": 1}) == {"EUR": Decimal(1)}


@pytest.mark.parametrize("value", [None, [], "USD:1.00", 5])
def test_a_budget_is_an_object_or_absent(value: Any) -> None:
    assert read_budget(value) is None


# ------------------------------------------------------------------------ subscription, list


@rule("accept-19")
def test_a_subscription_is_read() -> None:
    read = read_subscribed(
        control(
            "job.subscribed",
            {
                "job_id": "job_1",
                "current_status": "timedout",
                "agent": "a@1",
                "lease": {"fs.read": ["/a"]},
                "lease_constraints": {"expires_at": "2026-05-13T19:30:00Z"},
                "budget": {"USD": "USD:1.00"},
                "credentials": [{"id": "c", "value": CANARY}],
                "parent_job_id": None,
                "subscribed_from": 1830,
                "replayed": 4,
            },
        )
    )

    assert read is not None
    assert (read.status, read.agent, read.parent_job_id) == ("timed_out", "a@1", None)
    assert read.budget == {"USD": Decimal("1.00")}
    assert read.constraints.expires_at == MOMENT
    assert CANARY not in repr(read)


@pytest.mark.parametrize(
    ("told", "read"), [("01J", "01J"), ("", ""), (None, None), (7, None), (["01J"], None)]
)
def test_the_last_past_event_of_a_subscription_is_read(told: object, read: str | None) -> None:
    answer = control("job.subscribed", {"job_id": "job_1", HISTORY_LAST: told})
    assert (found := read_subscribed(answer)) is not None
    assert found.history_last == read


@rule("accept-21")
def test_a_listing_is_read() -> None:
    page = read_jobs(
        control(
            "session.jobs",
            {
                "request_id": "r",
                "jobs": [
                    {
                        "job_id": "job_1",
                        "agent": "a@1",
                        "status": "running",
                        "lease": {"fs.read": ["/a"]},
                        "parent_job_id": "job_0",
                        "created_at": "2026-05-13T19:30:00Z",
                        "trace_id": "ab" * 16,
                        "last_event_seq": 12,
                    },
                    {"job_id": "job_2", "submitted_at": "2026-05-13T19:30:00Z"},
                    {"job_id": "job_3", "last_event_seq": True, "lease": {}, "status": "odd"},
                    {"job_id": "job_4", "last_event_seq": -1, "created_at": "soon"},
                    {"job_id": "job_5", "last_event_seq": 10**30, "lease": None},
                    {"job_id": ""},
                    {"job_id": 5},
                    {},
                    None,
                    "job_6",
                ],
                "next_cursor": "opaque",
            },
        )
    )

    assert page.next_cursor == "opaque"
    assert page.jobs == (
        JobSummary(
            "job_1",
            agent="a@1",
            status="running",
            lease=Lease({"fs.read": ["/a"]}),
            parent_job_id="job_0",
            created_at=MOMENT,
            trace_id="ab" * 16,
            last_event_seq=12,
        ),
        JobSummary("job_2", created_at=MOMENT),
        JobSummary("job_3", lease=Lease(), status="odd"),
        JobSummary("job_4"),
        JobSummary("job_5"),
    )


@pytest.mark.parametrize("payload", [{}, {"jobs": None, "next_cursor": None}, {"jobs": {}}])
@rule("accept-21")
def test_a_listing_may_be_empty_in_several_ways(payload: dict[str, Any]) -> None:
    page = read_jobs(control("session.jobs", payload))

    assert (page.jobs, page.next_cursor) == ((), None)


# ------------------------------------------------------------------ refusals, correlation


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (
            {"code": "X", "message": "m", "retryable": True, "details": {"a": 1}},
            ("X", "m", True, {"a": 1}),
        ),
        ({"code": "X", "detail": "text"}, ("X", "", False, "text")),
        ({"code": "INTERNAL_ERROR"}, ("INTERNAL_ERROR", "", True, None)),
        ({"code": "INTERNAL_ERROR", "retryable": False}, ("INTERNAL_ERROR", "", False, None)),
        ({"code": "X", "retryable": "no", "message": None}, ("X", "", False, None)),
        ({}, ("INTERNAL_ERROR", "", False, None)),
        ({"code": 5, "message": 5}, ("INTERNAL_ERROR", "", False, None)),
    ],
)
@rule("accept-5")
def test_a_refusal_keeps_the_code_and_the_word_on_retrying(
    payload: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    read = read_refusal(control("session.error", payload))

    assert (read.code, read.message, read.retryable, read.details) == expected


@pytest.mark.parametrize(
    ("payload", "top", "expected"),
    [
        ({"request_id": "a", "reply_to": "b"}, {"correlation_id": "c"}, "a"),
        ({"request_id": None, "reply_to": "b"}, {}, "b"),
        ({"request_id": "", "reply_to": "b"}, {}, "b"),
        ({"request_id": 5, "reply_to": "b"}, {}, "b"),
        ({}, {"correlation_id": "c"}, "c"),
        ({"request_id": 5}, {"correlation_id": "c"}, "c"),
        ({}, {"correlation_id": ""}, None),
        ({}, {}, None),
    ],
)
@rule("accept-6")
def test_a_reply_says_what_it_answers_under_one_of_three_names(
    payload: dict[str, Any], top: dict[str, Any], expected: str | None
) -> None:
    assert reply_to(control("session.error", payload, **top)) == expected
