"""The commands ``acp`` and ``serve --acp`` with a small agent, as processes and on a terminal."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

ROOT = Path(__file__).parents[3]
ECHO = [sys.executable, str(ROOT / "examples" / "agents" / "echo.py")]
COMMAND = [sys.executable, "-m", "arcp_client.cli"]
WAITING = [sys.executable, str(Path(__file__).parent / "agent_py.py")]


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        input=given,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=50,
        check=False,
    )


def test_one_prompt() -> None:
    done = run("acp", *ECHO, "--prompt", "hello")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "You said: hello",
        "→ Write notes.txt",
        "✗ Write notes.txt",  # nobody was there to be asked
    ]


def test_json_lines_for_programs() -> None:
    done = run("acp", "--json", "--allow", "edit", *ECHO, "--prompt", "hello")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line.get("sessionUpdate") for line in lines] == [
        *("agent_message_chunk", "agent_message_chunk", "tool_call", "tool_call_update"),
        None,
    ]
    assert lines[3]["status"] == "completed"
    assert lines[4] == {"stopReason": "end_turn", "usage": None}


def test_prompts_line_by_line_to_the_end_of_the_input() -> None:
    done = run("acp", *ECHO, given="one\n\ntwo\n")
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if "said" in line] == [
        "You said: one",
        "You said: two",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["acp", "/no/such/program"], 3, "the program was not found"),
        (["acp", *WAITING, "--prompt", "fail"], 1, "the agent refused"),
        (["acp", sys.executable, "-c", "exit(5)", "--prompt", "x"], 3, "exited with code 5"),
        (["serve", "--acp", "nonsense"], 2, "is no agent"),
        (["serve", "--acp", "x=/no/such/program"], 2, "there is no program"),
    ],
)
def test_what_goes_wrong_is_said(arguments: list[str], code: int, words: str) -> None:
    done = run(*arguments)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def spawn(*arguments: str) -> Any:
    return pexpect.spawn(
        sys.executable,
        [*COMMAND[1:], *arguments],
        cwd=str(ROOT),
        encoding="utf-8",
        timeout=30,
        dimensions=(40, 100),
    )


def test_a_conversation_on_a_terminal() -> None:
    child = spawn("acp", *ECHO)
    child.expect("› ")
    child.sendline("hello")
    child.expect("You said: hello")
    child.expect("May it\\? Write notes.txt")
    child.expect("number, or Enter for no: ")
    child.sendline("1")
    child.expect("✓ Write notes.txt")
    child.expect("› ")
    child.sendeof()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_ctrl_c_cancels_the_turn_and_then_ends_the_chat() -> None:
    child = spawn("acp", *WAITING)
    child.expect("› ")
    child.sendline("wait")
    child.expect("waiting")
    child.kill(signal.SIGINT)
    child.expect("stopped")
    child.expect("ended: cancelled")
    child.expect("› ")
    child.kill(signal.SIGINT)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130


def test_an_agent_is_served_and_run() -> None:
    name = "echo=" + " ".join(ECHO)
    serving = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", "--acp", name],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert serving.stderr is not None
        said = serving.stderr.readline()
        url = re.search(r"ws://\S+", said)
        assert url is not None, said
        done = run("run", "echo", "--input", '"hello"', "--url", url[0])
        assert done.returncode == 0, done.stderr
        assert "You said: hello" in done.stdout
    finally:
        serving.terminate()
        serving.communicate(timeout=20)
