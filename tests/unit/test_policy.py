"""Policies: sensible by default, checked when built, and never changed afterwards."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest
import tenacity

from arcp_client.policy import Batch, Buffer, Order, Reconnect, Timeouts

NAN = float("nan")


@pytest.mark.parametrize("policy", [Batch(), Buffer(), Timeouts(), Reconnect()])
def test_a_policy_is_frozen_and_its_fields_are_named(policy: Any) -> None:
    for field in dataclasses.fields(policy):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(policy, field.name, 1)
    with pytest.raises(TypeError):
        type(policy)(1)
    with pytest.raises(TypeError):
        type(policy)(unknown=1)


@pytest.mark.parametrize("policy", [Batch(count=2), Buffer(soft=2), Timeouts(open=3), Order.JOB])
def test_a_policy_survives_pickle_and_copy(policy: Any) -> None:
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert copy.deepcopy(policy) == policy


def test_the_defaults_are_those_of_the_documentation() -> None:
    assert dataclasses.astuple(Batch()) == (256, 0.0)
    assert dataclasses.astuple(Buffer()) == (1024, 8192, 32 * 2**20, 256 * 2**20)
    assert dataclasses.asdict(Timeouts()) == {
        "connect": 10,
        "open": 15,
        "request": 30,
        "close": 5,
        "drain": 5,
        "stall": 30,
        "deadlock": 5,
        "silence": 300,
    }
    assert [order.value for order in Order] == ["session", "job"]


def test_the_bounds_of_a_batch_are_inclusive() -> None:
    assert Batch(count=1, seconds=0)


@pytest.mark.parametrize(
    "fields", [{"count": 0}, {"count": -1}, {"seconds": -0.1}, {"seconds": NAN}], ids=str
)
def test_a_batch_without_events_or_of_no_length_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Batch\.(count|seconds) must be "):
        Batch(**fields)


@pytest.mark.parametrize("fields", [{"count": 2.0}, {"count": True}, {"seconds": "1"}], ids=str)
def test_a_batch_of_other_types_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"Batch\.(count|seconds) must be "):
        Batch(**fields)


def test_the_bounds_of_a_buffer_are_inclusive() -> None:
    assert Buffer(soft=1, hard=1, bytes=1, spill=0)


@pytest.mark.parametrize(
    "fields",
    [{"soft": 0}, {"soft": -1}, {"soft": 9000}, {"hard": 1000}, {"bytes": 0}, {"spill": -1}],
    ids=str,
)
def test_a_buffer_that_could_hold_nothing_is_refused(fields: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"Buffer\.(soft|bytes|spill)"):
        Buffer(**fields)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Timeouts)])
def test_a_timeout_is_a_positive_number(name: str) -> None:
    for value in (0, -1, NAN):
        with pytest.raises(
            ValueError, match=rf"Timeouts\.{name} must be a finite number of seconds above 0"
        ):
            Timeouts(**{name: value})
    assert getattr(Timeouts(**{name: 0.001}), name) == 0.001


def test_reconnecting_waits_with_full_jitter_up_to_half_a_minute_and_never_gives_up() -> None:
    policy = Reconnect()
    state = tenacity.RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]

    for attempt, most in ((1, 0.5), (2, 1.0), (3, 2.0), (20, 30.0)):
        state.attempt_number = attempt
        waits = [policy.wait(state) for _ in range(200)]
        assert 0 <= min(waits) < most / 4
        assert most * 3 / 4 < max(waits) <= most
    assert policy.stop(state) is False
    assert policy.classify is None


def test_the_delays_and_the_end_of_reconnecting_are_tenacity_objects() -> None:
    policy = Reconnect(
        wait=tenacity.wait_fixed(1) + tenacity.wait_random(0, 1),
        stop=tenacity.stop_after_attempt(3) | tenacity.stop_after_delay(60),
        reset_after=0,
        classify=lambda error: isinstance(error, OSError),
    )

    assert policy.reset_after == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"wait": 5},
        {"wait": None},
        {"stop": 3},
        {"stop": None},
        {"classify": "always"},
        {"reset_after": -1},
        {"reset_after": NAN},
    ],
    ids=str,
)
def test_what_cannot_steer_a_retry_is_refused(fields: dict[str, Any]) -> None:
    (name,) = fields
    with pytest.raises((TypeError, ValueError), match=rf"Reconnect\.{name} must be "):
        Reconnect(**fields)
