"""Transports over the pipes of a child process: one frame a line, as UTF-8."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import cast

from arcp_client import _arguments as check
from arcp_client._scrubbing import Scrubber
from arcp_client._tasks import TaskOwner
from arcp_client.errors import ConnectFailed, LinkLost
from arcp_client.transports._ending import Ending, again, closed_here
from arcp_client.transports._lines import LineSplitter, one_line
from arcp_client.transports._own_stdio import StdioServerTransport
from arcp_client.transports._pipe_inbox import FrameInbox
from arcp_client.transports.base import MAX_FRAME

__all__ = ["StdioConnector", "StdioServerTransport", "StdioTransport"]

_log = logging.getLogger("arcp_client.stdio")
_scrubber = Scrubber()

_STDIN, _STDOUT, _STDERR = 0, 1, 2
# Longest wait from the end of the output to the child's exit status. Only a child that closes its
# output and keeps running reaches it.
_LAST_WORDS = 0.5
_LAST_TURNS = 16
_GROUP_POLL = 0.02
_REAPING = 1.0  # from SIGKILL to the exit status; milliseconds, unless the disk hangs
_TRANSIENT = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


class _Child(asyncio.SubprocessProtocol):
    """Callbacks of the child process: its lines go to the inbox, its exit becomes LinkLost."""

    def __init__(self, name: str, *, max_line: int, stderr_tail: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._name = name
        self._splitter = LineSplitter(max_line)
        self._stderr_tail = stderr_tail
        self._stderr = b""
        self._chunks = 0  # chunks received so far, to detect that the pipes are empty
        self._dead = False
        self._room: set[asyncio.Future[None]] = set()
        self._full = False
        self._timer: asyncio.TimerHandle | None = None
        self.inbox = FrameInbox(pause=self._pause, resume=self._resume)
        self.exited: asyncio.Future[None] = self._loop.create_future()
        self.released: asyncio.Future[None] = self._loop.create_future()
        self.process: asyncio.SubprocessTransport | None = None

    # ------------------------------------------------------------------ called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Casts: the transports of uvloop are no subclasses of asyncio's.
        self.process = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._chunks += 1
        if fd == _STDOUT:
            self.inbox.put(self._splitter.feed(data))
            return
        self._stderr = (self._stderr + data)[-self._stderr_tail :] if self._stderr_tail else b""
        if _log.isEnabledFor(logging.DEBUG):
            for line in data.decode(errors="replace").splitlines():
                _log.debug("%s: %s", self._name, _scrubber.text(line))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == _STDIN:
            self._make_room()
        elif fd == _STDOUT and not self._dead:
            self._timer = self._loop.call_later(_LAST_WORDS, self._end)

    def process_exited(self) -> None:
        self._dead = True
        if not self.exited.done():
            self.exited.set_result(None)
        self._make_room()
        self._settle(self._chunks, 0)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.released.done():
            self.released.set_result(None)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._make_room()

    # ------------------------------------------------------------------ called by the transport

    @property
    def writable(self) -> bool:
        """Whether the child is running and has not closed its input."""
        stdin = self._stdin()
        return stdin is not None and not stdin.is_closing() and not self._dead

    def close_input(self, *, at_once: bool = False) -> None:
        """Close the child's input; with ``at_once``, drop unread input."""
        stdin = self._stdin()
        if stdin is None:
            return
        # asyncio raises from abort() on a pipe that is already closed, and a closed pipe is empty.
        if at_once and stdin.get_write_buffer_size():
            stdin.abort()
        else:
            stdin.close()

    def _stdin(self) -> asyncio.WriteTransport | None:
        pipe = None if self.process is None else self.process.get_pipe_transport(_STDIN)
        return cast(asyncio.WriteTransport | None, pipe)

    async def write(self, line: bytes) -> None:
        """Write immediately, to keep the order of the calls; then wait while the pipe is full."""
        stdin = self._stdin()
        if stdin is None:
            return
        stdin.write(line)
        while self._full and self.writable:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._room.add(waiter)
            try:
                await waiter
            finally:
                self._room.discard(waiter)

    def lost(self) -> LinkLost:
        """Describe the child's exit, with its exit code and the last of its stderr."""
        code = None if self.process is None else self.process.get_returncode()
        if not self._dead or code is None:
            text = f"{self._name} closed its output and keeps running"
        elif code < 0:
            text = f"{self._name} was killed by {_signal_name(-code)}"
        else:
            text = f"{self._name} exited with code {code}"
        return LinkLost(
            text,
            exit_code=code if self._dead else None,
            stderr=self.stderr,
        )

    @property
    def stderr(self) -> str:
        """Return the last part of the child's standard error so far."""
        return self._stderr.decode(errors="replace")

    def let_go(self) -> None:
        """Discard further output, so that a full pipe cannot block the child."""
        self.inbox.end(closed_here(self._name), forget=True)
        self._make_room()
        if self._timer is not None:
            self._timer.cancel()
        self._resume()

    def kill(self, number: int) -> bool:
        """Send a signal to the child's process group; return False if the group is empty."""
        if self.process is None:
            return False
        if sys.platform == "win32":
            if not self._dead:
                self.process.kill()
            return not self._dead
        try:
            # The child leads its group. The group id is not reused while any member lives.
            os.killpg(self.process.get_pid(), number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    # ------------------------------------------------------------------ the end

    def _settle(self, seen: int, quiet: int) -> None:
        """Receive the remaining output of the dead child, then end.

        The end of the output cannot be awaited, because a grandchild may keep the pipe open. But
        all output of the dead child is already in the pipe, which the loop polls in each iteration.
        After three iterations without a chunk, the pipe was empty.
        """
        if self.inbox.lost is not None:
            return
        if self.inbox.paused:
            return  # _resume() calls this method again
        quiet = quiet + 1 if self._chunks == seen else 0
        if quiet > 3:
            self._end()
        else:
            self._loop.call_soon(self._settle, self._chunks, quiet)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.inbox.put(self._splitter.end())
        self.inbox.end(self.lost())
        self._make_room()

    def _make_room(self) -> None:
        for waiter in self._room:
            if not waiter.done():
                waiter.set_result(None)

    def _pause(self) -> None:
        self._output("pause_reading")

    def _resume(self) -> None:
        self._output("resume_reading")
        if self._dead:
            self._settle(self._chunks, 0)

    def _output(self, verb: str) -> None:
        output = None if self.process is None else self.process.get_pipe_transport(_STDOUT)
        if output is not None and not output.is_closing():
            getattr(output, verb)()


class StdioTransport:
    """A link to one running child process. Made by `StdioConnector`.

    Attributes:
        lines: always true: each frame is a line.
    """

    lines = True

    def __init__(self, child: _Child, *, name: str, max_line: int) -> None:
        self._child = child
        self._name = name
        self._max_line = max_line
        self._killed = False
        self._ending = Ending(TaskOwner(f"stdio {name}"), teardown=self._close, abort=self._kill)

    def __repr__(self) -> str:
        return f"<StdioTransport {self._name}>"

    @property
    def stderr(self) -> str:
        """Return the last part of the child's standard error so far."""
        return self._child.stderr

    async def send(self, frame: bytes) -> None:
        """Write one frame as a line, in call order; waits while the child does not read.

        A call that is cancelled while it waits still sends the frame.

        Raises:
            LinkLost: the child has ended or closed its input.
            LocalProtocolError: the frame is larger than ``max_line`` or contains a line end.
        """
        await self._check()
        await self._child.write(one_line(frame, limit=self._max_line))
        await self._check()

    async def receive(self) -> bytes:
        """Return the next line. Cancelling the call loses none.

        All output of the child is received before LinkLost.

        Raises:
            LinkLost: the child has exited; ``exit_code`` (negative for a signal) and ``stderr``
                tell how. Every later call raises it again.
            RemoteProtocolError: a line was too long or not UTF-8 and was dropped. Call again.
        """
        return await self._child.inbox.get()

    async def receive_many(self, limit: int) -> list[bytes]:
        """Wait for a line; return it and those after it that were read, up to ``limit``.

        Raises:
            LinkLost, RemoteProtocolError: as `receive`, instead of any line.
        """
        return await self._child.inbox.get_many(limit)

    async def close(self, *, timeout: float = 5.0) -> None:
        """End the child and its process group, within about ``timeout`` seconds.

        First the child's input is closed, which asks it to exit. After half of the timeout, the
        process group is sent SIGTERM, and after a further third of it, SIGKILL. Idempotent, from
        any task. A cancelled call kills at once.
        """
        self._child.let_go()
        await self._ending.reach(timeout=timeout)

    async def _check(self) -> None:
        child = self._child
        if child.writable and child.inbox.lost is None:
            return
        if child.inbox.lost is None and not child.exited.done():
            # A child that exits closes its pipes shortly before its exit status is known.
            await asyncio.wait({child.exited}, timeout=_LAST_WORDS)
        for _ in range(_LAST_TURNS):  # the last output of a dead child may still arrive
            if child.inbox.lost is not None:
                raise again(child.inbox.lost)
            await asyncio.sleep(0)
        if child.exited.done():
            raise child.lost()
        raise LinkLost(f"{self._name} closed its input")

    async def _close(self, timeout: float) -> None:
        child, loop = self._child, asyncio.get_running_loop()
        try:
            child.close_input()
            await asyncio.wait({child.exited}, timeout=timeout / 2)
            # Remaining processes of the group are ended as well, first with SIGTERM.
            left = child.kill(signal.SIGTERM)
            deadline = loop.time() + timeout / 3
            await asyncio.wait({child.exited}, timeout=timeout / 3)
            while left and not self._killed and loop.time() < deadline:
                # The end of grandchildren cannot be awaited.
                await asyncio.sleep(_GROUP_POLL)
                left = child.kill(0)
        finally:
            self._kill()
            await asyncio.wait({child.exited}, timeout=_REAPING)
            if child.process is not None:
                child.process.close()
            await asyncio.wait({child.released}, timeout=_REAPING)

    def _kill(self) -> None:
        self._killed = True
        self._child.kill(_KILL)
        # another process may hold the other end without reading
        self._child.close_input(at_once=True)


class StdioConnector:
    """Starts a program for each link and communicates over its standard input and output.

    The program leads a process group of its own. So closing the link ends its child processes too,
    and a Ctrl-C in the terminal does not reach the program.

    Args:
        argv: the program and its arguments; no shell is involved.
        cwd: its working directory.
        env: its whole environment; None inherits this process's.
        max_line: bytes; longer frames are refused, longer lines are dropped.
        stderr_tail: how many of the last bytes of standard error are kept for LinkLost, unmasked.
            Each line is logged at DEBUG to ``arcp_client.stdio``, with secrets masked.
    """

    def __init__(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        max_line: int = MAX_FRAME,
        stderr_tail: int = 8 * 1024,
    ) -> None:
        check.arguments("argv", argv)
        check.a_path("cwd", cwd, none=True)
        check.a_mapping("env", env, none=True)
        for name, value in (env or {}).items():
            if not isinstance(value, str):  # the value is not shown: it may be a secret
                raise TypeError(f"env: {name!r:.60} must be a string, not a {type(value).__name__}")
        check.a_number("max_line", max_line, least=1)
        check.a_number("stderr_tail", stderr_tail, least=0)
        self._argv = [os.fspath(argument) for argument in argv]
        self._cwd = None if cwd is None else os.fspath(cwd)
        self._env = None if env is None else dict(env)
        self._max_line = max_line
        self._stderr_tail = stderr_tail
        self._name = PurePath(self._argv[0]).name or self._argv[0]
        identity = "\0".join([self._cwd or "", *self._argv])
        digest = hashlib.sha256(identity.encode(errors="surrogateescape")).hexdigest()
        self._target = f"stdio:{self._name}#{digest[:8]}"

    def __repr__(self) -> str:
        return f"<StdioConnector {self._target}>"

    @property
    def target(self) -> str:
        """The program's name and a digest of its arguments, since these may hold secrets."""
        return self._target

    async def connect(self) -> StdioTransport:
        """Start the program.

        Raises:
            ConnectFailed: with ``permanent=True`` if the program or the directory does not exist,
                or the program is not executable.
        """
        child = _Child(self._name, max_line=self._max_line, stderr_tail=self._stderr_tail)
        try:
            self._check_texts()
            await asyncio.get_running_loop().subprocess_exec(
                lambda: child,
                *self._argv,
                cwd=self._cwd,
                env=self._env,
                start_new_session=True,
            )
        except asyncio.CancelledError:
            child.kill(_KILL)
            raise
        except (OSError, ValueError) as error:
            raise self._failure(error) from error
        return StdioTransport(child, name=self._name, max_line=self._max_line)

    def _check_texts(self) -> None:
        """Refuse null bytes, because uvloop truncates the text there without an error."""
        texts = [*self._argv, *(self._env or {}), *(self._env or {}).values()]
        if any(b"\0" in os.fsencode(text) for text in texts):
            raise ValueError("embedded null byte")

    def _failure(self, error: OSError | ValueError) -> ConnectFailed:
        permanent = True
        match error:
            # Checked here, because errors of uvloop have no file name.
            case FileNotFoundError() | NotADirectoryError() if not self._has_directory():
                text = f"the directory {self._cwd} does not exist"
            case FileNotFoundError() | NotADirectoryError():
                text = "the program was not found; is it installed, and on PATH?"
            case PermissionError():
                text = "there is no permission to run it; is it executable?"
            case OSError() if error.errno in _TRANSIENT:
                text, permanent = error.strerror or "no resources", False
            case OSError():
                text = error.strerror or type(error).__name__
            case _:
                text = "an argument or the environment is malformed"
        return ConnectFailed(f"cannot start {self._name}: {text}", permanent=permanent)

    def _has_directory(self) -> bool:
        return self._cwd is None or Path(self._cwd).is_dir()


_KILL = signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
