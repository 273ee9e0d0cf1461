"""§4–§6: transports, envelopes, hello, resume, heartbeats, acknowledgements, listings, close."""

from __future__ import annotations

import json
from typing import Any

import pytest

from arcp_client._wire.names import FEATURES
from arcp_client.errors import LinkLost
from arcp_client.runtime import Limits, MemoryEventLog
from tests.contract.conftest import Worlds
from tests.contract.requirements import requirement
from tests.contract.world import World, raw
from tests.unit.runtime.peer import seqs

TOKENS = {"t-alice": "alice", "t-bob": "bob"}


def without(*features: str) -> tuple[str, ...]:
    return tuple(each for each in FEATURES if each not in features)


@requirement("R-4-1", "R-5-2")
async def test_a_session_with_a_job(world: World) -> None:
    peer = await world.peer()
    await peer.submit("agent", {"x": 1})
    run = await world.run()
    assert run.job.input == {"x": 1}
    await run.emit(3)
    run.finish({"done": True})
    frames = await peer.follow(run.id)
    assert seqs(frames) == [1, 2, 3, 4]
    assert frames[-1]["payload"]["result"] == {"done": True}
    every = [peer.welcome, *frames]
    assert {f["arcp"] for f in every} == {"1.1"}
    assert len({f["id"] for f in every}) == len(every)
    assert {f["session_id"] for f in every} == {peer.session_id}


@requirement("R-5-1")
async def test_unknown_fields_of_an_envelope_are_ignored(world: World) -> None:
    peer = await world.peer()
    answer = await peer.ask("session.list_jobs", {}, x_vendor={"a": 1}, priority=7)
    assert answer["type"] == "session.jobs"


@requirement("R-6.1-1")
async def test_a_token_names_the_principal(worlds: Worlds) -> None:
    world = await worlds(auth=TOKENS)
    await world.peer(token="t-alice")
    for token in ("", "t-mallory"):
        stranger = await world.stranger()
        reply = await stranger.hello(token=token)
        assert (reply["type"], reply["payload"]["code"]) == ("session.error", "UNAUTHENTICATED")
        assert reply["payload"]["retryable"] is False
        assert await stranger.ended() == []


@requirement("R-6.1-2")
@pytest.mark.parametrize("type", ["job.submit", "session.list_jobs", "session.ping", "job.event"])
async def test_nothing_comes_before_the_hello(worlds: Worlds, type: str) -> None:
    world = await worlds(auth=TOKENS)
    stranger = await world.stranger()
    await stranger.send(type, {"agent": "agent", "nonce": "n"})
    (reply,) = await stranger.ended()
    assert (reply["type"], reply["payload"]["code"]) == ("session.error", "INVALID_REQUEST")
    assert (await world.peer(token="t-alice")).welcome["payload"]["resumed"] is False


@requirement("R-6.2-1", "R-6.2-2")
async def test_the_welcome(worlds: Worlds) -> None:
    world = await worlds(name="mine", version="7", resume_window=120, heartbeat_interval=15)
    peer = await world.peer()
    welcome = peer.welcome["payload"]
    assert welcome["runtime"]["name"] == "mine"
    assert welcome["runtime"]["version"] == "7"
    assert (welcome["resume_window_sec"], welcome["heartbeat_interval_sec"]) == (120, 15)
    assert len(welcome["resume_token"]) >= 20
    assert welcome["capabilities"]["encodings"] == ["json"]
    assert welcome["capabilities"]["agents"] == [
        {"name": "agent", "versions": ["1.0.0", "2.0.0"], "default": "2.0.0"},
        {"name": "plain", "versions": []},
    ]


@requirement("R-6.2-3")
async def test_the_features_are_the_intersection(world: World) -> None:
    peer = await world.peer(features=("ack", "progress", "x-unknown"))
    assert peer.welcome["payload"]["capabilities"]["features"] == ["ack", "progress"]


@requirement("R-6.2-4")
async def test_the_runtime_uses_no_feature_that_was_not_negotiated(worlds: Worlds) -> None:
    world = await worlds(heartbeat_interval=0.02)
    peer = await world.peer(features=())
    pinged = await world.peer()
    assert "heartbeat_interval_sec" not in peer.welcome["payload"]
    run = await world.job(peer)
    await run.job.progress(1)
    await run.job.chunk("all of it")
    pinged.lively = False
    await pinged.until("session.ping")  # an interval has passed
    run.finish()
    (result,) = await peer.follow(run.id)
    assert result["payload"]["result"] == "all of it"
    assert result["event_seq"] == 1
    assert "session.ping" not in [f["type"] for f in peer.held]


@requirement("R-6.2-5")
@pytest.mark.parametrize(
    ("feature", "type", "payload"),
    [
        ("list_jobs", "session.list_jobs", {}),
        ("subscribe", "job.subscribe", {"job_id": "job_x"}),
        ("ack", "session.ack", {"last_processed_seq": 0}),
        ("agent_versions", "job.submit", {"agent": "agent@1.0.0"}),
        ("cost.budget", "job.submit", {"agent": "agent", "lease_request": {"cost.budget": []}}),
        ("model.use", "job.submit", {"agent": "agent", "lease_request": {"model.use": ["*"]}}),
        (
            "lease_expires_at",
            "job.submit",
            {"agent": "agent", "lease_constraints": {"expires_at": "2999-01-01T00:00:00Z"}},
        ),
    ],
)
async def test_a_client_uses_no_feature_that_was_not_negotiated(
    world: World, feature: str, type: str, payload: Any
) -> None:
    peer = await world.peer(features=without(feature))
    answer = await peer.ask(type, payload)
    assert answer["payload"]["code"] == "INVALID_REQUEST"
    assert feature in answer["payload"]["message"]


# ---------------------------------------------------------------------------- resume


@requirement("R-6.3-1")
async def test_tokens_rotate(world: World) -> None:
    first = await world.peer()
    second = await world.peer(resume=first.block())
    assert second.session_id == first.session_id
    assert second.token != first.token
    await second.ask("session.list_jobs")  # it has its token
    late = await world.stranger()
    reply = await late.hello(resume=first.block())
    assert reply["payload"]["code"] == "PERMISSION_DENIED"


@requirement("R-6.3-2", "R-8.3-2")
@pytest.mark.parametrize("seen", [0, 2, 5])
async def test_a_resume_replays_and_goes_on_live(world: World, seen: int) -> None:
    peer = await world.peer()
    run = await world.job(peer)
    await run.emit(3)
    while peer.last < 3:
        await peer.read()
    await peer.cut()
    await run.emit(2)
    again = await world.peer(resume=peer.block(min(seen, 3)))
    assert again.welcome["payload"]["resumed"] is True
    await run.emit(2)
    run.finish()
    assert seqs(await again.follow(run.id)) == list(range(min(seen, 3) + 1, 9))


@requirement("R-6.3-3")
async def test_the_specifications_own_form_resumes_too(world: World) -> None:
    peer = await world.peer()
    run = await world.job(peer)
    await run.emit(2)
    await peer.cut()
    other = await world.stranger()
    block = {"resume_token": peer.token, "last_event_seq": 1}
    await other.send("session.resume", block, session_id=peer.session_id)
    welcome = await other.read()
    assert (welcome["type"], welcome["session_id"]) == ("session.welcome", peer.session_id)
    assert (await other.read())["event_seq"] == 2


@requirement("R-6.3-4")
@pytest.mark.parametrize("last", [3, 4, 999])
async def test_a_resume_that_would_have_a_hole_is_refused(worlds: Worlds, last: int) -> None:
    world = await worlds(event_log=MemoryEventLog(max_events=10))
    peer = await world.peer()
    run = await world.job(peer)
    await peer.cut()
    await run.emit(15)  # 6 to 15 are held
    other = await world.stranger()
    reply = await other.hello(resume=peer.block(last))
    assert reply["payload"]["code"] == "RESUME_WINDOW_EXPIRED"
    assert (await other.hello(resume=peer.block(5)))["type"] == "session.welcome"
    run.finish()
    assert seqs(await other.follow(run.id)) == list(range(6, 17))


@requirement("R-6.3-5")
async def test_a_wrong_token_or_principal_spoils_nothing(worlds: Worlds) -> None:
    world = await worlds(auth=TOKENS)
    peer = await world.peer(token="t-alice")
    run = await world.job(peer)
    for token, resume in (
        ("t-alice", peer.block() | {"resume_token": "rt_guess"}),
        ("t-bob", peer.block()),
    ):
        thief = await world.stranger()
        reply = await thief.hello(token=token, resume=resume)
        assert reply["payload"]["code"] == "PERMISSION_DENIED"
    await run.emit()
    assert (await peer.until("job.event"))["event_seq"] == 1
    await peer.cut()
    again = await world.peer(token="t-alice", resume=peer.block(0))
    assert (await again.read())["event_seq"] == 1


@requirement("R-6.3-6")
async def test_a_resume_takes_over_from_a_link_that_looks_alive(world: World) -> None:
    peer = await world.peer()
    run = await world.job(peer)
    again = await world.peer(resume=peer.block())
    await run.emit()
    run.finish()
    assert seqs(await again.follow(run.id)) == [1, 2]
    assert seqs(await peer.ended()) == []


# ------------------------------------------------------------------------- heartbeats


@requirement("R-6.4-1", "R-6.4-5")
async def test_an_idle_runtime_pings(worlds: Worlds) -> None:
    world = await worlds(heartbeat_interval=0.05)
    peer = await world.peer()
    run = await world.job(peer)
    peer.lively = False
    nonces = set()
    for _ in range(3):
        ping = await peer.until("session.ping")
        assert "event_seq" not in ping
        assert ping["payload"]["sent_at"]
        nonces.add(ping["payload"]["nonce"])
        await peer.send("session.pong", {"ping_nonce": ping["payload"]["nonce"]})
    assert len(nonces) == 3
    run.finish()
    assert seqs(await peer.follow(run.id)) == [1]


@requirement("R-6.4-2")
async def test_a_ping_is_answered(world: World) -> None:
    peer = await world.peer()
    await peer.send("session.ping", {"nonce": "p_1", "sent_at": "2026-05-13T19:42:13.000Z"})
    pong = await peer.until("session.pong")
    assert pong["payload"]["ping_nonce"] == "p_1"
    assert pong["payload"]["received_at"]
    assert "event_seq" not in pong


@requirement("R-6.4-3", "R-6.4-4")
async def test_a_lost_heartbeat_ends_the_link_and_no_job(worlds: Worlds) -> None:
    world = await worlds(heartbeat_interval=0.05)
    peer = await world.peer()
    run = await world.job(peer)
    peer.lively = False
    frames = await peer.ended()
    assert frames[-1]["payload"]["code"] == "HEARTBEAT_LOST"
    await run.emit()
    again = await world.peer(resume=peer.block())
    run.finish("alive")
    frames = await again.follow(run.id)
    assert seqs(frames) == [1, 2]
    assert frames[-1]["payload"]["result"] == "alive"


# ------------------------------------------------------------------- acknowledgements


@requirement("R-6.5-1", "R-6.5-4", "R-6.5-5")
async def test_an_acknowledgement_frees_and_is_advisory(world: World) -> None:
    peer = await world.peer()
    run = await world.job(peer)
    await run.emit(6)
    while peer.last < 6:
        await peer.read()
    await peer.send("session.ack", {"last_processed_seq": 4})
    refused = await peer.ask("session.ack", {"last_processed_seq": 99})
    assert refused["payload"]["code"] == "INVALID_REQUEST"
    assert peer.held == []  # the first one has no answer
    await peer.cut()
    below = await world.stranger()
    reply = await below.hello(resume=peer.block(3))
    assert reply["payload"]["code"] == "RESUME_WINDOW_EXPIRED"
    assert (await below.hello(resume=peer.block(4)))["type"] == "session.welcome"
    run.finish()
    assert seqs(await below.follow(run.id)) == [5, 6, 7]


@requirement("R-6.5-2")
async def test_what_was_not_acknowledged_is_kept_however_old(worlds: Worlds) -> None:
    world = await worlds(resume_window=0.02, heartbeat_interval=0.05)
    peer = await world.peer()
    run = await world.job(peer)
    await run.emit(3)
    for _ in range(2):  # the window passes several times
        await peer.send("session.ping", {"nonce": "n"})
        peer.lively = False
        await peer.until("session.ping")
        peer.lively = True
    await run.emit()
    again = await world.peer(resume=peer.block(0))
    run.finish()
    assert seqs(await again.follow(run.id)) == [1, 2, 3, 4, 5]


@requirement("R-6.5-3")
async def test_a_client_that_lags_is_told(worlds: Worlds) -> None:
    world = await worlds(limits=Limits(lag_events=10, lag_delay=0.0))
    peer = await world.peer()
    run = await world.job(peer)
    await run.emit(2)
    while peer.last < 2:
        await peer.read()
    await peer.send("session.ack", {"last_processed_seq": 1})
    await peer.ask("session.list_jobs")  # the ack was handled
    await run.emit(30)
    run.finish()
    frames = await peer.follow(run.id)
    told = [f for f in frames if f["payload"].get("kind") == "status"]
    assert [f["payload"]["body"]["phase"] for f in told] == ["back_pressure"]
    assert seqs(frames) == list(range(3, 35))


@requirement("R-6.5-3")
async def test_a_client_that_never_acknowledges_is_told_once(worlds: Worlds) -> None:
    world = await worlds(limits=Limits(lag_events=10, lag_delay=60.0))
    peer = await world.peer()
    run = await world.job(peer)
    await run.emit(40)  # told, and not slowed down: it may never acknowledge
    run.finish()
    frames = await peer.follow(run.id)
    told = [f for f in frames if f["payload"].get("kind") == "status"]
    assert [f["payload"]["body"]["phase"] for f in told] == ["back_pressure"]
    assert seqs(frames) == list(range(1, 43))
    assert told[0]["event_seq"] == 12


@requirement("R-6.5-3")
async def test_a_client_without_acknowledgements_is_not_told(worlds: Worlds) -> None:
    world = await worlds(limits=Limits(lag_events=10))
    peer = await world.peer(features=["heartbeat"])
    run = await world.job(peer)
    await run.emit(40)
    run.finish()
    frames = await peer.follow(run.id)
    assert seqs(frames) == list(range(1, 42))


# ---------------------------------------------------------------- listings and the end


@requirement("R-6.6-1", "R-6.6-4", "R-7.5-4")
async def test_a_listing(world: World) -> None:
    owner, other = await world.peer(), await world.peer()
    ended = await world.job(owner, agent="plain")
    ended.finish()
    await owner.follow(ended.id)
    run = await world.job(owner, lease_request={"fs.read": ["/a/**"]}, trace_id="a" * 32)
    await run.emit(2)
    answer = await other.ask("session.list_jobs", {"filter": {"status": ["running"]}})
    assert answer["payload"]["next_cursor"] is None
    (job,) = answer["payload"]["jobs"]
    assert job["job_id"] == run.id
    assert (job["agent"], job["status"]) == ("agent@2.0.0", "running")
    assert (job["parent_job_id"], job["last_event_seq"]) == (None, 3)
    assert (job["lease"], job["trace_id"]) == ({"fs.read": ["/a/**"]}, "a" * 32)
    for filter, found in (
        ({"agent": "plain"}, [ended.id]),
        ({"agent": "agent@1.0.0"}, []),
        ({"created_after": "2999-01-01T00:00:00Z"}, []),
        ({"created_after": "2020-01-01T00:00:00Z"}, [ended.id, run.id]),
        ({}, [ended.id, run.id]),
    ):
        page = await other.ask("session.list_jobs", {"filter": filter})
        assert [job["job_id"] for job in page["payload"]["jobs"]] == found
    run.finish()
    await owner.follow(run.id)
    await other.ask("session.list_jobs")
    assert other.held == []


@requirement("R-6.6-2")
async def test_a_listing_pages(world: World) -> None:
    peer = await world.peer()
    jobs = [(await world.job(peer)).id for _ in range(5)]
    seen: list[str] = []
    cursor = None
    while True:
        page = await peer.ask("session.list_jobs", {"limit": 2, "cursor": cursor})
        seen += [job["job_id"] for job in page["payload"]["jobs"]]
        cursor = page["payload"]["next_cursor"]
        if cursor is None:
            break
    assert seen == jobs
    refused = await peer.ask("session.list_jobs", {"cursor": "mine"})
    assert refused["payload"]["code"] == "INVALID_REQUEST"


@requirement("R-6.6-3")
async def test_a_listing_shows_nothing_of_others(worlds: Worlds) -> None:
    world = await worlds(auth=TOKENS)
    await world.job(await world.peer(token="t-alice"))
    bob = await world.peer(token="t-bob")
    page = await bob.ask("session.list_jobs")
    assert page["payload"]["jobs"] == []


@requirement("R-6.7-1", "R-6.7-2")
async def test_a_close_ends_the_session_and_no_job(world: World) -> None:
    peer = await world.peer()
    run = await world.job(peer)
    request = await peer.send("session.close", {"reason": "done"})
    closed = await peer.until("session.closed")
    assert closed["payload"]["request_id"] == request
    assert await peer.ended() == []
    await run.emit()
    run.finish()
    again = await world.peer(resume=peer.block())
    assert seqs(await again.follow(run.id)) == [1, 2]


@requirement("R-6.7-2")
async def test_a_reset_ends_no_job(world: World) -> None:
    peer = await world.peer()
    run = await world.job(peer)
    await peer.transport.send(raw({"type": "session.ping", "payload": {"nonce": "n"}}))
    await peer.cut()
    with pytest.raises(LinkLost):
        await peer.transport.receive()
    run.finish("lived")
    again = await world.peer(resume=peer.block())
    assert (await again.follow(run.id))[-1]["payload"]["result"] == "lived"
    assert json.dumps(again.welcome)
