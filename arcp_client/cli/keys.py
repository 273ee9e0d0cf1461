"""Stores the tokens of runtimes in the user's keyring (extra ``keyring``).

A separate file lists the runtimes whose tokens are in the keyring. So the keyring, which may prompt
for a password, is opened only for these. The file contains no tokens.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pydantic import SecretStr

from arcp_client.cli.environment import user_directory
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.tokens import to_token

__all__ = ["fetch", "forget", "keep", "known"]

T = TypeVar("T")

_SERVICE = "arcp-client"
PATIENCE = 30.0
"""Seconds for the keyring to answer; it may ask for a password."""
_MISSING = "install it with  pip install 'arcp-client[keyring]'"
_INSTEAD = "a token can also be given by ARCP_TOKEN, ARCP_TOKEN_FILE or --token-file"


def known(url: str) -> bool:
    """Whether `keep` has stored a token for this runtime in the keyring."""
    return _name(url) in _listed()


def fetch(url: str) -> SecretStr:
    """Return the token of a `known` runtime.

    Raises:
        CommandError: the keyring cannot be used, or no longer holds the token.
    """
    found = _ask(lambda keyring: keyring.get_password(_SERVICE, _name(url)))
    if not found:
        raise CommandError(
            Exit.AUTHENTICATION,
            f"the keyring no longer holds a token for {_name(url)}",
            "`arcp-client login` stores one, `arcp-client logout` stops asking for it",
        )
    return to_token(found, f"the keyring's entry for {_name(url)}")


def keep(url: str, token: SecretStr) -> str:
    """Store a runtime's token in the keyring; return the keyring's name."""

    def put(keyring: Any) -> str:
        keyring.set_password(_SERVICE, _name(url), token.get_secret_value())
        return str(getattr(keyring.get_keyring(), "name", "the keyring"))

    name = _ask(put)
    _list({*_listed(), _name(url)})
    return name


def forget(url: str) -> bool:
    """Remove a runtime's token from the keyring; return whether there was one."""
    if not known(url):
        return False

    def remove(keyring: Any) -> None:
        if keyring.get_password(_SERVICE, _name(url)) is not None:
            keyring.delete_password(_SERVICE, _name(url))

    _ask(remove)
    _list(_listed() - {_name(url)})
    return True


def _name(url: str) -> str:
    """Return the runtime's URL without user, query and fragment."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    with contextlib.suppress(ValueError):
        host += f":{parts.port}" if parts.port is not None else ""
    return f"{parts.scheme}://{host}{parts.path}"


def _ask(question: Callable[[Any], T]) -> T:
    """Call the keyring with a timeout: some keyrings wait for a desktop that does not exist."""
    answer: list[T] = []
    refused: list[Exception] = []

    def body() -> None:
        try:
            import keyring

            answer.append(question(keyring))
        except Exception as error:  # noqa: BLE001 - backends raise what they like
            refused.append(error)

    thread = threading.Thread(target=body, name="keyring", daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if answer:
        return answer[0]
    if not refused:
        raise CommandError(
            Exit.AUTHENTICATION, f"the keyring has not answered for {PATIENCE:g} seconds", _INSTEAD
        )
    error = refused[0]
    if isinstance(error, ModuleNotFoundError):
        raise CommandError(
            Exit.USAGE, "the package keyring is not installed", f"{_MISSING}; {_INSTEAD}"
        ) from None
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    raise CommandError(
        Exit.AUTHENTICATION, f"the keyring cannot be used: {said}", _INSTEAD
    ) from None


def _file() -> Path:
    directory = user_directory("state")
    if directory is None:
        raise OSError("no home directory is known")
    return directory / "logins.json"


def _listed() -> set[str]:
    try:
        found = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return set()
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def _list(names: set[str]) -> None:
    try:
        path = _file()
        part = path.with_suffix(".part")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(sorted(names), file)
        part.replace(path)
    except OSError as error:
        raise CommandError(
            Exit.USAGE, f"the list of logins cannot be written: {error.strerror or error}", _INSTEAD
        ) from None
