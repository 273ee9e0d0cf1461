"""The page "Five minutes on the command line", word by word: its commands in as many terminals.

With ``ARCP_SLOW=1`` from a clean clone, and everything is installed there; otherwise the commands
that install are passed over, for they have been done where this test runs.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pexpect
import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial" / "command-line.md"
SLOW = os.environ.get("ARCP_SLOW") == "1"
BLOCK = re.compile(
    r"^<!-- five minutes: (\w+) -->\n```console\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
PROMPT = "<ready>"
PORTS = (7777, 7778)
CONTROLS = r"\x1b\[[0-9;?]*[A-Za-z]"


@dataclass(frozen=True)
class Act:
    """What is typed into a terminal, if anything, and what is then seen there."""

    where: str
    command: str | None
    seen: tuple[str, ...]


def script() -> list[Act]:
    acts = []
    for where, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        for piece in re.split(r"^(?=\$ )", text, flags=re.MULTILINE):
            first, *rest = piece.splitlines() or [""]
            command = first.removeprefix("$ ") if first.startswith("$ ") else None
            lines = rest if command is not None else piece.splitlines()
            seen = tuple(line for line in lines if line.strip() not in ("", "…"))
            if command is not None or seen:
                acts.append(Act(where, command, seen))
    return acts


def as_pattern(line: str, job: str | None) -> str:
    """A line of the page as a regular expression; colours may stand anywhere in it."""
    words = []
    for word in re.split(r"(…|JOB)", line):
        if word == "…":
            words.append(r"[^\r\n]*?")
        elif word == "JOB":
            words.append(re.escape(job) if job is not None else r"(?P<job>job_[0-9A-Za-z]+)")
        else:
            gap = rf"(?:{CONTROLS}|\r?\n)*"  # a terminal wraps what is too long for it
            words.append(gap.join(re.escape(character) for character in word))
    return rf"(?:{CONTROLS})*".join(words)


class Terminal:
    """A person's shell in a directory."""

    def __init__(self, directory: Path, home: Path) -> None:
        names = {"PATH", "LANG", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "SSL_CERT_FILE"}
        env = {name: os.environ[name] for name in names & os.environ.keys()}
        env |= {"HOME": str(home), "TERM": "xterm-256color", "LANG": "C.UTF-8", "PS1": PROMPT}
        self.shell = pexpect.spawn(
            "bash", ["--norc", "--noprofile"], cwd=str(directory), env=env, encoding="utf-8",
            dimensions=(50, 160), timeout=900 if SLOW else 50,
        )  # fmt: skip
        self.shell.expect_exact(PROMPT)
        self.shell.sendline("bind 'set enable-bracketed-paste off' 2>/dev/null; PS1='<ready>'")
        self.shell.expect_exact(PROMPT)
        self.shell.expect_exact(PROMPT)

    def type(self, command: str) -> None:
        self.shell.sendline(command)
        self.shell.expect_exact("\n")  # its echo

    def sees(self, line: str, job: str | None) -> str | None:
        """Wait until the line is seen; the id of a job that it names first."""
        try:
            self.shell.expect(as_pattern(line, job))
        except (pexpect.TIMEOUT, pexpect.EOF):
            pytest.fail(f"the page promises {line!r}; there is {self.shell.before!r}")
        return self.shell.match.groupdict().get("job")

    def close(self) -> None:
        self.shell.sendintr()
        self.shell.close(force=True)


@pytest.fixture(scope="module", autouse=True)
def ports() -> Iterator[None]:
    """The ports of the page are this test's alone, as far as other tests are concerned."""
    with (Path(tempfile.gettempdir()) / "arcp-client-readme.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for port in PORTS:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    pytest.skip(f"something else uses port {port} on this machine")
        yield


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The directory that a person works in."""
    directory = tmp_path / "checkout"
    if not SLOW:
        directory.mkdir()
        (directory / ".venv").symlink_to(sys.prefix)
        return directory
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("a clean clone takes git")
    subprocess.run(
        ["git", "clone", "--quiet", "--no-local", str(ROOT), str(directory)],
        check=True, timeout=120,
    )  # fmt: skip
    return directory


def test_the_page_has_a_scene_for_each_command() -> None:
    commands = " ".join(act.command or "" for act in script())
    for word in ("make demo", "serve", "run", "watch", "cancel", "web"):
        assert re.search(rf"\b{word}\b", commands), word


@pytest.mark.timeout(1800 if SLOW else 300)
@pytest.mark.skipif(shutil.which("bash") is None, reason="the page is for a shell")
def test_five_minutes_work_as_the_page_tells_them(checkout: Path, tmp_path: Path) -> None:
    job: str | None = None
    terminals: dict[str, Terminal] = {}
    with ExitStack() as stack:
        for act in script():
            where = "one" if act.where == "install" else act.where  # "in this terminal"
            if where not in terminals:
                terminals[where] = Terminal(checkout, tmp_path)
                stack.callback(terminals[where].close)
            terminal = terminals[where]
            if act.command == "make demo" and not SLOW:
                continue  # it was done where this test runs; its demo has tests of its own
            if act.command is not None:
                terminal.type(act.command.replace("JOB", job or "JOB"))
            for line in act.seen:
                job = terminal.sees(line, job) or job
            if act.command is not None and act.command.startswith("arcp-client web"):
                with urlopen("http://127.0.0.1:7778/", timeout=20) as page:
                    assert b"<title>" in page.read()
        assert job is not None
        assert set(terminals) == {"one", "two", "three", "four"}
        for where in ("one", "four"):  # "Ctrl-C ends serve and web"
            terminals[where].shell.sendintr()
            terminals[where].shell.expect_exact(PROMPT)
