"""Requests: what is sent satisfies every known runtime, what is received is checked."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import SecretStr

from arcp_client._wire.codec import encode, snapshot
from arcp_client._wire.fields import Malformed
from arcp_client._wire.messages import (
    REQUESTS,
    Ack,
    Auth,
    Bye,
    Cancel,
    Capabilities,
    Close,
    Hello,
    JobFilter,
    ListJobsMessage,
    Ping,
    Pong,
    Resume,
    ResumeBlock,
    Submit,
    SubscribeMessage,
    Unsubscribe,
    parse_agent,
)
from arcp_client.models import ClientInfo, Lease, LeaseConstraints
from tests.interop.rules import rule
from tests.unit.wire.frames import CANARY

EAST = timezone(timedelta(hours=2))


def test_every_request_is_found_by_its_type() -> None:
    assert set(REQUESTS) == {
        "session.hello",
        "session.resume",
        "session.ping",
        "session.pong",
        "session.ack",
        "session.list_jobs",
        "session.close",
        "session.bye",
        "job.submit",
        "job.cancel",
        "job.subscribe",
        "job.unsubscribe",
        "x-vendor.arcp-client.answer",
        "x-vendor.arcp-client.list_questions",
        "x-vendor.arcp-client.send",
    }
    assert all(REQUESTS[kind].type == kind for kind in REQUESTS)


def has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(has_null(item) for item in value.values())
    return value is None or (isinstance(value, list) and any(map(has_null, value)))


@pytest.mark.parametrize(
    "request_",
    [
        Hello(),
        Hello(resume=ResumeBlock(resume_token=SecretStr("t"))),
        Resume(resume_token=SecretStr("t")),
        Ping(nonce="n"),
        Pong(ping_nonce="n"),
        Ack(last_processed_seq=0),
        ListJobsMessage(),
        ListJobsMessage(filter=JobFilter()),
        Close(),
        Bye(),
        Submit(agent="a", input={}),
        Cancel(job_id="j"),
        SubscribeMessage(job_id="j"),
        Unsubscribe(job_id="j"),
    ],
    ids=lambda request: request.type,
)
@rule("send-1")
def test_no_request_sends_a_null_for_what_is_absent(request_: Any) -> None:
    payload = request_.wire()

    assert not has_null(payload)
    assert json.loads(encode(request_.type, payload, id="e"))["payload"] == payload


# ------------------------------------------------------------------------------- hello


@rule("send-3")
def test_a_hello_has_the_names_of_every_dialect() -> None:
    hello = Hello(
        client=ClientInfo(name="c", version="1"),
        auth=Auth(token=SecretStr("tok")),
        capabilities=Capabilities(features=("ack", "heartbeat")),
    )

    assert hello.wire() == {
        "client": {"name": "c", "version": "1"},
        "client_name": "c",
        "client_version": "1",
        "auth": {"scheme": "bearer", "token": "tok"},
        "capabilities": {"encodings": ["json"], "features": ["ack", "heartbeat"]},
    }


@rule("send-4")
def test_a_hello_that_resumes_says_so_in_every_dialect() -> None:
    hello = Hello(
        resume=ResumeBlock(session_id="s", resume_token=SecretStr("t"), last_event_seq=12)
    )
    payload = hello.wire()

    assert payload["resume"] == {
        "session_id": "s",
        "resume_token": "t",
        "token": "t",
        "last_event_seq": 12,
    }
    assert (payload["resume_token"], payload["last_event_seq"]) == ("t", 12)


def test_a_hello_survives_its_own_wire_form() -> None:
    hello = Hello(
        client=ClientInfo(name="c", version="1"),
        auth=Auth(token=SecretStr("tok")),
        resume=ResumeBlock(session_id="s", resume_token=SecretStr("t"), last_event_seq=12),
    )
    read = Hello.read(json.loads(json.dumps(hello.wire())))

    assert read.client == ClientInfo(name="c", version="1")
    assert read.auth == Auth(token=SecretStr("tok"))
    assert read.resume == ResumeBlock(
        session_id="s", resume_token=SecretStr("t"), last_event_seq=12
    )
    assert read.wire() == hello.wire()


@pytest.mark.parametrize(
    "payload",
    [
        {"client_name": "c", "client_version": "1", "resume": {"token": "t", "last_event_seq": 3}},
        {"client": {"name": "c", "version": "1"}, "resume_token": "t", "last_event_seq": 3},
        {
            "client": {"name": "c", "version": "1", "kind": "x"},
            "resume": {"session_id": "s", "resume_token": "t", "last_event_seq": 3},
        },
        {
            "client": {"name": "c", "version": "1"},
            "resume": None,
            "resume_token": "t",
            "last_event_seq": 3,
        },
    ],
)
def test_the_hello_of_every_client_is_understood(payload: dict[str, Any]) -> None:
    hello = Hello.read({**payload, "auth": {"scheme": "bearer", "token": "tok"}})

    assert (hello.client.name, hello.client.version) == ("c", "1")
    assert hello.resume is not None
    assert hello.resume.resume_token.get_secret_value() == "t"
    assert hello.resume.last_event_seq == 3


@pytest.mark.parametrize(
    "payload",
    [
        {},
        dict.fromkeys(("client", "auth", "capabilities", "resume", "resume_token")),
        {"client": {"name": "", "version": None}, "auth": {"token": None}},
        {"capabilities": {"encodings": None, "features": None, "agents": []}},
    ],
)
def test_a_hello_may_leave_out_everything(payload: dict[str, Any]) -> None:
    hello = Hello.read(payload)

    assert hello.client == ClientInfo()
    assert hello.auth.token.get_secret_value() == ""
    assert hello.capabilities.features == ()
    assert hello.resume is None


@pytest.mark.parametrize(
    "payload",
    [
        [],
        "hello",
        {"client": "c"},
        {"auth": "tok"},
        {"auth": {"token": 5}},
        {"capabilities": {"features": "ack"}},
        {"resume": {"last_event_seq": 3}},
        {"resume": {"resume_token": "t", "last_event_seq": -1}},
        {"resume": {"resume_token": "t", "last_event_seq": "3"}},
        {"resume_token": "t", "last_event_seq": 2**63},
    ],
)
def test_a_malformed_hello_is_refused(payload: Any) -> None:
    with pytest.raises(Malformed):
        Hello.read(payload)


def test_no_request_shows_a_token() -> None:
    payload = {
        "auth": {"scheme": "x-new", "token": CANARY, "password": CANARY},
        "resume": {"session_id": "s", "resume_token": CANARY, "token": CANARY},
        "resume_token": CANARY,
    }
    hello = Hello.read(payload)
    resume = Resume.read({"resume_token": CANARY, "auth": payload["auth"]})

    for value in (hello, hello.auth, hello.resume, resume):
        assert CANARY not in repr(value)
        assert CANARY not in str(value)
    assert "x-new" in repr(hello.auth)
    assert "last_event_seq=0" in repr(hello.resume)


# ------------------------------------------------------------------------------- submit


@rule("send-6")
def test_a_submit_always_has_an_input() -> None:
    assert Submit(agent="a").wire() == {"agent": "a", "input": None}
    assert Submit(agent="a", input=0).wire() == {"agent": "a", "input": 0}
    assert Submit.read({"agent": "a", "input": None}).wire()["input"] is None


def test_the_input_of_a_submit_is_sent_as_it_is() -> None:
    value = {"a": None, "b": [None]}
    assert Submit(agent="a", input=value).wire()["input"] == value

    raw = snapshot(value)
    assert b'"input":' + bytes(raw) in encode(
        "job.submit", Submit(agent="a", input=raw).wire(), id="e"
    )


@rule("send-6")
def test_a_submit_leaves_out_what_is_absent_and_keeps_what_it_does_not_know() -> None:
    submit = Submit.read(
        {
            "agent": "a@1.0",
            "input": {},
            "lease_request": {"fs.read": ["/src/**"], "cost.budget": ["USD:5.00", "credits:10"]},
            "lease_constraints": {"expires_at": "2026-05-13T23:42:00Z", "x": 1},
            "idempotency_key": "k",
            "max_runtime_sec": 1800,
            "parent_job_id": None,
            "x_new": {"y": 1},
        }
    )

    assert submit.wire() == {
        "agent": "a@1.0",
        "input": {},
        "lease_request": {"fs.read": ["/src/**"], "cost.budget": ["USD:5.00", "credits:10"]},
        "lease_constraints": {"expires_at": "2026-05-13T23:42:00Z", "x": 1},
        "idempotency_key": "k",
        "max_runtime_sec": 1800,
        "x_new": {"y": 1},
    }


def test_a_submit_takes_the_values_that_users_build() -> None:
    end = datetime(2026, 5, 14, 1, 42, tzinfo=EAST)
    submit = Submit(
        agent="a",
        lease_request=Lease({"fs.read": ["/src/**"]}),  # type: ignore[arg-type]
        lease_constraints=LeaseConstraints(expires_at=end),  # type: ignore[arg-type]
    )

    assert submit.wire() == {
        "agent": "a",
        "input": None,
        "lease_request": {"fs.read": ["/src/**"]},
        "lease_constraints": {"expires_at": "2026-05-13T23:42:00.000Z"},
    }
    also = Submit(agent="a", lease_constraints={"expires_at": end})
    assert also.wire()["lease_constraints"] == submit.wire()["lease_constraints"]
    empty = Submit(agent="a", lease_constraints=LeaseConstraints())  # type: ignore[arg-type]
    assert empty.wire()["lease_constraints"] == {}


@pytest.mark.parametrize(
    "amount", ["USD:5.00", "EUR:0", "credits:1000", "USD:0.0001", "gpu_hours:2", "x-vendor.a:1"]
)
def test_a_budget_is_a_currency_and_a_decimal(amount: str) -> None:
    assert Submit(agent="a", lease_request={"cost.budget": [amount]})


@pytest.mark.parametrize(
    "amount",
    [
        "5.00",
        "USD",
        "USD:",
        ":5",
        "USD:-5",
        "USD:5.",
        "USD:.5",
        "USD:1e3",
        "USD: 5",
        "USD:NaN",
        "USD:1:2",
        "USD:" + "9" * 50,
        "USD:٣",
        "USD:5.00\n",
        "",
    ],
)
def test_anything_else_is_no_budget(amount: str) -> None:
    with pytest.raises(Malformed, match="no amount"):
        Submit(agent="a", lease_request={"cost.budget": [amount]})


@pytest.mark.parametrize(
    "text",
    [
        "2026-05-13T23:42:00Z",
        "2026-05-13T23:42:00.123456789Z",
        "2026-05-13T23:42:00+00:00",
        "2026-05-13T23:41:60Z",
    ],
)
@rule("send-6")
def test_the_end_of_a_lease_is_a_time_in_utc(text: str) -> None:
    submit = Submit(agent="a", lease_constraints={"expires_at": text})

    assert submit.wire()["lease_constraints"] == {"expires_at": text}


@pytest.mark.parametrize(
    "value",
    [
        "soon",
        "",
        "2026-05-13",
        "2026-05-13T23:42:00",
        "2026-05-13T23:42:00+02:00",
        "2026-05-13T23:42:61Z",
        1778701333,
        True,
        ["2026-05-13T23:42:00Z"],
        datetime(2026, 5, 13),  # noqa: DTZ001
    ],
)
def test_an_end_that_cannot_be_read_never_means_an_endless_lease(value: Any) -> None:
    with pytest.raises(Malformed):
        Submit(agent="a", lease_constraints={"expires_at": value})


def test_a_null_end_means_none() -> None:
    assert Submit(agent="a", lease_constraints={"expires_at": None}).lease_constraints == {}


@pytest.mark.parametrize(
    "fields",
    [
        {"agent": ""},
        {"agent": None},
        {"agent": "A"},
        {"agent": "a b"},
        {"agent": "a@"},
        {"agent": "a\n"},
        {"agent": "a" * 1025},
        {"idempotency_key": ""},
        {"idempotency_key": "k" * 257},
        {"idempotency_key": 5},
        {"max_runtime_sec": 0},
        {"max_runtime_sec": -1},
        {"max_runtime_sec": True},
        {"max_runtime_sec": "60"},
        {"max_runtime_sec": 1.5},
        {"max_runtime_sec": 2**31},
        {"lease_request": []},
        {"lease_request": {"fs.read": "/src/**"}},
        {"lease_request": {"fs.read": [5]}},
        {"lease_constraints": []},
        {"lease_constraints": "soon"},
        {"parent_job_id": 5},
    ],
    ids=lambda fields: f"{fields!r:.40}",
)
def test_a_malformed_submit_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        Submit.read({"agent": "a", "input": None, **fields})


def test_the_bounds_of_a_submit_are_inclusive() -> None:
    assert Submit(agent="a", idempotency_key="k" * 256, max_runtime_sec=2**31 - 1)
    assert Submit(agent="a", idempotency_key="k", max_runtime_sec=1)


@pytest.mark.parametrize(
    ("reference", "parts"),
    [
        ("a", ("a", None)),
        ("0", ("0", None)),
        ("code-refactor@2.0.0", ("code-refactor", "2.0.0")),
        ("a.b_c-1@1.0+build_7", ("a.b_c-1", "1.0+build_7")),
    ],
)
def test_an_agent_is_a_name_with_or_without_a_version(
    reference: str, parts: tuple[str, str | None]
) -> None:
    assert parse_agent(reference) == parts


@pytest.mark.parametrize("reference", ["", "A", "-a", "a@", "@1", "a@1@2", "a b", "ä", "a@1\n"])
def test_anything_else_is_no_agent(reference: str) -> None:
    with pytest.raises(ValueError, match="not of the form"):
        parse_agent(reference)


# ------------------------------------------------------------------------------- others


@rule("send-7")
def test_a_cancel_always_gives_a_reason() -> None:
    assert Cancel(job_id="j").wire() == {"job_id": "j", "reason": "client.cancel"}
    assert Cancel.read({"job_id": "j", "reason": None}).reason == "client.cancel"


@rule("send-5")
def test_a_goodbye_always_gives_a_reason() -> None:
    assert Bye().wire() == {"reason": "client.close"}
    assert Close().wire() == {}
    assert Close(reason="r").wire() == {"reason": "r"}


@rule("send-7")
def test_a_subscription_has_a_starting_point_only_with_history() -> None:
    assert SubscribeMessage(job_id="j").wire() == {"job_id": "j", "history": False}
    assert SubscribeMessage(job_id="j", from_event_seq=5).wire() == {
        "job_id": "j",
        "history": False,
    }
    assert SubscribeMessage(job_id="j", history=True, from_event_seq=0).wire() == {
        "job_id": "j",
        "history": True,
        "from_event_seq": 0,
    }
    assert Unsubscribe(job_id="j").wire() == {"job_id": "j"}


@pytest.mark.parametrize("kind", [Cancel, SubscribeMessage, Unsubscribe])
@pytest.mark.parametrize("job_id", ["", None, 5, "x" * 1025])
def test_what_is_about_a_job_names_it(kind: Any, job_id: Any) -> None:
    with pytest.raises(Malformed):
        kind.read({"job_id": job_id})


@pytest.mark.parametrize("filter_", [None, {}, {"status": []}, {"status": None, "agent": None}])
@rule("send-8")
def test_an_empty_filter_is_left_out(filter_: Any) -> None:
    assert ListJobsMessage.read({"filter": filter_, "cursor": None}).wire() == {}


@rule("send-8")
def test_a_listing_is_asked_for_in_utc() -> None:
    request = ListJobsMessage(
        filter=JobFilter(
            status=("running", "pending"),
            agent="a@1",
            created_after=datetime(2026, 5, 13, 2, tzinfo=EAST),
        ),
        limit=1000,
        cursor="opaque",
    )

    assert request.wire() == {
        "limit": 1000,
        "cursor": "opaque",
        "filter": {
            "status": ["running", "pending"],
            "agent": "a@1",
            "created_after": "2026-05-13T00:00:00Z",
        },
    }


def test_a_filter_without_a_status_has_none() -> None:
    assert ListJobsMessage(filter=JobFilter(agent="a")).wire() == {"filter": {"agent": "a"}}


@pytest.mark.parametrize(
    "text", ["2026-05-13T00:00:00Z", "2026-05-13T02:00:00+02:00", "2026-05-13T00:00:00"]
)
def test_a_filter_of_another_client_is_read_in_every_form(text: str) -> None:
    read = JobFilter.read({"created_after": text, "x": 1})

    assert read.created_after == datetime(2026, 5, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        "2026-05-13",
        "soon",
        5,
        True,
        datetime(2026, 5, 13),  # noqa: DTZ001
        datetime(1, 1, 1, tzinfo=EAST),
    ],
)
def test_a_time_that_cannot_be_read_is_refused(value: Any) -> None:
    with pytest.raises(Malformed):
        JobFilter.read({"created_after": value})


@pytest.mark.parametrize("limit", [0, -1, 1001, True, "10", 1.0])
@rule("send-8")
def test_a_page_has_1_to_1000_jobs(limit: Any) -> None:
    with pytest.raises(Malformed):
        ListJobsMessage.read({"limit": limit})


@pytest.mark.parametrize("seq", [-1, True, "3", 1.0, 2**63, None])
def test_an_ack_is_a_number_of_63_bits(seq: Any) -> None:
    with pytest.raises(Malformed):
        Ack.read({"last_processed_seq": seq})


@rule("send-9")
def test_pings_and_pongs_carry_their_nonce() -> None:
    assert Ping(nonce="n", sent_at="t").wire() == {"nonce": "n", "sent_at": "t"}
    assert Pong(ping_nonce="n").wire() == {"ping_nonce": "n"}
    assert Ping.read({"nonce": None}).nonce == ""
