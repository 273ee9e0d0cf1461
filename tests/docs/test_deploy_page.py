"""The files of the page on deployment: their commands run, and end at SIGTERM without data loss."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("forked")

FILES = Path(__file__).parents[2] / "examples" / "deploy"
CONTAINER = (FILES / "Containerfile").read_text(encoding="utf-8")
UNIT = ConfigParser(interpolation=None)
UNIT.optionxform = str  # type: ignore[assignment,method-assign]
UNIT.read(FILES / "arcp.service")


def command_of_container() -> list[str]:
    found = re.search(r"^CMD (\[.*\])$", CONTAINER, re.MULTILINE)
    assert found is not None
    words: list[str] = json.loads(found[1])
    return words


def command_of_unit() -> list[str]:
    return shlex.split(UNIT["Service"]["ExecStart"])


COMMANDS = {"container": command_of_container(), "systemd": command_of_unit()}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_serves_with_the_token_and_keeps_its_data(name: str, tmp_path: Path) -> None:
    shutil.copy(FILES / "my_agents.py", tmp_path)
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o600)
    program, *words = COMMANDS[name]
    assert Path(program).name == "arcp-client"
    here = {"--db": str(tmp_path / "runtime.db"), "--host": "127.0.0.1", "--token-file": str(token)}
    words = [here.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    environment = os.environ | {
        "PYTHONPATH": str(FILES.parents[1]),
        "ARCP_TOKEN_FILE": str(token),
        "HOME": str(tmp_path),
    }
    environment.pop("ARCP_TOKEN", None)
    for number in (1, 2):  # the second process opens the file of the first one
        server = subprocess.Popen(
            [sys.executable, "-m", "arcp_client", *words, "--port", "0"],
            cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            assert server.stderr is not None
            url = server.stderr.readline().split()[-1]
            key = ["--key", "the same job"]
            run = ["run", "count", "--input", '{"to": 3}', "--url", url, "--output", "json", *key]
            done = subprocess.run(
                [sys.executable, "-m", "arcp_client", *run],
                cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60,
                check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert '"counted": 3' in done.stdout, number
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=60)
        assert server.returncode == 0
    assert (tmp_path / "runtime.db").is_file()


def test_a_supervisor_waits_longer_than_jobs_may_take_to_end() -> None:
    for name, words in COMMANDS.items():
        grace = float(words[words.index("--grace") + 1])
        assert 0 < grace < 30, name
    assert float(UNIT["Service"]["TimeoutStopSec"]) >= 30
    page = (FILES.parents[1] / "docs" / "howto" / "deploy.md").read_text(encoding="utf-8")
    assert "--stop-timeout 30" in page


def test_neither_runs_as_root_or_has_the_token_in_its_command() -> None:
    assert re.search(r"^USER arcp$", CONTAINER, re.MULTILINE)
    assert UNIT["Service"]["User"] == "arcp"
    for words in COMMANDS.values():
        assert not [word for word in words if "TOKEN=" in word]


def test_the_configuration_of_nginx_is_balanced_and_upgrades_connections() -> None:
    text = (FILES / "nginx.conf").read_text(encoding="utf-8")
    assert text.count("{") == text.count("}") == 2
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    assert all(line.endswith((";", "{", "}")) for line in lines)
    for needed in ("proxy_http_version 1.1;", "$http_upgrade;", '"upgrade";', "Host $host;"):
        assert needed in text
