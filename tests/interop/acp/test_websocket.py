"""Agents of the npm SDK behind its own WebSocket server, in another process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from arcp_client import WebSocketConnector
from arcp_client.acp import AcpClient, AcpLimits, updates
from arcp_client.errors import ConnectFailed, LinkLost
from tests.interop.acp.conftest import NPM_SDK, npm_program

pytestmark = pytest.mark.timeout(120)

SECRET = "s3cr3t-of-the-test"


class Server:
    """A node process that serves one of the agents."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.url = f"ws://127.0.0.1:{port}/acp"

    async def order(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n".encode())
        await self._process.stdin.drain()


Serve = Callable[..., AbstractAsyncContextManager[Server]]


@pytest.fixture
def serve() -> Serve:
    if not (NPM_SDK.parents[1] / "ws").exists():
        pytest.skip("the npm package ws is not installed: `make npm` installs it")
    return served


@asynccontextmanager
async def served(name: str = "agent_npm.mjs", token: str = "") -> AsyncIterator[Server]:
    program = npm_program(name)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *program["argv"],
        env={**program["env"], "ACP_LISTEN": "1", "ACP_TOKEN": token},
        stdin=pipe,
        stdout=pipe,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            port = int(await process.stdout.readline())
        yield Server(process, port)
    finally:
        process.stdin.close()
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def texts_of(session: Any) -> list[str]:
    said: list[str] = []
    session.subscribe(lambda u: said.append(u.content.text), updates.AgentMessageChunk)
    return said


async def test_prompts_end_after_their_updates_in_order(serve: Serve) -> None:
    async with serve() as server, AcpClient(server.url) as agent:
        assert agent.protocol_version == 1
        assert agent.info is not None
        assert agent.info.name == "npm agent"
        session = await agent.new_session("/")
        said = texts_of(session)
        for number in range(50):
            assert (await session.prompt("five")).stop_reason == "end_turn"
            assert said == ["0", "1", "2", "3", "4"] * (number + 1)
        await session.load("/")
        assert said[-5:] == ["0", "1", "2", "3", "4"]


async def test_a_permission_is_asked_over_the_link(serve: Serve) -> None:
    asked: list[str] = []

    async def ask(request: Any) -> bool:
        asked.append(request.tool_call.title)
        return True

    async with serve() as server, AcpClient(server.url, on_permission=ask) as agent:
        session = await agent.new_session("/")
        said = texts_of(session)
        await session.prompt("ask")
        assert len(asked) == 1
        assert said


@pytest.mark.parametrize("versions", [(1, 2), (2, 1), (2,)])
async def test_an_agent_that_speaks_version_2_only(serve: Serve, versions: tuple[int, ...]) -> None:
    closed: list[Any] = []
    async with serve("agent_npm2.mjs") as server:
        client = AcpClient(server.url, versions=versions, on_permission=lambda _: True)
        client.on_closed(closed.append)
        async with client as agent:
            assert agent.protocol_version == 2
            assert closed == []
            session = await agent.new_session("/")
            said = texts_of(session)
            for number in range(5):
                assert (await session.prompt(f"prompt {number}")).stop_reason == "end_turn"
                assert said[-2:] == [f"prompt {number}", "selected"]
    assert closed == [None]


@pytest.mark.parametrize(("order", "code"), [("cut", 1006), ("close", 1005)])
async def test_a_lost_link_fails_pending_calls_with_its_reason(
    serve: Serve, order: str, code: int
) -> None:
    async with serve() as server, AcpClient(server.url) as agent:
        session = await agent.new_session("/")
        first = asyncio.Event()
        session.subscribe(lambda _: first.set(), updates.AgentMessageChunk)
        turn = asyncio.create_task(session.prompt("wait"))
        await first.wait()
        await server.order(order)
        with pytest.raises(LinkLost, match="127.0.0.1") as caught:
            await turn
        assert caught.value.close_code == code
        assert isinstance(await agent.wait_closed(), LinkLost)


async def test_a_new_client_goes_on_with_the_session(serve: Serve) -> None:
    async with serve() as server:
        async with AcpClient(server.url) as agent:
            session = await agent.new_session("/")
            await server.order("cut")
            await agent.wait_closed()
        async with AcpClient(server.url) as agent:
            again = agent.session(session.id)
            said = texts_of(again)
            await again.load("/")
            assert said == ["0", "1", "2", "3", "4"]


async def test_frames_that_are_no_messages_are_reported_and_skipped(serve: Serve) -> None:
    async with serve() as server, AcpClient(server.url) as agent:
        strange: list[Exception] = []
        three = asyncio.Event()

        @agent.on_strange
        def report(error: Exception) -> None:
            strange.append(error)
            if len(strange) == 3:
                three.set()

        await server.order("garbage")
        await three.wait()
        session = await agent.new_session("/")
        assert (await session.prompt("five")).stop_reason == "end_turn"


async def test_a_frame_over_the_limit_ends_the_link_and_names_the_limit(serve: Serve) -> None:
    limits = AcpLimits(max_line=50_000)
    async with serve() as server, AcpClient(server.url, limits=limits) as agent:
        await server.order("large")
        error = await agent.wait_closed()
        assert isinstance(error, LinkLost)
        assert error.close_code == 1009
        assert "50000 bytes" in str(error)


async def test_a_token_is_needed_and_never_shown(serve: Serve) -> None:
    async with serve(token=SECRET) as server:
        async with AcpClient(server.url, token=SECRET) as agent:
            assert SECRET not in repr(agent)
        headers = {"Authorization": f"Bearer {SECRET}"}
        async with AcpClient(WebSocketConnector(server.url, headers=headers)) as agent:
            assert agent.protocol_version == 1
        for token in (None, f"{SECRET}-old"):
            with pytest.raises(ConnectFailed, match="401.*token") as caught:
                await AcpClient(f"{server.url}?key={SECRET}", token=token).connect()
            assert caught.value.permanent
            assert SECRET not in str(caught.value)


async def test_refused_upgrades_say_what_to_check(serve: Serve) -> None:
    async with serve() as server:
        with pytest.raises(ConnectFailed, match="404.*check port and path") as caught:
            await AcpClient(f"{server.url}/other").connect()
        assert caught.value.permanent
        url = server.url
    with pytest.raises(ConnectFailed, match="127.0.0.1") as caught:
        await AcpClient(url).connect()
    assert not caught.value.permanent
