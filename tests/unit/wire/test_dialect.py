"""Which runtime is spoken to, and the readers of names that differ between runtimes."""

from __future__ import annotations

from typing import Any

import pytest

from arcp_client._wire import dialect
from arcp_client._wire.dialect import DIALECTS, recognise
from tests.interop.rules import rule

UUID7 = "01990a3e-6f0a-7c55-9a31-5d4f1b2c3d4e"
UUID4 = "7d1e8b52-94c6-4f1f-b1a4-0c2c4d5e6f70"
ULID = "01M8FG7VMNRJ7KBJC3XAC8W74H"


def welcome(**fields: Any) -> dict[str, Any]:
    """A welcome in the shape of the specification."""
    return {
        "runtime": {"name": "acme", "version": "1.0.0"},
        "resume_window_sec": 600,
        "capabilities": {"encodings": ["json"], "features": ["ack"], "agents": []},
        **fields,
    }


@pytest.mark.parametrize(
    ("payload", "envelope_id", "name"),
    [
        (welcome(runtime={"name": "x", "sdk": "arcp-client/0.1.0"}), ULID, "arcp-client"),
        (welcome(runtime={"name": "x", "sdk": "arcp-client"}), UUID7, "arcp-client"),
        (welcome(session_id="sess_1", resume_token=f"rtk_{ULID}"), ULID, "python"),
        (welcome(resume_token="rt_" + "ab" * 32), f"msg_{ULID}", "typescript"),
        (
            welcome(
                resume_token="rt_" + "ab" * 32,
                capabilities={"agents": [{"name": "echo", "versions": []}, "plain"]},
            ),
            f"msg_{ULID}",
            "typescript",
        ),
        (
            welcome(
                resume_token="rt_" + "ab" * 32,
                capabilities={"agents": [{"name": "a", "versions": ["1"]}, {"name": "b"}]},
            ),
            f"msg_{ULID}",
            "csharp",
        ),
        (welcome(resume_token="opaque"), f"msg_{ULID}", "csharp"),
        (welcome(resume_token=UUID4), ULID, "java"),
        (welcome(resume_token=ULID), UUID7, "go"),
        (
            {
                "runtime_name": "acme",
                "runtime_version": "1",
                "resume_token": "tok",
                "capabilities": {"features": []},
            },
            UUID7,
            "ruby",
        ),
        (welcome(resume_token="opaque"), ULID, "unknown"),
        (welcome(resume_token=UUID7), ULID, "unknown"),
        (welcome(), "", "unknown"),
        ({}, "", "unknown"),
        (welcome(runtime={"sdk": "acme/1"}), "", "unknown"),
        (welcome(runtime={"sdk": 5}, resume_token=5), "", "unknown"),
        (welcome(runtime="acme", capabilities=None), "", "unknown"),
        (welcome(session_id="sess_1"), ULID, "unknown"),
        (welcome(capabilities=[], resume_token="rt_1"), f"msg_{ULID}", "typescript"),
        (welcome(capabilities={"agents": "all"}, resume_token="rt_1"), "msg_1", "typescript"),
    ],
)
def test_a_welcome_shows_who_wrote_it(payload: dict[str, Any], envelope_id: str, name: str) -> None:
    assert recognise(payload, envelope_id).name == name


def test_a_runtime_name_is_no_mark() -> None:
    named = welcome(runtime={"name": "python", "version": "1"}, resume_token="x")

    assert recognise(named, ULID).name == "unknown"


def test_every_dialect_is_known_by_its_own_name() -> None:
    for name, known in DIALECTS.items():
        assert known.name == name


def test_only_runtimes_whose_numbers_hold_are_strict() -> None:
    strict = {name for name, known in DIALECTS.items() if known.strict}

    assert strict == {"arcp-client", "go", "java", "unknown"}


@rule("send-5")
def test_a_java_session_is_never_closed_with_a_message_since_that_would_cancel_its_jobs() -> None:
    assert DIALECTS["java"].close_with == "drop"
    assert {name for name, known in DIALECTS.items() if known.close_with == "bye"} == {
        "python",
        "typescript",
        "ruby",
    }


def test_the_names_of_the_specification_are_all_there() -> None:
    assert len(dialect.FEATURES) == len(set(dialect.FEATURES)) == 11
    assert {dialect.RESULT, dialect.JOB_ERROR} == dialect.TERMINALS
    assert dialect.REFUSED_HANDSHAKES < dialect.LEGACY_TYPES


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("running", "running"),
        ("RUNNING", "running"),
        ("timedout", "timed_out"),
        ("timed-out", "timed_out"),
        ("TIMED_OUT", "timed_out"),
        ("canceled", "cancelled"),
        ("completed", "success"),
        ("failed", "error"),
        ("Paused", "Paused"),
        ("", ""),
        (None, ""),
        (5, ""),
    ],
)
@rule("accept-15")
def test_status_words_are_brought_to_one_spelling(word: Any, status: str) -> None:
    assert dialect.status_of(word) == status


def test_the_first_of_several_names_counts() -> None:
    names = ("a", "b")

    assert dialect.first({"a": None, "b": 0}, names) == 0
    assert dialect.first({}, names, "default") == "default"
    assert dialect.present({"a": None, "b": 0}, names) is None
    assert dialect.present({"b": 0}, names) == 0
    assert dialect.present({}, names) is None
    assert dialect.first_text({"a": 5, "b": "x"}, names) == "x"
    assert dialect.first_text({"a": "", "b": "x"}, names) == "x"
    assert dialect.first_text({"a": ""}, names) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("ü€😀", "ü€😀"),
        ("\ud83d\ude00", "😀"),
        ("a\ud83d", "a\ufffd"),
        ("\ude00é", "\ufffdé"),
        ("", ""),
        (None, None),
        (b"x", None),
        (5, None),
    ],
)
def test_a_text_can_always_be_encoded(value: Any, text: str | None) -> None:
    assert dialect.text_of(value) == text
