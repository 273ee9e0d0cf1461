"""Reads bearer tokens from texts, files and variables, and withholds them from child processes."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pydantic import SecretStr

from arcp_client.cli.environment import file_text, tidy, variable
from arcp_client.cli.exit_codes import CommandError, Exit

__all__ = ["read_token", "served_token", "to_token", "withhold"]

_SECRET = re.compile(r"ARCP_\w*(TOKEN|SECRET|WEBHOOK)\w*", re.IGNORECASE)


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
    return to_token(file_text(path, what), what)


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
    receive ``ARCP_TOKEN``, ``ARCP_TOKEN_FILE``, ``ARCP_WEB_TOKEN``, ``ARCP_WEBHOOK_SECRET`` or any
    other variable ``ARCP_…TOKEN…``, ``ARCP_…SECRET…`` or ``ARCP_…WEBHOOK…``.
    """
    for name in [each for each in os.environ if _SECRET.fullmatch(each)]:
        del os.environ[name]
