"""The commands ``acp`` and ``serve --acp`` with a small agent, as processes and on a terminal."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from tests.e2e import shell
from tests.e2e.shell import COMMAND, Env, fresh, serving
from tests.forks import Spawn

ROOT = Path(__file__).parents[3]
ECHO = [sys.executable, str(ROOT / "examples" / "agents" / "echo.py")]
WAITING = [sys.executable, str(Path(__file__).parent / "agent_py.py")]

Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Env:
    return fresh(tmp_path_factory.mktemp("home"))


@pytest.fixture
def run(env: Env) -> Call:
    def call(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return shell.run(env, *words, cwd=ROOT, input=given)

    return call


def test_one_prompt(run: Call) -> None:
    done = run("acp", *ECHO, "--prompt", "hello")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "You said: hello",
        "→ Write notes.txt",
        "✗ Write notes.txt",  # nobody was there to be asked
    ]


def test_a_session_is_listed_resumed_and_exported(run: Call, tmp_path: Path) -> None:
    missing = run("acp", "--resume", *WAITING)
    assert missing.returncode == 5
    assert "no session with this command" in missing.stderr
    assert run("acp", *WAITING, "--prompt", "one hello").returncode == 0
    listed = run("acp", "--sessions", *WAITING)
    session, at, title = listed.stdout.rstrip("\n").split("\t")
    assert (session, title) == ("s1", "one hello")
    assert at
    resumed = run("acp", "--resume", *WAITING, "--prompt", "one again")
    assert resumed.stdout.split() == ["01234", "again"] or "again" in resumed.stdout
    page = tmp_path / "chat.md"
    assert run("acp", "--export", str(page), *WAITING).returncode == 0
    assert page.read_text(encoding="utf-8") == "## Agent\n\n01234\n"
    lines = run("acp", "--export", "-", "--session", "s1", *WAITING).stdout.splitlines()
    assert [json.loads(line)["content"]["text"] for line in lines] == list("01234")


def test_json_lines_for_programs(run: Call) -> None:
    done = run("acp", "--json", "--allow", "edit", *ECHO, "--prompt", "hello")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line.get("sessionUpdate") for line in lines] == [
        *("agent_message_chunk", "agent_message_chunk", "tool_call", "tool_call_update"),
        None,
    ]
    assert lines[3]["status"] == "completed"
    assert lines[4] == {"stopReason": "end_turn", "usage": None}


def test_prompts_line_by_line_to_the_end_of_the_input(run: Call) -> None:
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
        (["serve", "--acp", "nonsense"], 2, "is not an agent"),
        (
            ["serve", "--acp", "x=/no/such/program"],
            2,
            "the program '/no/such/program' was not found",
        ),
    ],
)
def test_what_goes_wrong_is_said(run: Call, arguments: list[str], code: int, words: str) -> None:
    done = run(*arguments)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def spawn(env: Env, *words: str) -> pexpect.spawn:
    return Spawn(
        COMMAND[0], [*COMMAND[1:], *words], env=env, cwd=str(ROOT), encoding="utf-8",
        timeout=30, dimensions=(40, 100),
    )  # fmt: skip


def test_a_conversation_on_a_terminal(env: Env) -> None:
    child = spawn(env, "acp", *ECHO)
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


def test_ctrl_c_cancels_the_turn_and_then_ends_the_chat(env: Env) -> None:
    child = spawn(env, "acp", *WAITING)
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


def test_an_agent_is_served_and_run(env: Env, run: Call) -> None:
    name = "echo=" + " ".join(ECHO)
    with serving(env, "--acp", name) as (url, process):
        done = run("run", "echo", "--input", '"hello"', "--url", url)
        assert done.returncode == 0, done.stderr
        assert "You said: hello" in done.stdout
        process.terminate()
        process.communicate(timeout=20)
