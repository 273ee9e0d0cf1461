"""An agent by hand: what the client sends comes out of `FakeAgent.next`, and any line goes in."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from arcp_client.acp.client import AcpClient
from arcp_client.acp.session import AcpSession
from arcp_client.transports import MemoryTransport, memory_pair

EVERYTHING = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {
        name: {} for name in ("list", "delete", "resume", "close", "fork", "additionalDirectories")
    },
    "auth": {"logout": {}},
}


def text(words: object) -> dict[str, Any]:
    return {"type": "text", "text": str(words)}


def chunk(words: object, session: str = "s1", **more: Any) -> dict[str, Any]:
    update = {"sessionUpdate": "agent_message_chunk", "content": text(words)}
    return notification(update, session, **more)


def notification(update: Any, session: str = "s1", **more: Any) -> dict[str, Any]:
    params = {"sessionId": session, "update": update, **more}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


class FakeAgent:
    """The agent's end of the link. Also the client's connector."""

    target = "fake"

    def __init__(self) -> None:
        self._near, self.far = memory_pair()
        self.seen: list[dict[str, Any]] = []
        self._ids = iter(range(1000, 10_000))

    async def connect(self) -> MemoryTransport:
        return self._near

    async def send(self, *messages: Any) -> None:
        for message in messages:
            await self.line(json.dumps(message).encode())

    async def line(self, line: bytes) -> None:
        await self.far.send(line)

    async def next(self, method: str | None = None) -> dict[str, Any]:
        """The next message of the client, of that method if one is given."""
        while True:
            message: dict[str, Any] = json.loads(await self.far.receive())
            self.seen.append(message)
            if method is None or message.get("method") == method:
                return message

    async def result(self, call: dict[str, Any], value: Any = None) -> None:
        await self.send(self.answer(call, value))

    def answer(self, call: dict[str, Any], value: Any = None) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": call["id"], "result": value}

    async def refuse(self, call: dict[str, Any], error: Any) -> None:
        await self.send({"jsonrpc": "2.0", "id": call["id"], "error": error})

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method}
        return {**message, "params": params}

    async def reply_to(self, request: dict[str, Any]) -> dict[str, Any]:
        """The client's answer to a request, whatever else it sends."""
        while True:
            message = await self.next()
            if message.get("id") == request["id"] and "method" not in message:
                return message


@contextlib.asynccontextmanager
async def connected(
    *, offers: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[FakeAgent, AcpClient]]:
    """A connected pair. The agent offers everything unless told otherwise."""
    agent = FakeAgent()
    client = AcpClient(agent, **options)
    connecting = asyncio.ensure_future(client.connect())
    call = await agent.next("initialize")
    await agent.result(
        call,
        {"protocolVersion": 1, "agentCapabilities": EVERYTHING if offers is None else offers},
    )
    await connecting
    try:
        yield agent, client
    finally:
        await client.close(drain=0)


async def opened(agent: FakeAgent, client: AcpClient, session: str = "s1") -> AcpSession:
    """A new session."""
    opening = asyncio.ensure_future(client.new_session())
    await agent.result(await agent.next("session/new"), {"sessionId": session})
    return await opening


def words(update: Any) -> str:
    value: str = update.content.text
    return value


async def settled(turns: int = 20) -> None:
    """Let everything happen that can happen without the other end."""
    for _ in range(turns):
        await asyncio.sleep(0)
