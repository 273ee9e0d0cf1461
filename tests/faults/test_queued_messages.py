"""Messages that wait for their agent while the runtime is killed are returned, never lost (X19)."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tenacity import wait_fixed

from arcp_client import Client, Reconnect, errors, events
from tests.e2e.shell import free_port

pytestmark = pytest.mark.usefixtures("forked")

CHILD = Path(__file__).with_name("listening_child.py")


@contextlib.asynccontextmanager
async def runtime(port: int, path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A runtime in a process of its own; it is killed at the end of the block."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(CHILD), str(port), str(path), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        assert await child.stdout.readline() == b"ready\n"
        yield child
    finally:
        child.kill()
        await child.wait()


async def test_messages_that_were_not_taken_are_returned_after_a_kill_and_can_be_sent_again(
    tmp_path: Path,
) -> None:
    port, path = free_port(), tmp_path / "runtime.db"
    seen: dict[str, list[str]] = {"Sent": [], "Consumed": [], "Returned": []}
    consumed = asyncio.Event()
    url = f"ws://127.0.0.1:{port}/arcp"
    async with contextlib.AsyncExitStack() as stack:
        async with runtime(port, path):
            reconnect = Reconnect(wait=wait_fixed(0.05))
            client = await stack.enter_async_context(Client(url, reconnect=reconnect))

            @client.on(events.Sent, events.Consumed, events.Returned)
            async def note(event: events.Sent | events.Consumed | events.Returned) -> None:
                seen[type(event).__name__].append(event.message_id)
                if isinstance(event, events.Consumed):
                    consumed.set()

            job = await client.submit("listens", {"take": 2, "wait": True}, work_id="w")
            for n in range(6):
                await job.send(n, mode="queue", message_id=f"m{n}")
            while len(seen["Consumed"]) < 2:
                consumed.clear()
                await consumed.wait()

        async with runtime(port, path):
            with pytest.raises(errors.JobFailed) as lost:
                await job.result()
            assert lost.value.retryable
            assert seen["Consumed"] == ["m0", "m1"]
            assert seen["Returned"] == ["m2", "m3", "m4", "m5"]
            assert seen["Sent"] == seen["Consumed"] + seen["Returned"]

            again = await client.submit("listens", {"take": 4, "wait": False}, work_id="w")
            for message_id in tuple(seen["Returned"]):
                await again.send(int(message_id[1:]), mode="queue", message_id=message_id)
            assert (await again.result()).value == [2, 3, 4, 5]
            assert seen["Consumed"] == [f"m{n}" for n in range(6)]
