"""A job with ``retries`` is submitted again to another replica when its replica is killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from arcp_client import Client
from arcp_client.events import Failed, Gap, Log, Progress
from arcp_client.stores import SqliteStore
from tests.postgres import Cluster
from tests.replicas.test_death import Balancer, process


async def test_a_job_of_a_killed_replica_is_begun_again_with_the_same_work(
    cluster: Cluster, schema: str
) -> None:
    async with (
        process(cluster, schema) as a,
        process(cluster, schema) as b,
        Client(Balancer(b.url, a.url)) as client,
    ):
        job = await client.submit("works", {"count": 60, "pause": 0.05}, retries=3)
        counts: dict[str | None, list[int]] = {}
        ends: list[Failed] = []
        works: list[str] = []
        async for event in job.events(Progress, Failed, Log, Gap):
            assert not isinstance(event, Gap)
            if isinstance(event, Log):
                works.append(event.message)
                continue
            if isinstance(event, Failed):
                ends.append(event)
                continue
            counts.setdefault(event.job_id, []).append(int(event.current))
            if len(counts) == 1 and event.current == 10:
                a.kill()
        result = (await asyncio.wait_for(job.result(), 60)).value
        assert len(job.attempts) == 2
        assert list(counts) == list(job.attempts)
        assert counts[job.attempts[1]] == list(range(1, 61))
        assert [(end.code, end.retryable) for end in ends] == [("INTERNAL_ERROR", True)]
        assert result["job_id"] == job.attempts[1]
        first = counts[job.attempts[0]]
        assert first == list(range(1, len(first) + 1))
        assert works == [result["work_id"]] * 2


async def test_a_client_process_that_begins_again_finds_the_present_attempt(
    cluster: Cluster, schema: str, tmp_path: Path
) -> None:
    """By the key, with and without its store."""
    async with process(cluster, schema) as a, process(cluster, schema) as b:
        client = Client(a.url, store=SqliteStore(tmp_path / "client.db"))
        await client.connect()
        input = {"count": 100, "pause": 0.05}
        job = await client.submit("works", input, idempotency_key="nightly", retries=3)
        await client.detach()
        a.kill()
        async with Client(b.url) as other:
            again = await other.submit("works", input, idempotency_key="nightly", retries=3)
            assert again.attempts == job.attempts
            assert (await asyncio.wait_for(again.result(), 60)).value["work_id"] == "nightly"
            assert len(again.attempts) == 2
        async with Client(b.url, store=SqliteStore(tmp_path / "client.db")) as third:
            once_more = await third.submit("works", input, idempotency_key="nightly", retries=3)
            assert (await asyncio.wait_for(once_more.result(), 60)).value["work_id"] == "nightly"
            assert once_more.attempts == again.attempts
