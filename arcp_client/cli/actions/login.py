"""Stores the token of a runtime in the keyring, and removes it."""

from __future__ import annotations

import getpass
import sys

from pydantic import SecretStr

from arcp_client.cli import keys
from arcp_client.cli.connection import Place, connected
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.interrupts import Interrupts, execute
from arcp_client.cli.options import ConnectionOptions
from arcp_client.cli.output_format import Output
from arcp_client.cli.settings import settle
from arcp_client.cli.tokens import read_token, to_token
from arcp_client.cli.view import terminal

__all__ = ["login", "logout"]


def login(at: ConnectionOptions) -> Exit:
    """Read a token, try it, and store it if the runtime accepts it."""
    settled = settle(url=at.url, token_file=at.token_file, profile=at.profile)
    if at.token_file is not None or not sys.stdin.isatty():
        settled.check_host()  # the prompt has shown the user the target
    target = settled.url.value
    token = read_token(at.token_file) if at.token_file is not None else _typed(target)
    where = Place(
        url=target,
        token=token,
        output=Output.TEXT,
        connect_timeout=at.connect_timeout,
        reconnect_for=0.0,
    )

    async def body(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts):
            return Exit.SUCCESS

    execute(body)
    name = keys.keep(target, token)
    terminal.tell(terminal.err(), f"the token for {target} is in the keyring ({name})")
    return Exit.SUCCESS


def logout(*, url: str | None, profile: str | None) -> Exit:
    """Remove the token."""
    target = settle(url=url, profile=profile).url.value
    removed = keys.forget(target)
    text = f"removed the token for {target}" if removed else f"no token for {target}"
    terminal.tell(terminal.err(), text)
    return Exit.SUCCESS


def _typed(url: str) -> SecretStr:
    """Read the token from the terminal, without echo, or from stdin if that is no terminal."""
    if sys.stdin.isatty():
        try:
            text = getpass.getpass(f"token for {url}: ", sys.stderr)
        except EOFError:
            raise CommandError(Exit.INTERRUPTED, "no token was given") from None
    else:
        text = sys.stdin.readline(1024 * 1024)
    return to_token(text, "the token")
