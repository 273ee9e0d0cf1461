"""Serves a dashboard with the jobs of a runtime or of a transcript."""

from __future__ import annotations

import asyncio
import webbrowser
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import SecretStr

from arcp_client import ArcpError, Client
from arcp_client._hosts import is_loopback
from arcp_client.cli.actions.replay import read_speed
from arcp_client.cli.connection import Place, connected
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.host_names import check_host_names
from arcp_client.cli.interrupts import Interrupts, execute
from arcp_client.cli.tokens import served_token
from arcp_client.cli.view import terminal
from arcp_client.testing import ReplayedRuntime
from arcp_client.web import Server, serve

__all__ = ["web"]

_TOKEN = "ARCP_WEB_TOKEN"


def web(
    where: Place,
    *,
    replay: Path | None,
    speed: str,
    host: str,
    port: int,
    login_file: Path | None,
    allow_control: bool,
    allowed_hosts: Sequence[str],
    open_: bool,
) -> Exit:
    """Serve the jobs of a runtime or of a transcript, until a signal."""
    # Never the value of an option: every user of the machine can read command lines.
    login = served_token(login_file, name=_TOKEN)
    _refuse_open(host, login)
    check_host_names(allowed_hosts)
    pace = read_speed(speed)
    where.name = "arcp-client-web"

    async def body(interrupts: Interrupts) -> Exit:
        async with _client(where, interrupts, replay, pace) as client:
            server = serve(
                client,
                host,
                port,
                token=login,
                allow_control=allow_control,
                allowed_hosts=allowed_hosts,
                secrets=[where.token] if where.token is not None else [],
            )
            return await _serve(server, interrupts, host, port, open_=open_)

    return execute(body)


@asynccontextmanager
async def _client(
    where: Place, interrupts: Interrupts, replay: Path | None, speed: float | None
) -> AsyncIterator[Client]:
    """Connect a client to the runtime or to the replayed transcript."""
    if replay is None:
        async with connected(where, interrupts) as client:
            yield client
        return
    try:
        async with ReplayedRuntime(replay, speed=speed) as runtime, Client(runtime) as client:
            yield client
    except OSError as error:
        if isinstance(error, ArcpError) or error.filename is None:
            raise
        raise CommandError(Exit.USAGE, f"{replay} cannot be read: {error.strerror}") from None


def _refuse_open(host: str, login: SecretStr | None) -> None:
    if login is None and not is_loopback(host):
        raise CommandError(
            Exit.USAGE,
            f"without a login token, other machines could see every job on {host}",
            f"set {_TOKEN} or --login-file, or listen on 127.0.0.1",
        )


async def _serve(
    server: Server, interrupts: Interrupts, host: str, port: int, *, open_: bool
) -> Exit:
    try:
        await server.__aenter__()
    except OSError as error:
        raise CommandError(
            Exit.CONNECTION,
            f"cannot listen on {host} port {port}: {error.strerror or error}",
            "--port 0 selects a free port",
        ) from None
    try:
        terminal.tell(terminal.err(), f"the dashboard is on {server.url}", "green")
        if open_:
            await asyncio.to_thread(webbrowser.open, server.url)
        async with interrupts.stop():
            await asyncio.get_running_loop().create_future()
    finally:
        await server.close()
    return Exit.SUCCESS
