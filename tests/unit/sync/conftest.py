"""A blocking client connected to an embedded runtime, both in the loop thread of one portal."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from arcp_client.sync import Client, JobContext, Portal, Runtime


class Gate:
    """What agents wait for until a test opens it, from its own thread."""

    def __init__(self, portal: Portal) -> None:
        self._portal = portal
        self._open = asyncio.Event()

    def open(self) -> None:
        self._portal.call(self._open.set)

    async def wait(self) -> None:
        await self._open.wait()


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Ctrl-C interrupts, also where the tests run as a background job, whose SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def portal() -> Iterator[Portal]:
    with Portal() as portal:
        yield portal


@pytest.fixture
def gate(portal: Portal) -> Gate:
    return Gate(portal)


@pytest.fixture
def runtime(portal: Portal, gate: Gate) -> Iterator[Runtime]:
    runtime = Runtime(name="unit")

    @runtime.agent("echo", version="1.0.0")
    async def echo(input: Any, job: JobContext) -> Any:
        return input

    @runtime.agent("say")
    async def say(input: Any, job: JobContext) -> Any:
        for number in range(input):
            await job.progress(number, total=input)
        return input

    @runtime.agent("gated")
    async def gated(input: Any, job: JobContext) -> Any:
        await job.log("before")
        await gate.wait()
        await job.log("after")
        return input

    @runtime.agent("stuck")
    async def stuck(input: Any, job: JobContext) -> Any:
        await job.status("stuck")
        await job.cancelled.wait()

    @runtime.agent("fail")
    async def fail(input: Any, job: JobContext) -> Any:
        raise RuntimeError("boom")

    @runtime.agent("text")
    async def text(input: Any, job: JobContext) -> Any:
        for part in input:
            yield part

    yield runtime
    portal.run(runtime.close)


@pytest.fixture
def client(portal: Portal, runtime: Runtime) -> Iterator[Client]:
    with Client(runtime, portal=portal) as client:
        yield client


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Fail a test that leaves a thread of the package behind."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("arcp_client"):
            thread.join(5)
            assert not thread.is_alive(), thread
