"""Runs a conversation with an ACP agent, on a terminal or for a program."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from arcp_client._tasks import start
from arcp_client.acp import (
    AcpClient,
    AcpSession,
    AgentRefused,
    AuthRequired,
    PermissionRequest,
    Turn,
    allow_list,
    updates,
)
from arcp_client.acp._base import exact_raw
from arcp_client.cli.actions import saved_chats
from arcp_client.cli.actions.acp_agent import ChosenAgent, choose
from arcp_client.cli.actions.chat_export import ExportedChat, print_sessions
from arcp_client.cli.errors import command_error
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.view import terminal
from arcp_client.cli.view.acp_screen import AcpScreen
from arcp_client.errors import ArcpError, ConnectFailed, HandshakeTimeout

__all__ = ["acp", "chosen"]


class _Lines:
    """Lines of standard input, read by a daemon thread, so that the process can end at any time."""

    def __init__(self) -> None:
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")  # the input may have another encoding
        self._wanted: queue.SimpleQueue[asyncio.Future[str]] = queue.SimpleQueue()
        self._asked: asyncio.Future[str] | None = None
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, daemon=True, name="stdin").start()

    async def next(self) -> str:
        """Return the next line, which a cancelled call may have read; empty at the end."""
        if self._asked is None:
            self._asked = self._loop.create_future()
            self._wanted.put(self._asked)
        asked = self._asked
        await asyncio.wait({asked})
        self._asked = None
        return asked.result()

    def _read(self) -> None:
        while True:
            wanted = self._wanted.get()
            outcome: str | Exception
            try:
                outcome = sys.stdin.readline()
            except Exception as error:  # noqa: BLE001  # raised by `next`, which waits for it
                outcome = error
            with contextlib.suppress(RuntimeError):  # the loop has ended in the meantime
                self._loop.call_soon_threadsafe(self._give, wanted, outcome)

    def _give(self, wanted: asyncio.Future[str], outcome: str | Exception) -> None:
        if isinstance(outcome, str):
            wanted.set_result(outcome)
        else:
            wanted.set_exception(outcome)


def chosen(request: PermissionRequest, answer: str) -> str | None:
    """Return the option that an answer selects: by number, id or name, or by yes and no.

    An empty answer means no. Yes and no select the options that apply once.

    Raises:
        ValueError: the answer selects no option; the message lists the valid answers.
    """
    word = answer.strip().casefold()
    for number, option in enumerate(request.options, 1):
        if word in (str(number), option.option_id.casefold(), option.name.strip().casefold()):
            return option.option_id
    kinds = _WORDS.get(word)
    if kinds is None:
        raise ValueError(f"type y, n, or a number from 1 to {len(request.options)}")
    option_ = request.option(*kinds)
    if option_ is None and kinds[0].startswith("allow"):
        raise ValueError("the agent does not offer that option; type a number, or n")
    return None if option_ is None else option_.option_id


_NO = ("reject_once", "reject_always")
_WORDS = {
    **dict.fromkeys(("y", "yes", "ok", "allow"), ("allow_once",)),
    **dict.fromkeys(("a", "always"), ("allow_always",)),
    **dict.fromkeys(("", "n", "no", "reject", "deny"), _NO),
    "never": ("reject_always",),
}


class _Chat:
    """One conversation on one screen."""

    def __init__(self, *, json_lines: bool, used: Callable[[str, str], None]) -> None:
        self._used = used
        self.export: ExportedChat | None = None
        self._main = asyncio.current_task()
        self._json = json_lines
        self._lines = _Lines()
        self._asking = asyncio.Lock()
        self._screen = AcpScreen()
        self.turn: asyncio.Task[Turn] | None = None
        self.session: AcpSession | None = None
        self._cancels: set[asyncio.Task[None]] = set()
        self.broken: OSError | None = None

    async def show(self, update: updates.Update) -> None:
        """Print one update. The conversation ends when stdout is closed."""
        if self.broken is not None:
            return
        if self.export is not None:
            self.export.add(update)
            return
        try:
            if self._json:
                print(terminal.as_json(exact_raw(update), cut=True), flush=True)
            elif self.session is not None:
                self._screen.show(update, self.session.state)
        except SystemExit:  # raised by rich for a pipe without a reader
            self._end(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))
        except OSError as error:
            self._end(error)

    def _end(self, error: OSError) -> None:
        self.broken = error
        if self._main is not None:
            self._main.cancel()

    async def ask(self, request: PermissionRequest) -> str | None:
        """Let the user choose; without a terminal, reject."""
        if self._json or not sys.stdin.isatty():
            reject = request.option("reject_once", "reject_always")
            return None if reject is None else reject.option_id
        async with self._asking:
            self._screen.question(request)
            while answer := await self._lines.next():  # an empty string is the end of the input
                try:
                    return chosen(request, answer)
                except ValueError as error:
                    self._screen.again(str(error))
        return None

    async def prompt(self, text: str) -> Turn:
        """Run one turn."""
        assert self.session is not None
        self._used(self.session.id, text)
        self.turn = start(self.session.prompt(text))  # awaited below
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
        """Send prompts as they are typed, until the end of the input."""
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
                    terminal.print_error(_refused(error))

    def interrupted(self, main: asyncio.Task[Any]) -> None:
        """Handle Ctrl-C: cancel the turn, then end the agent; without a turn, end the chat."""
        if self.turn is None or self.session is None:
            main.cancel()
            return
        cancelling = start(self._cancel())  # stored below
        self._cancels.add(cancelling)
        cancelling.add_done_callback(self._cancels.discard)

    async def _cancel(self) -> None:
        assert self.session is not None
        terminal.tell(terminal.err(), "cancelling; press Ctrl-C again to end the agent", "dim")
        try:
            await self.session.cancel()
        except ArcpError:
            return  # the turn reports the outcome


def acp(
    command: Sequence[str],
    *,
    prompt: str | None,
    json_lines: bool,
    cwd: str,
    session: str | None,
    resume: bool = False,
    sessions: bool = False,
    export: str | None = None,
    allow: Sequence[str],
    write: bool,
    versions: str | None = None,
    token_file: Path | None = None,
) -> Exit:
    """Run a conversation: one prompt, or as many as are typed; or list or export sessions."""
    terminal.log_to_stderr()
    agent = choose(command, versions=versions, token_file=token_file, write=write)
    if session is None and (resume or export is not None):
        session = _latest(agent, cwd)
    elif resume:
        problem = "--resume and --session contradict each other"
        raise CommandError(Exit.USAGE, problem, "give one of them")
    directory = str(Path(cwd).absolute())
    what = _Wanted(prompt, session, directory, sessions=sessions, export=export)
    try:
        return asyncio.run(_acp(agent, what, json_lines, cwd, allow))
    except AgentRefused as error:
        raise _refused(error) from error
    except ConnectFailed as error:
        raise _unconnected(error, agent.not_started) from error
    except HandshakeTimeout as error:
        raise _unconnected(error, agent.not_answering) from error
    except ArcpError as error:
        raise command_error(error) from error
    except asyncio.CancelledError:
        raise CommandError(Exit.INTERRUPTED, "interrupted") from None


def _unconnected(error: ArcpError, remedy: str) -> CommandError:
    return CommandError(Exit.CONNECTION, str(error), remedy, help_url=error.help_url)


def _latest(agent: ChosenAgent, cwd: str) -> str:
    found = saved_chats.known(agent.known_as, cwd)
    if not found:
        raise CommandError(
            Exit.NOT_FOUND,
            "no session with this command in this directory is known",
            "--sessions lists those that the agent knows, --session ID continues one",
        )
    return found[0].session


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the user wants: one prompt, a chat, the list of sessions, or the history of one."""

    prompt: str | None
    session: str | None
    directory: str
    sessions: bool = False
    export: str | None = None


async def _acp(
    agent: ChosenAgent, what: _Wanted, json_lines: bool, cwd: str, allow: Sequence[str]
) -> Exit:
    command = agent.known_as

    def used(session: str, prompt: str) -> None:
        saved_chats.remember(command, cwd, session, prompt)

    chat = _Chat(json_lines=json_lines, used=used)
    main = asyncio.current_task()
    assert main is not None
    permissions = allow_list(kinds=allow, otherwise=chat.ask)
    client = AcpClient(on_permission=permissions, **agent.options(cwd))
    try:
        if what.sessions:
            async with client:
                await print_sessions(client, command, what.directory, json_lines=json_lines)
            return Exit.SUCCESS
        return await _talk(client, chat, main, what)
    except asyncio.CancelledError:
        if chat.broken is not None:
            raise chat.broken from None
        raise


async def _talk(
    client: AcpClient,
    chat: _Chat,
    main: asyncio.Task[Any],
    what: _Wanted,
) -> Exit:
    prompt = what.prompt
    async with client as agent:
        agent.subscribe(chat.show, updates.Update)
        if what.session is None:
            chat.session = await agent.new_session()
        else:
            chat.export = ExportedChat(what.export) if what.export is not None else None
            chat.session = agent.session(what.session)
            await chat.session.load()
        if chat.export is not None:
            chat.export.write()
            return Exit.SUCCESS
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, chat.interrupted, main)
        if prompt is None:
            return await chat.talk()
        turn = await chat.prompt(prompt)
    if turn.cancel_requested:
        return Exit.INTERRUPTED
    return Exit.SUCCESS if turn.stop_reason == "end_turn" else Exit.FAILED


def _refused(error: AgentRefused) -> CommandError:
    if isinstance(error, AuthRequired):
        remedy = "sign in with the agent's own command, then try again"
        return CommandError(Exit.AUTHENTICATION, error.reason, remedy)
    return CommandError(Exit.FAILED, f"the agent refused: {error.reason}")
