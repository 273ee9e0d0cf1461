"""Leases in the flat form of one dialect: never more than was asked for."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from arcp_client._wire.leases import flattened
from tests.interop.rules import rule


def payload(lease: dict[str, Any] | None) -> msgspec.Raw:
    fields: dict[str, Any] = {"agent": "a", "input": {"n": 10**30}}
    if lease is not None:
        fields["lease_request"] = lease
    return msgspec.Raw(json.dumps(fields).encode())


@rule("send-6")
def test_what_is_asked_for_without_a_bound_is_asked_for_by_name() -> None:
    lease = {"fs.read": ["**"], "tool.call": ["x", "*"], "cost.budget": ["USD:1"]}
    flat = json.loads(bytes(flattened(payload(lease))))
    assert flat["lease_request"] == {**lease, "capabilities": ["fs.read", "tool.call"]}
    assert flat["input"] == {"n": 10**30}  # not a digit of it has changed


@rule("send-6")
@pytest.mark.parametrize(
    "lease",
    [
        None,
        {},
        {"fs.read": ["/src/**"], "net.fetch": []},  # a name alone would grant everything
        {"cost.budget": ["*"], "model.use": ["*"]},
        {"capabilities": ["mine"], "fs.read": ["*"]},
    ],
)
def test_a_bound_that_cannot_be_kept_grants_nothing(lease: dict[str, Any] | None) -> None:
    raw = payload(lease)
    assert flattened(raw) is raw


def test_a_second_time_changes_nothing() -> None:
    once = flattened(payload({"fs.read": ["*"]}))
    assert bytes(flattened(once)) == bytes(once)
