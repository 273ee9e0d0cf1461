"""Connects a command to its runtime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import SecretStr
from rich.status import Status
from rich.text import Text
from tenacity import stop_after_delay

from arcp_client import (
    CheckpointStore,
    Client,
    ClientInfo,
    Closed,
    Connecting,
    LinkState,
    Live,
    Reconnect,
    Timeouts,
)
from arcp_client import __version__ as package_version
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.interrupts import Interrupts
from arcp_client.cli.options import ConnectionOptions, OutputOptions
from arcp_client.cli.output_format import Output
from arcp_client.cli.prompt import ask, can_ask
from arcp_client.cli.settings import settle
from arcp_client.cli.view import render, terminal
from arcp_client.errors import Unauthenticated
from arcp_client.transcripts import Scrubber

__all__ = ["Place", "connected", "place"]


MOMENT = 1.0
_TRIES = 3
"""How many times the user is asked for a token."""


@dataclass(slots=True)
class Place:
    """The runtime of a command, its token, and the format of the output.

    ``token`` is set when the user types one at the prompt. ``name`` is that of the client in its
    hello.
    """

    url: str
    token: SecretStr | None
    output: Output
    connect_timeout: float
    reconnect_for: float
    name: str = "arcp-client-cli"


def place(
    at: ConnectionOptions, form: OutputOptions | None = None, *, reconnect_for: float = 30.0
) -> Place:
    """Complete a command's options from the environment and the settings files."""
    settled = settle(
        url=at.url,
        token_file=at.token_file,
        profile=at.profile,
        output=form.chosen() if form is not None else None,
    )
    return Place(
        url=settled.url.value,
        token=settled.token(),
        output=Output(settled.output.value),
        connect_timeout=at.connect_timeout,
        reconnect_for=reconnect_for,
    )


@contextmanager
def _waiting(where: Place, client: Client) -> Iterator[None]:
    """After a moment, show that the connection is awaited; with a spinner on a terminal.

    The text says why the last attempt failed, and changes with each attempt.

    The block ends without yielding to the event loop, so that the caller can make its iterator
    before a replayed event is delivered.
    """
    spinner: Status | None = None

    def words() -> str:
        state = client.state
        cause = state.cause if isinstance(state, Connecting) else None
        why = "" if cause is None else f"; the last attempt failed: {cause}"
        text = f"connecting to {where.url}, for {where.connect_timeout:g} s at most{why}"
        return terminal.harmless(Scrubber().text(text))

    def changed(_: LinkState) -> None:
        if spinner is not None:
            spinner.update(Text(words(), style="dim"))

    def say() -> None:
        nonlocal spinner
        console = terminal.err()
        text = words()
        if not console.is_terminal or console.is_dumb_terminal:
            terminal.tell(console, text, "dim")
            return
        spinner = console.status(Text(text, style="dim"))
        spinner.start()

    timer = asyncio.get_running_loop().call_later(MOMENT, say)
    states = client.states.subscribe(on_next=changed)
    try:
        yield
    finally:
        timer.cancel()
        states.dispose()
        if spinner is not None:
            spinner.stop()


def tell_state(state: LinkState) -> None:
    """Print a change of the link on stderr, unless it is routine."""
    text = render.state_text(state)
    if text is not None:
        terminal.err().print(text, soft_wrap=True)


@asynccontextmanager
async def connected(
    where: Place,
    interrupts: Interrupts,
    *,
    store: CheckpointStore | None = None,
    keep: Callable[[], bool] = lambda: False,
    tell: Callable[[LinkState], None] = tell_state,
) -> AsyncIterator[Client]:
    """A live client of the command's runtime.

    Args:
        where: the runtime.
        interrupts: the signals, which end the wait for the first connection.
        store: saves the session.
        keep: called at the end; returns True to keep the session for a later process.
        tell: called with changes of the link that are not routine.
    """
    client = make_client(where, store)
    first = True

    def changed(state: LinkState) -> None:
        nonlocal first
        if isinstance(state, Closed) or (isinstance(state, Live) and first):
            first = False  # a fast connection needs no message, and an error has its own
            return
        tell(state)

    async def leave(timeout: float) -> None:
        if keep():
            await client.detach(timeout=0)  # events that were not shown are replayed
        else:
            await client.close(timeout=timeout)

    async with interrupts.stop():
        tries = _TRIES if where.token is None and can_ask() else 0
        while True:
            client.on_state(changed)
            try:
                with _waiting(where, client):
                    await client.connect()
                break
            except Unauthenticated:
                typed = None
                while typed is None and tries:
                    tries -= 1
                    try:
                        typed = await ask(f"token for {where.url}: ")
                    except CommandError as unusable:
                        terminal.print_error(unusable)
                        continue
                    break
                if typed is None:
                    raise
                where.token = typed
            client, first = make_client(where, store), True
    if interrupts.count:
        await leave(0.5)
        raise CommandError(Exit.INTERRUPTED, "interrupted before there was a connection")
    try:
        yield client
    finally:
        await leave(2.0)


def make_client(where: Place, store: CheckpointStore | None = None) -> Client:
    """Make the unconnected client of a command."""
    if urlsplit(where.url).scheme not in ("ws", "wss"):
        raise CommandError(
            Exit.USAGE, "the URL of a runtime begins with ws:// or wss://", "see --url and ARCP_URL"
        )
    try:
        return Client(
            where.url,
            token=where.token,
            info=ClientInfo(name=where.name, version=package_version),
            reconnect=Reconnect(stop=stop_after_delay(where.reconnect_for)),
            timeouts=Timeouts(open=where.connect_timeout),
            store=store,
        )
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"the URL cannot be used: {error}", "see --url") from None
