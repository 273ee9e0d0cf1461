"""``arcp-client serve --store``: probes, a rolling restart, and a database that cannot be used."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from arcp_client import Client, Limits, MemoryEventLog
from arcp_client.runtime import Runtime
from tests.e2e.shell import COMMAND, fresh, run
from tests.postgres import PASSWORD, Cluster, free_port
from tests.replicas.test_death import Balancer

pytestmark = pytest.mark.usefixtures("forked")

AGENTS = """
import asyncio
from arcp_client import Runtime

def make(auth=None, event_log=None):
    runtime = Runtime(auth=auth, event_log=event_log)

    @runtime.agent("ticks")
    async def ticks(input, job):
        for n in range(input):
            await job.progress(n + 1, input)
            await asyncio.sleep(0.02)
        return input

    return runtime
"""


class Command:
    """One process of the command."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process = process
        self.url = url
        self.http = url.replace("ws://", "http://").removesuffix("/arcp")

    async def get(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(self.http + path) as response:
            return response.status, await response.text()


@contextlib.asynccontextmanager
async def serving(directory: Path, dsn: str, *options: str) -> AsyncIterator[Command]:
    """Start the command; it is killed at the end of the block."""
    (directory / "my_agents.py").write_text(AGENTS)
    child = await asyncio.create_subprocess_exec(
        *COMMAND, "serve", "--port", "0", "--agents", "my_agents:make", "--lease", "5", *options,
        stderr=asyncio.subprocess.PIPE, cwd=directory, env=fresh(directory) | {"ARCP_STORE": dsn},
    )  # fmt: skip
    try:
        assert child.stderr is not None
        line = (await child.stderr.readline()).decode()
        found = re.search(r"ws://\S+", line)
        assert found, line + (await child.stderr.read()).decode()
        yield Command(child, found[0])
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


async def test_the_probes_answer_while_it_serves(cluster: Cluster, tmp_path: Path) -> None:
    async with serving(tmp_path, cluster.dsn) as one, Client(one.url) as client:
        assert await one.get("/healthz") == (200, "ok\n")
        assert await one.get("/readyz") == (200, "ready\n")
        job = await client.submit("ticks", 2)
        await job.result()
        status, text = await one.get("/metrics")
        assert status == 200
        assert text.endswith("# EOF\n")
        metrics = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
        assert metrics["arcp_ready"] == "1"
        assert metrics["arcp_sessions"] == "1"
        assert metrics['arcp_jobs{state="ended"}'] == "1"
        assert int(metrics["arcp_log_entries_total"]) > 3


async def test_a_rolling_restart_loses_no_job_that_ends_within_the_grace(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with (
        serving(tmp_path, cluster.dsn, "--grace", "60") as a,
        serving(tmp_path, cluster.dsn, "--grace", "60") as b,
        Client(Balancer(b.url, a.url)) as client,
    ):
        job = await client.submit("ticks", 200)
        seen: list[int] = []
        async for event in job:
            if (current := getattr(event, "current", None)) is not None:
                seen.append(int(current))
                if current == 20:
                    a.process.send_signal(signal.SIGTERM)
        assert seen == list(range(1, 201))
        assert (await job.result()).value == 200
        assert await a.process.wait() == 0


async def test_a_runtime_without_replicas_keeps_its_links_during_the_grace() -> None:
    runtime = Runtime(event_log=MemoryEventLog(), limits=Limits(kill_grace=1))
    go_on = asyncio.Event()

    @runtime.agent("waits")
    async def waits(input: object, job: object) -> str:
        await go_on.wait()
        return "done"

    async with Client(runtime) as client:
        job = await client.submit("waits")
        closing = asyncio.create_task(runtime.close(timeout=30))
        await asyncio.sleep(0)
        go_on.set()
        assert (await job.result()).value == "done"
        await closing


def test_a_database_that_cannot_be_used_is_one_sentence(cluster: Cluster, tmp_path: Path) -> None:
    away = f"postgresql://user:{PASSWORD}@127.0.0.1:{free_port()}/db"
    wrong = cluster.dsn.replace(PASSWORD, "wrong-secret")
    for dsn, code, text in (
        (away, 3, "cannot be reached"),
        (wrong, 2, "refuses the login"),
        ("mysql://user:hidden@host/db", 2, "postgresql://"),
    ):
        done = run(fresh(tmp_path), "serve", "--store", dsn, "--port", "0", cwd=tmp_path)
        assert done.returncode == code, done.stderr
        assert text in done.stderr
        assert not re.search(rf"{PASSWORD}|wrong-secret|hidden", done.stderr)
    both = run(fresh(tmp_path), "serve", "--store", away, "--db", "x.db", cwd=tmp_path)
    assert both.returncode == 2
    assert isinstance(both, subprocess.CompletedProcess)
