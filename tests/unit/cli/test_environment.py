"""Every place that a setting comes from, written by every editor and shell."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from pydantic import SecretStr

from arcp_client.cli import environment, keys, tokens
from arcp_client.cli.actions import saved_runs
from arcp_client.cli.actions.follow import read_input
from arcp_client.cli.actions.login import _typed
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.settings import settle
from arcp_client.cli.settings_files import profiles
from tests.unit.cli.test_keys import FakeKeyring

URL = "ws://127.0.0.1:7777/arcp"
TOKEN = "sesame-7"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, an empty home, no variables."""
    for name in [each for each in os.environ if each.startswith("ARCP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "config" / "arcp-client").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> FakeKeyring:
    fake = FakeKeyring()
    monkeypatch.setitem(sys.modules, "keyring", fake)
    return fake


# ------------------------------------------------------------------------- files

WRITERS: dict[str, Callable[[str], bytes]] = {
    "plain": str.encode,
    "a byte order mark": lambda text: codecs.BOM_UTF8 + text.encode(),
    "line ends of Windows": lambda text: text.replace("\n", "\r\n").encode() + b"\r\n",
    "a mark and line ends of Windows": lambda text: (
        codecs.BOM_UTF8 + text.replace("\n", "\r\n").encode() + b"\r\n"
    ),
    "UTF-16, little end first": lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
    "UTF-16, big end first": lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
    "UTF-32": lambda text: codecs.BOM_UTF32_LE + text.encode("utf-32-le"),
    "empty lines at the end": lambda text: text.encode() + b"\n\n\n",
}
REFUSED: dict[str, Callable[[str], bytes]] = {
    "UTF-16 without a mark": lambda text: text.encode("utf-16-le"),
    "Latin-1": lambda text: text.encode() + "# é".encode("latin-1"),
    "half of UTF-16": lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le") + b"x",
    "binary": lambda text: b"\x7fELF\x00\x01" + text.encode(),
}
written = pytest.mark.parametrize("written", WRITERS.values(), ids=WRITERS.keys())
refused = pytest.mark.parametrize("written", REFUSED.values(), ids=REFUSED.keys())


@written
def test_a_token_file_of_any_editor_is_read(
    home: Path, monkeypatch: pytest.MonkeyPatch, written: Callable[[str], bytes]
) -> None:
    file = home / "token"
    file.write_bytes(written(TOKEN))
    assert tokens.read_token(file).get_secret_value() == TOKEN
    monkeypatch.setenv("ARCP_TOKEN_FILE", f"{file}\r\n")
    assert settle().token() == SecretStr(TOKEN)
    assert tokens.served_token(None) == SecretStr(TOKEN)


@written
@pytest.mark.parametrize("where", ["here/arcp.toml", "config/arcp-client/config.toml"])
def test_a_settings_file_of_any_editor_is_read(
    home: Path, where: str, written: Callable[[str], bytes]
) -> None:
    text = 'url = " ws://file/ "\noutput = "json"\n[profiles.prod]\nurl = "wss://prod/"\n'
    (home / where).write_bytes(written(text))
    assert (settle().url.value, settle().output.value) == ("ws://file/", "json")
    assert settle(profile="prod").url.value == "wss://prod/"
    assert profiles() == ["prod"]


@written
def test_an_input_of_any_editor_is_read(
    home: Path, monkeypatch: pytest.MonkeyPatch, written: Callable[[str], bytes]
) -> None:
    data = written('{"a":\n"ü"}')
    (home / "input.json").write_bytes(data)
    assert read_input(f"@{home}/input.json") == msgspec.Raw(rb'{"a":"\u00fc"}')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert read_input("-") == msgspec.Raw(rb'{"a":"\u00fc"}')


@refused
def test_a_file_that_is_no_text_is_refused_in_one_sentence(
    home: Path, written: Callable[[str], bytes]
) -> None:
    file = home / "x"
    file.write_bytes(written(TOKEN))
    Path("arcp.toml").write_bytes(written('url = "ws://file/"\n'))
    asked = (lambda: tokens.read_token(file), settle, lambda: read_input(f"@{file}"))
    for ask in asked:
        with pytest.raises(CommandError, match="is not text in UTF-8") as caught:
            ask()
        assert (caught.value.code, caught.value.remedy) == (Exit.USAGE, "save it as UTF-8")
        assert TOKEN not in str(caught.value)


def test_a_closed_stdin_is_no_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(CommandError, match="stdin is closed"):
        read_input("-")


# ------------------------------------------------------------------------- variables

AROUND = {
    "a line break": "{}\n",
    "a line break of Windows": "{}\r\n",
    "spaces": "  {} \t",
    "a byte order mark": "\ufeff{}",
    "a mark and a line break": "\ufeff{}\r\n",
}
around = pytest.mark.parametrize("around", AROUND.values(), ids=AROUND.keys())


@around
def test_what_stands_around_a_variable_is_no_part_of_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, keyring: FakeKeyring, around: str
) -> None:
    Path("arcp.toml").write_text('[profiles.prod]\noutput = "json"\n')
    monkeypatch.setenv("ARCP_PROFILE", around.format("prod"))
    monkeypatch.setenv("ARCP_URL", around.format(URL))
    monkeypatch.setenv("ARCP_TOKEN", around.format(TOKEN))
    settled = settle()
    assert (settled.profile.value, settled.output.value, settled.url.value) == ("prod", "json", URL)
    assert settled.token() == SecretStr(TOKEN)
    monkeypatch.setenv("ARCP_OUTPUT", around.format("jsonl"))
    assert settle().output.value == "jsonl"
    assert settle(url=around.format("ws://flag/")).url.value == "ws://flag/"
    assert tokens.served_token(None) == SecretStr(TOKEN)
    monkeypatch.setenv("ARCP_WEB_TOKEN", around.format(TOKEN))
    assert tokens.served_token(None, name="ARCP_WEB_TOKEN") == SecretStr(TOKEN)


@around
def test_what_stands_around_a_token_in_the_keyring_is_no_part_of_it(
    keyring: FakeKeyring, around: str
) -> None:
    keys.keep(URL, SecretStr(around.format(TOKEN)))
    assert settle(url=URL).token() == SecretStr(TOKEN)


@around
def test_what_stands_around_a_typed_token_is_no_part_of_it(
    monkeypatch: pytest.MonkeyPatch, around: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(around.format(TOKEN)))
    assert _typed(URL) == SecretStr(TOKEN)


NO_TOKENS = {
    "two words": "two tokens",
    "two lines": "two\ntokens",
    "a control character": "to\x1bken",
    "a null": "to\0ken",
    "a zero-width space": "to\u200bken",
    "white space alone": " \r\n",
    "a mark alone": "\ufeff",
    "bytes that are no text": "to\udcffken",
}


@pytest.mark.parametrize("text", NO_TOKENS.values(), ids=NO_TOKENS.keys())
def test_what_is_no_token_is_refused_in_one_sentence_that_does_not_show_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, keyring: FakeKeyring, text: str
) -> None:
    def of_variable(name: str) -> Callable[[], object]:
        def ask() -> object:
            # What no real environment can hold is not put there.
            if "\0" in text:
                return tokens.to_token(text, name)
            monkeypatch.setenv(name, text)
            return tokens.served_token(None, name=name)

        return ask

    def of_settings() -> object:
        of_variable("ARCP_TOKEN")
        if "\0" in text:
            return tokens.to_token(text, "ARCP_TOKEN")
        monkeypatch.setenv("ARCP_TOKEN", text)
        return settle().token()

    def of_keyring() -> object:
        monkeypatch.delenv("ARCP_TOKEN", raising=False)
        keys.keep(URL, SecretStr(text))
        return settle(url=URL).token()

    for ask in (of_variable("ARCP_TOKEN"), of_variable("ARCP_WEB_TOKEN"), of_settings, of_keyring):
        with pytest.raises(CommandError, match="must contain one token|is empty") as caught:
            ask()
        assert caught.value.code is Exit.USAGE
        assert "ken" not in str(caught.value).replace("token", "")


@pytest.mark.parametrize("name", ["ARCP_URL", "ARCP_OUTPUT", "ARCP_PROFILE", "ARCP_TOKEN_FILE"])
@pytest.mark.parametrize("value", [" ", "\r\n", "\ufeff"])
def test_a_variable_of_white_space_is_said(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(CommandError, match=f"{name} contains only white space"):
        settle()
    monkeypatch.setenv(name, "")  # as good as not set
    settle()


def test_a_variable_that_is_no_text_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCP_URL", "ws://\udcff/")
    with pytest.raises(CommandError, match="ARCP_URL is not text"):
        settle()


# ------------------------------------------------------------------------- what is withheld


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    names = {"ARCP_TOKEN", "ARCP_TOKEN_FILE", "ARCP_WEB_TOKEN", "ARCP_MY_TOKENS_2", "arcp_token"}
    names |= {"ARCP_WEBHOOK", "ARCP_WEBHOOK_SECRET"}
    for name in names:
        monkeypatch.setenv(name, TOKEN)
    monkeypatch.setenv("ARCP_URL", URL)
    return names


def test_every_variable_with_a_secret_is_withheld_and_no_other(secrets: set[str]) -> None:
    before = dict(os.environ)
    tokens.withhold()
    assert set(before) - set(os.environ) == secrets


def test_a_token_that_is_served_with_is_withheld_even_if_it_cannot_be_used(
    secrets: set[str], home: Path
) -> None:
    with pytest.raises(CommandError):
        tokens.served_token(home / "nowhere")
    assert not secrets & set(os.environ)


# ------------------------------------------------------------------------- homes


def without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name)


def check_that_nothing_is_needed() -> None:
    """What commands ask of the user's directories, none of which can be used."""
    assert settle().url.value == URL
    assert settle().token() is None
    assert profiles() == []
    assert saved_runs.unfinished() == []
    assert saved_runs.find("job_1") is None
    saved_runs.forget("job_1")
    with pytest.raises(OSError, match=r"."):  # `run` says so, and goes on
        saved_runs.begin(url=URL, submit={"agent": "a"})
    assert not keys.known(URL)
    assert keys.forget(URL) is False


@pytest.mark.parametrize("path", ["/dev/null", "/dev/null/home", "/proc", "/" + "x" * 5000])
def test_a_home_that_cannot_be_used_ends_nothing_that_needs_no_file(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    without_variables(monkeypatch)
    monkeypatch.setenv("HOME", path)
    check_that_nothing_is_needed()


def test_a_home_that_nobody_knows_is_not_looked_for_in_the_working_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_variables(monkeypatch)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # no HOME, and no such user
    planted = Path("~/.config/arcp-client")
    planted.mkdir(parents=True)
    (planted / "config.toml").write_text('url = "ws://evil.example/"\n')
    check_that_nothing_is_needed()


@pytest.mark.parametrize("name", ["XDG_CONFIG_HOME", "XDG_STATE_HOME"])
def test_a_relative_directory_is_not_used(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "here")
    found = environment.user_directory("config" if "CONFIG" in name else "state")
    assert found is None or home / "home" in found.parents  # as the version of platformdirs has it


def test_a_home_that_cannot_be_searched_holds_no_settings(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests may run as root, who can search everything."""

    def refuse(self: Path, *_: object, **__: object) -> object:
        raise PermissionError(13, "Permission denied", str(self))

    for verb in ("read_bytes", "lstat", "mkdir", "iterdir", "read_text"):
        monkeypatch.setattr(Path, verb, refuse)
    check_that_nothing_is_needed()


def test_a_settings_file_that_is_there_and_cannot_be_read_is_said(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("arcp.toml").mkdir()
    with pytest.raises(CommandError, match="cannot be read: Is a directory"):
        settle()


def test_a_token_file_in_a_home_that_nobody_knows_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(CommandError, match="cannot be read: Could not determine home directory"):
        tokens.read_token(Path("~/token"))


def test_an_empty_token_is_called_empty() -> None:
    with pytest.raises(CommandError, match="the token is empty"):
        tokens.to_token(" \n", "the token")
