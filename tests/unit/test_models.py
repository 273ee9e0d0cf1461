"""Values that users build are checked when they are built, and secrets in them stay masked."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from arcp_client import models
from arcp_client.models import (
    AgentDeclaration,
    AgentInfo,
    Checkpoint,
    Choice,
    ClientInfo,
    Credential,
    EndedJob,
    JobMessage,
    JobSummary,
    Lease,
    LeaseConstraints,
    OpenJob,
    OpenQuestion,
    Result,
    RuntimeInfo,
    SessionInfo,
    Stats,
    TakenAnswer,
    Verdict,
)

CANARY = "cAnArY-5f3a9b"
EAST = timezone(timedelta(hours=2))
MOMENT = datetime(2026, 5, 13, 23, 42, tzinfo=UTC)

VALUES: list[Any] = [
    ClientInfo(name="c", version="1"),
    Lease({"fs.read": ("/src/**",), "cost.budget": ("USD:5.00",)}),
    LeaseConstraints(expires_at=MOMENT),
    Credential(id="c", value=SecretStr(CANARY), endpoint="https://e", constraints={"a": 1}),
    AgentDeclaration("1", "does it", {"type": "object"}),
    AgentInfo("a", ("1", "2"), "2", (AgentDeclaration("1", "does it", {"type": "object"}),)),
    RuntimeInfo("r", "1"),
    SessionInfo("s", features=frozenset({"ack"}), agents=(AgentInfo("a"),)),
    JobSummary("j", lease=Lease({"fs.read": ("/a",)}), created_at=MOMENT),
    Result({"a": 1}, size=3, completed_at=MOMENT),
    OpenJob("j", "a", "k", "h"),
    EndedJob("j", "a", "k", "h", outcome=CANARY),
    Checkpoint("s", CANARY, mark=3, processed=((5, 7),), jobs=(OpenJob("j", "a", "k", "h"),)),
    Stats(received=3),
    Choice(["a"], "A"),
    OpenQuestion(question_id="q", job_id="j", schema={}, options=(Choice({"a": 1}),), default=[1]),
    TakenAnswer(question_id="q", job_id="j", value={"a": 1}),
    JobMessage(message_id="m", value={"a": 1}),
    Verdict("waiting_for_tool", "waiting for make", MOMENT),
]
every_value = pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)

ALIASES = {"Budget", "JobStatus", "LogLevel", "OpenQuestions", "VerdictKind"}


def test_every_public_class_is_sampled() -> None:
    assert {type(value).__name__ for value in VALUES} | ALIASES == set(models.__all__)


@every_value
def test_a_value_cannot_be_changed(value: Any) -> None:
    name = next(iter(getattr(type(value), "model_fields", None) or value.__slots__))
    with pytest.raises((FrozenInstanceError, ValidationError)):
        setattr(value, name, None)


@every_value
def test_a_value_survives_pickle_and_copy(value: Any) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.copy(value) == value
    assert copy.deepcopy(value) == value


@every_value
def test_no_secret_is_in_a_repr(value: Any) -> None:
    assert CANARY not in repr(value)
    assert CANARY not in str(value)
    assert CANARY not in f"{value}"


@every_value
def test_values_without_open_fields_can_be_hashed(value: Any) -> None:
    if isinstance(value, Result | Credential):  # these hold any JSON value
        with pytest.raises(TypeError):
            hash(value)
    else:
        assert hash(copy.deepcopy(value)) == hash(value)


# ------------------------------------------------------------------------------- leases


def test_a_lease_reads_like_a_mapping() -> None:
    lease = Lease({"fs.read": ["/src/**"], "cost.budget": ["USD:5.00"]})

    assert lease["fs.read"] == ("/src/**",)
    assert lease.get("fs.read") == ("/src/**",)
    assert lease.get("fs.write") == ()
    assert lease.get("fs.write", ("/x",)) == ("/x",)
    assert "cost.budget" in lease
    assert "fs.write" not in lease
    assert len(lease) == 2
    assert list(lease.namespaces()) == ["fs.read", "cost.budget"]
    with pytest.raises(KeyError):
        lease["fs.write"]


def test_an_empty_lease_grants_nothing() -> None:
    assert len(Lease()) == len(Lease({})) == 0
    assert Lease() == Lease({})


def test_leases_are_compared_by_what_they_grant() -> None:
    one = Lease({"a": ("1",), "b": ("2",)})
    other = Lease({"b": ("2",), "a": ("1",)})

    assert one == other
    assert hash(one) == hash(other)
    assert one != Lease({"a": ("1",)})


@pytest.mark.parametrize(
    "grants",
    [{"": ["/a"]}, {"fs.read": "/src/**"}, {"fs.read": [5]}, {5: ["/a"]}, ["fs.read"], "all", 5],
    ids=str,
)
def test_a_malformed_lease_is_refused(grants: Any) -> None:
    with pytest.raises(ValidationError):
        Lease(grants)


@pytest.mark.parametrize(
    "value",
    [
        MOMENT,
        MOMENT.astimezone(EAST),
        "2026-05-13T23:42:00Z",
        "2026-05-14T01:42:00+02:00",
        "2026-05-13T23:42:00.000000000Z",
    ],
)
def test_the_end_of_a_lease_is_brought_to_utc(value: Any) -> None:
    bounds = LeaseConstraints(expires_at=value)

    assert bounds.expires_at == MOMENT
    assert bounds.expires_at is not None
    assert bounds.expires_at.tzinfo is UTC
    assert bounds.model_dump(mode="json") == {"expires_at": "2026-05-13T23:42:00Z"}


@pytest.mark.parametrize(
    "value",
    [
        "soon",
        "",
        "2026-05-13T23:42:00",
        "2026-05-13T23:42:60Z",
        "2026-05-13",
        datetime(2026, 5, 13),  # noqa: DTZ001
        datetime(1, 1, 1, tzinfo=EAST),
        "0001-01-01T00:00:00+02:00",
        True,
        [],
    ],
)
def test_an_end_that_is_not_certain_is_refused_and_never_means_an_endless_lease(value: Any) -> None:
    with pytest.raises(ValidationError):
        LeaseConstraints(expires_at=value)


def test_a_lease_without_an_end_says_so() -> None:
    assert LeaseConstraints().expires_at is None
    assert LeaseConstraints(expires_at=None) == LeaseConstraints()


# ------------------------------------------------------------------------------- others


@pytest.mark.parametrize("fields", [{"name": ""}, {"version": ""}, {"name": None}, {"extra": 1}])
def test_a_client_has_a_name_and_a_version(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ClientInfo.model_validate(fields)
    assert ClientInfo().name == "arcp-client"


def test_the_value_of_a_credential_is_given_on_request_only() -> None:
    credential = Credential(id="c", value=SecretStr(CANARY), endpoint="https://e")

    assert credential.value.get_secret_value() == CANARY
    assert CANARY not in credential.model_dump_json()
    assert CANARY not in repr(credential.model_dump())


def test_a_credential_of_an_unknown_scheme_is_kept_with_its_fields() -> None:
    credential = Credential.model_validate({"id": "c", "scheme": "x-new", "header": "X-Key"})

    assert credential.scheme == "x-new"
    assert credential.model_extra == {"header": "X-Key"}


def test_a_checkpoint_holds_the_resume_token_and_does_not_show_it() -> None:
    checkpoint = Checkpoint("s", CANARY, reserved=256)

    assert checkpoint.resume_token == CANARY
    assert "reserved=256" in repr(checkpoint)
