"""A rotated credential (§9.8) goes to whoever owns the job, and is masked everywhere else."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from arcp_client._wire.build import MASK, rotated_credential
from arcp_client._wire.codec import ControlFrame, decode
from arcp_client.events import Event, Status, Unknown
from tests.unit.wire.frames import CANARY, event, event_frame, frame

PHASE = {"phase": "credential_rotated"}

SHAPES: dict[str, dict[str, Any]] = {
    "id and value": {"id": "cred_1", "value": CANARY},
    "credential_id and credential_value": {"credential_id": "cred_1", "credential_value": CANARY},
    "details": {"details": {"id": "cred_1", "value": CANARY}},
    "fields": {"fields": {"id": "cred_1", "value": CANARY}},
    "credential": {"credential": {"id": "cred_1", "value": CANARY, "scheme": "bearer"}},
    "credentials": {"credentials": [{"id": "cred_1", "value": CANARY}]},
    "deep": {"data": {"rotation": {"id": "cred_1", "value": CANARY}}},
}

ODD: dict[str, Any] = {
    "a plain message": {"message": "rotated"},
    "a message that is no text": {"message": {"text": "rotated"}},
    "a null": {"message": None, "extra": None},
    "a lone surrogate": {"note": "\ud83d"},
    "a lone surrogate in a name": {"\ud83d": 1},
}


def shown(read: Event) -> str:
    """Everything of an event that may end up in a log, a file or a response."""
    return "".join(
        (
            repr(read),
            repr(read.raw),
            json.dumps(read.to_dict()),
            repr(pickle.loads(pickle.dumps(read))),
            read._frame.decode("latin-1"),
        )
    )


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_value_is_readable_once_and_masked_in_the_event(
    shape: dict[str, Any], odd: dict[str, Any]
) -> None:
    data = event_frame("status", {**PHASE, **shape, **odd})
    read = event(data)

    assert rotated_credential(data) == ("cred_1", CANARY)
    assert type(read) is Status
    assert read.phase == "credential_rotated"
    assert (read.seq, read.job_id) == (7, "job_1")
    assert CANARY not in shown(read)
    assert MASK in json.dumps(read.raw)
    assert read.raw["payload"]["body"]["phase"] == "credential_rotated"
    if "credentials" not in shape:  # there the whole list is masked
        assert "cred_1" in json.dumps(read.raw)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_vendor_kind_with_the_same_phase_is_masked_as_well(shape: dict[str, Any]) -> None:
    read = event(event_frame("x-vendor.acme.status", {**PHASE, **shape}))

    assert type(read) is Unknown
    assert read.body["phase"] == "credential_rotated"
    assert CANARY not in shown(read)


def test_an_event_of_another_kind_with_the_same_phase_keeps_its_kind_and_is_masked() -> None:
    read = event(event_frame("log", {**PHASE, "message": 5, "value": CANARY}))

    assert type(read) is Unknown
    assert (read.kind, read.body["message"]) == ("log", 5)
    assert CANARY not in shown(read)


@pytest.mark.parametrize(
    "value", [{"value": {"token": CANARY}}, {"value": [CANARY]}, {"old_value": CANARY}]
)
def test_values_in_unknown_shapes_are_masked_though_nobody_can_use_them(value: Any) -> None:
    data = event_frame("status", {**PHASE, "id": "cred_1", **value})

    assert rotated_credential(data) is None
    assert CANARY not in shown(event(data))


@pytest.mark.parametrize("body", [PHASE, {**PHASE, "fields": {"id": "cred_1"}}])
def test_a_rotation_without_a_value_is_an_ordinary_status(body: dict[str, Any]) -> None:
    data = event_frame("status", body)

    assert rotated_credential(data) is None
    assert event(data).raw["payload"]["body"] == body


def test_what_is_nested_beyond_reason_is_masked_as_a_whole() -> None:
    deep: Any = {"id": "c", "value": CANARY}
    for _ in range(400):
        deep = {"a": [deep]}
    for kind in ("status", "x-vendor.acme.status"):
        read = event(event_frame(kind, {**PHASE, "deep": deep}))
        assert CANARY not in shown(read)
        assert MASK in json.dumps(read.raw)


def test_a_value_beside_the_body_is_out_of_reach_but_so_is_a_frame_that_cannot_be_parsed() -> None:
    """Where the frame cannot be masked there is no raw frame at all."""
    body = json.dumps({**PHASE, "id": "cred_1", "value": CANARY}).encode()
    data = b'{"type":"job.event","digits":%b,"payload":{"kind":"status","body":%b}}' % (
        b"9" * 5000,
        body,
    )
    read = event(data)

    assert type(read) is Status
    assert read.raw == {}
    assert CANARY not in shown(read)
    assert rotated_credential(data) is None


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b'{"payload":5}', b'{"payload":{"body":null}}', b"[" * 100_000],
)
def test_a_frame_without_a_rotation_holds_no_credential(data: bytes) -> None:
    assert rotated_credential(data) is None


def test_an_ordinary_status_keeps_its_values() -> None:
    read = event(event_frame("status", {"phase": "planning", "value": "plain", "token": "word"}))

    assert read.raw["payload"]["body"] == {"phase": "planning", "value": "plain", "token": "word"}


@pytest.mark.parametrize(
    "data",
    [
        frame("job.accepted", {"job_id": "j", "credentials": [{"id": "c", "value": CANARY}]}),
        frame("session.welcome", {"resume_token": CANARY}),
        event_frame("x-vendor.acme.login", {"password": CANARY}),
        event_frame("status", {**PHASE, "id": "c", "value": CANARY}),
    ],
)
def test_the_repr_of_a_frame_shows_no_payload(data: bytes) -> None:
    read = decode(data)

    assert CANARY not in repr(read)
    assert CANARY not in str(read)
    if isinstance(read, ControlFrame):
        assert CANARY not in repr([read])
