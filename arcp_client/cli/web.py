"""The command ``web``: a runtime in, a dashboard for browsers out."""

from __future__ import annotations

import asyncio
import os
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from pydantic import SecretStr

from arcp_client import Client
from arcp_client.cli import terminal
from arcp_client.cli.exits import Complaint, Exit
from arcp_client.cli.running import Interrupts, Place, connected, execute
from arcp_client.cli.settings import is_loopback, read_token
from arcp_client.web import serve

__all__ = ["web"]

_TOKEN = "ARCP_WEB_TOKEN"


def web(
    where: Place,
    *,
    host: str,
    port: int,
    login_file: Path | None,
    allow_control: bool,
    names: Sequence[str],
    open_: bool,
) -> Exit:
    """Serve until a signal."""
    login = _login(login_file)
    _refuse_open(host, login)

    async def body(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client:
            return await _serve(
                client,
                interrupts,
                host=host,
                port=port,
                login=login,
                secrets=[where.token] if where.token is not None else [],
                allow_control=allow_control,
                names=names,
                open_=open_,
            )

    return execute(body)


def _login(path: Path | None) -> SecretStr | None:
    """What people log in with: never a flag's value, which everybody on the machine can read."""
    if path is not None:
        return read_token(path)
    if value := os.environ.get(_TOKEN):
        return SecretStr(value)
    return None


def _refuse_open(host: str, login: SecretStr | None) -> None:
    if login is None and not is_loopback(host):
        raise Complaint(
            Exit.USAGE,
            f"without a token to log in with, whoever reaches {host} could see every job",
            f"set {_TOKEN} or --login-file, or listen on 127.0.0.1",
        )


async def _serve(
    client: Client,
    interrupts: Interrupts,
    *,
    host: str,
    port: int,
    login: SecretStr | None,
    secrets: Sequence[SecretStr],
    allow_control: bool,
    names: Sequence[str],
    open_: bool,
) -> Exit:
    console = terminal.err()
    server = serve(
        client,
        host,
        port,
        token=login,
        allow_control=allow_control,
        hosts=names,
        secrets=secrets,
    )
    try:
        await server.__aenter__()
    except OSError as error:
        raise Complaint(
            Exit.CONNECTION,
            f"cannot listen on {host} port {port}: {error.strerror or error}",
            "--port 0 takes a free one",
        ) from None
    try:
        terminal.tell(console, f"the dashboard is on {server.url}", "green")
        if not allow_control:
            terminal.tell(
                console, "it only looks; --allow-control lets it submit and cancel jobs", "dim"
            )
        if open_:
            await asyncio.to_thread(webbrowser.open, server.url)
        async with interrupts.stop():
            await asyncio.get_running_loop().create_future()
    finally:
        await server.close()
    return Exit.SUCCESS
