"""Commands whose standard streams are closed, or in another encoding: a sentence, no trace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from arcp_client.cli.app import parser
from tests.e2e import shell
from tests.forks import Process

ROOT = Path(__file__).parents[2]
COMMAND = f"{sys.executable} -m arcp_client.cli"
CLOSED = {">&-": (1,), "<&- >&- 2>&-": (0, 1, 2)}
NOWHERE = "--url ws://127.0.0.1:1/arcp --connect-timeout 0.1"

COMMANDS = [
    "--help",
    f"run echo --input 1 {NOWHERE}",
    f"jobs {NOWHERE}",
    f"ping {NOWHERE}",
    "replay /no/such/file",
    "config show",
    f"acp {sys.executable} examples/agents/echo.py",
]

OTHERS = [
    "demo --fast",
    "serve --agents no_such_module:agents",
    f"watch job_1 {NOWHERE}",
    f"status job_1 {NOWHERE}",
    f"cancel job_1 {NOWHERE}",
    f"result job_1 {NOWHERE}",
    f"answer job_1 q_1 yes {NOWHERE}",
    f"inbox {NOWHERE}",
    f"record job_1 --out - {NOWHERE}",
    "doctor ws://127.0.0.1:1/arcp --connect-timeout 0.1",
    f"top {NOWHERE}",
    f"mcp {NOWHERE}",
    f"acp-serve echo {NOWHERE}",
    "web --replay /no/such/file",
    "login --url ws://127.0.0.1:1/arcp",
    "logout --url ws://127.0.0.1:1/arcp",
    "version",
]


def run(line: str, *, given: bytes | None = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["sh", "-c", line], input=given, capture_output=True, cwd=ROOT, timeout=50, check=False,
        env={**os.environ, "SSL_CERT_FILE": os.devnull},  # reading all the others takes a while
    )  # fmt: skip


def forked(home: Path, line: str, closed: str) -> subprocess.CompletedProcess[str]:
    """A command as a fork; the tests that use `run` start interpreters."""
    start = type("Closed", (Process,), {"closed": CLOSED[closed]})
    pipe = subprocess.PIPE
    words = line.split()
    with start(
        [*shell.COMMAND, *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True,
        env=shell.fresh(home), cwd=ROOT,
    ) as process:  # fmt: skip
        try:
            out, err = process.communicate("", timeout=50)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def test_every_command_of_the_command_line_is_tried_here() -> None:
    tried = {line.split()[0] for line in [*COMMANDS, *OTHERS]} - {"--help"}
    commands: dict[str, object] = vars(get_command(parser()))["commands"]
    assert tried == set(commands)


@pytest.mark.parametrize(
    ("command", "closed"),
    [
        *((command, closed) for command in COMMANDS for closed in CLOSED),
        *((command, ">&-") for command in OTHERS),
    ],
)
def test_a_closed_stream_is_no_accident(command: str, closed: str, tmp_path: Path) -> None:
    done = forked(tmp_path, command, closed)
    said = done.stderr
    assert "Traceback" not in said
    assert "unexpected" not in said
    assert "Exception ignored" not in said
    assert done.returncode in {0, 1, 2, 3, 4, 124, 130}
    if done.returncode and "2>&-" not in closed:
        assert said.strip()


@pytest.mark.parametrize("closed", CLOSED)
def test_a_closed_stream_is_no_accident_to_an_interpreter(closed: str) -> None:
    done = run(f"{COMMAND} --help {closed}")
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


def test_output_that_is_closed_is_said_and_fails() -> None:
    done = run(f"{COMMAND} config show >&-")
    assert done.returncode == 1
    assert b"the output cannot be written" in done.stderr


def test_input_that_is_closed_is_said_and_fails() -> None:
    done = run(f"{COMMAND} acp {sys.executable} examples/agents/echo.py <&-")
    assert done.returncode == 2
    assert b"standard input is closed" in done.stderr


def test_a_chat_reads_input_in_another_encoding_and_goes_on() -> None:
    line = f"PYTHONIOENCODING=utf-8:strict {COMMAND} acp {sys.executable} examples/agents/echo.py"
    done = run(line, given=b"caf\xe9\nnext\n")
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.decode().splitlines() if "said" in line]
    assert said == ["You said: caf�", "You said: next"]


@pytest.mark.parametrize("option", ["--json", ""])
def test_a_reader_that_leaves_ends_the_conversation_without_a_word(option: str) -> None:
    agent = f"{sys.executable} examples/agents/echo.py"
    many = "word " * 2000
    done = run(f"{COMMAND} acp {option} {agent} --prompt '{many}' | head -c 10", given=b"")
    assert done.stderr.decode() == ""


def test_an_agent_that_is_not_there_has_its_own_remedy() -> None:
    done = run(f"{COMMAND} acp /no/such/program")
    said = done.stderr.decode()
    assert done.returncode == 3
    assert "the program was not found" in said
    assert "--url" not in said
    assert "arcp-client acp claude-agent-acp" in said
