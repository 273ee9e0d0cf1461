"""Shells complete commands and options, by what ``--show-completion`` prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.shell import fresh, run, serving

PROGRAM = "arcp-client"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A user on whose path the command is."""
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / PROGRAM
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{MAIN}" "$@"\n')
    command.chmod(0o755)
    return {**fresh(tmp_path), "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


MAIN = f"import sys; sys.argv[0] = '{PROGRAM}'; from arcp_client.cli import main; main()"


def output(env: dict[str, str], *words: str, **more: str) -> str:
    done = subprocess.run(
        words, env={**env, **more}, capture_output=True, text=True, timeout=40, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_of_its_own(env: dict[str, str], shell: str) -> None:
    # Else it asks which shell called it, and here that is none.
    text = output(
        env, PROGRAM, "--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"
    )
    mark = {"bash": "complete -o", "zsh": "#compdef arcp-client", "fish": "complete --command"}
    assert mark[shell] in text
    assert f"_ARCP_CLIENT_COMPLETE=complete_{shell}" in text


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("arcp-client re", {"record", "replay", "result"}),
        ("arcp-client replay --sp", {"--speed"}),
        ("arcp-client config ", {"show"}),
    ],
)
def test_bash_offers_what_fits(env: dict[str, str], typed: str, offered: set[str]) -> None:
    script = f"""
        eval "$({PROGRAM} --show-completion bash)"
        COMP_WORDS=({typed} {"''" if typed.endswith(" ") else ""})
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _arcp_client_completion {PROGRAM}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    detection = {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    assert set(output(env, "bash", "-c", script, **detection).split()) == offered


# ------------------------------------------------------------------------- what a runtime knows


def offers(env: dict[str, str], *words: str, **more: str) -> list[str]:
    asked = {
        "_ARCP_CLIENT_COMPLETE": "complete_bash",
        "COMP_CWORD": str(len(words)),
        "COMP_WORDS": " ".join([PROGRAM, *words]),
    }
    done = run({**env, **asked, **more})
    assert done.returncode == 0
    assert done.stderr == ""
    return done.stdout.split()


def test_agents_jobs_statuses_and_profiles_complete(env: dict[str, str], tmp_path: Path) -> None:
    with serving({**env, "ARCP_TOKEN": "sesame"}, "--agents", "cli_agents:make") as (url, _):
        known = {"ARCP_URL": url, "ARCP_TOKEN": "sesame"}
        ran = run({**env, **known}, "run", "echo", "-i", "1", "--detach").stdout.strip()
        assert {"echo", "fails"} <= set(offers(env, "run", "", **known))
        assert offers(env, "run", "busy@", **known) == ["busy@1.0.0"]
        assert offers(env, "jobs", "--agent", "ech", **known) == ["echo"]
        for command in ("watch", "status", "result", "cancel", "record"):
            assert offers(env, command, "job_", **known) == [ran]
        assert offers(env, "run", "", ARCP_URL=url) == []  # without the token
    assert offers(env, "run", "", **known) == []  # without the runtime
    assert offers(env, "jobs", "--status", "r") == ["running"]
    config = tmp_path / ".config" / "arcp-client"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[profiles.prod]\nurl = "wss://x/"\n[profiles.test]\n')
    assert offers(env, "ping", "--profile", "p") == ["prod"]
    (config / "config.toml").write_text("no TOML")
    assert offers(env, "ping", "--profile", "p") == []
    assert offers(env, "run", "") == []
