"""Where a token comes from, and where it never is: in arguments, in output, in other programs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

from tests.e2e.shell import COMMAND, HERE, PATIENCE, Env, ended, fresh, run, serving, terminal

Done = subprocess.CompletedProcess[str]
Call = Callable[..., Done]

TOKEN = "canary-t0ken"
SECRETS = {
    "ARCP_TOKEN": TOKEN,
    "ARCP_TOKEN_FILE": f"/{TOKEN}",
    "ARCP_WEB_TOKEN": TOKEN,
    "ARCP_OTHER_TOKEN_2": TOKEN,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def env(home: Path) -> Env:
    return {
        **fresh(home),
        # A keyring that needs no desktop; the processes find it beside the agents.
        "PYTHON_KEYRING_BACKEND": "file_keyring.FileKeyring",
        "TEST_KEYRING": str(home / "keyring.json"),
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent.parent)]),
    }


@pytest.fixture(scope="module")
def url(env: Env) -> Iterator[str]:
    with serving({**env, **SECRETS}, "--agents", "token_agents:make") as (url, _):
        yield url


@pytest.fixture
def arcp(env: Env, url: str, tmp_path: Path) -> Call:
    def call(*words: str, input: str = "", **more: str) -> Done:
        return run({**env, "ARCP_URL": url, **more}, *words, cwd=tmp_path, input=input)

    return call


# ------------------------------------------------------------------------- the keyring


def test_a_token_is_typed_once_and_forgotten_on_request(
    arcp: Call, env: Env, url: str, home: Path
) -> None:
    with terminal(env, "login", "--url", url) as child:
        child.expect("token for ws://127.0.0.1")
        child.waitnoecho(PATIENCE)
        child.sendline("wrong")
        child.expect("https://")
        assert ended(child) == 4
    assert not (home / "keyring.json").exists()
    with terminal(env, "login", "--url", url) as child:
        child.expect("token for ws://127.0.0.1")
        child.waitnoecho(PATIENCE)
        child.sendline(TOKEN)
        child.expect("is in the keyring \\(a file\\)")
        shown = str(child.before)
        assert ended(child) == 0
    assert TOKEN not in shown
    done = arcp("ping")
    assert (done.returncode, "token-tests" in done.stdout) == (0, True)
    shown = arcp("config", "show", "--origin").stdout
    assert "(set)  (keyring)" in shown
    assert TOKEN not in shown
    assert arcp("logout").returncode == 0
    assert TOKEN not in (home / "keyring.json").read_text()
    assert arcp("ping").returncode == 4


def test_a_token_can_be_piped_to_login(arcp: Call) -> None:
    assert arcp("login", input=f"{TOKEN}\n").returncode == 0
    assert arcp("ping").returncode == 0
    assert "removed the token" in arcp("logout").stderr
    assert "no token for" in arcp("logout").stderr
    empty = arcp("login", input="")
    assert (empty.returncode, "the token is empty" in empty.stderr) == (2, True)


def test_login_sends_nothing_to_where_somebody_elses_file_says(arcp: Call, tmp_path: Path) -> None:
    (tmp_path / "arcp.toml").write_text('url = "wss://evil.example/arcp"')
    done = arcp("login", input=TOKEN, ARCP_URL="")
    assert done.returncode == 2
    assert "evil.example" in done.stderr


# ------------------------------------------------------------------------- asked for


def test_a_person_is_asked_for_a_token_that_is_missing(env: Env, url: str) -> None:
    with terminal(env, "run", "leaks", ARCP_URL=url) as child:
        for typed in ("wrong", TOKEN):
            child.expect("token for ws://127.0.0.1")
            child.waitnoecho(PATIENCE)
            child.sendline(typed)
        child.expect("I know (\\S+)")
        assert child.match.group(1).startswith(TOKEN)  # that is the agent's own word
        assert ended(child) == 0


def test_an_answer_that_is_none_ends_it(env: Env, url: str) -> None:
    with terminal(env, "ping", ARCP_URL=url) as child:
        child.expect("token for ws://127.0.0.1")
        child.waitnoecho(PATIENCE)
        child.sendline("")
        assert ended(child) == 4


def test_the_question_can_be_interrupted_and_the_echo_comes_back(env: Env, url: str) -> None:
    command = " ".join(COMMAND)
    script = f"trap : INT; {command} ping; echo code $?; stty -a"
    child = pexpect.spawn(
        "/bin/sh", ["-c", script], env={**env, "ARCP_URL": url}, encoding="utf-8", timeout=PATIENCE
    )
    try:
        child.expect("token for ws://127.0.0.1")
        child.waitnoecho(PATIENCE)
        child.sendintr()
        child.expect("code 130")
        child.expect("[ -]echo ")
        assert child.match.group(0) == " echo "
    finally:
        child.close(force=True)


def test_nobody_is_asked_where_nobody_is(arcp: Call) -> None:
    done = arcp("ping", input="x\n")
    assert done.returncode == 4
    assert "token for" not in done.stderr
    assert "arcp-client login" in done.stderr


# ------------------------------------------------------------------------- where it is not


@pytest.mark.parametrize("command", ["run", "watch", "serve", "login", "record"])
def test_no_command_takes_a_token_as_an_argument(arcp: Call, command: str) -> None:
    done = arcp(command, "x", "--token", TOKEN)
    assert done.returncode == 2
    assert TOKEN not in done.stdout


def test_other_users_cannot_read_the_token_of_a_running_command(
    arcp: Call, env: Env, url: str, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    for words, more in (
        (["run", "waits"], {"ARCP_TOKEN": TOKEN}),
        (["run", "waits", "--token-file", str(path)], {}),
    ):
        with terminal(env, *words, interpreter=True, ARCP_URL=url, **more) as child:
            child.expect("waiting")
            arguments = Path(f"/proc/{child.pid}/cmdline").read_bytes()
            assert b"waits" in arguments
            assert TOKEN.encode() not in arguments
            assert Path(f"/proc/{child.pid}/environ").stat().st_mode & 0o077 == 0
            child.sendintr()
            child.sendintr()
            child.expect(pexpect.EOF)


def test_a_program_that_an_agent_starts_is_not_given_the_token(arcp: Call) -> None:
    done = arcp("run", "environment", ARCP_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    assert "'PATH'" in done.stdout
    assert TOKEN not in done.stdout
    assert "TOKEN" not in done.stdout


def test_an_agent_of_another_protocol_is_not_given_the_token(arcp: Call, tmp_path: Path) -> None:
    program = "import os, pathlib; pathlib.Path('seen').write_text(str(dict(os.environ)))"
    arcp("acp", "--prompt", "x", "python3", "-c", program, **SECRETS)
    seen = (tmp_path / "seen").read_text()
    assert "'PATH'" in seen
    assert "TOKEN" not in seen


def test_a_hosted_agent_of_another_protocol_is_not_given_the_token(
    env: Env, tmp_path: Path
) -> None:
    program = tmp_path / "agent.py"
    seen = tmp_path / "seen"
    program.write_text(
        f"import os, pathlib; pathlib.Path({str(seen)!r}).write_text(str(dict(os.environ)))"
    )
    options = ("--acp", f"odd=python3 {program}")
    with serving({**env, **SECRETS}, *options) as (url, _):
        words = ("run", "odd", "-i", '"x"', "--url", url)
        done = run({**env, "ARCP_TOKEN": TOKEN}, *words, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "'PATH'" in seen.read_text()
    assert "TOKEN" not in seen.read_text()


@pytest.mark.parametrize("options", [["web", "--port", "0", "--open"]])
def test_a_browser_is_not_given_the_token(
    arcp: Call, env: Env, url: str, tmp_path: Path, options: list[str]
) -> None:
    browser = tmp_path / "browser"
    seen = tmp_path / "seen"
    browser.write_text(f"#!/bin/sh\nenv > {seen}.part; mv {seen}.part {seen}\n")
    browser.chmod(0o755)
    with terminal(
        env,
        *options,
        "--url",
        url,
        **SECRETS,
        BROWSER=f"{browser} %s",
    ) as child:
        child.expect("the dashboard is on")
        while not seen.exists():
            child.expect([pexpect.TIMEOUT], timeout=0.05)
        child.sendintr()
        child.expect(pexpect.EOF)
    assert "PATH=" in seen.read_text()
    assert "TOKEN" not in seen.read_text()
