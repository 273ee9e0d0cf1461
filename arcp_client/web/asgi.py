"""Serves the dashboard as an ASGI application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from aiohttp import web
from pydantic import SecretStr

from arcp_client import Client
from arcp_client import _arguments as check
from arcp_client._asgi import Receive, Scope, Send, serve_lifespan
from arcp_client._feeds.job_feed import MEMORY
from arcp_client._feeds.registry import LINGER
from arcp_client._shutdown import ShutdownWatch
from arcp_client._tasks import TaskOwner, cancel_and_wait
from arcp_client.web._feeds.event_stream import OpenStreams
from arcp_client.web._http.asgi_connection import AsgiConnection, request_head
from arcp_client.web.routes import DashboardOptions, mount

__all__ = ["AsgiDashboard", "asgi_app"]

_log = logging.getLogger("arcp_client.web")
_http_log = logging.getLogger("arcp_client.web.http")


def asgi_app(
    client: Client,
    *,
    token: str | SecretStr | None = None,
    allow_control: bool = False,
    allowed_hosts: Iterable[str] = (),
    secrets: Iterable[str | SecretStr] = (),
    memory: int = MEMORY,
    linger: float = LINGER,
) -> AsgiDashboard:
    """Make an ASGI application that serves the dashboard of a client.

    Run it with a server such as uvicorn or hypercorn, or mount it under a path of your application:
    ``app.mount("/dashboard", asgi_app(client))``. The routes are those of `add_routes`, with the
    same checks of hosts, origins and logins, the same limits on streams and bodies, and the same
    time-outs. Without a token the dashboard serves only this machine. The connections belong to the
    ASGI server: it limits their number, and the time until a request is complete.

    The caller connects and closes the client. The dashboard ends with the client, with the lifespan
    of the server, or with `AsgiDashboard.close`; SIGINT and SIGTERM end its streams.

    Args:
        client: the client whose jobs are shown.
        token: the token that users log in with.
        allow_control: whether users can submit and cancel jobs, besides viewing them.
        allowed_hosts: further host names of the server; see `add_routes`.
        secrets: values to mask in everything that is shown, such as the client's own token.
        memory: bytes of events that are kept for each job, for pages that are reloaded.
        linger: seconds for which these events are kept after the last page has left the job.

    Raises:
        ValueError: the token is empty.
        TypeError: an argument has the wrong type.
    """
    app = web.Application()
    options = DashboardOptions(
        token=token,
        allow_control=allow_control,
        allowed_hosts=check.texts("allowed_hosts", allowed_hosts),
        secrets=check.several("secrets", secrets, SecretStr | str, "texts or SecretStr"),
        memory=memory,
        linger=linger,
        everything=True,
        mounted=True,
    )
    mount(app, client, options)
    return AsgiDashboard(app, client)


class AsgiDashboard:
    """The dashboard as an ASGI 3 application; see `asgi_app`."""

    def __init__(self, app: web.Application, client: Client) -> None:
        self._app = app
        self._client = client
        self._runner: web.AppRunner | None = None
        self._starting = asyncio.Lock()
        self._owner = TaskOwner("arcp_client.web", on_failure=_failed)
        self._shutdown = ShutdownWatch(lambda: OpenStreams.of(app).stop())
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope; the ASGI server calls this."""
        if scope["type"] == "lifespan":
            await serve_lifespan(receive, send, start=self._start, stop=self.close)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close"})
        else:
            raise ValueError(f"an ASGI scope of an unknown type: {scope['type']!r:.60}")

    async def close(self) -> None:
        """End the streams and all tasks, within about a second. Idempotent."""
        self._closed = True
        async with self._starting:
            runner, self._runner = self._runner, None
            if runner is not None:
                await runner.cleanup()

    async def _start(self) -> None:
        async with self._starting:
            if self._runner is None and not self._closed:
                self._runner = web.AppRunner(
                    self._app,
                    access_log=None,
                    logger=_http_log,
                    shutdown_timeout=1.0,
                    lingering_time=0.0,
                    tcp_keepalive=False,
                    auto_decompress=False,
                )
                await self._runner.setup()
                self._client.states.subscribe(on_completed=self._ended)

    def _ended(self) -> None:
        """The client has ended: end the dashboard, too; a mounted one has no lifespan."""
        if not self._closed:
            self._owner.spawn(self.close(), name="close")

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._start()
        server = self._runner.server if self._runner is not None else None
        head = request_head(scope)
        if server is None:
            await _answer(send, 503, b"the dashboard has ended")
        elif head is None:
            await _answer(send, 400, b"the request violates HTTP")
        elif scope.get("root_path") and scope["path"] in ("", scope["root_path"]):
            # The URLs in the page are relative to the directory.
            name = str(scope["root_path"]).rpartition("/")[2]
            await _answer(send, 308, b"", location=f"{name}/".encode("latin-1", "replace"))
        else:
            await self._connect(server, head, scope, receive, send)

    async def _connect(
        self,
        server: web.Server,
        head: bytes,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        connection = AsgiConnection(scope)
        protocol = server()
        connection.set_protocol(protocol)
        protocol.connection_made(connection)
        self._shutdown.enter()
        chunked = head.endswith(b"transfer-encoding: chunked\r\n\r\n")
        tasks = [
            self._owner.spawn(connection.reply(send), name="response"),
            self._owner.spawn(connection.over(), name="connection"),
            self._owner.spawn(connection.pump(receive, chunked=chunked), name="request"),
        ]
        try:
            protocol.data_received(head)
            await asyncio.wait(tasks[:2], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._shutdown.leave()
            connection.abort()
            protocol.connection_lost(None)
            await cancel_and_wait(tasks)


async def _answer(send: Send, status: int, text: bytes, **headers: bytes) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"content-length", b"%d" % len(text)),
                *((name.encode(), value) for name, value in headers.items()),
            ],
        }
    )
    await send({"type": "http.response.body", "body": text})


def _failed(error: BaseException) -> None:
    _log.error("a request of an ASGI server failed", exc_info=error)
