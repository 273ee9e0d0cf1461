"""A runtime lives in one event loop: what another one asks of it is refused, nothing is torn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from arcp_client import Client, JobContext, Runtime
from arcp_client.errors import ConnectFailed, LocalProtocolError

VERBS: dict[str, Callable[[JobContext], Any]] = {
    "log": lambda job: job.log("a"),
    "status": lambda job: job.status("a"),
    "metric": lambda job: job.metric("a", 1),
    "progress": lambda job: job.progress(1),
    "emit": lambda job: job.emit("x-vendor.a", {}),
    "emit a metric": lambda job: job.emit("metric", {"name": "a", "value": 1}),
    "chunk": lambda job: job.chunk("a"),
    "tool_call": lambda job: job.tool_call("a"),
    "delegate": lambda job: job.delegate("child"),
}


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
async def test_an_agent_cannot_emit_from_the_loop_of_another_thread(
    verb: Callable[[JobContext], Any],
) -> None:
    async with Runtime() as runtime, Client(runtime) as client:

        @runtime.agent("strays")
        async def strays(input: Any, job: JobContext) -> str:
            async def elsewhere() -> None:
                await verb(job)

            with pytest.raises(LocalProtocolError, match="another event loop"):
                await asyncio.to_thread(asyncio.run, elsewhere())
            with pytest.raises(LocalProtocolError, match="another event loop"):
                await asyncio.to_thread(job.authorize, "fs.read", "/a")
            await job.log("here")
            return "unharmed"

        job = await client.submit("strays")
        assert (await job.result()).value == "unharmed"
        assert [event.kind async for event in job] == ["log", "result"]


async def test_a_client_in_another_loop_is_turned_away() -> None:
    async with Runtime() as runtime, Client(runtime) as client:

        async def elsewhere() -> None:
            with pytest.raises((ConnectFailed, LocalProtocolError), match="another event loop"):
                await Client(runtime).connect()
            with pytest.raises(LocalProtocolError, match="another event loop"):
                await runtime.close()

        await asyncio.to_thread(asyncio.run, elsewhere())
        await client.ping()


def test_when_its_loop_is_gone_a_runtime_lives_in_the_next_one() -> None:
    runtime = Runtime()

    @runtime.agent("echo")
    async def echo(input: Any, job: JobContext) -> Any:
        return input

    async def once() -> Any:
        async with Client(runtime) as client:
            return (await (await client.submit("echo", 1)).result()).value

    assert asyncio.run(once()) == 1
    assert asyncio.run(once()) == 1
