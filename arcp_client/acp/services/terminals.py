"""Runs the agent's commands as local processes (``terminal/*``)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import PurePath
from typing import Protocol, runtime_checkable

from arcp_client import _arguments as check
from arcp_client._tasks import TaskOwner
from arcp_client.acp import schema
from arcp_client.acp.errors import INVALID_PARAMS, INVALID_REQUEST, NOT_FOUND, Refusal

__all__ = ["LocalTerminals", "Terminals"]

_MIB = 1024 * 1024
_LAST_WORDS = 0.5  # for output that is in the pipe when the process has ended


@runtime_checkable
class Terminals(Protocol):
    """The interface of what serves ``terminal/*``. Raise `Refusal` to refuse.

    If it has an attribute ``max_bytes``, no output that it returns is larger; see `FileSystem`.
    """

    async def create(self, request: schema.CreateTerminalRequest) -> str:
        """Start a command; the terminal's id."""

    async def output(self, session_id: str, terminal_id: str) -> schema.TerminalOutputResponse:
        """What it has written so far."""

    async def wait_for_exit(
        self, session_id: str, terminal_id: str
    ) -> schema.WaitForTerminalExitResponse:
        """Wait for its end."""

    async def kill(self, session_id: str, terminal_id: str) -> None:
        """End the command; its output can still be read."""

    async def release(self, session_id: str, terminal_id: str) -> None:
        """End the command and forget the terminal."""

    async def close(self) -> None:
        """End and forget all."""


class _Terminal(asyncio.Protocol):
    def __init__(self, session_id: str, process: asyncio.subprocess.Process, limit: int) -> None:
        self.session_id = session_id
        self.process = process
        self.limit = limit
        self.kept = bytearray()
        self.truncated = False
        self.ended = asyncio.Event()
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Keep the end of the output, cut where a character begins."""
        self.kept += data
        if len(self.kept) <= self.limit:
            return
        self.truncated = True
        start = len(self.kept) - self.limit
        while start < len(self.kept) and self.kept[start] & 0xC0 == 0x80:
            start += 1
        del self.kept[:start]

    def status(self) -> schema.TerminalExitStatus | None:
        """How it ended, if it has."""
        code = self.process.returncode
        if code is None or not self.ended.is_set():
            return None
        if code < 0:
            return schema.TerminalExitStatus(signal=_signal_name(-code))
        return schema.TerminalExitStatus(exit_code=code)

    def signal(self, number: int) -> None:
        """Send a signal to the command and all it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class LocalTerminals:
    """Runs the agent's commands here, each in a process group of its own, without a shell.

    Standard output and error are one stream; beyond the limit, its end is kept. A terminal ends
    when its command ends, even if child processes live on. Releasing it ends those that are still
    in its process group; a process that has left the group (``setsid``, a daemon) lives on.

    Args:
        limit: bytes of output that are kept, unless the agent asks for less.
        max_open: terminals that may be open at a time, those that are being started included.
        env: the environment of the commands, to which the agent adds; None inherits this process's.
        shell: what runs a command that comes without arguments, such as ``("sh", "-c")``; nothing
            by default, since some agents put a whole command line where a program belongs.
        grace: seconds from SIGTERM to SIGKILL.
    """

    def __init__(
        self,
        *,
        limit: int = _MIB,
        max_open: int = 64,
        env: Mapping[str, str] | None = None,
        shell: Sequence[str] | None = None,
        grace: float = 2.0,
    ) -> None:
        check.a_number("limit", limit, least=1)
        check.a_number("max_open", max_open, least=1)
        if shell is not None:
            check.arguments("shell", shell)
        check.seconds("grace", grace)
        check.a_mapping("env", env, none=True)
        self._limit = limit
        self._max_open = max_open
        self._starting = 0
        self._env = None if env is None else dict(env)
        self._shell = None if shell is None else tuple(shell)
        self._grace = grace
        self._ids = count(1)
        self._open: dict[str, _Terminal] = {}
        self._owner = TaskOwner("arcp_client.acp.terminals")

    @property
    def max_bytes(self) -> int:
        """Bytes of output of one command that are kept."""
        return self._limit

    async def create(self, request: schema.CreateTerminalRequest) -> str:
        """Start a command.

        Raises:
            Refusal: it cannot be started, its directory is not absolute, or too many are open.
        """
        return await self.start(request)

    def environment(self, request: schema.CreateTerminalRequest) -> dict[str, str]:
        """The environment that a command gets."""
        base = os.environ if self._env is None else self._env
        return {**base, **{one.name: one.value for one in request.env}}

    async def start(
        self, request: schema.CreateTerminalRequest, *, program: str | None = None
    ) -> str:
        """For subclasses: start a command.

        Args:
            request: what the agent asks for.
            program: the file to run; None looks it up as a shell would.

        Raises:
            Refusal: as `create`.
        """
        if len(self._open) + self._starting >= self._max_open:
            raise Refusal("too many terminals are open", number=INVALID_REQUEST)
        if request.cwd is not None and not PurePath(request.cwd).is_absolute():
            raise Refusal(f"{request.cwd!r} is no absolute path", number=INVALID_PARAMS)
        self._starting += 1
        try:
            process, output = await self._spawn(request, program)
        finally:
            self._starting -= 1
        limit = self._limit
        if request.output_byte_limit is not None:
            limit = min(limit, max(request.output_byte_limit, 0))
        terminal = _Terminal(request.session_id, process, limit)
        terminal_id = f"terminal-{next(self._ids)}"
        self._open[terminal_id] = terminal
        self._owner.spawn(self._follow(terminal, output), name=terminal_id)
        return terminal_id

    async def _spawn(
        self, request: schema.CreateTerminalRequest, program: str | None
    ) -> tuple[asyncio.subprocess.Process, int]:
        argv = [request.command, *request.args]
        if self._shell is not None and not request.args:
            argv = [*self._shell, request.command]
        # A pipe of our own: one that a child left behind holds open can be closed at this end.
        ours, theirs = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                executable=program,
                cwd=request.cwd,
                env=self.environment(request),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            os.close(ours)
            text = f"{request.command} cannot be started: {error}"
            raise Refusal(text, number=INVALID_PARAMS) from None
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return process, ours

    async def output(self, session_id: str, terminal_id: str) -> schema.TerminalOutputResponse:
        """What the command has written so far, and how it ended if it has."""
        terminal = self._find(session_id, terminal_id)
        return schema.TerminalOutputResponse(
            output=terminal.kept.decode(errors="replace"),
            truncated=terminal.truncated,
            exit_status=terminal.status(),
        )

    async def wait_for_exit(
        self, session_id: str, terminal_id: str
    ) -> schema.WaitForTerminalExitResponse:
        """Wait for the command's end; a kill and a release end the wait."""
        terminal = self._find(session_id, terminal_id)
        await terminal.ended.wait()
        status = terminal.status() or schema.TerminalExitStatus()
        return schema.WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    async def kill(self, session_id: str, terminal_id: str) -> None:
        """End the command, with SIGTERM first; its output can still be read."""
        await self._end(self._find(session_id, terminal_id))

    async def release(self, session_id: str, terminal_id: str) -> None:
        """End the command, with all it left behind, and forget the terminal."""
        terminal = self._find(session_id, terminal_id)
        del self._open[terminal_id]
        await self._end(terminal)
        terminal.signal(signal.SIGKILL)

    async def close(self) -> None:
        """End all commands and forget their terminals."""
        terminals, self._open = list(self._open.values()), {}
        for terminal in terminals:
            terminal.signal(signal.SIGKILL)
        for terminal in terminals:
            await terminal.ended.wait()
        await self._owner.close()

    def _find(self, session_id: str, terminal_id: str) -> _Terminal:
        terminal = self._open.get(terminal_id)
        if terminal is None or terminal.session_id != session_id:
            raise Refusal(f"there is no terminal {terminal_id!r}", number=NOT_FOUND)
        return terminal

    async def _end(self, terminal: _Terminal) -> None:
        if terminal.ended.is_set():
            return
        terminal.signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(terminal.ended.wait(), self._grace)
        except TimeoutError:
            terminal.signal(signal.SIGKILL)
            await terminal.ended.wait()

    async def _follow(self, terminal: _Terminal, fd: int) -> None:
        loop = asyncio.get_running_loop()
        output, _ = await loop.connect_read_pipe(lambda: terminal, os.fdopen(fd, "rb", buffering=0))
        try:
            await terminal.process.wait()
            # A child that was left behind may hold the pipe for ever.
            await asyncio.wait({terminal.closed}, timeout=_LAST_WORDS)
        finally:
            output.close()
            terminal.ended.set()
