"""Runs a web server for the dashboard of a client."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from types import TracebackType

from aiohttp import web
from pydantic import SecretStr

from arcp_client import Client
from arcp_client import _arguments as check
from arcp_client._connection_limits import ConnectionLimits, ConnectionTable, limited
from arcp_client._hosts import is_loopback
from arcp_client._listener import Listener
from arcp_client.web._http.security import Handler
from arcp_client.web.routes import DashboardOptions, host_names, mount

__all__ = ["Server", "TokenRequired", "serve"]

_http_log = logging.getLogger("arcp_client.web.http")

_LIMITS = ConnectionLimits()


class TokenRequired(ValueError):
    """The dashboard would serve other machines without a login."""


def serve(
    client: Client,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    token: str | SecretStr | None = None,
    allow_control: bool = False,
    allowed_hosts: Iterable[str] = (),
    secrets: Iterable[str | SecretStr] = (),
    hosts: Iterable[str] | None = None,
) -> Server:
    """Make a web server for the dashboard of a client; it serves within ``async with``.

    Args:
        client: the client whose jobs are shown. The caller connects and closes it.
        host: the address to listen on; by default only this machine can reach it.
        port: the port to listen on; 0 takes a free one, see ``server.port`` and ``server.url``.
        token: see `add_routes`.
        allow_control: see `add_routes`.
        allowed_hosts: see `add_routes`.
        secrets: see `add_routes`.
        hosts: deprecated; the former name of ``allowed_hosts``.

    Raises:
        TokenRequired: other machines could reach the dashboard, and there is no token.
        ValueError: the token is empty.
        TypeError: an argument has the wrong type.
    """
    check.a_text("host", host, empty=True)
    check.a_number("port", port, least=0)
    if token is None and not is_loopback(host):
        raise TokenRequired(f"other machines could see every job on {host}: a token is required")
    app = web.Application()
    options = DashboardOptions(
        token=token,
        allow_control=allow_control,
        allowed_hosts=host_names(allowed_hosts, hosts),
        secrets=check.several("secrets", secrets, SecretStr | str, "texts or SecretStr"),
        everything=True,
    )
    mount(app, client, options)
    return Server(app, host, port)


class Server:
    """The web server of a dashboard, as an async context manager.

    It takes at most 1,024 connections; see the page "A dashboard in the browser".

    Attributes:
        url: the URL of the dashboard, once the server is entered.
        port: the port that it listens on, once the server is entered.
    """

    def __init__(self, app: web.Application, host: str, port: int) -> None:
        self._app = app
        self._host = host
        self._wanted = port
        self._table = ConnectionTable(_LIMITS.within_descriptors())
        self._listener = Listener(app, self._table, logger=_http_log)
        self.url: str = ""
        self.port: int = 0

    async def __aenter__(self) -> Server:
        self._app.middlewares.append(self._settle)
        await self._listener.start(self._host, self._wanted)
        self.port = self._listener.port
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
        """Stop listening and end the streams. Idempotent."""
        await self._listener.close()

    @web.middleware
    async def _settle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Keep the connection of a client that has sent a complete request."""
        limited(request.transport, self._table).settle()
        return await handler(request)
