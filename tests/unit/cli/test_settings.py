"""Where settings come from, and where the token never goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from arcp_client.cli.actions.config import show
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.output_format import Output
from arcp_client.cli.settings import settle
from arcp_client.cli.tokens import read_token


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, an empty home, no variables."""
    for name in ("URL", "TOKEN", "TOKEN_FILE", "PROFILE", "OUTPUT"):
        monkeypatch.delenv(f"ARCP_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "config" / "arcp-client").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def user_file(home: Path, text: str) -> Path:
    path = home / "config" / "arcp-client" / "config.toml"
    path.write_text(text)
    return path


def test_a_flag_wins_over_all_else(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [("ws://127.0.0.1:7777/arcp", "default")]
    assert (settle().url.value, settle().url.origin) == steps[0]
    user = user_file(home, 'url = "ws://user/"')
    assert (settle().url.value, settle().url.origin) == ("ws://user/", str(user))
    Path("arcp.toml").write_text('url = "ws://local/"')
    assert (settle().url.value, settle().url.origin) == ("ws://local/", "./arcp.toml")
    monkeypatch.setenv("ARCP_URL", "ws://env/")
    assert (settle().url.value, settle().url.origin) == ("ws://env/", "ARCP_URL")
    flagged = settle(url="ws://flag/")
    assert (flagged.url.value, flagged.url.origin) == ("ws://flag/", "--url")


def test_profiles_lie_over_the_top_level(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("arcp.toml").write_text(
        'url = "ws://top/"\noutput = "json"\n[profiles.prod]\nurl = "wss://prod/"\n'
    )
    assert settle().url.value == "ws://top/"
    prod = settle(profile="prod")
    assert (prod.url.value, prod.output.value) == ("wss://prod/", "json")
    monkeypatch.setenv("ARCP_PROFILE", "prod")
    assert settle().url.value == "wss://prod/"
    with pytest.raises(CommandError, match="the profile 'nope'") as refused:
        settle(profile="nope")
    assert refused.value.code is Exit.USAGE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("url = ", "is not TOML"),
        ("url = 3", "unknown setting url"),
        ('colour = "red"', "unknown setting colour"),
        ('output = "xml"', "output is text, json, jsonl, not 'xml'"),
        ('profiles = "x"', "must be a table"),
        ('token = "secret"', "unknown setting token"),
        ('token_file = "~/.ssh/id_rsa"', "token_file is valid only in the user's file"),
    ],
)
def test_what_a_local_file_may_not_say(text: str, said: str) -> None:
    Path("arcp.toml").write_text(text)
    with pytest.raises(CommandError, match=said):
        settle()


def test_the_token_comes_from_the_first_place_that_has_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settle().token() is None
    (home / "t").write_text("from-user-file\n")
    user_file(home, f'token_file = "{home / "t"}"')
    token = settle().token()
    assert token is not None
    assert token.get_secret_value() == "from-user-file"
    (home / "u").write_text("from-variable")
    monkeypatch.setenv("ARCP_TOKEN_FILE", str(home / "u"))
    token = settle().token()
    assert token is not None
    assert token.get_secret_value() == "from-variable"
    monkeypatch.setenv("ARCP_TOKEN", "itself")
    token = settle().token()
    assert token is not None
    assert token.get_secret_value() == "itself"
    token = settle(token_file=home / "t").token()
    assert token is not None
    assert token.get_secret_value() == "from-user-file"


def test_a_directory_cannot_collect_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("arcp.toml").write_text('url = "wss://evil.example/arcp"')
    assert settle().token() is None
    monkeypatch.setenv("ARCP_TOKEN", "sesame")
    with pytest.raises(CommandError, match="a token would be sent there"):
        settle().token()
    Path("arcp.toml").write_text('url = "ws://localhost:1/arcp"')
    assert settle().token() is not None
    assert settle(url="wss://evil.example/arcp").token() is not None


@pytest.mark.parametrize("content", ["", " \n", "two tokens", None])
def test_a_token_file_holds_one_token(home: Path, content: str | None) -> None:
    path = home / "t"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CommandError) as refused:
        read_token(path)
    assert refused.value.code is Exit.USAGE
    assert "tokens" not in str(refused.value)


def test_show_never_shows_the_token(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ARCP_TOKEN", "sesame")
    assert show(profile=None, origin=True, output=None) is Exit.SUCCESS
    assert show(profile=None, origin=True, output=Output.JSON) is Exit.SUCCESS
    text = capsys.readouterr().out
    assert "ARCP_TOKEN" in text
    assert "sesame" not in text


def shown(capsys: pytest.CaptureFixture[str], profile: str | None = None) -> dict[str, str]:
    """What ``config show --origin`` says, by setting."""
    show(profile=profile, origin=True, output=None)
    lines = capsys.readouterr().out.splitlines()
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}


def test_show_names_each_origin(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    default = {
        "profile": "default  (default)",
        "url": "ws://127.0.0.1:7777/arcp  (default)",
        "output": "text  (default)",
        "token": "none  (default)",
    }
    assert shown(capsys) == default
    # Each place that is added wins over those before.
    user = user_file(home, 'url = "ws://user/"\noutput = "json"\ntoken_file = "t"')
    assert shown(capsys) == {
        "profile": "default  (default)",
        "url": f"ws://user/  ({user})",
        "output": f"json  ({user})",
        "token": f"(set)  ({user})",
    }
    Path("arcp.toml").write_text(
        'url = "ws://local/"\noutput = "jsonl"\n[profiles.p]\nurl = "ws://p/"'
    )
    assert shown(capsys) == {
        "profile": "default  (default)",
        "url": "ws://local/  (./arcp.toml)",
        "output": "jsonl  (./arcp.toml)",
        "token": f"(set)  ({user})",
    }
    monkeypatch.setenv("ARCP_PROFILE", "p")
    monkeypatch.setenv("ARCP_TOKEN_FILE", "t")
    assert shown(capsys) == {
        "profile": "p  (ARCP_PROFILE)",
        "url": "ws://p/  (./arcp.toml)",
        "output": "jsonl  (./arcp.toml)",
        "token": "(set)  (ARCP_TOKEN_FILE)",
    }
    for name, value in (("URL", "ws://env/"), ("OUTPUT", "text"), ("TOKEN", "secret")):
        monkeypatch.setenv(f"ARCP_{name}", value)
    assert shown(capsys) == {
        "profile": "p  (ARCP_PROFILE)",
        "url": "ws://env/  (ARCP_URL)",
        "output": "text  (ARCP_OUTPUT)",
        "token": "(set)  (ARCP_TOKEN)",
    }
    assert shown(capsys, profile="p")["profile"] == "p  (--profile)"
    flagged = settle(url="ws://flag/", output=Output.JSON, token_file=home / "t")
    assert flagged.token_from is not None
    origins = (flagged.url.origin, flagged.output.origin, flagged.token_from.origin)
    assert origins == ("--url", "--output", "--token-file")
