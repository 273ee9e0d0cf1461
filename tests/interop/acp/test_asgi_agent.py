"""An agent as an ASGI application behind hypercorn, a second server of HTTP/2."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from arcp_client.acp import AcpClient, HttpConnector, updates
from tests.unit.acp.http.kit import chunk, event
from tests.unit.runtime.certificate import self_signed, trusting

pytest.importorskip("hypercorn")
import hypercorn.asyncio
from hypercorn.config import Config


class Agent:
    """Speaks streamable HTTP to one client; a prompt ``n size`` has n updates of that size."""

    def __init__(self) -> None:
        self.versions: set[str] = set()
        self.connections: set[Any] = set()
        self._queues: dict[str, asyncio.Queue[Any]] = defaultdict(asyncio.Queue)
        self._sessions = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        self.versions.add(scope["http_version"])
        self.connections.add(tuple(scope["client"]))
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        session = headers.get("acp-session-id", "")
        if scope["method"] == "GET":
            await self._stream(self._queues[session], receive, send)
            return
        body = b""
        while (part := await receive())["type"] == "http.request":
            body += part["body"]
            if not part.get("more_body"):
                break
        status, answered = 202, b""
        if scope["method"] == "POST":
            message = json.loads(body)
            answered = await self._take(message, session)
            status = 200 if answered else 202
        fields = [(b"acp-connection-id", b"c1"), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": answered})

    async def _take(self, message: Any, session: str) -> bytes:
        result: Any = {}
        queue = self._queues[session]
        match message["method"]:
            case "initialize":
                result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
                return json.dumps({"id": message["id"], "result": result}).encode()
            case "session/new":
                self._sessions += 1
                result = {"sessionId": f"s{self._sessions}"}
            case "session/prompt":
                count, size = map(int, message["params"]["prompt"][0]["text"].split())
                for number in range(count):
                    queue.put_nowait(chunk(f"{number} ".ljust(size, "x"), session))
                result = {"stopReason": "end_turn"}
        queue.put_nowait({"id": message["id"], "result": result})
        return b""

    async def _stream(self, queue: asyncio.Queue[Any], receive: Any, send: Any) -> None:
        fields = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        await send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
        while (await receive()).get("more_body"):
            pass
        gone = asyncio.create_task(receive())
        try:
            while not gone.done():
                taking = asyncio.create_task(queue.get())
                await asyncio.wait({gone, taking}, return_when=asyncio.FIRST_COMPLETED)
                if not taking.done():
                    taking.cancel()
                    return
                data = event(taking.result())
                await send({"type": "http.response.body", "body": data, "more_body": True})
        finally:
            gone.cancel()


@asynccontextmanager
async def served(agent: Agent, folder: Path | None) -> AsyncIterator[int]:
    """The port of a server, with TLS if there is a folder."""
    config = Config()
    config.graceful_timeout = 1.0
    config.errorlog = None
    if folder is not None:
        certificate, key = self_signed(folder)
        config.certfile, config.keyfile = str(certificate), str(key)
        config.alpn_protocols = ["h2"]
    listening = socket.create_server(("127.0.0.1", 0), backlog=100)
    listening.setblocking(False)
    port = listening.getsockname()[1]
    config.bind = [f"fd://{listening.detach()}"]  # hypercorn closes it
    stop = asyncio.Event()
    serve: Any = hypercorn.asyncio.serve
    task = asyncio.create_task(serve(agent, config, shutdown_trigger=stop.wait))
    try:
        yield port
    finally:
        stop.set()
        with suppress(asyncio.CancelledError):
            await asyncio.wait_for(task, 20)


@asynccontextmanager
async def client(port: int, folder: Path | None) -> AsyncIterator[AcpClient]:
    if folder is None:
        connector = HttpConnector(f"http://127.0.0.1:{port}/acp", http2=True)
    else:
        context = trusting(folder)
        context.set_alpn_protocols(["h2", "http/1.1"])
        connector = HttpConnector(f"https://localhost:{port}/acp", ssl=context)
    async with AcpClient(connector) as opened:
        yield opened


@pytest.fixture(params=["tls", "prior knowledge"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path if request.param == "tls" else None


async def test_prompts_over_one_connection(folder: Path | None) -> None:
    agent = Agent()
    async with served(agent, folder) as port, client(port, folder) as acp:
        session = await acp.new_session("/")
        said: list[str] = []
        session.subscribe(lambda u: said.append(u.content.text), updates.AgentMessageChunk)
        for count, size in ((5, 1), (200, 300), (40, 60_000)):
            said.clear()
            await session.prompt(f"{count} {size}")
            assert [text.split(" ")[0] for text in said] == [str(n) for n in range(count)]
    assert agent.versions == {"2"}
    assert len(agent.connections) == 1


async def test_more_sessions_than_a_connection_takes(folder: Path | None) -> None:
    agent = Agent()
    async with served(agent, folder) as port, client(port, folder) as acp:
        sessions = [await acp.new_session("/") for _ in range(120)]  # hypercorn takes 100
        turns = await asyncio.gather(*[session.prompt("3 10") for session in sessions])
        assert {turn.stop_reason for turn in turns} == {"end_turn"}
    assert len(agent.connections) == 2


async def test_a_slow_handler_holds_the_server_and_loses_nothing(folder: Path | None) -> None:
    agent = Agent()
    async with served(agent, folder) as port, client(port, folder) as acp:
        session = await acp.new_session("/")
        seen = 0

        async def slow(update: updates.AgentMessageChunk) -> None:
            nonlocal seen
            assert update.content.text.startswith(f"{seen} ")
            seen += 1
            await asyncio.sleep(0)

        session.subscribe(slow, updates.AgentMessageChunk)
        await session.prompt("300 50000")
        assert seen == 300
