"""Reads environment variables, token files and text files, and finds the user's directories.

This module handles byte order marks, UTF-16, white space around values, and a missing home
directory for all commands.
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

# UTF-32 first: its little-endian mark begins with the mark of UTF-16.
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
    """Decode a file's text: UTF-8, or the encoding of its byte order mark.

    Raises:
        CommandError: the data is not text; ``what`` names the file.
    """
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise _no_text(what) from None
    if "\0" in text:  # UTF-16 without a mark, or not text
        raise _no_text(what)
    return text


def _no_text(what: str) -> CommandError:
    return CommandError(Exit.USAGE, f"{what} is not text in UTF-8", "save it as UTF-8")


def tidy(value: str) -> str:
    """Strip white space and byte order marks."""
    return value.strip(_AROUND)


def variable(name: str) -> str | None:
    """Return a variable's stripped value; None if it is unset or empty.

    Raises:
        CommandError: the value is only white space, or is not text.
    """
    value = os.environ.get(name)
    if not value:
        return None
    text = tidy(value)
    if not text:
        raise CommandError(Exit.USAGE, f"{name} contains only white space", "set it, or unset it")
    if any("\ud800" <= each <= "\udfff" for each in text):  # bytes that the locale cannot decode
        raise CommandError(Exit.USAGE, f"{name} is not text in the locale's encoding")
    return text


# ------------------------------------------------------------------------- tokens


def to_token(text: str, what: str) -> SecretStr:
    """Convert a text to a token, stripped of white space and byte order marks.

    Raises:
        CommandError: the text is not a valid token; ``what`` names its source.
    """
    text = tidy(text)
    if not text:
        raise CommandError(Exit.USAGE, f"{what} is empty", "give the token")
    if len(text.split()) != 1 or not text.isprintable():
        raise CommandError(
            Exit.USAGE,
            f"{what} must contain one token and nothing else",
            "a token must not contain white space, line breaks or control characters",
        )
    return SecretStr(text)


def read_token(path: Path) -> SecretStr:
    """Read the token from a file.

    Raises:
        CommandError: the file cannot be read, or does not hold one token.
    """
    what = f"the token file {path}"
    try:
        data = path.expanduser().read_bytes()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: no home directory for ~
        why = error.strerror if isinstance(error, OSError) else error
        raise CommandError(Exit.USAGE, f"{what} cannot be read: {why}") from None
    return to_token(text_of(data, what), what)


def served_token(file: Path | None, *, name: str = "ARCP_TOKEN") -> SecretStr | None:
    """Return the token that clients must present: from a file, a variable or ``<variable>_FILE``.

    Afterwards the environment holds no secrets of this command; see `withhold`.
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
    """Remove all secrets of this command from the environment.

    Agents, the programs that they start, and browsers inherit the environment. They must not
    receive ``ARCP_TOKEN``, ``ARCP_TOKEN_FILE``, ``ARCP_WEB_TOKEN`` or any other variable
    ``ARCP_…TOKEN…``.
    """
    for name in [each for each in os.environ if _SECRET.fullmatch(each)]:
        del os.environ[name]


# ------------------------------------------------------------------------- directories


def user_directory(kind: Literal["config", "state"]) -> Path | None:
    """Return the user's directory for settings or state; None without a home directory.

    A relative directory is ignored: it would depend on the directory where the command is started.
    """
    find = platformdirs.user_config_dir if kind == "config" else platformdirs.user_state_dir
    try:
        path = Path(find("arcp-client"))
    except RuntimeError:
        return None
    return path if path.is_absolute() else None


def check_host_names(names: Sequence[str]) -> None:
    """Refuse a ``--allow-host`` that is not a host name."""
    try:
        AllowedHosts(names, what="--allow-host")
    except ValueError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
