"""Reads environment variables, token files and text files, and finds the user's directories.

This is the one place that handles byte order marks, UTF-16, white space around values, and a home
directory that is missing.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import platformdirs
from pydantic import SecretStr

from arcp_client._security import AllowedHosts
from arcp_client.cli.exit_codes import CommandError, Exit

__all__ = [
    "check_host_names",
    "read_token",
    "served_token",
    "text_of",
    "tidy",
    "to_token",
    "user_directory",
    "variable",
    "withhold",
]

# The marks of UTF-32 first: that of its little-endian form begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_AROUND = "\ufeff\u200b \t\r\n\v\f\0"
_SECRET = re.compile(r"ARCP_\w*TOKEN\w*", re.IGNORECASE)


def text_of(data: bytes, what: str) -> str:
    """A file's text: UTF-8, or what its byte order mark says.

    Raises:
        CommandError: it is no text; ``what`` names the file.
    """
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise _no_text(what) from None
    if "\0" in text:  # UTF-16 without a mark, or no text at all
        raise _no_text(what)
    return text


def _no_text(what: str) -> CommandError:
    return CommandError(Exit.USAGE, f"{what} is not text in UTF-8", "save it as UTF-8")


def tidy(value: str) -> str:
    """A value without white space and byte order marks around it."""
    return value.strip(_AROUND)


def variable(name: str) -> str | None:
    """A variable's value, tidied; None if it is not set, or set to nothing.

    Raises:
        CommandError: it holds nothing but white space, or is not text.
    """
    value = os.environ.get(name)
    if not value:
        return None
    text = tidy(value)
    if not text:
        raise CommandError(
            Exit.USAGE, f"{name} holds nothing but white space", "set it, or unset it"
        )
    if any("\ud800" <= each <= "\udfff" for each in text):  # bytes that the locale cannot read
        raise CommandError(Exit.USAGE, f"{name} is not text in the locale's encoding")
    return text


# ------------------------------------------------------------------------- tokens


def to_token(text: str, what: str) -> SecretStr:
    """A text as a token, without white space and byte order marks around it.

    Raises:
        CommandError: it cannot be one; ``what`` says where it is from.
    """
    text = tidy(text)
    if not text or len(text.split()) != 1 or not text.isprintable():
        raise CommandError(
            Exit.USAGE,
            f"{what} must hold one token and nothing else",
            "a token has no white space, line breaks or control characters inside",
        )
    return SecretStr(text)


def read_token(path: Path) -> SecretStr:
    """The token in a file: its text without what stands around it.

    Raises:
        CommandError: the file cannot be read, or does not hold one token.
    """
    what = f"the token file {path}"
    try:
        data = path.expanduser().read_bytes()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: there is no home for ~
        why = error.strerror if isinstance(error, OSError) else error
        raise CommandError(Exit.USAGE, f"{what} cannot be read: {why}") from None
    return to_token(text_of(data, what), what)


def served_token(file: Path | None, *, name: str = "ARCP_TOKEN") -> SecretStr | None:
    """The token that clients have to show: of a file, or of the variable or ``<variable>_FILE``.

    Afterwards no secret of this command is in the environment; see `withhold`.
    """
    try:
        if file is not None:
            return read_token(file)
        if os.environ.get(name):
            return to_token(os.environ[name], name)
        path = variable(f"{name}_FILE")
        return read_token(Path(path)) if path is not None else None
    finally:
        withhold()


def withhold() -> None:
    """Take every secret of this command out of the environment.

    Programs that agents start, agents of other protocols, browsers and the agents themselves
    inherit the environment; none of them is given ``ARCP_TOKEN``, ``ARCP_TOKEN_FILE``,
    ``ARCP_WEB_TOKEN`` or any other variable ``ARCP_…TOKEN…``.
    """
    for name in [each for each in os.environ if _SECRET.fullmatch(each)]:
        del os.environ[name]


# ------------------------------------------------------------------------- directories


def user_directory(kind: Literal["config", "state"]) -> Path | None:
    """The user's directory for settings or for state; None where no home directory is known.

    A relative one is none: it would be found in whatever directory the command is started in.
    """
    find = platformdirs.user_config_dir if kind == "config" else platformdirs.user_state_dir
    try:
        path = Path(find("arcp-client"))
    except RuntimeError:
        return None
    return path if path.is_absolute() else None


def check_host_names(names: Sequence[str]) -> None:
    """Refuse a ``--allow-host`` that is no host name."""
    try:
        AllowedHosts(names, what="--allow-host")
    except ValueError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
