"""A program that runs as a fork has what it would have as an interpreter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("forks of programs need Linux", allow_module_level=True)

from tests.forks import ROOT, Process, possible

PROGRAM = """
import os, signal, sys, warnings
filters = {(action, kind.__name__, str(module)) for action, _, kind, module, _ in warnings.filters}
print(sorted(each for each in filters if each[0] != "default"), sys.warnoptions, sys.flags.dev_mode)
print(sys.argv, sys.path[:2], __name__, __file__, os.getcwd(), sorted(os.environ))
for stream in (sys.stdin, sys.stdout, sys.stderr):
    print(stream.encoding, stream.errors, stream.mode, stream.line_buffering, stream.write_through)
print(signal.getsignal(signal.SIGPIPE), os.getpgid(0) == os.getpgid(os.getppid()))
raise SystemExit(input())
"""


def environment(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "LANG": "C.UTF-8", **more}


@pytest.mark.parametrize("options", [[], ["-W", "error"], ["-u", "-W", "always::ResourceWarning"]])
@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"LANG": "C"},
        {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error::ResourceWarning"},
        {"PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1"},
    ],
)
@pytest.mark.parametrize("kind", ["module", "file"])
def test_streams_warnings_arguments_and_paths_are_those_of_an_interpreter(
    options: list[str], variables: dict[str, str], kind: str, tmp_path: Path
) -> None:
    (tmp_path / "shows.py").write_text(PROGRAM)
    program = ["-m", "shows"] if kind == "module" else ["shows.py"]
    command = [sys.executable, *options, *program, "--word", "a b"]
    env = environment(**variables)
    assert possible(command, env)
    pipe = subprocess.PIPE
    said = []
    for start in (Process, subprocess.Popen):
        with start(
            command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env, cwd=tmp_path
        ) as process:
            out, err = process.communicate("a reason\n", timeout=60)
        said.append((out, err, process.returncode))
    assert said[0] == said[1]
    assert said[0][1:] == ("a reason\n", 1)


ENDS = {
    "the last line": "print('said')",
    "a code": "raise SystemExit(300)",
    "a sentence": "raise SystemExit('why')",
    "an error": "1 / 0",
    "an interrupt": "raise KeyboardInterrupt",
    "callbacks": "import atexit; atexit.register(print, 'bye'); atexit.register(lambda: 1 / 0)",
    "a thread": "import threading; threading.Timer(0.1, print, ['late']).start()",
    "a destructor": "class A:\n    def __del__(self): print('gone')\na = A(); a.itself = a",
    "a full disk": "import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1); print('lost')",
    "a file left open": "file = open('/dev/null')",
    "a task left behind": "import asyncio; loop = asyncio.new_event_loop()\n"
    "task = loop.create_task(asyncio.sleep(9)); loop.run_until_complete(asyncio.sleep(0))",
}


@pytest.mark.parametrize("program", ENDS.values(), ids=ENDS)
def test_a_fork_ends_as_an_interpreter_does(program: str, tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(program)
    command = [sys.executable, "-W", "always", "ends.py"]
    pipe = subprocess.PIPE
    ends = []
    for start in (Process, subprocess.Popen):
        with start(
            command, stdout=pipe, stderr=pipe, text=True, env=environment(), cwd=tmp_path
        ) as process:
            out, err = process.communicate(timeout=60)
        said = {word for word in COMPLAINTS if word in err}
        ends.append((process.returncode, out, said, bool(err)))
    assert ends[0] == ends[1]


STREAMS = """
import os, sys
said = [stream is None for stream in (sys.stdin, sys.stdout, sys.__stderr__)]
said += [os.path.exists(f"/dev/fd/{number}") for number in range(3)]
file = open(sys.argv[1], "w")
print("to its output")
file.write(f"{said} {file.fileno()}")
file.close()
print("to its errors", file=sys.stderr)
raise ValueError
"""


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (1, 2), (0, 1, 2)])
def test_closed_streams_are_closed_and_their_numbers_free(
    closed: tuple[int, ...], tmp_path: Path
) -> None:
    (tmp_path / "says.py").write_text(STREAMS)
    fork = type("Closed", (Process,), {"closed": closed})
    command = [sys.executable, "says.py"]
    ways = " ".join(f"{number}>&-" for number in closed)
    pipe = subprocess.PIPE
    said = []
    for start, words in (
        (fork, [*command, "fork"]),
        (subprocess.Popen, ["sh", "-c", f'"$0" "$@" {ways}', *command, "interpreter"]),
    ):
        with start(
            words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment(), cwd=tmp_path
        ) as process:
            out, err = process.communicate(timeout=60)
        seen = (tmp_path / words[-1]).read_text()
        told = [word for word in ("to its errors", *COMPLAINTS) if word in err]
        said.append((process.returncode, out, told, seen))
    assert said[0] == said[1]


COMPLAINTS = (
    *(
        "why",
        "ZeroDivisionError",
        "ValueError",
        "KeyboardInterrupt",
        "Exception ignored",
        "No space left",
    ),
    *("unclosed file", "unclosed event loop", "Task was destroyed but it is pending"),
)


def test_a_fork_that_leads_a_session_can_be_killed_with_its_group_at_once(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text("input()")
    command = [sys.executable, str(tmp_path / "waits.py")]
    for _ in range(20):
        process = Process(command, stdin=subprocess.PIPE, env=environment(), start_new_session=True)
        with process:
            os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("command", "variables"),
    [
        ([sys.executable, "-c", "pass"], {}),
        ([sys.executable, "-I", "shows.py"], {}),
        (["sh", "shows.py"], {}),
        ([sys.executable, "shows.py"], {"PYTHONHASHSEED": "0"}),
        ([sys.executable, "shows.py"], {"SSL_CERT_FILE": "cert.pem"}),
        ([sys.executable, "shows.py"], {"LANG": "C", "LC_ALL": "de_DE.ISO-8859-1"}),
        ([sys.executable, "shows.py"], {"PYTHONPATH": "/elsewhere"}),
    ],
)
def test_what_a_fork_cannot_do_is_left_to_an_interpreter(
    command: list[str], variables: dict[str, str]
) -> None:
    assert not possible(command, environment(**variables))
