"""Webhooks while the runtime is killed: the end of each job is called, under one id."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections import defaultdict
from pathlib import Path

import pytest
from tenacity import wait_fixed

from arcp_client import Client, Reconnect, Timeouts, errors
from tests.e2e.shell import COMMAND, free_port, fresh
from tests.unit.runtime.webhooks.receiver import SECRET, Receiver

pytestmark = pytest.mark.usefixtures("forked")

SLOW = "ARCP_SLOW" in os.environ
JOBS, KILLS = (1000, 20) if SLOW else (60, 3)


@pytest.mark.timeout(600)
async def test_no_end_of_a_job_is_lost_when_the_runtime_is_killed(tmp_path: Path) -> None:
    port, rng = free_port(), random.Random(17)
    children: list[asyncio.subprocess.Process] = []

    async def begin(hook: str) -> asyncio.subprocess.Process:
        child = await asyncio.create_subprocess_exec(
            *COMMAND, "serve", "--port", str(port), "--db", str(tmp_path / "runtime.db"),
            "--webhook", hook, "--webhook-event", "job.ended",
            env=fresh(tmp_path) | {"ARCP_WEBHOOK_SECRET": SECRET},
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert child.stderr is not None
        children.append(child)
        while b"serving" not in (line := await child.stderr.readline()):
            assert line, "it has ended"
        return child

    async def end() -> None:
        for child in children:
            if child.returncode is None:
                child.kill()
            await child.wait()

    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(end)
        receiver = await stack.enter_async_context(Receiver())
        child = await begin(receiver.url)
        client = Client(
            f"ws://127.0.0.1:{port}/arcp",
            reconnect=Reconnect(wait=wait_fixed(0.05)),
            timeouts=Timeouts(open=60, request=60),
        )
        ended: set[str] = set()

        async def work(n: int) -> None:
            await asyncio.sleep(n * 0.05 if n < 200 else rng.random() * 10)
            job = await client.submit("count", {"to": 2, "delay": 0.05})
            with contextlib.suppress(errors.JobFailed):  # it was cut short
                await job.result()
            ended.add(job.id)

        async with client:
            works = [asyncio.ensure_future(work(n)) for n in range(JOBS)]
            for _ in range(KILLS):
                await asyncio.wait(works, timeout=rng.uniform(0.3, 1.0))
                child.kill()
                await child.wait()
                child = await begin(receiver.url)
            await asyncio.gather(*works)
            async with asyncio.timeout(300):
                while not ended <= {call["data"]["job_id"] for call in receiver.calls}:
                    receiver.came.clear()
                    await receiver.came.wait()

    ids: defaultdict[str, set[str]] = defaultdict(set)
    for id, call in zip(receiver.ids, receiver.calls, strict=True):
        ids[call["data"]["job_id"]].add(id)
    assert len(ended) == JOBS
    assert all(len(found) == 1 for found in ids.values())
    print(f"{JOBS} jobs, {KILLS} kills: {len(receiver.ids)} calls, 0 ends lost")
