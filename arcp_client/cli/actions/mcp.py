"""Serves the agents of a runtime as MCP tools, over stdin and stdout or over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from arcp_client._hosts import is_loopback
from arcp_client._tasks import start
from arcp_client.cli.actions.follow import read_lease
from arcp_client.cli.connection import Place, connected
from arcp_client.cli.environment import user_directory
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.host_names import check_host_names
from arcp_client.cli.interrupts import Interrupts, execute
from arcp_client.cli.tokens import served_token
from arcp_client.cli.view import terminal
from arcp_client.errors import LinkLost, RemoteProtocolError
from arcp_client.transports.stdio import StdioServerTransport

try:
    import uvicorn
    from mcp.server.stdio import stdio_server

    from arcp_client.mcp import BridgeServer, FileSubmits, http_app, server
except ModuleNotFoundError as missing:
    raise CommandError(
        Exit.USAGE,
        f"this command needs the extra mcp ({missing})",
        "install it with  pip install 'arcp-client[mcp]'",
    ) from None

__all__ = ["mcp"]

_log = logging.getLogger("arcp_client.cli")
_TOKEN = "ARCP_MCP_TOKEN"
_MAX_LINE = 8 * 1024 * 1024
_GRACE = 2
"""Seconds for open HTTP responses to end; their jobs continue."""


def mcp(
    where: Place,
    *,
    http: bool,
    host: str,
    port: int,
    login_file: Path | None,
    allowed_hosts: Sequence[str],
    agents: Sequence[str] | None,
    wait: float,
    lease: list[str],
    max_runtime: float | None,
) -> Exit:
    """Serve the agents of a runtime until a signal, or until the MCP client closes stdin."""
    # Never the value of an option: every user of the machine can read command lines.
    login = served_token(login_file, name=_TOKEN)
    if http and login is None and not is_loopback(host):
        raise CommandError(
            Exit.USAGE,
            f"without a token, other machines could run every agent over {host}",
            f"set {_TOKEN} or --login-file, or listen on 127.0.0.1",
        )
    check_host_names(allowed_hosts)
    asked = read_lease(lease)
    home = user_directory("state")

    async def body(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client:
            bridge = server(
                client,
                agents=agents,
                lease=asked,
                max_runtime=max_runtime,
                wait=wait,
                submits=None if home is None else FileSubmits(home / "mcp"),
            )
            try:
                if http:
                    app = http_app(bridge, token=login, allowed_hosts=allowed_hosts)
                    await _serve_http(app, bridge, interrupts, host, port)
                else:
                    await _serve_stdio(bridge, interrupts)
            finally:
                await bridge.close()
        return Exit.SUCCESS

    return execute(body)


# -------------------------------------------------------------------------------- stdio


async def _serve_stdio(bridge: BridgeServer, interrupts: Interrupts) -> None:
    # Not the streams of the SDK: a signal would not end them before the client's next line.
    transport = StdioServerTransport(max_line=_MAX_LINE)
    stdin, stdout = cast(Any, _StdinLines(transport)), cast(Any, _Output(transport))
    try:
        async with interrupts.stop(), stdio_server(stdin, stdout) as (incoming, outgoing):
            await bridge.run(incoming, outgoing, bridge.create_initialization_options())
    finally:
        bridge.stop()
        await transport.close(timeout=1.0)


class _StdinLines:
    """The lines of stdin, as an SDK's text file has them."""

    def __init__(self, transport: StdioServerTransport) -> None:
        self._transport = transport

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            try:
                yield (await self._transport.receive()).decode()
            except LinkLost:
                return
            except RemoteProtocolError as error:
                _log.warning("a message of the MCP client was dropped: %s", error)


class _Output:
    """Writes lines to stdout, as an SDK's text file does."""

    def __init__(self, transport: StdioServerTransport) -> None:
        self._transport = transport

    async def write(self, text: str) -> None:
        with contextlib.suppress(LinkLost):  # the client has closed our stdout: stdin ends too
            await self._transport.send(text.rstrip("\n").encode("utf-8", "replace"))

    async def flush(self) -> None:
        """Each line is written at once."""


# --------------------------------------------------------------------------------- HTTP


class _Uvicorn(uvicorn.Server):
    """A server that leaves the signals to the command."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve_http(
    app: Any, bridge: BridgeServer, interrupts: Interrupts, host: str, port: int
) -> None:
    listening = _listen(host, port)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=_GRACE,
        server_header=False,
    )
    web = _Uvicorn(config)
    serving = start(web.serve(sockets=[listening]), name="uvicorn")
    try:
        bound = listening.getsockname()
        shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        url = f"http://{shown}:{bound[1]}/mcp"
        terminal.tell(terminal.err(), f"MCP clients connect to {url}", "green")
        async with interrupts.stop():
            await asyncio.wait({serving})
    finally:
        bridge.stop()
        web.should_exit = True
        await serving


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise CommandError(
            Exit.CONNECTION,
            f"cannot listen on {host} port {port}: {error.strerror or error}",
            "--port 0 selects a free port",
        ) from None
