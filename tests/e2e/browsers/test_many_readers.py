"""Any number of browsers whose connections break at random receive every event once, in order."""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from arcp_client import Client, JobContext, Runtime
from arcp_client.web import SSE_HEADERS
from tests.e2e.browsers.readers import Reader
from tests.e2e.browsers.servers import SERVERS

SOON = 100.0
MANY = 1_000 if "ARCP_SLOW" in os.environ else 120


def application(client: Client) -> Starlette:
    async def follow(request: Request) -> StreamingResponse:
        frames = await client.sse(
            request.path_params["job_id"], last_event_id=request.headers.get("Last-Event-ID")
        )
        return StreamingResponse(frames, headers=SSE_HEADERS)

    return Starlette(routes=[Route("/jobs/{job_id}", follow)])


async def storm(
    server: str, readers: int, jobs: int, events: int, *, seed: int, soon: float
) -> None:
    """Readers of several jobs, cut at random while the agents work; nobody misses anything."""
    runtime = Runtime()
    read = asyncio.Event()

    @runtime.agent("work")
    async def work(input: Any, job: JobContext) -> None:
        for n in range(events):
            if n == events // 3:
                await read.wait()
            await job.log(f"{n} ".ljust(100, "."))
            if n % 20 == 0:
                await asyncio.sleep(0.01)

    async with runtime, Client(runtime) as client, SERVERS[server](application(client)) as base:
        host, _, port = base.removeprefix("http://").partition(":")
        begun = [await client.submit("work") for _ in range(jobs)]
        browsers = [
            Reader(host, int(port), f"/jobs/{begun[n % jobs].id}", random.Random(f"{seed} {n}"))
            for n in range(readers)
        ]
        following = [
            asyncio.create_task(browser.follow(cuts=browser.luck.randint(0, 6)))
            for browser in browsers
        ]
        async with asyncio.timeout(soon):
            while sum(browser.connections > 1 for browser in browsers) < readers // 2:
                await asyncio.sleep(0.05)
            read.set()
            timelines = await asyncio.gather(*following)
        lost = repeated = disordered = 0
        for timeline in timelines:
            assert timeline.end == "success"
            assert timeline.resets == ["start"]
            told = [
                int(each["message"].split()[0])
                for each in timeline.events
                if "message" in each and each["kind"] == "log"
            ]
            lost += len(set(range(events)) - set(told))
            repeated += len(told) - len(set(told))
            disordered += told != sorted(told)
            assert timeline.numbers == list(range(1, timeline.numbers[-1] + 1))
        connections = sum(browser.connections for browser in browsers)
        assert connections > readers * 2
        print(
            f"{server}: {readers} readers, {connections} connections,"
            f" {sum(len(timeline.numbers) for timeline in timelines)} events:"
            f" {lost} lost, {repeated} repeated, {disordered} disordered"
        )
        assert (lost, repeated, disordered) == (0, 0, 0)
        async with asyncio.timeout(soon):
            while len(client._parts.streams):  # what a reader held is free again
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("server", SERVERS)
async def test_readers_that_are_cut_at_random_miss_repeat_and_reorder_nothing(server: str) -> None:
    await storm(server, readers=60, jobs=3, events=600, seed=1, soon=SOON)


@pytest.mark.slow
@pytest.mark.timeout(560)
@pytest.mark.parametrize("server", SERVERS)
async def test_many_readers_of_many_jobs_that_are_cut_at_random_miss_repeat_and_reorder_nothing(
    server: str,
) -> None:
    await storm(server, readers=MANY, jobs=20, events=600, seed=2, soon=500.0)
