"""Tokens in the keyring: asked for where one was put, and whatever a keyring does is bounded."""

from __future__ import annotations

import json
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import platformdirs
import pytest
from pydantic import SecretStr

from arcp_client.cli import keys
from arcp_client.cli.actions.config import show
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.settings import settle

URL = "wss://runtime.example/arcp"


class FakeKeyring(ModuleType):
    """What of the package keyring is used."""

    def __init__(self) -> None:
        super().__init__("keyring")
        self.kept: dict[tuple[str, str], str] = {}
        self.asked: list[str] = []

    def get_keyring(self) -> Any:
        class Backend:
            name = "a fake"

        return Backend()

    def get_password(self, service: str, name: str) -> str | None:
        self.asked.append(name)
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, value: str) -> None:
        self.kept[service, name] = value

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("URL", "TOKEN", "TOKEN_FILE", "PROFILE", "OUTPUT"):
        monkeypatch.delenv(f"ARCP_{name}", raising=False)
    for name in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> FakeKeyring:
    fake = FakeKeyring()
    monkeypatch.setitem(sys.modules, "keyring", fake)
    return fake


def file() -> Path:
    return Path(platformdirs.user_state_dir("arcp-client")) / "logins.json"


def test_a_token_is_kept_fetched_and_forgotten(keyring: FakeKeyring) -> None:
    assert not keys.known(URL)
    assert keys.keep(URL, SecretStr("sesame")) == "a fake"
    assert keys.known(URL)
    assert keys.fetch(URL).get_secret_value() == "sesame"
    assert keys.forget(URL)
    assert not keys.known(URL)
    assert not keys.forget(URL)
    assert keyring.kept == {}


def test_the_list_of_logins_is_the_owners_alone_and_holds_no_token(keyring: FakeKeyring) -> None:
    keys.keep(URL, SecretStr("sesame"))
    assert stat.S_IMODE(file().stat().st_mode) == 0o600
    assert json.loads(file().read_text()) == [URL]
    assert "sesame" not in file().read_text()


def test_a_runtime_is_the_same_however_its_url_is_written(keyring: FakeKeyring) -> None:
    keys.keep("wss://me:pw@Runtime.Example/arcp?x=1#y", SecretStr("sesame"))
    assert keys.known(URL)
    assert "pw" not in file().read_text()
    for other in ("ws://runtime.example/arcp", "wss://runtime.example:1/arcp", "wss://other/arcp"):
        assert not keys.known(other)
    keys.keep("ws://[::1]:80/arcp", SecretStr("six"))
    assert keys.known("ws://[::1]:80/arcp")


def test_only_a_runtime_whose_token_was_put_there_opens_the_keyring(keyring: FakeKeyring) -> None:
    assert settle().token() is None
    assert settle(url=URL).token() is None
    assert keyring.asked == []
    keys.keep(URL, SecretStr("sesame"))
    token = settle(url=URL).token()
    assert token is not None
    assert token.get_secret_value() == "sesame"
    assert settle(url="wss://other.example/arcp").token() is None
    assert keyring.asked == [URL]


def test_everything_else_comes_before_the_keyring(
    keyring: FakeKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.keep(URL, SecretStr("sesame"))
    monkeypatch.setenv("ARCP_TOKEN", "mine")
    token = settle(url=URL).token()
    assert token is not None
    assert token.get_secret_value() == "mine"
    assert keyring.asked == []


def test_a_local_file_may_name_a_runtime_whose_token_is_there(
    keyring: FakeKeyring, home: Path
) -> None:
    keys.keep(URL, SecretStr("sesame"))
    (home / "arcp.toml").write_text(f'url = "{URL}"')
    assert settle().token() is not None  # it can be sent nowhere else


def test_config_show_says_where_it_is_from_and_asks_nothing(
    keyring: FakeKeyring, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.keep(URL, SecretStr("sesame"))
    monkeypatch.setenv("ARCP_URL", URL)
    show(profile=None, origin=True, output=None)
    said = capsys.readouterr().out
    assert "(set)  (keyring)" in said
    assert "sesame" not in said
    assert keyring.asked == []


# ------------------------------------------------------------------------- what goes wrong


def refused() -> CommandError:
    with pytest.raises(CommandError) as caught:
        settle(url=URL).token()
    return caught.value


def test_without_the_package_it_is_said_how_to_get_it(
    keyring: FakeKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.keep(URL, SecretStr("sesame"))
    monkeypatch.setitem(sys.modules, "keyring", None)
    problem = refused()
    assert problem.code is Exit.USAGE
    assert "arcp-client[keyring]" in problem.remedy


def test_a_token_that_somebody_removed_is_missed(keyring: FakeKeyring) -> None:
    keys.keep(URL, SecretStr("sesame"))
    keyring.kept.clear()
    problem = refused()
    assert problem.code is Exit.AUTHENTICATION
    assert "arcp-client login" in problem.remedy
    assert keys.forget(URL)


def test_a_keyring_that_fails_is_quoted_in_one_line(
    keyring: FakeKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys.keep(URL, SecretStr("sesame"))

    def fails(service: str, name: str) -> str:
        raise RuntimeError("No recommended backend\nwas available")

    monkeypatch.setattr(keyring, "get_password", fails)
    problem = refused()
    assert problem.happened == "the keyring cannot be used: No recommended backend"
    assert "ARCP_TOKEN" in problem.remedy


@pytest.fixture
def hanging(keyring: FakeKeyring, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    keys.keep(URL, SecretStr("sesame"))
    end = threading.Event()

    def hangs(service: str, name: str) -> None:
        end.wait(50)

    monkeypatch.setattr(keyring, "get_password", hangs)
    monkeypatch.setattr(keys, "PATIENCE", 0.05)
    yield
    end.set()
    for thread in threading.enumerate():
        if thread.name == "keyring":
            thread.join(10)


@pytest.mark.usefixtures("hanging")
def test_a_keyring_that_never_answers_is_not_waited_for_long() -> None:
    problem = refused()
    assert problem.code is Exit.AUTHENTICATION
    assert "has not answered" in problem.happened


def test_a_broken_list_of_logins_is_none(keyring: FakeKeyring) -> None:
    keys.keep(URL, SecretStr("sesame"))
    for text in ("", "{}", "[1, null]", "\0"):
        file().write_text(text)
        assert not keys.known(URL)
