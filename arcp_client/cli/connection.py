"""A command's coroutine in, its exit code out: signals, errors and broken pipes all end here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr
from rich.text import Text
from tenacity import stop_after_delay

from arcp_client import (
    ArcpError,
    CheckpointStore,
    Client,
    ClientInfo,
    Closed,
    LinkState,
    Live,
    Reconnect,
    Timeouts,
)
from arcp_client import __version__ as package_version
from arcp_client._tasks import start
from arcp_client.cli.errors import complaint
from arcp_client.cli.exit_codes import Complaint, Exit
from arcp_client.cli.options import Output
from arcp_client.cli.prompt import ask, can_ask
from arcp_client.cli.settings import settle
from arcp_client.cli.view import render, terminal
from arcp_client.errors import Unauthenticated
from arcp_client.transcripts import Scrubber

__all__ = ["Interrupts", "Place", "Stop", "beside", "connected", "execute", "place"]


_log = logging.getLogger("arcp_client.cli")
_MOMENT = 1.0
_TRIES = 3
"""Times that a person is asked for a token which the runtime takes."""


@dataclass(slots=True)
class Place:
    """Where a command works: the runtime, who asks, and how it answers.

    ``token`` is the one that a person was asked for, once the runtime has taken it.
    """

    url: str
    token: SecretStr | None
    output: Output
    connect_timeout: float
    reconnect_for: float


def place(
    *,
    url: str | None = None,
    token_file: Path | None = None,
    profile: str | None = None,
    output: Output | None = None,
    connect_timeout: float = 5.0,
    reconnect_for: float = 30.0,
) -> Place:
    """Settle a command's options with the environment and the settings files."""
    settled = settle(url=url, token_file=token_file, profile=profile, output=output)
    return Place(
        url=settled.url.value,
        token=settled.token(),
        output=Output(settled.output.value),
        connect_timeout=connect_timeout,
        reconnect_for=reconnect_for,
    )


class Interrupts:
    """SIGINT and SIGTERM as the end of a waiting block, instead of an exception anywhere.

    ::

        async with interrupts.stop():   # left at the first signal
            ...
        if interrupts.count: ...

    Attributes:
        count: signals so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._early = False
        self._scope: asyncio.Timeout | None = None

    @contextlib.contextmanager
    def listen(self) -> Iterator[None]:
        """Take the signals over."""
        loop = asyncio.get_running_loop()
        taken = (signal.SIGINT, signal.SIGTERM)
        for each in taken:
            loop.add_signal_handler(each, self._came)
        try:
            yield
        finally:
            for each in taken:
                loop.remove_signal_handler(each)

    def _came(self) -> None:
        self.count += 1
        if self._scope is None:
            self._early = True
        elif not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    def stop(self, timeout: float | None = None) -> Stop:
        """A block that the next signal, or the timeout, ends early and quietly."""
        return Stop(self, timeout)

    def swap(self, scope: asyncio.Timeout | None) -> asyncio.Timeout | None:
        """Let signals end this block; the one that they ended before."""
        before, self._scope = self._scope, scope
        if scope is not None and self._early:  # it came while no block was there to be ended
            self._early = False
            scope.reschedule(asyncio.get_running_loop().time())
        return before


class Stop:
    """See `Interrupts.stop`."""

    def __init__(self, interrupts: Interrupts, timeout: float | None) -> None:
        self._interrupts = interrupts
        self._timeout = timeout
        self._scope = asyncio.timeout(None)
        self._outer: asyncio.Timeout | None = None

    async def __aenter__(self) -> None:
        self._scope = asyncio.timeout(self._timeout)
        await self._scope.__aenter__()
        self._outer = self._interrupts.swap(self._scope)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._interrupts.swap(self._outer)
        try:
            await self._scope.__aexit__(kind, error, trace)
        except TimeoutError:
            return True
        return False


def execute(body: Callable[[Interrupts], Any], *, at_once: bool = False) -> Exit:
    """Run a command's coroutine with its signals taken over.

    Args:
        body: the coroutine.
        at_once: a signal ends it wherever it is; else it sees to them itself.
    """

    async def main() -> Exit:
        interrupts = Interrupts()
        with interrupts.listen():
            if not at_once:
                code: Exit = await body(interrupts)
                return code
            async with interrupts.stop():
                code = await body(interrupts)
                return code
            raise Complaint(Exit.INTERRUPTED, "interrupted")

    terminal.log_to_stderr()
    try:
        return asyncio.run(main())
    except ArcpError as error:
        raise complaint(error) from error


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do something else during a block; it ends with the block, and fails it if it failed."""
    task = start(work)  # owned by the block
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        failure = None if task.cancelled() else task.exception()
    if failure is not None:
        raise failure


@asynccontextmanager
async def _waiting(where: Place) -> AsyncIterator[None]:
    """Say what is waited for, once it has taken a moment: with a spinner on a terminal."""

    async def say() -> None:
        await asyncio.sleep(_MOMENT)
        console = terminal.err()
        url = terminal.harmless(Scrubber().text(where.url))
        text = f"connecting to {url}, for {where.connect_timeout:g} s at most"
        if not console.is_terminal or console.is_dumb_terminal:
            terminal.tell(console, text, "dim")
            return
        with console.status(Text(text, style="dim")):
            await asyncio.get_running_loop().create_future()

    async with beside(say()):
        yield


def tell_state(state: LinkState) -> None:
    """A line on stderr for what is worth one."""
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
        interrupts: what ends the wait for the first connection.
        store: where its session is kept.
        keep: whether the session is to be gone on with later; asked at the end.
        tell: told of changes of the link that people want to know of.
    """
    client = make_client(where, store)
    first = True

    def changed(state: LinkState) -> None:
        nonlocal first
        _log.info("the link to %s: %s", Scrubber().text(where.url), state)
        if isinstance(state, Closed) or (isinstance(state, Live) and first):
            first = False  # what works at once is not worth a word, and the error says its own
            return
        tell(state)

    async def leave(timeout: float) -> None:
        if keep():
            await client.detach(timeout=0)  # what was not shown comes again
        else:
            await client.close(timeout=timeout)

    async with interrupts.stop():
        tries = _TRIES if where.token is None and can_ask() else 0
        while True:
            client.on_state(changed)
            try:
                async with _waiting(where):
                    await client.connect()
                break
            except Unauthenticated:
                if not tries:
                    raise
                tries -= 1
                where.token = await ask(f"token for {where.url}: ")
                if where.token is None:
                    raise
            client, first = make_client(where, store), True
    if interrupts.count:
        await leave(0.5)
        raise Complaint(Exit.INTERRUPTED, "interrupted before there was a connection")
    session = client.session
    _log.info(
        "session %s with %s %s (%s): %s", session.id, session.runtime.name,
        session.runtime.version, session.dialect, ", ".join(sorted(session.features)),
    )  # fmt: skip
    try:
        yield client
    finally:
        await leave(2.0)


def make_client(where: Place, store: CheckpointStore | None = None) -> Client:
    """The client of a command, not connected yet."""
    if urlsplit(where.url).scheme not in ("ws", "wss"):
        raise Complaint(
            Exit.USAGE, "the URL of a runtime begins with ws:// or wss://", "see --url and ARCP_URL"
        )
    try:
        return Client(
            where.url,
            token=where.token,
            info=ClientInfo(name="arcp-client-cli", version=package_version),
            reconnect=Reconnect(stop=stop_after_delay(where.reconnect_for)),
            timeouts=Timeouts(open=where.connect_timeout),
            store=store,
        )
    except ValueError as error:
        raise Complaint(Exit.USAGE, f"the URL cannot be used: {error}", "see --url") from None
