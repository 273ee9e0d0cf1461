"""The example of a durable agent: its process is killed, and no finished step is repeated."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from arcp_client import Client
from arcp_client.events import Progress
from tests.alone import ROOT
from tests.e2e.shell import COMMAND, fresh
from tests.postgres import Cluster
from tests.replicas.test_death import Balancer
from tests.replicas.test_serve import Command

pytestmark = [
    pytest.mark.usefixtures("forked"),
    # Not imported: only the programs need it, and each process of the tests would load it.
    pytest.mark.skipif(importlib.util.find_spec("dbos") is None, reason="pip install dbos"),
]


@contextlib.asynccontextmanager
async def serving(home: Path, dsn: str, calls: Path) -> AsyncIterator[Command]:
    """Serve the example as one replica; it is killed at the end of the block."""
    child = await asyncio.create_subprocess_exec(
        *COMMAND, "serve", "--port", "0", "--agents", "durable_agents:make", "--lease", "3",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        cwd=ROOT / "examples" / "durable",
        env=fresh(home) | {"ARCP_STORE": dsn, "CALLS": str(calls)},
    )  # fmt: skip
    assert child.stderr is not None
    try:
        seen = ""
        while (found := re.search(r"ws://\S+/arcp", seen)) is None:
            line = (await child.stderr.readline()).decode()
            assert line, seen
            seen += line
        reading = asyncio.create_task(child.stderr.read())
        yield Command(child, found[0])
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()
    await reading


async def test_steps_that_were_done_before_a_kill_are_not_done_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    async with (
        serving(tmp_path, cluster.dsn, calls) as a,
        serving(tmp_path, cluster.dsn, calls) as b,
        Client(Balancer(b.url, a.url)) as client,
    ):
        job = await client.submit("report", {"pages": 8}, idempotency_key="report-7", retries=3)
        async for event in job.events(Progress):
            if event.current >= 3:
                a.process.kill()
                break
        result = (await asyncio.wait_for(job.result(), 90)).value
        assert result == [f"summary of page {page}" for page in range(8)]
        assert len(job.attempts) == 2
    made = [int(line) for line in calls.read_text().split()]
    assert sorted(set(made)) == list(range(8))
    assert made[:3] == [0, 1, 2]
    assert all(made.count(page) == 1 for page in range(3))
    assert len(made) <= 9  # the step in which it was killed is done again
