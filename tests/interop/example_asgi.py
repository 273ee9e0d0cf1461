"""Runs the reference SDK's example ``host_asgi`` in its folder, with one repair; its own program.

The example gives Starlette's ``WebSocketRoute`` an ASGI application that is a plain function.
Starlette calls functions with a WebSocket and nothing else, so every connection gets a 500. An
object with ``__call__`` is taken for what it is.
"""

from __future__ import annotations

import runpy
from typing import Any

from starlette import routing


class Application:
    """An ASGI application that is no function."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)


class Route(routing.WebSocketRoute):
    """A route to an ASGI application."""

    def __init__(self, path: str, endpoint: Any) -> None:
        super().__init__(path, Application(endpoint))


routing.WebSocketRoute = Route  # type: ignore[misc]
runpy.run_path("server.py", run_name="__main__")
