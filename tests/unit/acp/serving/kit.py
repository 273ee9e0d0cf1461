"""Editors that come and go, before an agent of a runtime that stays."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from arcp_client import Client, Runtime
from arcp_client.acp import AcpClient, AcpSession, host, serve, updates
from arcp_client.transports import MemoryTransport, memory_pair
from tests.unit.acp.kit import EVERYTHING, FakeAgent

Turn = Callable[["Talker", str], Awaitable[str]]


class Talker(FakeAgent):
    """A hosted agent that answers any number of prompts; ``turn`` returns the stop reason."""

    def __init__(self, turn: Turn) -> None:
        super().__init__()
        self._turn = turn
        self.calls: list[str] = []

    async def serve(self) -> None:
        offers = {"protocolVersion": 1, "agentCapabilities": EVERYTHING}
        offers["agentInfo"] = {"name": "talker", "version": "7"}
        await self.result(await self.next("initialize"), offers)
        while True:
            call = await self.next()
            self.calls.append(call.get("method", ""))
            match call.get("method"):
                case "session/new":
                    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "A"}]}
                    await self.result(call, {"sessionId": "s1", "modes": modes})
                case "session/prompt":
                    words = call["params"]["prompt"][0]["text"]
                    reason = await self._turn(self, words)
                    if reason == "error":
                        await self.refuse(call, {"code": -32000, "message": "log in first"})
                    else:
                        await self.result(call, {"stopReason": reason})
                case "session/load" | "session/resume" | "session/set_mode" | "session/close":
                    await self.result(call, {})


class Talkers:
    """The connector of `host`: makes an agent for each start."""

    target = "talker"

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.made: list[Talker] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def connect(self) -> MemoryTransport:
        agent = Talker(self._turn)
        self.made.append(agent)
        self.tasks.append(asyncio.get_running_loop().create_task(agent.serve()))
        return await agent.connect()


class _Near:
    target = "served"

    def __init__(self, near: MemoryTransport) -> None:
        self._near = near

    async def connect(self) -> MemoryTransport:
        return self._near


class Editor:
    """One process of an editor, and what it shows."""

    def __init__(
        self,
        acp: AcpClient,
        client: Client,
        server: asyncio.Task[None],
        far: MemoryTransport,
    ) -> None:
        self._far = far
        self.acp = acp
        self.client = client
        self.server = server
        self.shown: list[Any] = []
        self._news = asyncio.Event()

    async def kill(self) -> None:
        """End the process of ``acp-serve`` without a farewell."""
        self.server.cancel()
        await asyncio.gather(self.server, return_exceptions=True)
        await self._far.close(timeout=0)

    async def new(self) -> AcpSession:
        session = await self.acp.new_session("/")
        session.subscribe(self.show, updates.Update)
        return session

    async def load(self, session_id: str) -> AcpSession:
        session = self.acp.session(session_id)
        session.subscribe(self.show, updates.Update)
        await session.load("/")
        return session

    def show(self, update: Any) -> None:
        self.shown.append(update.raw)
        self._news.set()

    async def until(self, text: str) -> None:
        """Wait until it shows a text."""
        while text not in self.text:
            self._news.clear()
            await self._news.wait()

    @property
    def text(self) -> str:
        """What it shows, as text: prompts in brackets."""
        said = ""
        for update in self.shown:
            words = update.get("content", {}).get("text", "") if "content" in update else ""
            said += f"[{words}]" if update["sessionUpdate"] == "user_message_chunk" else words
        return said


@contextlib.asynccontextmanager
async def editor(
    runtime: Runtime, agent: str = "acp", *, on_permission: Any = None, **options: Any
) -> AsyncIterator[Editor]:
    """An editor whose process of ``acp-serve`` is killed at the end, without a farewell."""
    near, far = memory_pair()
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(runtime))
        server = asyncio.get_running_loop().create_task(
            serve(client, agent, transport=far, cwd="/", **options)
        )
        acp = AcpClient(_Near(near), on_permission=on_permission)
        await acp.connect()
        it = Editor(acp, client, server, far)
        try:
            yield it
        finally:
            await it.kill()
            await acp.close(drain=0)


@contextlib.asynccontextmanager
async def hosted(turn: Turn, **options: Any) -> AsyncIterator[tuple[Runtime, Talkers]]:
    """A runtime with the agent ``acp``."""
    agents = Talkers(turn)
    async with Runtime() as runtime:
        runtime.agent("acp")(host(agents, cwd="/", **options))
        yield runtime, agents
    for task in agents.tasks:
        task.cancel()
    await asyncio.gather(*agents.tasks, return_exceptions=True)
