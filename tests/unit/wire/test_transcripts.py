"""Every frame that was captured from a real runtime is read, and read as what it means."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from arcp_client import events
from arcp_client._dialects import recognise
from arcp_client._wire import names
from arcp_client._wire.bodies import KINDS, LooseEvent, TypedEvent
from arcp_client._wire.build import terminal_event, to_event
from arcp_client._wire.codec import BadFrame, ControlFrame, decode
from arcp_client._wire.fields import Malformed
from arcp_client._wire.messages import REQUESTS
from arcp_client._wire.names import FEATURES
from arcp_client._wire.replies import (
    read_accepted,
    read_jobs,
    read_refusal,
    read_subscribed,
    read_welcome,
    reply_to,
)
from arcp_client.errors import UnknownCode, request_error

FOLDER = Path(__file__).parents[2] / "data" / "transcripts"
FILES = sorted(FOLDER.glob("*/*.jsonl"))
IDS = [f"{file.parent.name}/{file.stem}" for file in FILES]

Frame = tuple[str, dict[str, Any], bytes]


def frames(file: Path, direction: str = "s2c") -> Iterator[Frame]:
    """Connection, frame and bytes of everything that went one way."""
    for line in file.read_text().splitlines():
        record = json.loads(line)
        if record["dir"] == direction:
            yield record.get("conn", ""), record["frame"], json.dumps(record["frame"]).encode()


def of_type(file: Path, *kinds: str) -> Iterator[tuple[dict[str, Any], ControlFrame, bytes]]:
    for _, sent, data in frames(file):
        if sent["type"] in kinds:
            read = decode(data)
            assert isinstance(read, ControlFrame)
            yield sent, read, data


def named(part: str) -> list[Any]:
    return [
        pytest.param(file, id=name) for file, name in zip(FILES, IDS, strict=True) if part in name
    ]


def test_the_captures_are_all_there() -> None:
    assert Counter(file.parent.name for file in FILES) == {
        "python-stdio": 5,
        "python-ws": 24,
        "typescript-ws": 22,
    }


@pytest.mark.parametrize("file", FILES, ids=IDS)
@pytest.mark.parametrize("direction", ["s2c", "c2s"])
def test_every_frame_is_read_with_its_envelope(file: Path, direction: str) -> None:
    for _, sent, data in frames(file, direction):
        read = decode(data)
        assert not isinstance(read, BadFrame), sent
        for name in ("id", "session_id"):
            given = sent.get(name)
            assert getattr(read, name) == (given if isinstance(given, str) else "")
        for name in ("job_id", "trace_id", "event_seq"):
            assert getattr(read, name) == sent.get(name)
        if isinstance(read, ControlFrame):
            assert read.type == sent["type"]
            assert read.payload == sent.get("payload", {})


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_every_event_becomes_the_class_of_its_kind(file: Path) -> None:
    for _, sent, data in frames(file):
        if sent["type"] != names.EVENT:
            continue
        read = decode(data)
        assert isinstance(read, TypedEvent | LooseEvent)
        event = to_event(read, data)
        kind, body = sent["payload"]["kind"], sent["payload"]["body"]
        assert event.kind == kind
        assert event.raw == sent
        assert event.ts is not None
        if kind in KINDS:
            assert type(event) is events.KINDS[kind]
            known = set(event.__struct_fields__)
            for name, value in body.items():
                if name in known:
                    assert getattr(event, name) == value
        else:
            assert isinstance(event, events.Unknown)
            assert event.body == body


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_every_welcome_is_recognised_and_read(file: Path) -> None:
    family = file.parent.name.partition("-")[0]
    for sent, read, _ in of_type(file, names.WELCOME):
        kind = recognise(read.payload, read.id).name
        assert kind == family
        welcome = read_welcome(read, frozenset(FEATURES), kind)
        assert welcome.info.id == sent["session_id"]
        assert welcome.info.runtime.name == sent["payload"]["runtime"]["name"]
        assert welcome.info.features == set(sent["payload"]["capabilities"]["features"])
        assert welcome.info.resume_window == 600.0
        assert welcome.info.heartbeat_interval == sent["payload"].get("heartbeat_interval_sec")
        assert {"echo", "slow"} <= {agent.name for agent in welcome.info.agents}
        assert welcome.resume_token is not None
        assert welcome.resume_token.get_secret_value() == sent["payload"]["resume_token"]


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_every_acceptance_is_read(file: Path) -> None:
    submits = {sent["id"] for _, sent, _ in frames(file, "c2s") if sent["type"] == names.SUBMIT}
    for sent, read, _ in of_type(file, names.ACCEPTED):
        payload = sent["payload"]
        accepted = read_accepted(read)
        assert accepted is not None
        assert accepted.job_id == sent["job_id"] == payload["job_id"]
        assert accepted.agent == payload["agent"]
        assert accepted.accepted_at is not None
        assert accepted.trace_id == sent.get("trace_id")
        assert {name: list(accepted.lease[name]) for name in accepted.lease.namespaces()} == (
            payload["lease"]
        )
        if "lease_constraints" in payload:
            assert accepted.constraints.expires_at is not None
        if "budget" in payload:
            granted = [amount.split(":") for amount in payload["lease"]["cost.budget"]]
            assert accepted.budget == {currency: Decimal(amount) for currency, amount in granted}
        assert (accepted.parent_job_id is None) == ("parent_job_id" not in payload)
        if file.parent.name.startswith("python"):
            assert reply_to(read) in submits
        else:
            assert reply_to(read) is None


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_every_subscription_is_read(file: Path) -> None:
    for sent, read, _ in of_type(file, names.SUBSCRIBED):
        subscribed = read_subscribed(read)
        assert subscribed is not None
        assert subscribed.job_id == sent["payload"]["job_id"]
        assert subscribed.status in {"running", "success"}
        assert subscribed.agent == sent["payload"]["agent"]


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_every_listing_is_read(file: Path) -> None:
    for sent, read, _ in of_type(file, names.JOBS):
        page = read_jobs(read)
        assert [job.job_id for job in page.jobs] == [
            job["job_id"] for job in sent["payload"]["jobs"]
        ]
        assert all(job.created_at is not None for job in page.jobs)
        assert all(job.status in {"pending", "running", *names.ENDED} for job in page.jobs)
        assert page.next_cursor == sent["payload"].get("next_cursor")
        assert reply_to(read) == sent["payload"]["request_id"]


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_every_error_is_read(file: Path) -> None:
    for sent, read, _ in of_type(file, names.SESSION_ERROR, names.JOB_ERROR):
        refusal = read_refusal(read)
        assert refusal.code == sent["payload"]["code"]
        assert refusal.message == sent["payload"]["message"]
        assert refusal.retryable is sent["payload"]["retryable"]
        assert refusal.details == sent["payload"].get("details")
        error = request_error(refusal.code, refusal.message, retryable=refusal.retryable)
        assert error.code == refusal.code
        if refusal.code in {"INVALID_REQUEST", "JOB_NOT_FOUND", "PERMISSION_DENIED"}:
            assert not isinstance(error, UnknownCode)


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_every_terminal_is_read(file: Path) -> None:
    for sent, read, data in of_type(file, *names.TERMINALS):
        event = terminal_event(read, data)
        payload = sent["payload"]
        assert event.terminal
        assert event.job_id == sent.get("job_id")
        assert event.raw == sent
        if payload["final_status"] == "success":
            assert isinstance(event, events.Completed)
            assert event.value == payload.get("result")
            assert event.result_id == payload.get("result_id")
            assert event.result_size == payload.get("result_size")
        else:
            assert isinstance(event, events.Failed)
            assert event.status == payload["final_status"]


def test_what_the_python_runtime_calls_a_result_may_be_a_cancelled_job() -> None:
    (file,) = (f for f in FILES if f.match("python-ws/11-cancel.jsonl"))
    ended = [
        terminal_event(read, data)
        for sent, read, data in of_type(file, names.RESULT)
        if sent["payload"]["final_status"] == "cancelled"
    ]

    assert ended
    for event in ended:
        assert isinstance(event, events.Failed)
        assert (event.status, event.code) == ("cancelled", "CANCELLED")


def test_what_the_python_runtime_calls_a_result_may_be_a_timeout() -> None:
    (file,) = (f for f in FILES if f.match("python-ws/12-timeout-and-agent-crash.jsonl"))
    ended = [terminal_event(read, data) for _, read, data in of_type(file, *names.TERMINALS)]

    assert [event.status for event in ended if isinstance(event, events.Failed)] == [
        "timed_out",
        "error",
    ]
    assert ended[0].code == "TIMEOUT"  # type: ignore[attr-defined]


@pytest.mark.parametrize("file", named("16-budget"))
def test_budgets_are_the_same_amounts_in_every_dialect(file: Path) -> None:
    budgets = [
        accepted.budget
        for _, read, _ in of_type(file, names.ACCEPTED)
        if (accepted := read_accepted(read))
    ]

    assert budgets[0] == {"USD": Decimal("1.00"), "credits": Decimal(10)}


@pytest.mark.parametrize("file", named("05-chunked"))
def test_the_pieces_of_a_chunked_result_are_all_there(file: Path) -> None:
    chunks: dict[str, list[int]] = {}
    named_by_results = []
    for _, sent, data in frames(file):
        read = decode(data)
        if isinstance(read, ControlFrame):
            if sent["type"] == names.RESULT:
                named_by_results.append(terminal_event(read, data).result_id)  # type: ignore[attr-defined]
            continue
        assert not isinstance(read, BadFrame)
        event = to_event(read, data)
        if isinstance(event, events.ResultChunk):
            chunks.setdefault(event.result_id, []).append(event.chunk_seq)

    assert chunks
    assert set(named_by_results) == set(chunks)
    for numbers in chunks.values():
        assert numbers == list(range(len(numbers)))


def test_a_delegated_child_is_told_from_a_submitted_job() -> None:
    (file,) = (f for f in FILES if f.match("typescript-ws/23-delegate.jsonl"))
    children = [
        accepted
        for _, read, _ in of_type(file, names.ACCEPTED)
        if (accepted := read_accepted(read)) and accepted.parent_job_id
    ]

    assert children
    assert all(child.delegate_id for child in children)


SPOILED = {
    "07-rejected-submits",
    "07-rejected-requests",
    "02-auth-failure",
    "10-list-jobs",
    "02-cancel-rejected-close",
    "14-resume-after-close-complete",
    "15-failed-resume",
}
"""Scenarios in which a client sent malformed requests on purpose."""


@pytest.mark.parametrize("file", FILES, ids=IDS)
def test_requests_of_other_clients_pass_the_checks_of_a_runtime(file: Path) -> None:
    for _, sent, _ in frames(file, "c2s"):
        model = REQUESTS.get(sent["type"])
        if model is None:
            continue
        try:
            # Some clients name the job in the envelope, some in the payload.
            model.read({"job_id": sent.get("job_id"), **sent.get("payload", {})})
        except Malformed:
            if file.stem not in SPOILED:
                raise
