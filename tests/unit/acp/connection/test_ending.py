"""The end of an agent and of a client: its order, and how long it may take."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from arcp_client._deadline import SLACK
from arcp_client._tasks import cancel_and_wait
from arcp_client.acp import AcpClient, AcpLimits, LocalTerminals, updates
from arcp_client.errors import LinkLost
from arcp_client.testing import VirtualClock
from tests.unit.acp.kit import chunk, connected, opened, settled, words


async def test_the_end_is_told_when_everything_before_it_was_handled() -> None:
    """Rule A3."""
    async with connected() as (agent, client):
        seen: list[str] = []
        for name in ("s1", "s2"):
            session = await opened(agent, client, name)

            @session.on(updates.AgentMessageChunk)
            async def handle(update: Any) -> None:
                for _ in range(10):
                    await asyncio.sleep(0)
                seen.append(words(update))

        client.on_closed(lambda why: seen.append(type(why).__name__))

        async def wait() -> None:
            await client.wait_closed()
            seen.append("waited")

        waiting = asyncio.ensure_future(wait())
        prompting = asyncio.ensure_future(client.session("s1").prompt("go"))
        await agent.next("session/prompt")
        await agent.send(chunk(0), chunk(1), chunk(2, "s2"))
        await agent.far.close()
        with pytest.raises(LinkLost):
            await prompting
        assert "LinkLost" not in seen  # what waits for the agent fails at once
        await waiting
        assert seen[-2:] == ["LinkLost", "waited"]
        assert sorted(seen[:-2]) == ["0", "1", "2"]


async def test_a_handler_that_waits_for_the_end_does_not_wait_for_itself() -> None:
    """Rule A3."""
    async with connected() as (agent, client):
        session = await opened(agent, client)
        ends: list[LinkLost | None] = []

        @session.on(updates.AgentMessageChunk)
        async def handle(update: Any) -> None:
            ends.append(await client.wait_closed())

        await agent.send(chunk(0))
        await agent.far.close()
        assert isinstance(await client.wait_closed(), LinkLost)
        assert isinstance(ends[0], LinkLost)


async def test_a_client_that_is_closed_before_all_was_handled_still_tells_how_the_agent_ended() -> (
    None
):
    async with connected() as (agent, client):
        session = await opened(agent, client)
        told: list[LinkLost | None] = []
        client.on_closed(told.append)
        session.subscribe(lambda _: asyncio.Event().wait(), updates.Update)
        await agent.send(chunk(0))
        await agent.far.close()
        await settled()
        assert told == []
        await client.close(drain=0)
        assert len(told) == 1
        assert isinstance(told[0], LinkLost)
        assert await client.wait_closed() is told[0]


async def test_a_close_here_tells_none_once() -> None:
    async with connected() as (agent, client):
        await opened(agent, client)
        told: list[LinkLost | None] = []
        client.on_closed(told.append)
        await client.close()
        await client.close()
        assert told == [None]
        assert await client.wait_closed() is None


# ----------------------------------------------------------------------------- how long it takes


@pytest.fixture
async def stubborn() -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Tasks that swallow their cancellation until the test lets them end."""
    tasks: list[asyncio.Task[Any]] = []
    yield tasks
    await cancel_and_wait(tasks)


class Holding:
    """A function that goes on, however often it is cancelled, until it is let go."""

    def __init__(self, tasks: list[asyncio.Task[Any]]) -> None:
        self.tasks = tasks
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()

    async def __call__(self, *_: Any) -> Any:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        self.begun.set()
        while not self.gate.is_set():
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                continue


@pytest.mark.parametrize("timeout", [0.0, 0.2, 1.0, 5.0])
@pytest.mark.parametrize("where", ["permission", "request", "handler", "terminals"])
async def test_a_close_ends_at_its_deadline_whatever_goes_on(
    clock: VirtualClock,
    timeout: float,
    where: str,
    stubborn: list[asyncio.Task[Any]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Rule A6."""
    hold = Holding(stubborn)
    terminals = LocalTerminals()
    options: dict[str, Any] = {"on_permission": hold} if where == "permission" else {}
    if where == "terminals":
        terminals.close = hold  # type: ignore[method-assign]
        options["terminal"] = terminals
    async with connected(**options) as (agent, client):
        session = await opened(agent, client)
        if where == "permission":
            call = {"toolCallId": "t"}
            params = {"sessionId": "s1", "toolCall": call, "options": []}
            await agent.send(agent.request("session/request_permission", **params))
        elif where == "request":
            client.on_request("x/hold")(hold)
            await agent.send(agent.request("x/hold"))
        elif where == "handler":
            session.subscribe(hold, updates.Update)
            await agent.send(chunk(0))
        if where != "terminals":
            await hold.begun.wait()
        before = clock.time()
        await client.close(timeout=timeout)
        assert clock.time() - before <= timeout + SLACK
        hold.gate.set()
        await clock.settle()
        if where != "handler":
            assert "ignored their cancellation" in caplog.text or "did not close" in caplog.text


async def test_a_close_of_what_ends_in_time_leaves_nothing_behind() -> None:
    async with connected(on_permission=lambda _: asyncio.Event().wait()) as (agent, client):
        session = await opened(agent, client)
        session.subscribe(lambda _: asyncio.Event().wait(), updates.Update)
        params = {"sessionId": "s1", "toolCall": {"toolCallId": "t"}, "options": []}
        await agent.send(agent.request("session/request_permission", **params), chunk(0))
        await settled()
        await client.close(timeout=0)


# ----------------------------------------------------------------------------- what it ends


STARTS = """
import json, os, subprocess, sys
group = subprocess.Popen(["sleep", "1000"])
away = subprocess.Popen(["sleep", "1000"], start_new_session=True)
for line in sys.stdin:
    call = json.loads(line)
    result = {"protocolVersion": 1, "_meta": {"group": group.pid, "away": away.pid}}
    print(json.dumps({"id": call["id"], "result": result}), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no process groups")
async def test_closing_ends_the_process_group_and_not_what_has_left_it() -> None:
    """Rule A5."""
    client = AcpClient([sys.executable, "-c", STARTS], limits=AcpLimits(close=2))
    async with client:
        pids = client._connection.agent.meta  # type: ignore[union-attr]
        assert pids is not None
    try:
        assert not _runs(pids["group"])
        assert _runs(pids["away"])
    finally:
        os.kill(pids["away"], signal.SIGKILL)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
