"""A client in, a web server of its dashboard out, as a block."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from types import TracebackType

from aiohttp import web
from pydantic import SecretStr

from arcp_client import Client
from arcp_client import _arguments as check
from arcp_client._hosts import is_loopback
from arcp_client.web.door import Door, logger
from arcp_client.web.guard import Handler
from arcp_client.web.routes import Options, mount

__all__ = ["Server", "TokenRequired", "serve"]


class TokenRequired(ValueError):
    """The dashboard would be open to other machines, and nobody would have to log in."""


def serve(
    client: Client,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    token: str | SecretStr | None = None,
    allow_control: bool = False,
    hosts: Iterable[str] = (),
    secrets: Iterable[str | SecretStr] = (),
) -> Server:
    """Make a web server of a client's dashboard; it serves within ``async with``.

    Args:
        client: whose jobs are shown. It is neither connected nor closed here.
        host: an address of this machine; by default reachable from it alone.
        port: 0 takes a free one; see ``server.port`` and ``server.url``.
        token: see `add_routes`.
        allow_control: see `add_routes`.
        hosts: see `add_routes`.
        secrets: see `add_routes`.

    Raises:
        TokenRequired: other machines could reach it, and there is no token.
        ValueError: the token is empty.
        TypeError: an argument is none of these.
    """
    check.a_text("host", host, empty=True)
    check.a_number("port", port, least=0)
    if token is None and not is_loopback(host):
        raise TokenRequired(f"whoever reaches {host} could see every job: a token is needed")
    app = web.Application()
    options = Options(
        token=token,
        allow_control=allow_control,
        hosts=check.texts("hosts", hosts),
        secrets=check.several("secrets", secrets, SecretStr | str, "texts or SecretStr"),
        everything=True,
    )
    mount(app, client, options)
    return Server(app, host, port)


class Server:
    """A web server, as an async context manager.

    Attributes:
        url: where the dashboard is, once it is entered.
        port: the port it listens on, once it is entered.
    """

    def __init__(self, app: web.Application, host: str, port: int) -> None:
        self._app = app
        self._host = host
        self._wanted = port
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None
        self._door: Door | None = None
        self.url: str = ""
        self.port: int = 0

    async def __aenter__(self) -> Server:
        self._app.middlewares.append(self._heard)
        runner = web.AppRunner(
            self._app, access_log=None, logger=logger, keepalive_timeout=75.0, shutdown_timeout=1.0
        )
        await runner.setup()
        assert runner.server is not None
        door = Door(runner.server)
        try:
            listening = await asyncio.get_running_loop().create_server(
                door, self._host, self._wanted, reuse_address=os.name == "posix"
            )
        except BaseException:
            await runner.cleanup()
            raise
        self._runner, self._door, self._listening = runner, door, listening
        self.port = listening.sockets[0].getsockname()[1]
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"http://{host}:{self.port}/"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop listening, and end the streams. Idempotent."""
        runner, self._runner = self._runner, None
        if self._listening is not None:
            self._listening.close()
        if self._door is not None:
            self._door.close()
        if runner is not None:
            await runner.cleanup()

    @web.middleware
    async def _heard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._door is not None:
            self._door.heard(request.protocol)
        return await handler(request)
