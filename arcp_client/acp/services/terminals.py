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
_LAST_WORDS = 0.5  # seconds for output left in the pipe after the process has ended


@runtime_checkable
class Terminals(Protocol):
    """The interface of services for ``terminal/*``. Methods raise `Refusal` to refuse.

    The attribute ``max_bytes``, if present, bounds the returned output; see `FileSystem`.
    """

    async def create(self, request: schema.CreateTerminalRequest) -> str:
        """Start a command; return the terminal's id."""

    async def output(self, session_id: str, terminal_id: str) -> schema.TerminalOutputResponse:
        """Return the command's output so far."""

    async def wait_for_exit(
        self, session_id: str, terminal_id: str
    ) -> schema.WaitForTerminalExitResponse:
        """Wait for the command's end."""

    async def kill(self, session_id: str, terminal_id: str) -> None:
        """End the command; its output can still be read."""

    async def release(self, session_id: str, terminal_id: str) -> None:
        """End the command and remove the terminal."""

    async def close(self) -> None:
        """End all commands and remove all terminals."""


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
        """Append output, keeping only its end, cut at a character boundary."""
        self.kept += data
        if len(self.kept) <= self.limit:
            return
        self.truncated = True
        start = len(self.kept) - self.limit
        while start < len(self.kept) and self.kept[start] & 0xC0 == 0x80:
            start += 1
        del self.kept[:start]

    def status(self) -> schema.TerminalExitStatus | None:
        """The exit status, if the command has ended."""
        code = self.process.returncode
        if code is None or not self.ended.is_set():
            return None
        if code < 0:
            return schema.TerminalExitStatus(signal=_signal_name(-code))
        return schema.TerminalExitStatus(exit_code=code)

    def signal(self, number: int) -> None:
        """Send a signal to the command's process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class LocalTerminals:
    """Runs the agent's commands locally, each in its own process group, without a shell.

    Standard output and error are one stream; beyond the limit, only its end is kept. A terminal
    ends when its command ends, even if child processes keep running. Releasing the terminal ends
    the remaining processes of the command's group. A process that has left the group (``setsid``, a
    daemon) keeps running.

    Args:
        limit: bytes of output that are kept, unless the agent requests fewer.
        max_open: maximum number of open terminals, including those being started.
        env: the environment of the commands, which the agent can extend; None inherits this
            process's.
        shell: runs commands without arguments, such as ``("sh", "-c")``, for agents that send a
            whole command line as the program. None by default.
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
        """Bytes of output kept for one command."""
        return self._limit

    async def create(self, request: schema.CreateTerminalRequest) -> str:
        """Start a command.

        Raises:
            Refusal: the command cannot be started, its directory is not absolute, or too many
                terminals are open.
        """
        return await self.start(request)

    def environment(self, request: schema.CreateTerminalRequest) -> dict[str, str]:
        """Return the environment of a command."""
        base = os.environ if self._env is None else self._env
        return {**base, **{one.name: one.value for one in request.env}}

    async def start(
        self, request: schema.CreateTerminalRequest, *, program: str | None = None
    ) -> str:
        """Hook for subclasses: start a command.

        Args:
            request: the agent's request.
            program: the file to run; None searches ``PATH``.

        Raises:
            Refusal: like `create`.
        """
        if len(self._open) + self._starting >= self._max_open:
            raise Refusal("too many terminals are open", number=INVALID_REQUEST)
        if request.cwd is not None and not PurePath(request.cwd).is_absolute():
            raise Refusal(f"{request.cwd!r} is not an absolute path", number=INVALID_PARAMS)
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
        # A separate pipe: this end can be closed although a surviving child process holds the
        # other.
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
        """Return the output so far, and the exit status if the command has ended."""
        terminal = self._find(session_id, terminal_id)
        return schema.TerminalOutputResponse(
            output=terminal.kept.decode(errors="replace"),
            truncated=terminal.truncated,
            exit_status=terminal.status(),
        )

    async def wait_for_exit(
        self, session_id: str, terminal_id: str
    ) -> schema.WaitForTerminalExitResponse:
        """Wait for the command's end, for whatever reason it ends."""
        terminal = self._find(session_id, terminal_id)
        await terminal.ended.wait()
        status = terminal.status() or schema.TerminalExitStatus()
        return schema.WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    async def kill(self, session_id: str, terminal_id: str) -> None:
        """End the command, with SIGTERM first; its output can still be read."""
        await self._end(self._find(session_id, terminal_id))

    async def release(self, session_id: str, terminal_id: str) -> None:
        """End the command and its process group, and remove the terminal."""
        terminal = self._find(session_id, terminal_id)
        del self._open[terminal_id]
        await self._end(terminal)
        terminal.signal(signal.SIGKILL)

    async def close(self) -> None:
        """End all commands and remove all terminals."""
        terminals, self._open = list(self._open.values()), {}
        for terminal in terminals:
            terminal.signal(signal.SIGKILL)
        for terminal in terminals:
            await terminal.ended.wait()
        await self._owner.close()

    def _find(self, session_id: str, terminal_id: str) -> _Terminal:
        terminal = self._open.get(terminal_id)
        if terminal is None or terminal.session_id != session_id:
            raise Refusal(f"the terminal {terminal_id!r} does not exist", number=NOT_FOUND)
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
            # A surviving child process may hold the pipe open forever.
            await asyncio.wait({terminal.closed}, timeout=_LAST_WORDS)
        finally:
            output.close()
            terminal.ended.set()
