"""The entry point: quick to import, and helpful where its libraries are missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from arcp_client.cli.exit_codes import Exit

HEAVY = {
    "aiohttp", "arcp_client.client", "arcp_client.models", "asyncio", "email", "importlib.metadata",
    "logging", "msgspec", "pydantic", "reactivex", "rich", "ssl", "typing_extensions",
}  # fmt: skip


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )


@pytest.mark.parametrize("name", ["typer", "rich", "platformdirs"])
def test_a_missing_extra_is_an_instruction(name: str) -> None:
    done = python(
        f"import sys; sys.modules[{name!r}] = None\nfrom arcp_client.cli import main\nmain()"
    )
    assert done.returncode == 2
    assert "pip install 'arcp-client[cli]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("command", [[], ["top"], ["watch"], ["web"], ["config", "show"]])
def test_help_imports_nothing_heavy(command: list[str]) -> None:
    done = python(
        "import sys\n"
        f"sys.argv = ['arcp-client', *{command}, '--help']\n"
        "from arcp_client.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0, end.code\n"
        "heavy = {'aiohttp', 'pydantic', 'msgspec', 'reactivex', 'rich.console'}\n"
        "print('loaded:', sorted(heavy & set(sys.modules)))"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("loaded: []\n")


def test_help_names_the_commands() -> None:
    done = python(
        "import sys\nsys.argv = ['arcp-client', '--help']\nfrom arcp_client.cli import main\nmain()"
    )
    for command in ("demo", "serve", "run", "watch", "jobs", "status", "cancel", "result", "ping"):
        assert f"\n  {command} " in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("words", "offer"),
    [(["ru"], "run"), (["run", "--ou"], "--output"), (["ping", "--profile", "pr"], "prod")],
    ids=["commands", "options", "profiles"],
)
def test_completion_imports_only_the_parser(
    tmp_path: Path, shell: str, words: list[str], offer: str
) -> None:
    folder = tmp_path / "arcp-client"
    folder.mkdir()
    (folder / "config.toml").write_text("[profiles.prod]\n")
    typed = " ".join(["arcp-client", *words])
    done = python(
        "import os, sys\n"
        "sys.argv = ['arcp-client']\n"
        f"os.environ['XDG_CONFIG_HOME'] = {str(tmp_path)!r}\n"
        f"os.environ['_ARCP_CLIENT_COMPLETE'] = 'complete_{shell}'\n"
        f"os.environ['COMP_WORDS'] = os.environ['_TYPER_COMPLETE_ARGS'] = {typed!r}\n"
        f"os.environ['COMP_CWORD'] = '{len(words)}'\n"
        "os.environ['_TYPER_COMPLETE_FISH_ACTION'] = 'get-args'\n"
        "from arcp_client.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0, end.code\n"
        f"heavy = {HEAVY!r}\n"
        "print('loaded:', sorted(name for name in heavy if sys.modules.get(name)))"
    )
    assert done.returncode == 0, done.stderr
    assert offer in done.stdout
    assert done.stdout.endswith("loaded: []\n")


def test_run_imports_neither_servers_nor_other_protocols() -> None:
    done = python(
        "import sys\n"
        "sys.argv = ['arcp-client', 'run', 'echo', '--ephemeral', '--connect-timeout', '0.1']\n"
        "sys.argv += ['--url', 'ws://127.0.0.1:1/arcp']\n"
        "from arcp_client.cli import main\n"
        f"try:\n    main()\nexcept SystemExit as end:\n    assert end.code == {Exit.CONNECTION}\n"
        "parts = ('acp', 'runtime', 'testing', 'web')\n"
        "unused = {'aiohttp.web', *(f'arcp_client.{part}' for part in parts)}\n"
        "print('loaded:', sorted(unused & set(sys.modules)), 'aiohttp' in sys.modules)"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "loaded: [] True\n"


def test_testing_needs_no_extra() -> None:
    done = python(
        "import sys\n"
        "for name in ('typer', 'rich', 'platformdirs', 'pytest'):\n    sys.modules[name] = None\n"
        "import arcp_client.testing"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize("command", [["version", "--output", "json"], ["config", "show"]])
def test_a_full_disk_behind_stdout_is_said(command: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "arcp_client.cli", *command],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert done.returncode == Exit.FAILED
    assert "the output cannot be written: No space left" in done.stderr
    assert "Traceback" not in done.stderr
