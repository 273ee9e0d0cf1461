"""Reads the settings files: ``./arcp.toml`` and the user's ``config.toml``.

`settings` merges them with options and variables. Completion imports this module: keep it light.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from arcp_client.cli.environment import text_of, user_directory
from arcp_client.cli.exit_codes import CommandError, Exit

__all__ = ["LOCAL", "profiles", "settings_files"]

LOCAL = "./arcp.toml"
"""The name of the local file in messages."""


def settings_files() -> Sequence[tuple[Mapping[str, Any], str]]:
    """Return the local and the user's settings, each with its name; empty if missing."""
    directory = user_directory("config")
    user = None if directory is None else directory / "config.toml"
    name = "the user's config.toml" if user is None else str(user)
    return (_read(Path("arcp.toml"), LOCAL), LOCAL), (
        {} if user is None else _read(user, name),
        name,
    )


def _read(path: Path, name: str) -> Mapping[str, Any]:
    try:
        data = path.read_bytes()
    except OSError as error:
        if not _is_there(path):
            return {}
        raise CommandError(Exit.USAGE, f"{name} cannot be read: {error.strerror}") from None
    try:
        return tomllib.loads(text_of(data, name))
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"{name} is not TOML: {error}") from None


def _is_there(path: Path) -> bool:
    """Whether the file exists. An unreadable directory counts as empty, since no command needs the
    file.
    """
    try:
        path.lstat()
    except OSError:
        return False
    return True


def profiles() -> list[str]:
    """Return the names of all profiles in the settings files."""
    found: set[str] = set()
    for file, _ in settings_files():
        tables = file.get("profiles", {})
        found.update(tables if isinstance(tables, dict) else ())
    return sorted(found)
