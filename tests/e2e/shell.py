"""Commands as a person starts them: a fresh home, a runtime beside it, a terminal to look at."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pyte

from tests.forks import Process, Spawn

HERE = Path(__file__).parent
COMMAND = [sys.executable, "-m", "arcp_client.cli"]
ESCAPE = "\x1b"
PATIENCE = 40.0

Env = dict[str, str]


def fresh(home: Path) -> Env:
    """What a fresh user has: a home of their own, a plain terminal, no ARCP_ variables."""
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PYTHONPATH": str(HERE.parent.parent),
        # A measured run measures its processes as well.
        **{name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")},
        "PYTHONWARNINGS": "error::ResourceWarning",
    }


def run(
    env: Env, *words: str, cwd: Path | None = None, input: str = ""
) -> subprocess.CompletedProcess[str]:
    """A command with its streams in pipes, once it has ended."""
    pipe = subprocess.PIPE
    with Process(
        [*COMMAND, *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env, cwd=cwd
    ) as process:
        try:
            out, err = process.communicate(input, timeout=PATIENCE)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


@contextmanager
def serving(env: Env, *options: str, port: int = 0) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """``arcp-client serve`` as a process; its URL, once it listens."""
    process = Process(
        [*COMMAND, "serve", "--port", str(port), *options],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=HERE,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"ws://\S+", line)
        assert found, line + process.stderr.read()
        yield found[0], process
    finally:
        process.kill()
        process.communicate(timeout=10)


@contextmanager
def terminal(
    env: Env,
    *words: str,
    rows: int = 24,
    columns: int = 80,
    interpreter: bool = False,
    **more: str,
) -> Iterator[pexpect.spawn]:
    """A command in a pseudo-terminal, with ``interpreter`` as an interpreter of its own."""
    child = (pexpect.spawn if interpreter else Spawn)(
        COMMAND[0], [*COMMAND[1:], *words], env={**env, **more}, dimensions=(rows, columns),
        encoding="utf-8", timeout=PATIENCE,
    )  # fmt: skip
    try:
        yield child
    finally:
        child.close(force=True)


def ended(child: pexpect.spawn) -> int:
    """The exit code, once it ended."""
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus is not None, child.signalstatus
    return int(child.exitstatus)


def job_of(text: str) -> str:
    """The first job id in a text."""
    found = re.search(r"job_[0-9A-Za-z]+", text)
    assert found, text
    return found[0]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Screen:
    """What a person sees of a command in a pseudo-terminal: an emulator interprets its output.

    Attributes:
        child: the command.
        over: it has ended, or its terminal was closed.
        translate: changes what it writes before the terminal has it.
    """

    def __init__(self, child: pexpect.spawn, rows: int, columns: int) -> None:
        self.child = child
        self._screen = pyte.HistoryScreen(columns, rows, history=20_000, ratio=1.0)
        self._stream = pyte.Stream(self._screen)
        self.over = False
        self.translate: Callable[[str], str] = str

    def read(self) -> None:
        """Show what the command has written, or wait a moment for it."""
        try:
            self._stream.feed(self.translate(self.child.read_nonblocking(65_536, timeout=0.05)))
        except pexpect.TIMEOUT:
            pass
        except pexpect.EOF:
            self.over = True

    def until(self, seen: Callable[[str], object] | str) -> str:
        """Look on until something is seen; the screen at that moment."""
        wanted = (lambda text: re.search(seen, text)) if isinstance(seen, str) else seen
        end = time.monotonic() + PATIENCE
        while not wanted(self.text):
            assert not self.over, f"it ended without it:\n{self.past}\n{self.text}"
            assert time.monotonic() < end, f"never seen:\n{self.past}\n{self.text}"
            self.read()
        return self.text

    def to_the_end(self) -> str:
        """All that was ever shown, once the command has ended."""
        while not self.over:
            self.read()
        return f"{self.past}\n{self.text}"

    def resize(self, rows: int, columns: int) -> None:
        """The window gets another size."""
        self.child.setwinsize(rows, columns)
        self._screen.resize(rows, columns)

    @property
    def lines(self) -> list[str]:
        """The lines that are on the screen."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def text(self) -> str:
        """What is on the screen."""
        return "\n".join(self.lines).rstrip()

    @property
    def past(self) -> str:
        """What has left it at the top."""
        return "\n".join(
            "".join(line[column].data for column in range(self._screen.columns)).rstrip()
            for line in self._screen.history.top
        )

    @property
    def cursor_is_shown(self) -> bool:
        """Whether a person sees where they would type."""
        return not self._screen.cursor.hidden

    def cells(self, row: int) -> list[pyte.screens.Char]:
        """The cells of one line, with their colours."""
        return [self._screen.buffer[row][column] for column in range(self._screen.columns)]

    def style(self, text: str) -> pyte.screens.Char:
        """The first cell of a text on the screen, with its colours."""
        for row, line in enumerate(self.lines):
            column = line.find(text)
            if column >= 0:
                return self.cells(row)[column]
        raise AssertionError(f"{text!r} is not on the screen:\n{self.text}")


@contextmanager
def screen(
    env: Env, *words: str, rows: int = 24, columns: int = 80, **more: str
) -> Iterator[Screen]:
    """A command in a pseudo-terminal that somebody looks at."""
    with terminal(env, *words, rows=rows, columns=columns, **more) as child:
        yield Screen(child, rows, columns)
