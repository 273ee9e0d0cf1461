"""A scripted runtime on a real loopback WebSocket: frames leave in the order they were made in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import WSMsgType, web

from tests.backpressure.script import Script


class Peer:
    """Serves one script.

    Args:
        script: what to answer.
        aborts: a job dies with the connection, and so does the session.
        patience: heartbeats that may pass in silence before it closes; never by default. They are
            counted, not timed: what a busy machine keeps from the peer it keeps from the client.
        largest: bytes of the largest message that it takes; any by default.
    """

    def __init__(
        self,
        script: Script,
        *,
        aborts: bool = False,
        patience: int | None = None,
        largest: int = 0,
    ) -> None:
        self.script = script
        self.aborts = aborts
        self.patience = patience
        self.largest = largest
        self.url = ""
        self.links = 0
        self.gave_up = False
        self.sockets: list[web.WebSocketResponse] = []
        self.outboxes: list[asyncio.Queue[bytes]] = []
        self.silent = 0

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse(heartbeat=None, compress=False, max_msg_size=self.largest)
        await ws.prepare(request)
        self.links += 1
        self.sockets.append(ws)
        if self.aborts and self.links > 1:
            self.script.session = f"sess_{self.links}"
            self.script.sent.clear()
            self.script.seq = 0
        outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self.outboxes.append(outbox)
        tasks = [asyncio.create_task(self.write(ws, outbox))]
        if self.patience is not None:
            tasks.append(asyncio.create_task(self.watch(ws, self.patience)))
        try:
            while True:
                message = await ws.receive()
                self.silent = 0
                if message.type is not WSMsgType.TEXT:
                    break
                for frame in self.script.answer(json.loads(message.data)):
                    outbox.put_nowait(frame)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        return ws

    async def watch(self, ws: web.WebSocketResponse, patience: int) -> None:
        self.silent = 0
        while self.silent <= patience:
            await asyncio.sleep(self.script.heartbeat)
            self.silent += 1
        self.gave_up = True
        await ws.close()

    async def say(self, frames: list[bytes]) -> None:
        """Send frames over the newest connection."""
        for frame in frames:
            self.outboxes[-1].put_nowait(frame)

    async def write(self, ws: web.WebSocketResponse, outbox: asyncio.Queue[bytes]) -> None:
        while True:
            frame = await outbox.get()
            await ws.send_str(frame.decode())


@asynccontextmanager
async def serving(script: Script, **options: Any) -> AsyncIterator[Peer]:
    peer = Peer(script, **options)
    app = web.Application()
    app.router.add_get("/arcp", peer.handle)
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    peer.url = f"ws://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/arcp"
    try:
        yield peer
    finally:
        for ws in peer.sockets:
            await ws.close()
        await runner.cleanup()
