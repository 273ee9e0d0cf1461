"""§7: submission, idempotency, lifecycle, cancellation, versions, subscriptions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arcp_client.errors import JobFailed
from arcp_client.runtime import JobContext, Limits
from tests.contract.conftest import Worlds
from tests.contract.requirements import requirement
from tests.contract.world import World
from tests.unit.runtime.peer import seqs

TOKENS = {"t-alice": "alice", "t-bob": "bob"}
LATER = "2999-01-01T00:00:00.000Z"


@requirement("R-7.1-1", "R-7.1-2", "R-7.1-3", "R-9.6-1")
async def test_an_acceptance_echoes_what_was_granted(world: World) -> None:
    peer = await world.peer()
    lease = {"fs.read": ["/w/**"], "cost.budget": ["USD:5.00", "credits:1000"]}
    accepted = await peer.submit(
        "agent",
        lease_request=lease,
        lease_constraints={"expires_at": LATER},
        max_runtime_sec=1800,
        trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
    )
    payload = accepted["payload"]
    assert payload["lease"] == lease
    assert payload["lease_constraints"] == {"expires_at": LATER}
    assert payload["budget"] == {"USD": 5.0, "credits": 1000}
    assert payload["accepted_at"].endswith("Z")
    assert payload["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    plain = (await peer.submit("agent", lease_request={"fs.read": ["/w/**"]}))["payload"]
    assert "budget" not in plain
    assert "lease_constraints" not in plain


@requirement("R-7.2-1")
async def test_a_repeated_key_is_the_same_job(world: World) -> None:
    peer = await world.peer()
    first = await peer.submit("agent", {"a": 1, "b": [2]}, idempotency_key="k")
    run = await world.run()
    again = await peer.submit("agent", {"b": [2], "a": 1}, idempotency_key="k")
    later = await world.peer()
    elsewhere = await later.submit("agent", {"a": 1, "b": [2]}, idempotency_key="k")
    assert first["payload"] | {"request_id": 0} == again["payload"] | {"request_id": 0}
    assert first["payload"] | {"request_id": 0} == elsewhere["payload"] | {"request_id": 0}
    run.finish()
    assert seqs(await peer.follow(run.id)) == [1]
    page = await peer.ask("session.list_jobs")
    assert [job["job_id"] for job in page["payload"]["jobs"]] == [run.id]


@requirement("R-7.2-2")
@pytest.mark.parametrize(
    "other",
    [
        {"input": {"n": 2}},
        {"agent": "plain"},
        {"max_runtime_sec": 9},
        {"lease_request": {}},
        {"lease_constraints": {"expires_at": LATER}},
    ],
)
async def test_a_key_with_other_parameters_is_refused(world: World, other: Any) -> None:
    peer = await world.peer()
    submit = {"agent": "agent", "input": {"n": 1}, "idempotency_key": "k"}
    assert (await peer.ask("job.submit", submit))["type"] == "job.accepted"
    answer = await peer.ask("job.submit", submit | other)
    assert answer["payload"]["code"] == "DUPLICATE_KEY"
    assert answer["payload"]["retryable"] is False


@requirement("R-7.3-1", "R-12-6")
@pytest.mark.parametrize(
    ("how", "code"),
    [("success", None), ("error", "X_MINE"), ("cancelled", "CANCELLED"), ("timed_out", "TIMEOUT")],
)
async def test_a_job_ends_once(world: World, how: str, code: str | None) -> None:
    peer = await world.peer()
    run = await world.job(peer, **({"max_runtime_sec": 1} if how == "timed_out" else {}))
    await run.emit()
    if how == "success":
        run.finish(1)
    elif how == "error":
        run.fail(JobFailed("no", code="X_MINE"))
    elif how == "cancelled":
        await peer.ask("job.cancel", {"job_id": run.id})
    frames = await peer.follow(run.id)
    assert seqs(frames) == [1, 2]
    assert frames[-1]["payload"]["final_status"] == how
    assert frames[-1]["payload"].get("code") == code
    assert frames[-1]["type"] == ("job.result" if how == "success" else "job.error")
    page = await peer.ask("session.list_jobs", {"filter": {"status": [how]}})
    assert [job["job_id"] for job in page["payload"]["jobs"]] == [run.id]
    assert peer.held == []


@requirement("R-7.4-1")
async def test_the_submitter_cancels(world: World) -> None:
    peer = await world.peer()
    run = await world.job(peer)
    acknowledged = await peer.ask("job.cancel", {"job_id": run.id, "reason": "enough"})
    assert acknowledged["type"] == "job.cancelled"
    assert acknowledged["payload"]["job_id"] == run.id
    (error,) = await peer.follow(run.id)
    assert error["payload"]["code"] == "CANCELLED"
    assert error["payload"]["final_status"] == "cancelled"
    late = await peer.ask("job.cancel", {"job_id": run.id})
    assert late["payload"]["current_status"] == "cancelled"


@requirement("R-7.4-2")
async def test_a_job_that_waits_is_cancelled_too(worlds: Worlds) -> None:
    world = await worlds(limits=Limits(max_concurrent_jobs=1))
    peer = await world.peer()
    first = await world.job(peer)
    waiting = (await peer.submit("agent"))["payload"]["job_id"]
    await peer.ask("job.cancel", {"job_id": waiting})
    (error,) = await peer.follow(waiting)
    assert error["payload"]["final_status"] == "cancelled"
    third = (await peer.submit("agent"))["payload"]["job_id"]
    first.finish()
    assert (await world.run()).id == third


@requirement("R-7.4-3", "R-7.6-9", "R-14-2")
async def test_nobody_else_cancels(worlds: Worlds) -> None:
    world = await worlds(auth=TOKENS, policy=lambda wish: True)
    owner = await world.peer(token="t-alice")
    run = await world.job(owner)
    for token in ("t-alice", "t-bob"):
        other = await world.peer(token=token)
        await other.ask("job.subscribe", {"job_id": run.id})
        answer = await other.ask("job.cancel", {"job_id": run.id})
        assert answer["payload"]["code"] == "PERMISSION_DENIED"
    run.finish("not disturbed")
    assert (await owner.follow(run.id))[-1]["payload"]["result"] == "not disturbed"


# -------------------------------------------------------------------------- versions


@requirement("R-7.5-1", "R-7.5-2")
async def test_versions(world: World) -> None:
    peer = await world.peer()
    assert (await peer.submit("agent"))["payload"]["agent"] == "agent@2.0.0"
    assert (await peer.submit("agent@1.0.0"))["payload"]["agent"] == "agent@1.0.0"
    assert (await peer.submit("plain"))["payload"]["agent"] == "plain"
    for reference in ("agent@3.0.0", "plain@1.0.0"):
        answer = await peer.ask("job.submit", {"agent": reference})
        assert answer["payload"]["code"] == "AGENT_VERSION_NOT_AVAILABLE"


@requirement("R-7.5-3")
@pytest.mark.parametrize("reference", ["", "Agent", "-a", "agent@", "agent@1@2", "a b", None, 7])
async def test_a_reference_follows_the_grammar(world: World, reference: Any) -> None:
    answer = await (await world.peer()).ask("job.submit", {"agent": reference})
    assert answer["payload"]["code"] == "INVALID_REQUEST"


@requirement("R-7.5-5")
async def test_a_running_job_keeps_its_version(world: World) -> None:
    peer = await world.peer()
    run = await world.job(peer)

    @world.runtime.agent("agent", "3.0.0", default=True)
    async def newer(input: Any, job: JobContext) -> str:
        return job.agent

    _, frames = await peer.run("agent")
    assert frames[-1]["payload"]["result"] == "agent@3.0.0"
    page = await peer.ask("session.list_jobs", {"filter": {"status": ["running"]}})
    assert [job["agent"] for job in page["payload"]["jobs"]] == ["agent@2.0.0"]
    assert run.job.agent == "agent@2.0.0"


# --------------------------------------------------------------------- subscriptions


@requirement("R-7.6-1", "R-7.6-5", "R-7.6-10")
async def test_a_job_of_another_session_is_observed(world: World) -> None:
    owner, other = await world.peer(), await world.peer()
    own = await world.job(other)
    await own.emit(2)  # the observer's numbers are ahead
    lease = {"cost.budget": ["USD:1"], "tool.call": ["x"]}
    constraints = {"expires_at": LATER}
    run = await world.job(owner, lease_request=lease, lease_constraints=constraints)
    await run.job.metric("cost.x", 0.25, "USD")
    described = await other.ask("job.subscribe", {"job_id": run.id})
    payload = described["payload"]
    assert described["type"] == "job.subscribed"
    assert (payload["job_id"], payload["current_status"]) == (run.id, "running")
    assert (payload["agent"], payload["parent_job_id"]) == ("agent@2.0.0", None)
    assert (payload["lease"], payload["lease_constraints"]) == (lease, constraints)
    assert payload["budget"] == {"USD": 0.75}
    assert (payload["subscribed_from"], payload["replayed"]) == (2, False)
    await run.emit()
    run.finish()
    watched, owned = await other.follow(run.id), await owner.follow(run.id)
    assert (seqs(watched), seqs(owned)) == ([3, 4], [1, 2, 3, 4])
    assert [f["id"] for f in watched] == [f["id"] for f in owned][2:]
    assert {f["session_id"] for f in watched} == {other.session_id}


@requirement("R-7.6-2")
async def test_subscribing_in_the_submitting_session_doubles_nothing(world: World) -> None:
    peer = await world.peer()
    run = await world.job(peer)
    await run.emit(2)
    answer = await peer.ask("job.subscribe", {"job_id": run.id, "history": True})
    assert answer["payload"]["replayed"] is False
    await run.emit()
    run.finish()
    assert seqs(await peer.follow(run.id)) == [1, 2, 3, 4]


@requirement("R-7.6-3")
@pytest.mark.parametrize("start", [None, 0, 3])
async def test_history_joins_the_live_events(world: World, start: int | None) -> None:
    owner, other = await world.peer(), await world.peer()
    run = await world.job(owner)
    await run.emit(5)
    request = {"job_id": run.id, "history": True, "from_event_seq": start}
    answer = await other.ask("job.subscribe", request)
    assert answer["payload"]["replayed"] is True
    await run.emit(2)
    run.finish()
    frames = await other.follow(run.id)
    told = [f["payload"]["body"]["message"] for f in frames[:-1]]
    assert told == [*"01234"[start or 0 :], "0", "1"]
    assert seqs(frames) == list(range(1, len(frames) + 1))


@requirement("R-7.6-4")
async def test_without_history_only_later_events_come(world: World) -> None:
    owner, other = await world.peer(), await world.peer()
    run = await world.job(owner)
    await run.emit(5)
    await other.ask("job.subscribe", {"job_id": run.id})
    run.finish()
    assert [f["type"] for f in await other.follow(run.id)] == ["job.result"]


@requirement("R-7.6-6", "R-14-1")
async def test_another_principal_observes_nothing_by_default(worlds: Worlds) -> None:
    world = await worlds(auth=TOKENS)
    run = await world.job(await world.peer(token="t-alice"))
    bob = await world.peer(token="t-bob")
    answer = await bob.ask("job.subscribe", {"job_id": run.id, "history": True})
    assert answer["payload"]["code"] == "PERMISSION_DENIED"
    await run.emit()
    await bob.ask("session.list_jobs")
    assert bob.held == []


@requirement("R-14-1")
async def test_a_policy_opens_what_it_allows(worlds: Worlds) -> None:
    world = await worlds(auth=TOKENS, policy=lambda wish: wish.agent == "plain")
    alice = await world.peer(token="t-alice")
    secret, shared = await world.job(alice), await world.job(alice, agent="plain")
    bob = await world.peer(token="t-bob")
    answer = await bob.ask("job.subscribe", {"job_id": secret.id})
    assert answer["payload"]["code"] == "PERMISSION_DENIED"
    await bob.ask("job.subscribe", {"job_id": shared.id})
    shared.finish(1)
    assert (await bob.follow(shared.id))[-1]["payload"]["result"] == 1
    page = await bob.ask("session.list_jobs")
    assert [job["job_id"] for job in page["payload"]["jobs"]] == [shared.id]


@requirement("R-7.6-7")
async def test_an_ended_job_can_be_observed(world: World) -> None:
    owner, other = await world.peer(), await world.peer()
    run = await world.job(owner)
    await run.emit()
    run.finish("r")
    await owner.follow(run.id)
    answer = await other.ask("job.subscribe", {"job_id": run.id, "history": True})
    assert answer["payload"]["current_status"] == "success"
    frames = await other.follow(run.id)
    assert [f["type"] for f in frames] == ["job.event", "job.result"]
    unknown = await other.ask("job.subscribe", {"job_id": "job_none"})
    assert unknown["payload"]["code"] == "JOB_NOT_FOUND"


@requirement("R-7.6-8")
async def test_unsubscribing_ends_the_events(world: World) -> None:
    owner, other = await world.peer(), await world.peer()
    run = await world.job(owner)
    await other.ask("job.subscribe", {"job_id": run.id})
    await run.emit()
    assert (await other.until("job.event"))["event_seq"] == 1
    await other.send("job.unsubscribe", {"job_id": run.id})
    await other.ask("session.list_jobs")
    await run.emit(3)
    run.finish()
    await owner.follow(run.id)
    await other.ask("session.list_jobs")
    assert other.held == []


@requirement("R-8.3-1")
async def test_numbers_of_many_jobs_and_a_subscriber_have_no_hole(world: World) -> None:
    owner, other = await world.peer(), await world.peer()
    runs = [await world.job(owner) for _ in range(8)]
    for run in runs[:4]:
        await other.ask("job.subscribe", {"job_id": run.id, "history": True})

    async def work(run: Any) -> None:
        for n in range(50):
            await run.job.progress(n)
            await asyncio.sleep(0)
        run.finish()

    await asyncio.gather(*(work(run) for run in runs))
    for peer, jobs in ((owner, 8), (other, 4)):
        frames = [await peer.until("job.event", "job.result") for _ in range(jobs * 51)]
        assert seqs(frames) == list(range(1, jobs * 51 + 1))
