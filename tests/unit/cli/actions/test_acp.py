"""What a person types at a permission dialog, and what an agent's refusal says."""

from __future__ import annotations

from typing import Any

import pytest

from arcp_client.acp import AgentRefused, PermissionRequest, schema
from arcp_client.cli.actions.acp import chosen

KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")
NAMES = {"allow_once": "Allow", "allow_always": "Always allow", "reject_once": "Reject"}


def request(*kinds: str) -> PermissionRequest:
    options = tuple(
        schema.PermissionOption(option_id=f"id-{kind}", name=NAMES.get(kind, "Never"), kind=kind)
        for kind in kinds
    )
    return PermissionRequest(None, "s1", schema.ToolCall(tool_call_id="t", title=""), options)


@pytest.mark.parametrize(
    ("typed", "kind"),
    [
        *(("1", "allow_once"), ("2", "allow_always"), ("3", "reject_once"), (" 4 ", KINDS[3])),
        *(("y", "allow_once"), ("Y", "allow_once"), ("yes", "allow_once"), ("Allow", KINDS[0])),
        *(("a", "allow_always"), ("always", "allow_always"), ("always ALLOW", "allow_always")),
        *(("n", "reject_once"), ("no", "reject_once"), ("", "reject_once"), ("\n", "reject_once")),
        *(("never", "reject_always"), ("id-reject_always", "reject_always")),
    ],
)
def test_an_answer_is_a_number_a_word_a_name_or_an_id(typed: str, kind: str) -> None:
    assert chosen(request(*KINDS), typed) == f"id-{kind}"


@pytest.mark.parametrize("typed", ["0", "5", "-1", "maybe", "yy", "1.0", "yes please"])
def test_what_is_no_answer_is_not_taken_for_no(typed: str) -> None:
    with pytest.raises(ValueError, match="type y, n, or a number from 1 to 4"):
        chosen(request(*KINDS), typed)


def test_yes_is_never_for_ever() -> None:
    with pytest.raises(ValueError, match="does not offer that"):
        chosen(request("allow_always", "reject_once"), "y")
    assert chosen(request("allow_once"), "n") is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (None, "Internal error"),
        ({}, "Internal error"),
        ({"details": "no credit left"}, "Internal error: no credit left"),
        ({"message": "quota", "code": 5}, "Internal error: quota"),
        ("plain words", "Internal error: plain words"),
        ({"status": 529}, 'Internal error: {"status":529}'),
        (["a"], 'Internal error: ["a"]'),
        ("Internal error", "Internal error"),
        ("x" * 600, f"Internal error: {'x' * 499}…"),
    ],
)
def test_the_reason_of_a_refusal_has_what_its_data_say(data: Any, reason: str) -> None:
    assert AgentRefused("Internal error", number=-32603, data=data).reason == reason
