"""The command ``acp``: an agent's command line and what a person types in, a conversation out."""

from __future__ import annotations

import asyncio
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from arcp_client._tasks import start
from arcp_client.acp import (
    AcpClient,
    AcpSession,
    AgentRefused,
    AuthRequired,
    LocalFiles,
    LocalTerminals,
    PermissionRequest,
    Turn,
    allow_list,
    updates,
)
from arcp_client.cli import terminal
from arcp_client.cli.acp_render import Screen
from arcp_client.cli.exits import Complaint, Exit
from arcp_client.cli.given import withhold
from arcp_client.cli.verdicts import complaint
from arcp_client.errors import ArcpError

__all__ = ["acp"]


class _Lines:
    """Lines of standard input, read by a thread that nobody has to wait for at the end."""

    def __init__(self) -> None:
        self._wanted: queue.SimpleQueue[asyncio.Future[str]] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, daemon=True, name="stdin").start()

    async def next(self) -> str:
        """The next line; empty at the end."""
        wanted: asyncio.Future[str] = self._loop.create_future()
        self._wanted.put(wanted)
        return await wanted

    def _read(self) -> None:
        while True:
            wanted = self._wanted.get()
            line = sys.stdin.readline()
            self._loop.call_soon_threadsafe(self._give, wanted, line)

    def _give(self, wanted: asyncio.Future[str], line: str) -> None:
        if not wanted.done():
            wanted.set_result(line)


class _Chat:
    """One conversation on one screen."""

    def __init__(self, *, json_lines: bool) -> None:
        self._json = json_lines
        self._lines = _Lines()
        self._asking = asyncio.Lock()
        self._screen = Screen()
        self.turn: asyncio.Task[Turn] | None = None
        self.session: AcpSession | None = None
        self._cancels: set[asyncio.Task[None]] = set()

    async def show(self, update: updates.Update) -> None:
        """Print one update."""
        if self._json:
            print(terminal.as_json(update.raw), flush=True)
        elif self.session is not None:
            self._screen.show(update, self.session.state)

    async def ask(self, request: PermissionRequest) -> str | None:
        """Let the person choose; without one, nothing is allowed."""
        if self._json or not sys.stdin.isatty():
            reject = request.option("reject_once", "reject_always")
            return None if reject is None else reject.option_id
        async with self._asking:
            self._screen.question(request)
            answer = (await self._lines.next()).strip()
        for number, option in enumerate(request.options, 1):
            if answer in (str(number), option.option_id):
                return option.option_id
        return None

    async def prompt(self, text: str) -> Turn:
        """One turn."""
        assert self.session is not None
        self.turn = start(self.session.prompt(text))  # awaited here
        try:
            turn = await self.turn
        finally:
            self.turn = None
        if self._json:
            usage = None if turn.usage is None else msgspec.to_builtins(turn.usage)
            print(terminal.as_json({"stopReason": turn.stop_reason, "usage": usage}), flush=True)
        else:
            self._screen.end(turn)
        return turn

    async def talk(self) -> Exit:
        """Prompts as they are typed, to the end of the input."""
        while True:
            if not self._json and sys.stdin.isatty():
                self._screen.ready()
            line = await self._lines.next()
            if not line:
                return Exit.SUCCESS
            if line.strip():
                try:
                    await self.prompt(line.strip())
                except AgentRefused as error:
                    terminal.complain(_refused(error))

    def interrupted(self, main: asyncio.Task[Any]) -> None:
        """Ctrl-C: cancels the turn, once more ends the agent; without a turn it ends the chat."""
        if self.turn is None or self.session is None:
            main.cancel()
            return
        cancelling = start(self._cancel())  # kept below
        self._cancels.add(cancelling)
        cancelling.add_done_callback(self._cancels.discard)

    async def _cancel(self) -> None:
        assert self.session is not None
        terminal.tell(terminal.err(), "cancelling; once more to end the agent", "dim")
        try:
            await self.session.cancel()
        except ArcpError:
            return  # the turn itself says what happened


def acp(
    command: Sequence[str],
    *,
    prompt: str | None,
    json_lines: bool,
    cwd: str,
    session: str | None,
    allow: Sequence[str],
    write: bool,
) -> Exit:
    """Talk to an agent: one prompt, or as many as are typed."""
    terminal.log_to_stderr()
    withhold()  # the runtime's token is none of the agent's business
    try:
        return asyncio.run(_acp(command, prompt, json_lines, cwd, session, allow, write))
    except AgentRefused as error:
        raise _refused(error) from error
    except ArcpError as error:
        raise complaint(error) from error
    except asyncio.CancelledError:
        raise Complaint(Exit.INTERRUPTED, "interrupted") from None


async def _acp(
    command: Sequence[str],
    prompt: str | None,
    json_lines: bool,
    cwd: str,
    session: str | None,
    allow: Sequence[str],
    write: bool,
) -> Exit:
    chat = _Chat(json_lines=json_lines)
    main = asyncio.current_task()
    assert main is not None
    client = AcpClient(
        command,
        cwd=cwd,
        on_permission=allow_list(kinds=allow, otherwise=chat.ask),
        fs=LocalFiles(cwd, writable=write),
        terminal=LocalTerminals(),
    )
    async with client as agent:
        agent.subscribe(chat.show, updates.Update)
        if session is None:
            chat.session = await agent.new_session()
        else:
            chat.session = agent.session(session)
            await chat.session.load()
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, chat.interrupted, main)
        if prompt is None:
            return await chat.talk()
        turn = await chat.prompt(prompt)
    if turn.cancel_requested:
        return Exit.INTERRUPTED
    return Exit.SUCCESS if turn.stop_reason == "end_turn" else Exit.FAILED


def _refused(error: AgentRefused) -> Complaint:
    if isinstance(error, AuthRequired):
        remedy = "sign in with the agent's own command, then try again"
        return Complaint(Exit.AUTHENTICATION, error.message, remedy)
    return Complaint(Exit.FAILED, f"the agent refused: {error.message}")
