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
