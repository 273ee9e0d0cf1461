"""Which agent the words of `arcp-client acp` name, and what it gets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from arcp_client.acp import LocalFiles, LocalTerminals
from arcp_client.cli.actions.acp_agent import ChosenAgent, choose
from arcp_client.cli.exit_codes import CommandError, Exit

SECRET = "s3cr3t-of-the-test"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ARCP_")]:
        monkeypatch.delenv(name)


def chosen(*command: str, **options: Any) -> ChosenAgent:
    defaults: dict[str, Any] = {"versions": None, "token_file": None, "write": False}
    return choose(command, **{**defaults, **options})


def test_a_program_gets_files_and_terminals(tmp_path: Path) -> None:
    agent = chosen("opencode", "acp", write=True)
    options = agent.options(str(tmp_path))
    assert options["argv"] == agent.known_as == ("opencode", "acp")
    assert isinstance(options["fs"], LocalFiles)
    assert isinstance(options["terminal"], LocalTerminals)
    assert options["versions"] == (1, 2)
    assert "token" not in options


@pytest.mark.parametrize("scheme", ["ws", "wss", "http", "https", "HTTPS", "Wss"])
def test_an_agent_behind_a_url_gets_nothing_of_this_machine(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCP_ACP_TOKEN", SECRET)
    monkeypatch.setenv("ARCP_TOKEN", "of the runtime")
    url = f"{scheme}://user:{SECRET}@agents.test:81/acp?key={SECRET}"
    agent = chosen(url)
    assert agent.options("/work") == {
        "argv": url,
        "token": SecretStr(SECRET),
        "cwd": "/work",
        "versions": (1, 2),
    }
    assert agent.known_as == (f"{scheme.lower()}://agents.test:81/acp",)
    assert not [name for name in os.environ if name.startswith("ARCP_")]


def test_the_token_of_the_runtime_is_for_no_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCP_TOKEN", SECRET)
    assert chosen("wss://agents.test/acp").token is None
    assert "ARCP_TOKEN" not in os.environ


def test_a_token_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n", encoding="utf-8")
    assert chosen("https://agents.test/acp", token_file=file).token == SecretStr(SECRET)


@pytest.mark.parametrize(
    ("text", "versions"), [("1", (1,)), ("2", (2,)), ("2,1", (2, 1)), ("1, 2", (1, 2))]
)
def test_versions_are_listed_in_the_order_of_preference(
    text: str, versions: tuple[int, ...]
) -> None:
    assert chosen("agent", versions=text).versions == versions


@pytest.mark.parametrize("text", ["", "3", "1,", "1,1", "two", "1;2", "1,2,1", "\u0661"])
def test_what_lists_no_versions_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="--versions") as caught:
        chosen("agent", versions=text)
    assert caught.value.code == Exit.USAGE


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        (["wss://agents.test/acp", "acp"], {}, "takes no arguments"),
        (["https://agents.test/acp"], {"write": True}, "--write is for an agent on this machine"),
        (["agent"], {"token_file": Path("token")}, "--token-file"),
    ],
)
def test_contradictions_are_refused(
    command: list[str],
    options: dict[str, Any],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("token").write_text(SECRET, encoding="utf-8")
    with pytest.raises(CommandError, match=words) as caught:
        chosen(*command, **options)
    assert caught.value.code == Exit.USAGE
