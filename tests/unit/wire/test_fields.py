"""Fields of messages: what is taken for a value, and what is said of one that does not fit."""

from __future__ import annotations

import enum
from typing import Any

import pytest

from arcp_client._wire.fields import Malformed, flag, text
from arcp_client._wire.messages import (
    REQUESTS,
    Auth,
    Hello,
    JobFilter,
    ListJobsMessage,
    Ping,
    Submit,
)
from tests.unit.wire.frames import CANARY


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize("given", [True, "true", "TRUE", "t", "yes", "Y", "on", "1", 1, 1.0])
def test_every_form_of_true_is_true(given: Any) -> None:
    assert flag(given) is True


@pytest.mark.parametrize("given", [False, "false", "F", "no", "n", "OFF", "0", 0, 0.0])
def test_every_form_of_false_is_false(given: Any) -> None:
    assert flag(given) is False


@pytest.mark.parametrize("given", ["maybe", "", " true", 2, -1, 0.5, [], {}, None])
def test_anything_else_is_neither(given: Any) -> None:
    with pytest.raises(Malformed, match="must be true or false"):
        flag(given)


def test_a_text_of_an_enum_becomes_a_plain_one() -> None:
    assert type(text(Colour.RED)) is str
    assert text(Colour.RED) == "red"


@pytest.mark.parametrize(
    ("type_", "payload", "told"),
    [
        ("job.cancel", {}, "job_id: is missing"),
        ("job.cancel", {"job_id": ""}, "job_id: must be a text of 1 to 1024 characters"),
        ("job.cancel", {"job_id": "\ud800"}, "job_id: must be a text that can be encoded"),
        ("job.cancel", {"job_id": "j", "\ud800": 1}, "must be a text that can be encoded"),
        ("session.ack", [], "must be an object"),
        ("session.list_jobs", {"limit": 5000}, "limit: must be a whole number from 1 to 1000"),
        ("session.list_jobs", {"filter": {"status": ["a", 5]}}, "filter.status.1: must be a text"),
        ("session.list_jobs", {"filter": {"created_after": 5}}, "filter.created_after: must be a"),
        ("session.hello", {"client": {"name": 5}}, "client.name: must be a text"),
        ("session.hello", {"resume": {}}, "resume.resume_token: is missing"),
        (
            "job.submit",
            {"agent": "a", "lease_request": {"fs.read": ["a", 5]}},
            "lease_request.fs.read.1: must be a text",
        ),
        (
            "job.submit",
            {"agent": "a", "lease_request": {"cost.budget": ["USD:1", "5"]}},
            "lease_request.cost.budget.1: '5' is no amount",
        ),
        (
            "job.submit",
            {"agent": "a", "lease_constraints": {"expires_at": "soon"}},
            "lease_constraints.expires_at: must be a time in UTC",
        ),
    ],
)
def test_what_does_not_fit_is_named_with_the_way_to_it(type_: str, payload: Any, told: str) -> None:
    with pytest.raises(Malformed) as refused:
        REQUESTS[type_].read(payload)

    assert str(refused.value).startswith(told)


@pytest.mark.parametrize(
    "payload",
    [
        {"auth": {"token": [CANARY]}},
        {"auth": {"scheme": [CANARY]}},
        {"auth": CANARY},
        {"resume": {"resume_token": {"is": CANARY}}},
        {"resume": {"resume_token": CANARY, "last_event_seq": CANARY}},
    ],
)
def test_what_is_said_of_a_bad_hello_holds_none_of_it(payload: Any) -> None:
    with pytest.raises(Malformed) as refused:
        Hello.read(payload)

    assert CANARY not in f"{refused.value!r} {refused.value}"


def test_unknown_fields_survive_under_their_names_and_are_in_no_repr() -> None:
    ping = Ping.read({"nonce": "n", "extra": {"x": None}, "wire": 1, "secret": CANARY, "no": None})

    assert ping.wire() == {"nonce": "n", "extra": {"x": None}, "wire": 1, "secret": CANARY}
    assert CANARY not in repr(ping)
    listing = ListJobsMessage.read({"filter": {"agent": "a", "x": 1}})
    assert listing.wire() == {"filter": {"agent": "a", "x": 1}}
    assert Auth.read({"token": "t", "realm": "r"}).extra == {"realm": "r"}


def test_a_message_is_checked_however_it_is_made() -> None:
    with pytest.raises(Malformed, match="max_runtime_sec"):
        Submit(agent="a", max_runtime_sec=0)
    with pytest.raises(Malformed, match=r"status\.0"):
        JobFilter(status=(5,))  # type: ignore[arg-type]
    assert JobFilter(status=["a"]).status == ("a",)  # type: ignore[arg-type]


def test_every_field_but_the_input_and_the_answer_is_checked() -> None:
    for message in REQUESTS.values():
        assert {*message.readers} == {*message.__struct_fields__} - {"extra", "input", "value"}
