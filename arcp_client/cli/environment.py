"""Reads environment variables and text files, and finds the user's directories.

This module handles byte order marks, UTF-16, white space around values, and a missing home
directory, for all commands. Completion imports this module, so it must stay light.
"""

from __future__ import annotations

import codecs
import os
from pathlib import Path
from typing import Literal

import platformdirs

from arcp_client.cli.exit_codes import CommandError, Exit

__all__ = ["file_text", "text_of", "tidy", "user_directory", "variable"]

# UTF-32 first: its little-endian mark begins with the mark of UTF-16.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_AROUND = "\ufeff\u200b \t\r\n\v\f\0"


def file_text(path: Path, what: str) -> str:
    """Return the text of a file that the user has named; ``~`` is the home directory.

    Raises:
        CommandError: the file cannot be read, or is not text; ``what`` names it.
    """
    try:
        data = path.expanduser().read_bytes()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: no home directory for ~
        why = error.strerror if isinstance(error, OSError) else error
        raise CommandError(Exit.USAGE, f"{what} cannot be read: {why}") from None
    return text_of(data, what)


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


# ------------------------------------------------------------------------- directories


def user_directory(kind: Literal["config", "state"]) -> Path | None:
    """Return the user's directory for settings or state; None without a home directory.

    A relative path is ignored, because its meaning depends on the current directory.
    """
    find = platformdirs.user_config_dir if kind == "config" else platformdirs.user_state_dir
    try:
        path = Path(find("arcp-client"))
    except RuntimeError:
        return None
    return path if path.is_absolute() else None
