"""The requests of one connection take effect, and are answered, in the order of their arrival."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from arcp_client.runtime import JobContext, MemoryEventLog, Runtime, SqliteEventLog
from tests.unit.runtime.conftest import MakeRuntime
from tests.unit.runtime.peer import Frame, Peer

OpenPeer = Callable[..., Awaitable[Peer]]


@pytest.fixture(params=["memory", "sqlite"])
def runtime(request: pytest.FixtureRequest, make: MakeRuntime, tmp_path: Path) -> Runtime:
    durable = request.param == "sqlite"
    made = make(event_log=SqliteEventLog(tmp_path / "log.db") if durable else MemoryEventLog())

    @made.agent("waits")
    async def waits(input: Any, job: JobContext) -> None:
        await asyncio.Event().wait()

    @made.agent("returns")
    async def returns(input: Any, job: JobContext) -> Any:
        return input

    return made


async def answers(peer: Peer, requests: list[str]) -> list[Frame]:
    """The answers to these requests, in the order in which they were sent."""
    found: list[Frame] = []
    while len(found) < len(requests):
        frame = await peer.read()
        if frame["payload"].get("request_id") in requests:
            found.append(frame)
    return found


async def test_requests_of_one_connection_are_answered_in_their_order(
    runtime: Runtime, open_peer: OpenPeer
) -> None:
    other = await open_peer(runtime)
    watched = (await other.submit("waits"))["payload"]["job_id"]
    peer = await open_peer(runtime)
    mine = (await peer.submit("waits"))["payload"]["job_id"]
    requests: list[str] = []
    for n in range(5):
        requests += [
            await peer.send("job.submit", {"agent": "returns", "input": n}),
            await peer.send("session.list_jobs", {}),
            await peer.send("job.subscribe", {"job_id": watched, "history": True}),
            await peer.send("job.submit", {"agent": "missing", "input": n}),
            await peer.send("job.submit", {"agent": "returns", "idempotency_key": f"k{n}"}),
            await peer.send("job.submit", {"agent": "returns", "idempotency_key": f"k{n}"}),
            await peer.send("job.cancel", {"job_id": mine}),
        ]
    found = await answers(peer, requests)
    assert [frame["payload"]["request_id"] for frame in found] == requests


async def test_a_listing_contains_the_jobs_of_earlier_submits_of_its_connection(
    runtime: Runtime, open_peer: OpenPeer
) -> None:
    peer = await open_peer(runtime)
    requests: list[str] = []
    for n in range(20):
        requests.append(await peer.send("job.submit", {"agent": "waits", "input": n}))
        requests.append(await peer.send("session.list_jobs", {}))
    found = await answers(peer, requests)
    accepted = [frame["payload"]["job_id"] for frame in found[::2]]
    for n, listing in enumerate(found[1::2]):
        assert [job["job_id"] for job in listing["payload"]["jobs"]] == accepted[: n + 1]


async def test_a_close_follows_the_answers_to_earlier_requests(
    runtime: Runtime, open_peer: OpenPeer
) -> None:
    peer = await open_peer(runtime)
    submit = await peer.send("job.submit", {"agent": "waits"})
    close = await peer.send("session.close", {})
    found = await answers(peer, [submit, close])
    assert [frame["type"] for frame in found] == ["job.accepted", "session.closed"]
