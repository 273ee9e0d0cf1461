"""Which runtime is at the other end: recognised by the shape of its welcome."""

from __future__ import annotations

from typing import Any

import pytest

from arcp_client._dialects import DIALECTS, recognise
from arcp_client._protocol.session import Session
from arcp_client._wire.messages import Bye, Close
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


def test_only_runtimes_whose_numbers_hold_ask_for_holes() -> None:
    view = Session().view
    ask = {name for name, kind in DIALECTS.items() if kind(view).reassembly(0, 8).refetches}

    assert ask == {"arcp-client", "go", "java", "unknown"}


@rule("send-5")
def test_a_java_session_is_never_closed_with_a_message_since_that_would_cancel_its_jobs() -> None:
    said = {name: kind(Session().view).goodbye() for name, kind in DIALECTS.items()}

    assert said.pop("java") is None
    assert {name for name, message in said.items() if message == Bye()} == {
        "python",
        "typescript",
        "ruby",
    }
    assert {name for name, message in said.items() if message == Close()} == {
        "arcp-client",
        "csharp",
        "go",
        "unknown",
    }
