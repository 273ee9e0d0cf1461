"""A PostgreSQL server for the tests of replicas, and replicas in this process."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from arcp_client.runtime import JobContext, Runtime
from arcp_client.runtime._log.postgres import PostgresEventLog
from tests.postgres import Cluster
from tests.unit.runtime.peer import Peer

MakeReplica = Callable[..., Runtime]
OpenPeer = Callable[..., Any]

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A server, which the tests of a module share."""
    made = Cluster(Cluster.make_folder()).create()
    yield made
    made.remove()


@pytest.fixture
def schema() -> str:
    """A schema that no other test of the module uses."""
    return f"test_{next(_numbers)}"


class Gate:
    """Lets the agents of a test go on, one event at a time."""

    def __init__(self) -> None:
        self._steps: asyncio.Queue[int] = asyncio.Queue()

    def emit(self, count: int) -> None:
        """Let the agent emit events; 0 lets it return."""
        self._steps.put_nowait(count)

    async def next(self) -> int:
        return await self._steps.get()


def with_agents(runtime: Runtime, gates: dict[Any, Gate]) -> Runtime:
    """Register the agents of these tests."""

    @runtime.agent("count")
    async def count(input: Any, job: JobContext) -> Any:
        for n in range(input):
            await job.progress(n + 1, input)
        return input

    @runtime.agent("gated")
    async def gated(input: Any, job: JobContext) -> Any:
        gate = gates.setdefault(input, Gate())
        sent = 0
        while count := await gate.next():
            for _ in range(count):
                sent += 1
                await job.progress(sent, 1_000_000)
        return sent

    @runtime.agent("parent")
    async def parent(input: Any, job: JobContext) -> Any:
        child = await job.delegate("gated", input)
        return await child.result()

    @runtime.agent("delegating")
    async def delegating(input: Any, job: JobContext) -> Any:
        await gates.setdefault("delegating", Gate()).next()
        return await (await job.delegate("count", input)).result()

    return runtime


@pytest.fixture
def gates() -> dict[Any, Gate]:
    """The gates of the agents, by input."""
    return {}


@pytest.fixture
async def replica(
    cluster: Cluster, schema: str, gates: dict[Any, Gate]
) -> AsyncIterator[MakeReplica]:
    """Makes replicas of one runtime, which are closed after the test."""
    made: list[Runtime] = []

    def build(lease: float = 10.0, name: str | None = None, **options: Any) -> Runtime:
        log = PostgresEventLog(cluster.dsn, lease=lease, schema=schema, replica=name)
        made.append(with_agents(Runtime(event_log=log, **options), gates))
        return made[-1]

    yield build
    for runtime in made:
        await runtime.close()


@pytest.fixture
async def peer() -> AsyncIterator[OpenPeer]:
    """Opens peers that are closed after the test."""
    opened: list[Peer] = []

    async def build(target: Any, **hello: Any) -> Peer:
        made = await Peer.to(target)
        opened.append(made)
        await made.hello(**hello)
        return made

    yield build
    for each in opened:
        await each.close()
