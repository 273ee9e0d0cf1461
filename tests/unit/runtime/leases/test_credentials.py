"""Credentials: issued with a job, dead before its terminal, shown to nobody else (§9.8)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from arcp_client.errors import JobNotFound, PermissionDenied
from arcp_client.models import Credential
from arcp_client.runtime import JobContext, Limits, Provision, Runtime, SqliteEventLog
from arcp_client.transports import WebSocketConnector
from tests.unit.runtime.peer import Peer, bodies
from tests.unit.runtime.sessions.test_resume import resumed, started

TOKENS = {"t-alice": "alice", "t-bob": "bob"}
CANARY = "canary-"


class Gateway:
    """A provisioner that keeps account."""

    def __init__(self) -> None:
        self.wanted: list[Provision] = []
        self.live: set[str] = set()
        self.refuse: Exception | None = None
        self.failures = 0
        self.hold = asyncio.Event()
        self.hold.set()

    async def issue(self, wanted: Provision) -> Sequence[Credential]:
        await self.hold.wait()
        if self.refuse is not None:
            raise self.refuse
        self.wanted.append(wanted)
        name = f"cred_{len(self.wanted)}"
        self.live.add(name)
        value = SecretStr(CANARY + name)
        return [Credential(id=name, value=value, endpoint="https://llm", profile="openai")]

    async def revoke(self, job_id: str, credential_id: str) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError
        self.live.discard(credential_id)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runtime.db"


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


@pytest.fixture
def runtime(make: Any, path: Path, gateway: Gateway) -> Runtime:
    made: Runtime = make(
        event_log=SqliteEventLog(path), provisioner=gateway, auth=TOKENS, policy=lambda wish: True
    )

    @made.agent("quick")
    async def quick(input: Any, job: JobContext) -> Any:
        return [each.value.get_secret_value() for each in job.credentials]

    return made


async def test_a_job_is_accepted_with_a_credential_that_is_dead_at_its_terminal(
    runtime: Runtime, open_peer: Any, gateway: Gateway
) -> None:
    peer = await open_peer(runtime, token="t-alice")
    lease = {"model.use": ["gpt-*"], "cost.budget": ["USD:2"]}
    accepted = await peer.submit("quick", lease_request=lease)
    assert accepted["payload"]["credentials"] == [
        {
            "id": "cred_1",
            "scheme": "bearer",
            "value": "canary-cred_1",
            "endpoint": "https://llm",
            "profile": "openai",
            "constraints": lease,
        }
    ]
    (wanted,) = gateway.wanted
    assert wanted.job_id == accepted["payload"]["job_id"]
    assert (wanted.principal, wanted.agent) == ("alice", "quick")
    (result,) = await peer.follow(wanted.job_id)
    assert result["payload"]["result"] == ["canary-cred_1"]
    assert gateway.live == set()


async def test_a_revocation_that_fails_is_tried_again_before_the_terminal(
    runtime: Runtime, open_peer: Any, gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.failures = 2
    peer = await open_peer(runtime, token="t-alice")
    await peer.run("quick")
    assert gateway.live == set()
    assert "is not revoked yet" in caplog.text
    assert CANARY not in caplog.text


async def test_every_end_of_a_job_ends_its_credential(
    runtime: Runtime, open_peer: Any, gateway: Gateway
) -> None:
    peer = await open_peer(runtime, token="t-alice")
    _, job_id = await started(runtime, peer)
    assert len(gateway.live) == 1
    await peer.ask("job.cancel", {"job_id": job_id})
    (error,) = await peer.follow(job_id)
    assert error["payload"]["code"] == "CANCELLED"
    assert gateway.live == set()


async def test_a_job_without_its_credentials_is_refused(
    runtime: Runtime, open_peer: Any, gateway: Gateway
) -> None:
    peer = await open_peer(runtime, token="t-alice")
    gateway.refuse = RuntimeError("canary-backend")
    answer = await peer.ask("job.submit", {"agent": "quick", "idempotency_key": "k"})
    assert answer["payload"]["code"] == "INTERNAL_ERROR"
    assert "canary" not in str(answer)
    gateway.refuse = PermissionDenied("not for you")
    answer = await peer.ask("job.submit", {"agent": "quick", "idempotency_key": "k"})
    assert answer["payload"]["code"] == "PERMISSION_DENIED"
    gateway.refuse = None
    await peer.submit("quick", idempotency_key="k")


async def test_a_repeat_while_the_first_is_being_accepted_waits_for_it(
    runtime: Runtime, open_peer: Any, gateway: Gateway
) -> None:
    peer = await open_peer(runtime, token="t-alice")
    gateway.hold.clear()
    request = {"agent": "quick", "idempotency_key": "k"}
    first = await peer.send("job.submit", request)
    second = await peer.send("job.submit", request)
    assert (await peer.ask("session.list_jobs"))["payload"]["jobs"] == []
    gateway.hold.set()
    answers = [await peer.until("job.accepted") for _ in range(2)]
    assert {a["payload"]["request_id"] for a in answers} == {first, second}
    assert len({a["payload"]["job_id"] for a in answers}) == 1
    assert len(gateway.wanted) == 1


async def test_a_repeat_while_the_first_is_refused_is_refused_too(
    runtime: Runtime, open_peer: Any, gateway: Gateway
) -> None:
    peer = await open_peer(runtime, token="t-alice")
    gateway.hold.clear()
    gateway.refuse = RuntimeError()
    request = {"agent": "quick", "idempotency_key": "k"}
    await peer.send("job.submit", request)
    await peer.send("job.submit", request)
    await peer.ask("session.list_jobs")
    gateway.hold.set()
    for _ in range(2):
        assert (await peer.until("session.error"))["payload"]["code"] == "INTERNAL_ERROR"


async def test_a_repeat_gets_the_refusal_itself_and_not_a_crash_of_its_own(
    runtime: Runtime, open_peer: Any, gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await open_peer(runtime, token="t-alice")
    gateway.hold.clear()
    gateway.refuse = PermissionDenied("not for you")
    request = {"agent": "quick", "idempotency_key": "k"}
    sent = {await peer.send("job.submit", request) for _ in range(3)}
    await peer.ask("session.list_jobs")
    gateway.hold.set()
    answers = [(await peer.until("session.error"))["payload"] for _ in range(3)]
    assert {answer["request_id"] for answer in answers} == sent
    assert {(a["code"], a["message"]) for a in answers} == {("PERMISSION_DENIED", "not for you")}
    assert not [record for record in caplog.records if record.exc_info]


async def test_only_the_submitting_principal_is_shown_values(
    runtime: Runtime, open_peer: Any
) -> None:
    alice = await open_peer(runtime, token="t-alice")
    sibling = await open_peer(runtime, token="t-alice")
    plain = await open_peer(runtime, token="t-alice", features=("subscribe", "list_jobs"))
    bob = await open_peer(runtime, token="t-bob")
    stepper, job_id = await started(runtime, alice)
    for peer, shown in ((alice, True), (sibling, True), (plain, False), (bob, False)):
        subscribed = await peer.ask("job.subscribe", {"job_id": job_id})
        listed = await peer.ask("session.list_jobs")
        assert ("credentials" in subscribed["payload"]) is shown
        assert ("credentials" in listed["payload"]["jobs"][0]) is shown
        assert (CANARY in str((subscribed, listed))) is shown
    stepper.end.set()
    await alice.follow(job_id)
    assert CANARY not in str(await alice.ask("session.list_jobs"))


async def test_a_rotated_value_reaches_the_submitting_session_alone(
    runtime: Runtime, open_peer: Any, path: Path
) -> None:
    owner = await open_peer(runtime, token="t-alice")
    live = await open_peer(runtime, token="t-bob")
    stepper, job_id = await started(runtime, owner)
    await live.ask("job.subscribe", {"job_id": job_id})
    runtime.rotate(job_id, Credential(id="cred_1", value=SecretStr(CANARY + "new")))
    with pytest.raises(JobNotFound):
        runtime.rotate(job_id, Credential(id="other", value=SecretStr("x")))
    told = await owner.read()
    seen = await live.read()
    assert told["payload"]["body"] == {
        "phase": "credential_rotated",
        "id": "cred_1",
        "value": CANARY + "new",
    }
    assert seen["payload"]["body"] == {"phase": "credential_rotated", "id": "cred_1"}
    assert seen["id"] == told["id"]
    await owner.cut()
    back = await resumed(runtime, owner, 0, token="t-alice")  # a resume replays it to its owner
    assert (await back.read())["payload"] == told["payload"]
    late = await open_peer(runtime, token="t-alice")
    await late.ask("job.subscribe", {"job_id": job_id, "history": True})
    stepper.end.set()
    assert CANARY not in str(await late.follow(job_id))
    assert CANARY not in str(await live.follow(job_id))
    assert stepper.jobs[0].credentials == ()
    await back.close()
    await runtime.close()
    for file in path.parent.iterdir():
        assert CANARY.encode() not in file.read_bytes()


async def test_a_child_has_credentials_of_its_own(
    runtime: Runtime, open_peer: Any, gateway: Gateway
) -> None:
    @runtime.agent("parent")
    async def parent(input: Any, job: JobContext) -> Any:
        child = await job.delegate("quick")
        value = await child.result()
        assert gateway.live == {"cred_1"}  # the child's is dead, the parent's lives
        return value

    peer = await open_peer(runtime, token="t-alice")
    accepted = await peer.submit("parent")
    told = await peer.until("job.accepted")
    assert told["payload"]["credentials"][0]["value"] == "canary-cred_2"
    frames = await peer.follow(accepted["payload"]["job_id"])
    assert frames[-1]["payload"]["result"] == ["canary-cred_2"]
    assert len(bodies(frames, "delegate")) == 1
    assert gateway.live == set()


async def test_what_a_killed_runtime_left_alive_is_revoked_at_the_restart(
    runtime: Runtime, open_peer: Any, gateway: Gateway, path: Path
) -> None:
    gateway.failures = 10**9  # until the runtime is gone
    peer = await open_peer(runtime, token="t-alice")
    await started(runtime, peer)
    runtime._core.vault.grace = 0.0  # type: ignore[union-attr]
    await runtime.close()
    assert gateway.live == {"cred_1"}
    gateway.failures = 0
    async with Runtime(event_log=SqliteEventLog(path), provisioner=gateway, auth=TOKENS) as again:
        fresh = await Peer.to(again)
        await fresh.hello(token="t-alice")
        await fresh.ask("session.list_jobs")
        while gateway.live:
            await asyncio.sleep(0)
    await fresh.close()


async def test_the_feature_is_offered_only_where_it_can_be_kept(
    make: Any, open_peer: Any, path: Path, gateway: Gateway
) -> None:
    def offered(peer: Peer) -> bool:
        return "provisioned_credentials" in peer.welcome["payload"]["capabilities"]["features"]

    durable = make(event_log=SqliteEventLog(path), provisioner=gateway)
    assert offered(await open_peer(durable))
    assert not offered(await open_peer(make(provisioner=gateway)))  # nothing survives it
    assert not offered(await open_peer(make()))
    async with durable.serve() as server:  # no TLS
        peer = await open_peer(WebSocketConnector(server.url))
        assert not offered(peer)
        inside = await open_peer(durable)
        await inside.cut()
        back = await Peer.to(WebSocketConnector(server.url))
        reply = await back.hello(resume=inside.block(0))
        assert "provisioned_credentials" not in reply["payload"]["capabilities"]["features"]
        await back.close()
    limited = make(provisioner=gateway, limits=Limits())
    assert not offered(await open_peer(limited))
