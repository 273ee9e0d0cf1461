"""One key, one job (§7.2)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from arcp_client._wire.ids import time_text
from arcp_client.runtime import JobContext, Limits
from arcp_client.runtime._jobs.idempotency import IdempotencyKeys
from arcp_client.runtime._log.entries import KeyState
from arcp_client.testing import VirtualClock
from tests.unit.runtime.peer import seqs

TOKENS = {"t-alice": "alice", "t-bob": "bob"}


def counting(runtime: Any) -> list[Any]:
    runs: list[Any] = []

    @runtime.agent("count")
    async def count(input: Any, job: JobContext) -> int:
        runs.append(input)
        await job.log("ran")
        return len(runs)

    return runs


async def test_a_repeat_gets_the_same_acceptance_and_the_agent_runs_once(
    runtime: Any, open_peer: Any
) -> None:
    runs = counting(runtime)
    peer = await open_peer(runtime)
    first = await peer.submit("count", {"a": 1, "b": 2}, idempotency_key="k")
    again = await peer.submit("count", {"b": 2, "a": 1}, idempotency_key="k")  # other key order
    assert first["id"] != again["id"]
    ours, theirs = dict(first["payload"]), dict(again["payload"])
    assert ours.pop("request_id") != theirs.pop("request_id")
    assert ours == theirs
    await peer.follow(ours["job_id"])
    after = await peer.submit("count", {"a": 1, "b": 2}, idempotency_key="k")
    assert after["payload"]["job_id"] == ours["job_id"]
    assert len(runs) == 1


async def test_other_parameters_under_the_same_key_are_a_conflict(
    runtime: Any, open_peer: Any
) -> None:
    runs = counting(runtime)
    peer = await open_peer(runtime)
    _ = await peer.run("count", {"a": 1}, idempotency_key="k")
    for other in (
        {"input": {"a": 2}},
        {"input": {"a": 1}, "max_runtime_sec": 5},
        {"input": {"a": 1}, "lease_request": {}},
    ):
        answer = await peer.ask("job.submit", {"agent": "count", "idempotency_key": "k", **other})
        assert answer["payload"]["code"] == "DUPLICATE_KEY"
        assert answer["payload"]["retryable"] is False
    assert len(runs) == 1


async def test_a_refused_submit_leaves_its_key_unused(runtime: Any, open_peer: Any) -> None:
    peer = await open_peer(runtime)
    request = {"agent": "count", "idempotency_key": "k"}
    refused = await peer.ask("job.submit", request)
    assert refused["payload"]["code"] == "AGENT_NOT_AVAILABLE"
    counting(runtime)
    assert (await peer.ask("job.submit", request))["type"] == "job.accepted"


async def test_keys_belong_to_their_principal(make: Any, open_peer: Any) -> None:
    runtime = make(auth=TOKENS)
    counting(runtime)
    alice = await open_peer(runtime, token="t-alice")
    bob = await open_peer(runtime, token="t-bob")
    ours = await alice.submit("count", 1, idempotency_key="k")
    theirs = await bob.submit("count", 2, idempotency_key="k")
    assert ours["payload"]["job_id"] != theirs["payload"]["job_id"]


async def test_a_later_session_gets_acceptance_cancel_and_history(
    make: Any, open_peer: Any
) -> None:
    runtime = make(auth=TOKENS)
    started = asyncio.Event()

    @runtime.agent("long")
    async def long(input: Any, job: JobContext) -> None:
        await job.log("begun")
        started.set()
        await asyncio.Event().wait()

    first = await open_peer(runtime, token="t-alice")
    accepted = await first.submit("long", idempotency_key="k")
    await started.wait()
    await first.cut()
    later = await open_peer(runtime, token="t-alice")
    again = await later.submit("long", idempotency_key="k")
    assert again["session_id"] == later.session_id
    job_id = again["payload"]["job_id"]
    assert job_id == accepted["payload"]["job_id"]
    subscribed = await later.ask("job.subscribe", {"job_id": job_id, "history": True})
    assert subscribed["payload"]["replayed"] is True
    assert (await later.ask("job.cancel", {"job_id": job_id}))["type"] == "job.cancelled"
    frames = await later.follow(job_id)
    assert [f["payload"].get("kind") for f in frames] == ["log", None]
    assert frames[-1]["payload"]["code"] == "CANCELLED"
    assert seqs(frames) == [1, 2]


async def test_keys_are_forgotten_when_there_are_too_many(make: Any, open_peer: Any) -> None:
    runtime = make(limits=Limits(idempotency_keys=2))
    runs = counting(runtime)
    peer = await open_peer(runtime)
    for key in ("a", "b", "c", "d", "a"):
        await peer.run("count", idempotency_key=key)
    assert len(runs) == 5


async def test_any_json_can_be_submitted_under_a_key(runtime: Any, open_peer: Any) -> None:
    runs = counting(runtime)
    peer = await open_peer(runtime)
    for value in ("\ud800", 10**400, {"a": [None, 1e308]}, "\u2028"):
        await peer.run("count", value, idempotency_key=repr(value)[:200])
    assert runs == ["\ud800", 10**400, {"a": [None, 1e308]}, "\u2028"]


class Stored(list[KeyState]):
    """A journal that keeps what it is given."""

    def put(self, entry: KeyState) -> None:
        self.append(entry)


def stored(key: str, seconds: float) -> KeyState:
    """A key that was accepted so many seconds ago, in an earlier process."""
    at = time_text(datetime.now(UTC) - timedelta(seconds=seconds))
    return KeyState("alice", key, b"p", b'{"job_id":"j"}', at)


async def test_a_restored_key_is_as_old_as_it_was(clock: VirtualClock) -> None:
    keys = IdempotencyKeys(10.0, 100, Stored())  # type: ignore[arg-type]
    keys.restore(stored("old", 8.0))
    keys.restore(stored("young", 1.0))
    assert keys.find("alice", "old", b"p") is not None
    await asyncio.sleep(3.0)
    assert keys.find("alice", "old", b"p") is None
    assert keys.find("alice", "young", b"p") is not None
    await asyncio.sleep(7.0)
    assert keys.find("alice", "young", b"p") is None
    assert len(keys) == 0


async def test_what_cannot_be_restored_is_not_remembered() -> None:
    keys = IdempotencyKeys(10.0, 100)
    keys.restore(KeyState("alice", "forgotten"))
    keys.restore(KeyState("alice", "k", b"p", b"{}", "no time"))
    assert len(keys) == 0


async def test_a_key_that_is_forgotten_is_forgotten_in_the_log_too(clock: VirtualClock) -> None:
    journal = Stored()
    keys = IdempotencyKeys(10.0, 2, journal)  # type: ignore[arg-type]
    for key in ("a", "b", "c"):
        keys.begin("alice", key, b"p")
        keys.settle("alice", key, {"job_id": key})
    journal.clear()
    assert keys.find("alice", "a", b"p") is None  # there were too many
    assert journal == [KeyState("alice", "a")]
    await asyncio.sleep(11.0)
    assert keys.find("alice", "b", b"p") is None  # they are too old
    assert journal == [KeyState("alice", key) for key in ("a", "b", "c")]
