"""§9, §10: leases, expiry, budgets, credentials, delegation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from arcp_client import Credential, Provision, SqliteEventLog
from arcp_client.errors import (
    BudgetExhausted,
    LeaseExpired,
    LeaseSubsetViolation,
    PermissionDenied,
)
from arcp_client.runtime import Limits
from tests.contract.conftest import Worlds
from tests.contract.requirements import requirement
from tests.contract.world import World
from tests.unit.runtime.peer import Peer, bodies

SOON = timedelta(seconds=1)  # the job must be accepted before, also on a busy machine


def soon() -> dict[str, str]:
    return {"expires_at": (datetime.now(UTC) + SOON).isoformat().replace("+00:00", "Z")}


async def past(constraints: dict[str, str]) -> None:
    """Return when the moment has come."""
    end = datetime.fromisoformat(constraints["expires_at"])
    while (left := (end - datetime.now(UTC)).total_seconds()) > 0:
        await asyncio.sleep(left)


@requirement("R-9.1-1", "R-9.2-1", "R-9.7-1")
async def test_only_what_is_granted_is_allowed(world: World) -> None:
    lease = {
        "fs.read": ["/w/**", "/etc/*.conf"],
        "net.fetch": ["https://api.example.com/**"],
        "tool.call": ["search.*"],
        "agent.delegate": ["helper"],
        "model.use": ["gpt-*"],
    }
    run = await world.job(await world.peer(), lease_request=lease)
    for capability, target in (
        ("fs.read", "/w/a/b"), ("fs.read", "/etc/a.conf"),
        ("net.fetch", "https://api.example.com/v1/x"), ("tool.call", "search.web"),
        ("agent.delegate", "helper"), ("model.use", "gpt-5"),
    ):  # fmt: skip
        run.job.authorize(capability, target)
    for capability, target in (
        ("fs.read", "/wx"), ("fs.read", "/w/../etc/passwd"), ("fs.read", "/etc/d/a.conf"),
        ("fs.write", "/w/a"), ("net.fetch", "https://api.example.com.evil/x"),
        ("tool.call", "fetch.url"), ("agent.delegate", "other"), ("model.use", "claude"),
        ("x.unknown", "a"),
    ):  # fmt: skip
        with pytest.raises(PermissionDenied):
            run.job.authorize(capability, target)


@requirement("R-9.2-2")
@pytest.mark.parametrize(
    "lease",
    [
        {"": ["a"]}, {"FS": ["a"]}, {"fs.read": "/a"}, {"fs.read": [7]}, {"fs.read": [""]},
        {"fs.read": ["/a/../b"]}, {"cost.budget": ["5.00"]}, {"cost.budget": ["USD:-1"]},
        {"cost.budget": ["USD:1", "USD:2"]}, ["fs.read"],
    ],
)  # fmt: skip
async def test_a_lease_follows_the_grammar(world: World, lease: Any) -> None:
    peer = await world.peer()
    answer = await peer.ask("job.submit", {"agent": "agent", "lease_request": lease})
    assert answer["payload"]["code"] == "INVALID_REQUEST"


@requirement("R-9.3-1")
async def test_a_refused_tool_is_never_called(world: World) -> None:
    peer = await world.peer()
    run = await world.job(peer, lease_request={"tool.call": ["search.*"]})
    called = []
    with pytest.raises(PermissionDenied):
        async with run.job.tool("fetch.url", {"u": 1}):
            called.append("fetch")
    async with run.job.tool("search.web") as call:
        call.result = {"hits": 1}
    run.finish()
    frames = await peer.follow(run.id)
    assert called == []
    refused, allowed = bodies(frames, "tool_result")
    assert refused["error"]["code"] == "PERMISSION_DENIED"
    assert allowed["result"] == {"hits": 1}


# ---------------------------------------------------------------- subsets and children


@requirement("R-9.4-1")
@pytest.mark.parametrize(
    ("child", "fits"),
    [
        ({"fs.read": ["/w/**"]}, True),
        ({"fs.read": ["/w/src/*.py"]}, True),
        ({}, True),
        ({"fs.read": ["/**"]}, False),
        ({"fs.read": ["/wx/a"]}, False),
        ({"fs.write": ["/w/a"]}, False),
        ({"x.new": ["a"]}, False),
    ],
)
async def test_a_child_gets_a_subset(world: World, child: Any, fits: bool) -> None:
    peer = await world.peer()
    lease = {"fs.read": ["/w/**"], "agent.delegate": ["*"]}
    run = await world.job(peer, lease_request=lease)
    if fits:
        assert (await run.job.delegate("plain", lease=child)).id
        assert (await world.run()).job.lease.root == {k: tuple(v) for k, v in child.items()}
    else:
        with pytest.raises(LeaseSubsetViolation):
            await run.job.delegate("plain", lease=child)
    # The same from outside, by a submit that names its parent.
    answer = await peer.ask(
        "job.submit", {"agent": "plain", "parent_job_id": run.id, "lease_request": child}
    )
    if fits:
        assert answer["payload"]["parent_job_id"] == run.id
    else:
        assert answer["payload"]["code"] == "LEASE_SUBSET_VIOLATION"


@requirement("R-9.4-2", "R-10-2")
async def test_a_child_has_no_more_than_what_remains(world: World) -> None:
    peer = await world.peer()
    lease = {"cost.budget": ["USD:5.00"], "agent.delegate": ["*"]}
    run = await world.job(peer, lease_request=lease)
    await run.job.metric("cost.x", 3, "USD")
    with pytest.raises(LeaseSubsetViolation):
        await run.job.delegate("plain", lease={"cost.budget": ["USD:2.01"]})
    await run.job.delegate("plain", lease={"cost.budget": ["USD:2.00"]})
    child = await world.run()
    await child.job.metric("cost.x", Decimal("0.5"), "USD")
    assert child.job.budget == {"USD": Decimal("1.5")}
    assert run.job.budget == {"USD": Decimal("1.5")}  # what a child spends is spent


@requirement("R-9.4-3", "R-9.4-4", "R-10-2")
async def test_a_child_does_not_outlive_its_parents_lease(world: World) -> None:
    peer = await world.peer()
    end = "2999-06-01T00:00:00.000Z"
    lease = {"agent.delegate": ["*"]}
    run = await world.job(peer, lease_request=lease, lease_constraints={"expires_at": end})
    with pytest.raises(LeaseSubsetViolation):
        await run.job.delegate("plain", expires_at=datetime(2999, 6, 1, 0, 0, 1, tzinfo=UTC))
    await run.job.delegate("plain", expires_at=datetime(2999, 5, 1, tzinfo=UTC))
    accepted = await peer.until("job.accepted", parent_job_id=run.id)
    assert accepted["payload"]["lease_constraints"]["expires_at"].startswith("2999-05-01")
    await run.job.delegate("plain")
    accepted = await peer.until("job.accepted", parent_job_id=run.id)
    assert accepted["payload"]["lease_constraints"]["expires_at"] == end


@requirement("R-10-1", "R-11-2")
async def test_a_delegation_reaches_the_submitting_session(world: World) -> None:
    peer = await world.peer()
    run = await world.job(peer, trace_id="c" * 32)
    await run.job.delegate("plain", {"part": 1}, lease={"fs.read": ["/a"]})
    child = await world.run()
    assert (child.job.input, child.job.trace_id) == ({"part": 1}, "c" * 32)
    first = {f["type"]: f for f in (await peer.read(), await peer.read())}  # in either order
    told, accepted = first["job.event"], first["job.accepted"]
    assert told["payload"]["kind"] == "delegate"
    assert told["payload"]["body"]["child_job_id"] == child.id
    assert accepted["payload"]["job_id"] == child.id
    assert accepted["payload"]["parent_job_id"] == run.id
    await child.emit()
    child.finish("part done")
    frames = await peer.follow(child.id)
    assert [f["event_seq"] for f in frames] == [2, 3]
    assert {f["trace_id"] for f in frames} == {"c" * 32}
    run.finish()
    await peer.follow(run.id)


# ---------------------------------------------------------------------------- expiry


@requirement("R-9.5-1")
@pytest.mark.parametrize(
    "end",
    [
        "2020-01-01T00:00:00Z", "2999-01-01T00:00:00", "2999-01-01T00:00:00+02:00",
        "tomorrow", 32503680000, "", {}, "2999-13-01T00:00:00Z",
    ],
)  # fmt: skip
async def test_an_expiry_is_utc_and_in_the_future(world: World, end: Any) -> None:
    peer = await world.peer()
    request = {"agent": "agent", "lease_constraints": {"expires_at": end}}
    answer = await peer.ask("job.submit", request)
    assert answer["payload"]["code"] == "INVALID_REQUEST"


@requirement("R-9.5-2", "R-9.5-3", "R-7.3-2", "R-12-4", "R-14-3")
async def test_nothing_is_allowed_after_the_expiry(worlds: Worlds) -> None:
    world = await worlds(limits=Limits(lease_grace=60))
    peer = await world.peer()
    constraints = soon()
    run = await world.job(peer, lease_constraints=constraints)
    run.job.authorize("tool.call", "x")
    await past(constraints)
    with pytest.raises(LeaseExpired):
        async with run.job.tool("x"):
            raise AssertionError("called")
    run.finish("too late to succeed")
    frames = await peer.follow(run.id)
    (refused,) = bodies(frames, "tool_result")
    assert refused["error"]["code"] == "LEASE_EXPIRED"
    assert refused["error"]["retryable"] is False
    last = frames[-1]["payload"]
    assert (last["code"], last["final_status"], last["retryable"]) == (
        "LEASE_EXPIRED", "error", False,
    )  # fmt: skip


@requirement("R-9.5-4", "R-14-4")
async def test_an_expired_job_is_ended_after_the_grace(
    worlds: Worlds, caplog: pytest.LogCaptureFixture
) -> None:
    assert Limits().lease_grace == 1.0
    caplog.set_level(logging.INFO, "arcp_client.runtime")
    world = await worlds(limits=Limits(lease_grace=0.01))
    peer = await world.peer()
    run = await world.job(peer, lease_constraints=soon())
    (error,) = await peer.follow(run.id)
    assert error["payload"]["code"] == "LEASE_EXPIRED"
    assert f"the lease of job {run.id}" in caplog.text


# --------------------------------------------------------------------------- budgets


@requirement("R-9.6-1", "R-9.6-2", "R-9.6-6")
async def test_costs_are_counted_by_currency(world: World) -> None:
    peer = await world.peer()
    run = await world.job(peer, lease_request={"cost.budget": ["USD:1.00", "credits:10"]})
    for _ in range(3):
        await run.job.metric("cost.inference", 0.1, "USD")
    await run.job.metric("cost.inference", 5, "EUR")  # nobody counts euros
    await run.job.metric("latency", 5, "USD")  # and this is no cost
    await run.job.metric("cost.search", 4, "credits")
    run.finish()
    told = bodies(await peer.follow(run.id), "metric")
    names = [m["name"] for m in told]
    assert names[:2] == ["cost.inference", "cost.budget.remaining"]
    left = [(m["value"], m["unit"]) for m in told if m["name"] == "cost.budget.remaining"]
    assert left == [(0.9, "USD"), (0.8, "USD"), (0.7, "USD"), (6, "credits")]
    assert run.job.budget == {"USD": Decimal("0.70"), "credits": Decimal(6)}


@requirement("R-9.6-3")
async def test_a_negative_cost_is_rejected(world: World) -> None:
    peer = await world.peer()
    run = await world.job(peer, lease_request={"cost.budget": ["USD:1.00"]})
    with pytest.raises(ValueError, match="must not be negative"):
        await run.job.metric("cost.refund", -0.5, "USD")
    run.finish()
    assert bodies(await peer.follow(run.id), "metric") == []
    assert run.job.budget == {"USD": Decimal("1.00")}


@requirement("R-9.6-4", "R-9.6-5", "R-12-4")
async def test_a_spent_counter_refuses_every_operation(world: World) -> None:
    peer = await world.peer()
    lease = {
        "cost.budget": ["USD:1.00", "credits:9"], "tool.call": ["*"], "fs.read": ["/**"],
        "fs.write": ["/**"], "net.fetch": ["**"], "agent.delegate": ["*"],
    }  # fmt: skip
    run = await world.job(peer, lease_request=lease)
    await run.job.metric("cost.x", 1.12, "USD")
    for capability, target in (
        ("fs.read", "/a"), ("fs.write", "/a"), ("net.fetch", "https://a/"),
        ("agent.delegate", "plain"), ("tool.call", "x"),
    ):  # fmt: skip
        with pytest.raises(BudgetExhausted):
            run.job.authorize(capability, target)
    with pytest.raises(BudgetExhausted):
        async with run.job.tool("x"):
            raise AssertionError("called")
    await run.job.log("goes on")
    run.finish("partial")
    frames = await peer.follow(run.id)
    (refused,) = bodies(frames, "tool_result")
    assert refused["error"]["code"] == "BUDGET_EXHAUSTED"
    assert refused["error"]["retryable"] is False
    assert frames[-1]["payload"]["result"] == "partial"


@requirement("R-7.3-2")
async def test_a_spent_budget_that_nobody_catches_ends_the_job(world: World) -> None:
    peer = await world.peer()
    run = await world.job(peer, lease_request={"cost.budget": ["USD:1"], "tool.call": ["*"]})
    await run.job.metric("cost.x", 1, "USD")
    with pytest.raises(BudgetExhausted) as spent:
        run.job.authorize("tool.call", "x")
    run.fail(spent.value)
    last = (await peer.follow(run.id))[-1]["payload"]
    assert (last["code"], last["final_status"]) == ("BUDGET_EXHAUSTED", "error")
    assert last["retryable"] is False


# ----------------------------------------------------------------------- credentials


class Gateway:
    """A provisioner that keeps account."""

    def __init__(self) -> None:
        self.live: set[str] = set()

    async def issue(self, wanted: Provision) -> Sequence[Credential]:
        self.live.add("c1")
        return [Credential(id="c1", value=SecretStr("secret-1"), endpoint="https://llm")]

    async def revoke(self, job_id: str, credential_id: str) -> None:
        self.live.discard(credential_id)


def offered(peer: Peer) -> bool:
    features = peer.welcome["payload"]["capabilities"]["features"]
    return "provisioned_credentials" in features


@requirement("R-9.8-1")
async def test_credentials_are_offered_where_they_can_be_kept(
    worlds: Worlds, tmp_path: Path
) -> None:
    memory = await worlds(provisioner=Gateway())
    assert not offered(await memory.peer())
    durable = await worlds(provisioner=Gateway(), event_log=SqliteEventLog(tmp_path / "a.db"))
    # This test's WebSocket is not encrypted.
    assert offered(await durable.peer()) == (durable.kind != "websocket")


@requirement("R-9.8-2", "R-9.8-3")
async def test_credentials_live_and_die_with_their_job(worlds: Worlds, tmp_path: Path) -> None:
    gateway = Gateway()
    world = await worlds(provisioner=gateway, event_log=SqliteEventLog(tmp_path / "a.db"))
    peer, observer = await world.peer(), await world.peer()
    accepted = await peer.submit("agent")
    run = await world.run()
    if world.kind == "websocket":
        assert "credentials" not in accepted["payload"]
        return
    (credential,) = accepted["payload"]["credentials"]
    assert (credential["id"], credential["value"]) == ("c1", "secret-1")
    assert gateway.live == {"c1"}
    await observer.ask("job.subscribe", {"job_id": run.id})
    fresh = Credential(id="c1", value=SecretStr("secret-2"), endpoint="https://llm")
    world.runtime.rotate(run.id, fresh)
    own, seen = await peer.until("job.event"), await observer.until("job.event")
    assert own["payload"]["body"]["phase"] == "credential_rotated"
    assert own["payload"]["body"]["value"] == "secret-2"
    assert "secret" not in str(seen)
    assert own["id"] == seen["id"]
    run.finish()
    await peer.follow(run.id)
    assert gateway.live == set()
