"""The services of examples/browsers stream jobs to browsers that reconnect, and end at once."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from arcp_client import Client, JobContext, Runtime
from tests.unit.web.kit import Parser, Timeline

pytestmark = pytest.mark.usefixtures("forked")

EXAMPLES = Path(__file__).parents[3] / "examples" / "browsers"
SOON = 60.0
LINES = 2000

UVICORN = ["-m", "uvicorn", "--port", "{port}", "--log-level", "warning"]
HYPERCORN = ["-m", "hypercorn", "-w", "0", "-b", "127.0.0.1:{port}"]
SERVICES = {
    "aiohttp": ["with_aiohttp.py"],
    "fastapi-uvicorn": [*UVICORN, "with_fastapi:app"],
    "fastapi-hypercorn": [*HYPERCORN, "with_fastapi:app"],
    "django-uvicorn": [*UVICORN, "with_django:app"],
    "litestar-uvicorn": [*UVICORN, "with_litestar:app"],
    "quart-hypercorn": [*HYPERCORN, "with_quart:app"],
}
MOUNTED = {"mounted-uvicorn": [*UVICORN, "mounted:app"]}
COMPLETE = {"complete-uvicorn": [*UVICORN, "complete_fastapi:app"]}


def test_the_service_on_fastapi_is_short() -> None:
    lines = (EXAMPLES / "with_fastapi.py").read_text().splitlines()
    assert sum(bool(line.strip()) for line in lines) <= 25


@pytest.fixture(params=SERVICES)
def service(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if not all(find_spec(module) for module in name.split("-")):
        pytest.skip(f"{name} is not installed")
    return name


class World:
    """A runtime whose agent says a line each time that it is let, and a service in front of it."""

    def __init__(
        self,
        base: str,
        url: str,
        process: asyncio.subprocess.Process,
        gate: asyncio.Event,
        again: Callable[[], Awaitable[asyncio.subprocess.Process]],
    ) -> None:
        self.base = base
        self.url = url
        self.process = process
        self.again = again
        self.gate = gate
        self.parser = Parser()
        self.timeline = Timeline()

    async def read(self, response: aiohttp.ClientResponse, events: int | None = None) -> None:
        """Read up to the end of a stream, or until the page has so many events."""
        self.parser.cut()
        while piece := await response.content.readany():
            for frame in self.parser.feed(piece):
                self.timeline.take(frame)
            if events is not None and len(self.timeline.numbers) >= events:
                return


@asynccontextmanager
async def world(service: str) -> AsyncIterator[World]:
    gate = asyncio.Event()
    runtime = Runtime(auth={"ann": "ann", "bob": "bob"} if service in COMPLETE else None)

    @runtime.agent("say")
    async def say(input: Any, job: JobContext) -> None:
        for n in range(LINES):
            await job.log(f"{n}")
            if n == LINES // 2:
                await gate.wait()

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [word.format(port=port) for word in (SERVICES | MOUNTED | COMPLETE)[service]]
    async with runtime, runtime.serve() as server:
        env = os.environ | {"ARCP_URL": server.url, "ARCP_TOKEN": "ann", "PORT": str(port)}

        async def start() -> asyncio.subprocess.Process:
            return await asyncio.create_subprocess_exec(
                sys.executable, *argv, cwd=EXAMPLES, env=env, stdin=asyncio.subprocess.DEVNULL
            )

        found = World(f"http://127.0.0.1:{port}", server.url, await start(), gate, start)
        try:
            yield found
        finally:
            if found.process.returncode is None:
                found.process.kill()
            await found.process.wait()


async def submitted(http: aiohttp.ClientSession, base: str) -> str:
    while True:
        try:
            async with http.post(f"{base}/jobs?agent=say") as response:
                assert response.status in (200, 201), await response.text()
                return (await response.text()).strip().strip('"')
        except aiohttp.ClientConnectionError:  # it has not started yet
            await asyncio.sleep(0.05)


async def test_the_complete_service_starts_one_job_for_a_key_and_answers_each_refusal() -> None:
    if not all(find_spec(module) for module in ("fastapi", "uvicorn")):
        pytest.skip("fastapi or uvicorn is not installed")
    async with (
        asyncio.timeout(SOON),
        world("complete-uvicorn") as found,
        aiohttp.ClientSession(found.base) as http,
    ):
        await submitted(http, found.base)
        ids = set()
        for _ in range(2):
            headers = {"Idempotency-Key": "order-1"}
            async with http.post("/jobs?agent=say", json={"to": 3}, headers=headers) as response:
                ids.add(await response.text())
        assert len(ids) == 1
        async with http.get("/jobs/job_unknown") as response:
            assert response.status == 404
        async with http.post("/jobs?agent=missing") as response:
            assert response.status == 400
            assert "missing" in (await response.json())["detail"]
        headers = {"Idempotency-Key": "order-1"}
        async with http.post("/jobs?agent=say", json={"to": 4}, headers=headers) as response:
            assert response.status == 400
        async with Client(found.url, token="bob") as other:
            job = await other.submit("say")
            async with http.get(f"/jobs/{job.id}") as response:
                assert response.status == 403
            own = ids.pop().strip('"')
            async with http.get(f"/jobs/{own}") as response:
                assert response.status == 200
            await other.detach()


async def test_a_browser_reconnects_to_a_service_and_the_service_ends_with_its_streams_open(
    service: str,
) -> None:
    async with (
        asyncio.timeout(SOON),
        world(service) as found,
        aiohttp.ClientSession() as http,
    ):
        url = f"{found.base}/jobs/{await submitted(http, found.base)}"
        async with http.get(url) as response:
            assert response.status == 200
            assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            assert response.headers["Cache-Control"] == "no-store"
            assert response.headers["X-Accel-Buffering"] == "no"
            await found.read(response, events=LINES // 3)
        async with http.get(url, headers={"Last-Event-ID": found.parser.last}) as response:
            await found.read(response, events=LINES // 2)
            # The job has not ended. Without the end of the stream, the server would wait for it.
            found.process.send_signal(signal.SIGTERM)
            await found.read(response)
            assert found.timeline.end is None
        await found.process.wait()
        assert found.timeline.resets == ["start"]
        told = [each["message"] for each in found.timeline.events if each["kind"] == "log"]
        assert told == [f"{n}" for n in range(len(told))]
        assert len(told) >= LINES // 2
        if service != "fastapi-uvicorn":
            found.gate.set()
            return
        found.process = await found.again()  # another process, with the position of this one
        headers = {"Last-Event-ID": found.parser.last}
        while found.timeline.end is None:
            try:
                async with http.get(url, headers=headers) as response:
                    found.gate.set()
                    await found.read(response)
            except aiohttp.ClientConnectionError:  # it has not started yet
                await asyncio.sleep(0.05)
        assert found.timeline.resets == ["start"]
        told = [each["message"] for each in found.timeline.events if each["kind"] == "log"]
        assert told == [f"{n}" for n in range(LINES)]


async def test_a_runtime_and_its_dashboard_are_mounted_in_one_application() -> None:
    async with (
        asyncio.timeout(SOON),
        world("mounted-uvicorn") as found,
        aiohttp.ClientSession() as http,
    ):
        while True:
            try:
                async with http.get(f"{found.base}/dashboard/api/overview") as response:
                    assert (await response.json())["agents"][0]["name"] == "baker"
                break
            except aiohttp.ClientConnectionError:  # it has not started yet
                await asyncio.sleep(0.05)
        async with Client(found.base.replace("http", "ws") + "/arcp") as client:
            job = await client.submit("baker", 3)
            assert (await job.result()).value == "3 loaves"
            url = f"{found.base}/dashboard/api/overview/stream"
            async with http.get(url) as response:
                assert await response.content.readline() == b"retry: 1000\n"
                found.process.send_signal(signal.SIGTERM)
                await response.content.read()
            await client.detach()
        await found.process.wait()
