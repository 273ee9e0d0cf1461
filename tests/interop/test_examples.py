"""The reference package's own example servers, each driven by this client.

They are run from the unpacked source distribution, which pip downloads. What they need beyond the
package is among the development dependencies.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import runpy
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tenacity import wait_fixed

from arcp_client import (
    Client,
    Gap,
    Job,
    Reconnect,
    StdioConnector,
    Timeouts,
    WebSocketConnector,
    events,
)
from arcp_client.errors import (
    AgentVersionNotFound,
    ConnectFailed,
    DuplicateKey,
    JobCancelled,
    LeaseExpired,
    PermissionDenied,
    Unauthenticated,
    UnknownCode,
)
from arcp_client.testing import FaultyProxy
from tests.interop import sdist
from tests.interop.kit import all_of, kinds, numbers

pytestmark = [
    pytest.mark.timeout(180 + sdist.PATIENCE),  # the first run downloads
    pytest.mark.usefixtures("forked"),
]

AT_A_TIME = 8

REPAIRED = {"host_asgi": Path(__file__).with_name("example_asgi.py")}
"""Programs that run an example which nobody can connect to as it stands."""


@pytest.fixture(scope="module")
def examples(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the examples."""
    return sdist.examples(pytestconfig, tmp_path_factory.mktemp("reference"))


@dataclass(frozen=True)
class Example:
    """One example server that runs."""

    folder: Path
    url: str

    @contextlib.asynccontextmanager
    async def client(self, token: str = "demo-token", **options: Any) -> AsyncIterator[Client]:
        """A client of it."""
        target, patience = options.pop("target", self.url), options.pop("open", 40.0)
        async with Client(
            target,
            token=token,
            timeouts=Timeouts(open=patience, request=20, close=2),
            reconnect=Reconnect(wait=wait_fixed(0.1)),
            **options,
        ) as client:
            yield client


async def value_of(job: Job) -> Any:
    return (await job.result()).value


# ------------------------------------------------------------------ what is done with each


async def ack_backpressure(example: Example) -> None:
    pressed = asyncio.Event()
    async with example.client() as client:

        @client.on(events.Log)
        async def slow(event: events.Log) -> None:
            await pressed.wait()  # unprocessed events are not acknowledged

        @client.on(events.Status)
        async def watch(event: events.Status) -> None:
            if event.phase == "back_pressure":
                pressed.set()

        job = await client.submit("chatty", {})
        assert await value_of(job) == {"emitted": 200, "lagged": True}
        assert client.stats().gaps == 0


async def agent_versions(example: Example) -> None:
    async with example.client() as client:
        (agent,) = client.session.agents
        assert agent.versions == ("1.0.0", "1.2.3")
        for name in ("summarize", "summarize@1.2.3"):
            assert await value_of(await client.submit(name, {"x": "hi"}))
        with pytest.raises(AgentVersionNotFound):
            await client.submit("summarize@9.9.9", {"x": "?"})


async def cancel(example: Example) -> None:
    async with example.client() as client:
        job = await client.submit("patient", {})
        await anext(aiter(job))
        await job.cancel("demo.cancel")
        with pytest.raises(JobCancelled):
            await job.result()


async def cost_budget(example: Example) -> None:
    async with example.client() as client:
        job = await client.submit("caller", lease={"cost.budget": ["USD:1.00"]})
        (told,) = [e.error for e in await all_of(job) if isinstance(e, events.ToolResult)]
        # It means to spend until the budget is gone, and is denied its first call: its own
        # reading of the lease takes "USD" for a pattern. Its own client fails here.
        assert told["code"] == "PERMISSION_DENIED"
        assert job.budget == {"USD": Decimal("1.00")}
        assert await value_of(job) == {"completed": 0, "exhausted": True}


async def custom_auth(example: Example) -> None:
    make_token = runpy.run_path(str(example.folder / "server.py"))["make_token"]
    async with example.client(make_token("alice")) as client:
        assert await value_of(await client.submit("echo", {})) == {"hello": "alice"}
    # Its verifier trips over such a token, and that is an internal error, worth another try.
    with pytest.raises((Unauthenticated, UnknownCode)):
        async with example.client("not.a.valid.token", open=0.5):
            pass


async def delegate(example: Example) -> None:
    async with example.client() as client:
        job = await client.submit("parent", {"start": True})
        seen = await all_of(job)
        assert [e.agent for e in seen if isinstance(e, events.Delegate)] == ["child"]
        value = await value_of(job)
        assert value["parent_trace"] == value["child_trace"] == job.trace_id


async def heartbeat(example: Example) -> None:
    async with example.client() as client:
        assert client.session.heartbeat_interval == 5
        await (await client.submit("long", {})).result()
        assert client.stats().reconnects == 0


async def host(example: Example) -> None:
    async with example.client() as client:
        assert await value_of(await client.submit("echo", {"k": 1})) == {"echoed": {"k": 1}}


async def idempotent_retry(example: Example) -> None:
    async with example.client() as client:
        first = await client.submit("a", {"x": 1}, idempotency_key="k")
        await first.result()
        assert (await client.submit("a", {"x": 1}, idempotency_key="k")).id == first.id
        with pytest.raises(DuplicateKey):
            await client.submit("b", {"x": 1}, idempotency_key="k")


async def lease_expires_at(example: Example) -> None:
    async with example.client() as client:
        job = await client.submit("slow", expires_at=datetime.now(UTC) + timedelta(seconds=1))
        with pytest.raises(LeaseExpired):
            await job.result()


async def lease_violation(example: Example) -> None:
    async with example.client() as client:
        job = await client.submit("cautious", {}, lease={"fs.read": ["/tmp/*"]})
        errors = [e.error for e in await all_of(job) if isinstance(e, events.ToolResult)]
        assert any(error and error.get("code") == "PERMISSION_DENIED" for error in errors)
        await job.result()


async def list_jobs(example: Example) -> None:
    async with example.client() as client:
        jobs = [await client.submit("hold", {}) for _ in range(3)]
        running = [job.job_id async for job in client.jobs(status=["running"])]
        assert sorted(running) == sorted(job.id for job in jobs)


async def progress(example: Example) -> None:
    async with example.client() as client:
        job = await client.submit("report", {"steps": 10})
        assert numbers(await all_of(job)) == list(range(1, 11))
        await job.result()


async def provisioned_credentials(example: Example) -> None:
    async with example.client() as client:
        lease = {"model.use": ["tier-fast/*"], "cost.budget": ["USD:1.00"]}
        job = await client.submit("model-user", {"model": "tier-fast/demo"}, lease=lease)
        (credential,) = job.credentials.values()
        assert credential.value.get_secret_value()
        assert await value_of(job) == {"model": "tier-fast/demo", "credential_count": 1}


async def result_chunk(example: Example) -> None:
    async with example.client() as client:
        job = await client.submit("report-builder", {"chunks": 30})
        result = await job.result()
        assert result.size is not None
        assert len(result.value if isinstance(result.value, bytes) else result.value.encode()) == (
            result.size
        )


async def resume(example: Example) -> None:
    async with (
        FaultyProxy(example.url) as proxy,
        example.client(target=proxy.url) as client,
    ):
        job = await client.submit("slow", {})
        feed = aiter(job)
        for _ in range(2):
            await anext(feed)
        await proxy.cut()
        seen = await all_of(job)
        assert await value_of(job) == {"steps": 10}
        assert client.resumed
        # What its runtime sends nowhere after the drop is said to be lost.
        assert sum(isinstance(event, Gap) for event in seen) == 1


async def stdio(example: Example) -> None:
    server = StdioConnector([sys.executable, str(example.folder / "server.py")])
    async with example.client(target=server) as client:
        job = await client.submit("echo", {"hello": "stdio"})
        assert kinds(await all_of(job)) == ["log", "result"]
        assert await value_of(job) == {"echoed": {"hello": "stdio"}}


async def submit_and_stream(example: Example) -> None:
    async with example.client() as client:
        job = await client.submit("echo", {"hello": "world"})
        assert len(await all_of(job)) >= 7
        await job.result()


async def subscribe(example: Example) -> None:
    async with example.client() as owner, example.client("demo-token-b") as observer:
        job = await owner.submit("slow", {})
        await anext(aiter(job))
        assert job.id in [found.job_id async for found in observer.jobs(status=["running"])]
        view = await observer.watch(job.id, history=True)
        with contextlib.suppress(PermissionDenied):  # it is refused by being passed over
            await observer.cancel_job(job.id, "subscriber.cancel")
        assert kinds(await all_of(view)) == ["log"] * 20 + ["result"]
        assert await value_of(job) == {"steps": 20}


async def vendor_extensions(example: Example) -> None:
    async with example.client() as client:
        job = await client.submit("vendor", {}, lease={"x-vendor.acme.metrics": ["*"]})
        seen = await all_of(job)
        bodies = [event.body for event in seen if isinstance(event, events.Unknown)]
        assert bodies == [{"i": n, "total": 3} for n in (1, 2, 3)]
        assert await value_of(job) == {"vendor": True}


DRIVERS: Mapping[str, Callable[[Example], Awaitable[None]]] = {
    # The one that takes longest comes first.
    "heartbeat": heartbeat,
    "subscribe": subscribe,
    "resume": resume,
    "ack_backpressure": ack_backpressure,
    "agent_versions": agent_versions,
    "cancel": cancel,
    "cost_budget": cost_budget,
    "custom_auth": custom_auth,
    "delegate": delegate,
    "host_aiohttp": host,
    "host_asgi": host,
    "host_tracing": host,
    "idempotent_retry": idempotent_retry,
    "lease_expires_at": lease_expires_at,
    "lease_violation": lease_violation,
    "list_jobs": list_jobs,
    "progress": progress,
    "provisioned_credentials": provisioned_credentials,
    "result_chunk": result_chunk,
    "stdio": stdio,
    "submit_and_stream": submit_and_stream,
    "vendor_extensions": vendor_extensions,
}


# ------------------------------------------------------------------ running them


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def running(folder: Path, program: Path | str = "server.py") -> AsyncIterator[Example]:
    """The server of one example."""
    if folder.name == "stdio":
        yield Example(folder, "")
        return
    process, port = await started(folder, program)
    try:
        yield Example(folder, f"ws://127.0.0.1:{port}/arcp")
    finally:
        process.kill()
        await process.communicate()


async def started(folder: Path, program: Path | str) -> tuple[asyncio.subprocess.Process, int]:
    """The server of an example that listens; another port if a process took the free one."""
    for _ in range(5):
        port = free_port()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(program),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, "ARCP_DEMO_PORT": str(port), "PYTHONUNBUFFERED": "1"},
        )
        assert process.stdout is not None
        if b"listening" in await process.stdout.readline():
            return process, port
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()
    raise AssertionError(f"{folder.name}: its server does not listen")


async def drive(examples: Path, name: str, gate: asyncio.Semaphore) -> str:
    """Drive one example; what came of it."""
    try:
        program = REPAIRED.get(name, "server.py")
        async with gate, running(examples / name, program) as example:
            await DRIVERS[name](example)
    except (Exception, pytest.fail.Exception) as error:
        return f"{type(error).__name__}: {error}"
    return "ok"


def test_every_example_has_a_driver(examples: Path) -> None:
    folders = {path.parent.name for path in examples.glob("*/server.py")}
    assert folders == set(DRIVERS)
    assert len(folders) == 22


@pytest.mark.parametrize("name", REPAIRED)
async def test_an_example_that_is_repaired_answers_nobody_as_it_stands(
    examples: Path, name: str
) -> None:
    async with running(examples / name) as example:
        while True:
            with pytest.raises(ConnectFailed) as failed:
                await WebSocketConnector(example.url).connect()
            if "HTTP" in str(failed.value):  # else it does not listen yet, though it says so
                break
    assert "HTTP 500" in str(failed.value)


async def test_the_reference_examples_are_driven(
    examples: Path, record_property: Callable[[str, object], None]
) -> None:
    gate = asyncio.Semaphore(AT_A_TIME)
    outcomes = await asyncio.gather(*(drive(examples, name, gate) for name in DRIVERS))
    came = dict(zip(DRIVERS, outcomes, strict=True))
    misses = {name: why for name, why in came.items() if why != "ok"}
    record_property("reference examples driven", f"{len(came) - len(misses)} of {len(came)}")
    assert misses == {}
