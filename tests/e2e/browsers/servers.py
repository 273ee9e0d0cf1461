"""ASGI servers for tests: uvicorn and hypercorn, in the event loop of the test."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.util import find_spec
from typing import Any

import uvicorn

__all__ = ["SERVERS", "on_hypercorn", "on_uvicorn"]

SOON = 60.0


def _bound(port: int = 0) -> socket.socket:
    made = socket.create_server(("127.0.0.1", port), backlog=2048)
    made.setblocking(False)
    return made


@asynccontextmanager
async def on_uvicorn(app: Any, *, at: int = 0, **options: Any) -> AsyncIterator[str]:
    """Serve an application; yields its URL without a slash at the end."""
    options.setdefault("timeout_graceful_shutdown", 5)
    config = uvicorn.Config(app, log_level="warning", access_log=False, **options)
    server = uvicorn.Server(config)
    listening = _bound(at)
    port = listening.getsockname()[1]
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    async with asyncio.timeout(SOON):
        while not server.started:
            await asyncio.sleep(0.01)
            if serving.done():
                await serving
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def on_hypercorn(app: Any) -> AsyncIterator[str]:
    """Serve an application; yields its URL without a slash at the end."""
    import hypercorn.asyncio
    from hypercorn.config import Config

    config = Config()
    listening = _bound()
    port = listening.getsockname()[1]
    config.bind = [f"fd://{listening.detach()}"]  # hypercorn closes it
    config.graceful_timeout = 1.0
    over = asyncio.Event()
    serve: Callable[..., Awaitable[None]] = hypercorn.asyncio.serve  # type: ignore[assignment]
    serving = asyncio.ensure_future(serve(app, config, shutdown_trigger=over.wait))
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        over.set()
        await serving


SERVERS: dict[str, Callable[[Any], AbstractAsyncContextManager[str]]] = {"uvicorn": on_uvicorn}
if find_spec("hypercorn"):
    SERVERS["hypercorn"] = on_hypercorn
